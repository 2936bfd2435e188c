//! Whoever notes something: batches of notes about volumes and the pool, put and deleted.

use std::collections::BTreeSet;
use std::rc::Rc;

use super::World;
use super::changes::pick_name;
use super::claims::{Object, Use};
use crate::chance::Chance;
use crate::oracle::{NOTES_KIND, NoteEdit, NoteName, Oracle, Outcome};
use crate::system::{Trouble, TroubleKind};

/// Sets of notes of a volume, or of the pool, that different batches may change at the same time.
const SETS: u64 = 3;
/// Notes of a set.
const PARTS: u64 = 10;

/// Requests a batch and tells the oracle how it ended.
pub async fn change_notes(world: &Rc<World>) {
    if world.system.notes().is_none() {
        return;
    }
    let (volume, set) = {
        let oracle = world.oracle.borrow();
        world.draw(|chance| {
            let volume = if chance.one_in(3) { None } else { pick_name(chance, oracle.volumes().keys()) };
            (volume.unwrap_or_default(), chance.below(SETS))
        })
    };
    let mut wanted = vec![(Object::Notes(volume.clone(), set), Use::Exclusive)];
    if !volume.is_empty() {
        wanted.push((Object::Volume(volume.clone()), Use::Shared));
    }
    let Some(claim) = world.claims.try_claim(wanted) else { return };
    let edits = {
        let mut oracle = world.oracle.borrow_mut();
        world.draw(|chance| draw_edits(&mut oracle, chance, &volume, set))
    };
    let id = world.oracle.borrow_mut().notes_begin(&edits);
    world.record.note(|| format!("notes {id}: {edits:?}"));
    world.record.change_issued(NOTES_KIND);
    let result = world.system.notes_change(edits.clone()).await;
    world.record.count(|counters| counters.note_batches += 1);
    world.progress();
    // As a change of volumes: all or nothing, so a full pool refuses it whole.
    let outcome = match &result {
        Ok(()) => Outcome::Done,
        Err(Trouble { kind: TroubleKind::NoSpace, .. }) => Outcome::Refused,
        Err(trouble) => trouble.outcome(),
    };
    world.record.digest_fact(u64::from(id) << 8 | u64::from(outcome == Outcome::Done));
    world.record.note(|| format!("notes {id}: {outcome:?}"));
    world.oracle.borrow_mut().notes_end(id, outcome);
    match result {
        Ok(()) => check_edits(world, &edits),
        Err(trouble) => {
            let is_delete = edits.iter().all(|edit| edit.content.is_none());
            if is_delete && trouble.kind == TroubleKind::NoSpace && !world.is_starved.get() {
                world.record.fail(format!("deleted notes were refused for want of space: {}", trouble.text));
            }
            world.judge("notes", &trouble);
        }
    }
    if outcome == Outcome::Doubtful {
        claim.keep();
    }
}

/// The claim still keeps others away from these notes.
fn check_edits(world: &World, edits: &[NoteEdit]) {
    let found = world.system.notes().unwrap_or_default();
    for NoteEdit { name, content } in edits {
        if found.get(name) != content.as_ref() {
            let found = found.get(name);
            world.record.fail(format!("{name:?}: content {found:?} right after {content:?} was noted"));
        }
    }
}

/// Compares all notes, where it is known which there are.
pub fn verify_notes(world: &World) {
    let oracle = world.oracle.borrow();
    if let (Some(found), true) = (world.system.notes(), oracle.knows_notes())
        && let Err(wrong) = oracle.check_notes(&found)
    {
        world.record.fail(format!("notes: {wrong}"));
    }
}

fn draw_edits(oracle: &mut Oracle, chance: &mut Chance, volume: &str, set: u64) -> Vec<NoteEdit> {
    let count = *chance.pick(&[1, 2, 4, PARTS]);
    let parts: BTreeSet<u64> = (0..count).map(|_| set * PARTS + chance.below(PARTS)).collect();
    let deletes_in_six = *chance.pick(&[0, 2, 6]);
    let edit = |part: u64| {
        let is_delete = chance.below(6) < deletes_in_six;
        let name = NoteName { volume: volume.to_string(), part: part as u16 };
        NoteEdit { name, content: (!is_delete).then(|| oracle.next_note_content()) }
    };
    parts.into_iter().map(edit).collect()
}
