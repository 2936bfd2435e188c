//! The administrator: volumes, snapshots, clones and restores, made and deleted in any order.

use std::rc::Rc;

use super::World;
use super::claims::{Claim, Object, Use};
use super::difference::verify_differences;
use super::notes::change_notes;
use super::verify::verify_image;
use crate::chance::Chance;
use crate::oracle::{Change, CloneSource, ImageKey, Oracle, Outcome, Snapshot, clone_names, deleted_name};
use crate::system::{DedupeAction, Trouble, TroubleKind};

/// Volumes beyond the wanted number that clones may add.
const CLONES_EXTRA: u64 = 3;

/// Tries of a change to have its objects to itself.
const CLAIM_TRIES: u64 = 50;

/// The administrator's task.
pub async fn work(world: Rc<World>) {
    while world.take_change() && !world.record.has_failed() {
        world.pause(world.scenario.change_pause_micros_max).await;
        if world.is_under_pressure() {
            make_room(&world).await;
            continue;
        }
        let mix = &world.scenario.changes;
        let weights = [
            mix.volume_create,
            mix.volume_delete,
            mix.resize,
            mix.snapshot_create,
            mix.snapshot_delete,
            mix.snapshot_restore,
            mix.clone,
            mix.volume_set_aside,
            mix.volume_undelete,
            mix.deleted_give_up,
            mix.restore_keeping,
            mix.check,
            mix.verify_snapshot,
            mix.dedupe,
            mix.notes,
        ];
        match world.draw(|chance| chance.weighted(&weights)) {
            11 => check(&world).await,
            12 => {
                verify_a_snapshot(&world).await;
                verify_differences(&world, 1).await;
            }
            13 => change_dedupe(&world).await,
            14 => change_notes(&world).await,
            kind => {
                let Some((change, claim)) = plan(&world, kind).await else { continue };
                let snapshot = match &change {
                    Change::SnapshotCreate { name, .. } => Some(name.clone()),
                    _ => None,
                };
                carry_out(&world, change, claim).await;
                if let Some(name) = snapshot
                    && world.draw(|chance| chance.one_in(2))
                {
                    verify_snapshot(&world, name).await;
                }
            }
        }
    }
}

/// Makes the first volume when there is none.
pub async fn ensure_a_volume(world: &Rc<World>) {
    if world.oracle.borrow().volumes().is_empty()
        && let Some((change, claim)) = plan(world, 0).await
    {
        carry_out(world, change, claim).await;
    }
}

/// Deletes something: the pool is full.
async fn make_room(world: &Rc<World>) {
    let kind = world.draw(|chance| *chance.pick(&[1, 4, 4]));
    let (volumes, deleted, snapshots) = {
        let oracle = world.oracle.borrow();
        (oracle.volumes().len(), oracle.deleted().len(), oracle.snapshots().len())
    };
    let kind = match (deleted, snapshots) {
        (0, 0) => 1,
        (0, _) => kind,
        // As the array does: what is deleted already goes first.
        _ => 9,
    };
    match plan(world, kind).await {
        Some((change, claim)) => {
            carry_out(world, change, claim).await;
            world.relieve();
        }
        None if volumes <= 1 && deleted + snapshots == 0 => world.relieve(),
        None => world.pause(1_000).await,
    }
    ensure_a_volume(world).await;
}

/// Requests a change and tells the oracle how it ended.
pub async fn carry_out(world: &World, change: Change, claim: Claim) {
    let id = world.oracle.borrow_mut().change_begin(&change);
    world.record.note(|| format!("change {id}: {change:?}"));
    world.record.change_issued(change.kind());
    let result = world.system.change(change.clone()).await;
    world.record.count(|counters| counters.changes += 1);
    world.progress();
    // Changes of metadata are all or nothing, so a full pool refuses them whole.
    let outcome = match &result {
        Ok(()) => Outcome::Done,
        Err(Trouble { kind: TroubleKind::NoSpace, .. }) => Outcome::Refused,
        Err(trouble) => trouble.outcome(),
    };
    world.record.digest_fact(u64::from(id) << 8 | u64::from(outcome == Outcome::Done));
    world.record.note(|| format!("change {id}: {outcome:?}"));
    if let Err(wrong) = world.oracle.borrow_mut().change_end(id, outcome) {
        world.record.fail(wrong);
    }
    if let Err(trouble) = result {
        let is_delete = matches!(
            change,
            Change::VolumeDelete { .. } | Change::SnapshotDelete { .. } | Change::DeletedGiveUp { .. }
        );
        if is_delete && trouble.kind == TroubleKind::NoSpace && !world.is_starved.get() {
            world
                .record
                .fail(format!("a delete was refused for want of space: {change:?}: {}", trouble.text));
        }
        world.judge(&format!("{change:?}"), &trouble);
    }
    if outcome == Outcome::Done {
        let is_back = matches!(change, Change::VolumeUndelete { .. });
        let is_kept = matches!(change, Change::RestoreKeeping { .. });
        world.record.add_probes(&[
            ("deleted volumes that came back", u64::from(is_back)),
            ("restores that kept what was there", u64::from(is_kept)),
        ]);
    }
    if outcome == Outcome::Doubtful {
        claim.keep();
    }
}

/// Whether hosts are kept away from what is deleted or replaced. They need not be.
fn data_use(chance: &mut Chance) -> Use {
    if chance.one_in(2) { Use::Shared } else { Use::Exclusive }
}

fn volume_claim(name: &str, data: Use, volume: Use) -> Vec<(Object, Use)> {
    vec![(Object::Data(name.to_string()), data), (Object::Volume(name.to_string()), volume)]
}

/// Draws a change of this kind that is possible now, with the claims it needs.
async fn plan(world: &World, kind: usize) -> Option<(Change, Claim)> {
    let (change, wanted) = draw_plan(world, kind)?;
    if let Some(claim) = world.claims.try_claim(wanted.clone()) {
        return is_quiet_for(&world.oracle.borrow(), &change).then_some((change, claim));
    }
    let size_before = size_to_change(&world.oracle.borrow(), &change);
    let intent = world.claims.intend(wanted);
    for _ in 0..CLAIM_TRIES {
        world.pause(1_000).await;
        if let Some(claim) = intent.try_claim() {
            let oracle = world.oracle.borrow();
            let is_as_planned = size_to_change(&oracle, &change) == size_before;
            return (is_as_planned && is_still_possible(&oracle, &change)).then_some((change, claim));
        }
    }
    None
}

/// Whether nothing that was left in doubt is in the way of a change that wants to know what is there. Of
/// hosts the claim sees to it.
fn is_quiet_for(oracle: &Oracle, change: &Change) -> bool {
    match change {
        Change::VolumeSetAside { name } => oracle.is_quiet(name),
        Change::RestoreKeeping { name, .. } => {
            let snapshot = oracle.snapshots().get(name);
            snapshot.is_some_and(|known| known.images.keys().all(|volume| oracle.is_quiet(volume)))
        }
        Change::VolumeCreate { .. }
        | Change::VolumeDelete { .. }
        | Change::VolumeResize { .. }
        | Change::SnapshotCreate { .. }
        | Change::SnapshotDelete { .. }
        | Change::SnapshotRestore { .. }
        | Change::Clone { .. }
        | Change::VolumeUndelete { .. }
        | Change::DeletedGiveUp { .. } => true,
    }
}

/// The present size of a volume that is to get another: what a resize claims depends on it.
fn size_to_change(oracle: &Oracle, change: &Change) -> Option<u64> {
    let Change::VolumeResize { name, .. } = change else { return None };
    oracle.volumes().get(name).map(|volume| volume.image.size_bytes)
}

/// What was planned may have become impossible while the plan waited for its turn.
fn is_still_possible(oracle: &Oracle, change: &Change) -> bool {
    match change {
        Change::VolumeDelete { name } | Change::VolumeResize { name, .. } => {
            oracle.volumes().contains_key(name)
        }
        Change::SnapshotDelete { name } => oracle.snapshots().contains_key(name),
        Change::SnapshotRestore { name } => {
            oracle.snapshots().get(name).is_some_and(|snapshot| is_restorable(oracle, snapshot))
        }
        Change::VolumeSetAside { name } => {
            is_quiet_for(oracle, change) && !oracle.deleted().contains_key(name)
        }
        Change::VolumeUndelete { name } => {
            oracle.deleted().contains_key(name) && !oracle.volumes().contains_key(name)
        }
        Change::DeletedGiveUp { name } => oracle.deleted().contains_key(name),
        Change::RestoreKeeping { name, backup } => oracle.snapshots().get(name).is_some_and(|snapshot| {
            let is_free = !oracle.snapshots().contains_key(backup);
            is_quiet_for(oracle, change) && is_restorable(oracle, snapshot) && is_free
        }),
        // Their plans depend on more than names; they are drawn again.
        Change::VolumeCreate { .. } | Change::SnapshotCreate { .. } | Change::Clone { .. } => false,
    }
}

fn is_restorable(oracle: &Oracle, snapshot: &Snapshot) -> bool {
    snapshot.images.iter().all(|(volume, (incarnation, _))| {
        oracle.volumes().get(volume).is_some_and(|alive| alive.incarnation == *incarnation)
    })
}

fn draw_plan(world: &World, kind: usize) -> Plan {
    let oracle = world.oracle.borrow();
    world.draw(|chance| match kind {
        0 => plan_volume_create(world, &oracle, chance),
        1 => {
            let name = pick_name(chance, oracle.volumes().keys())?;
            let data = data_use(chance);
            Some((Change::VolumeDelete { name: name.clone() }, volume_claim(&name, data, Use::Exclusive)))
        }
        2 => plan_resize(world, &oracle, chance),
        3 => plan_snapshot(world, &oracle, chance),
        4 => {
            let name = pick_name(chance, oracle.snapshots().keys())?;
            Some((
                Change::SnapshotDelete { name: name.clone() },
                vec![(Object::Snapshot(name), Use::Exclusive)],
            ))
        }
        5 => plan_restore(&oracle, chance),
        6 => plan_clone(world, &oracle, chance),
        7 => plan_set_aside(&oracle, chance),
        8 => plan_undelete(&oracle, chance),
        9 => {
            let name = pick_name(chance, oracle.deleted().keys())?;
            let wanted = vec![(Object::Volume(deleted_name(&name)), Use::Exclusive)];
            Some((Change::DeletedGiveUp { name }, wanted))
        }
        10 => plan_restore_keeping(world, &oracle, chance),
        other => unreachable!("no change of kind {other}"),
    })
}

pub(super) fn pick_name<'a>(chance: &mut Chance, names: impl Iterator<Item = &'a String>) -> Option<String> {
    let names: Vec<&String> = names.collect();
    (!names.is_empty()).then(|| (*chance.pick(&names)).clone())
}

/// A name nobody has or had while a snapshot remembers it; often one that was used before.
fn new_name(oracle: &Oracle, chance: &mut Chance, prefix: &str) -> String {
    let is_taken = |name: &String| {
        let remembered = oracle.snapshots().values().any(|snapshot| {
            snapshot.images.keys().any(|volume| volume == name || volume.starts_with(&format!("{name}-")))
        });
        let alive = oracle.volumes().keys().any(|v| v == name || v.starts_with(&format!("{name}-")));
        alive || remembered || oracle.snapshots().contains_key(name)
    };
    let start = if chance.one_in(2) { 1 } else { chance.between(1, 50) };
    (start..).map(|number| format!("{prefix}{number}")).find(|name| !is_taken(name)).expect("endless names")
}

type Plan = Option<(Change, Vec<(Object, Use)>)>;

fn plan_volume_create(world: &World, oracle: &Oracle, chance: &mut Chance) -> Plan {
    if oracle.volumes().len() as u64 >= world.scenario.volumes {
        return None;
    }
    let name = new_name(oracle, chance, "v");
    let unit_bytes = *chance.pick(&[512u32, 4096]);
    let size_bytes = draw_size(world, chance);
    let wanted = volume_claim(&name, Use::Exclusive, Use::Exclusive);
    Some((Change::VolumeCreate { name, size_bytes, unit_bytes }, wanted))
}

/// Sizes of both kinds: round and odd. A multiple of 4 KiB, which both block sizes divide.
fn draw_size(world: &World, chance: &mut Chance) -> u64 {
    let (bytes_min, bytes_max) = (world.scenario.volume_bytes_min, world.scenario.volume_bytes_max);
    let blocks_max = bytes_max / 4096;
    let magnitude = chance.between(u64::from((bytes_min / 4096).ilog2()), u64::from(blocks_max.ilog2()));
    let odd = if chance.one_in(2) { chance.below(1 << magnitude) } else { 0 };
    ((1 << magnitude) + odd).min(blocks_max) * 4096
}

fn plan_resize(world: &World, oracle: &Oracle, chance: &mut Chance) -> Plan {
    let name = pick_name(chance, oracle.volumes().keys())?;
    let old_bytes = oracle.volumes()[&name].image.size_bytes;
    let size_bytes = match chance.below(4) {
        0 => draw_size(world, chance),
        // Into what hosts have written: the end of a large volume is seldom touched.
        1 => chance.between(1, 64).min(old_bytes / 4096) * 4096,
        2 => old_bytes + chance.between(1, 64) * 4096,
        _ => (old_bytes / 4096).saturating_sub(chance.between(1, 64)).max(1) * 4096,
    };
    let data = match size_bytes < old_bytes {
        // A part that was read before the cut must not bring back what was cut off.
        true if world.scenario.has_parts() => data_use(chance),
        true => Use::Exclusive,
        false => Use::Shared,
    };
    let wanted = volume_claim(&name, data, Use::Exclusive);
    Some((Change::VolumeResize { name, size_bytes }, wanted))
}

fn plan_snapshot(world: &World, oracle: &Oracle, chance: &mut Chance) -> Plan {
    if oracle.snapshots().len() as u64 >= world.scenario.snapshots_max {
        return None;
    }
    let name = new_name(oracle, chance, "s");
    let mut volumes: Vec<String> = Vec::new();
    let picks = if chance.one_in(2) { 8 } else { chance.between(1, 3) };
    for _ in 0..picks {
        let volume = pick_name(chance, oracle.volumes().keys())?;
        if !volumes.contains(&volume) {
            volumes.push(volume);
        }
    }
    let mut wanted = vec![(Object::Snapshot(name.clone()), Use::Exclusive)];
    for volume in &volumes {
        wanted.extend(volume_claim(volume, Use::Shared, Use::Shared));
    }
    Some((Change::SnapshotCreate { name, volumes }, wanted))
}

fn plan_restore(oracle: &Oracle, chance: &mut Chance) -> Plan {
    let name = pick_name(chance, oracle.snapshots().keys())?;
    let snapshot = &oracle.snapshots()[&name];
    if !is_restorable(oracle, snapshot) {
        return None;
    }
    let mut wanted = vec![(Object::Snapshot(name.clone()), Use::Shared)];
    // A change of size under requests would make some of them invalid.
    let keeps_sizes = snapshot
        .images
        .iter()
        .all(|(volume, (_, image))| oracle.volumes()[volume].image.size_bytes == image.size_bytes);
    let data = if keeps_sizes { data_use(chance) } else { Use::Exclusive };
    for volume in snapshot.images.keys() {
        wanted.extend(volume_claim(volume, data, Use::Exclusive));
    }
    Some((Change::SnapshotRestore { name }, wanted))
}

/// The oracle knows deleted volumes by their names: one of each.
fn plan_set_aside(oracle: &Oracle, chance: &mut Chance) -> Plan {
    let name = pick_name(chance, oracle.volumes().keys())?;
    if oracle.deleted().contains_key(&name) {
        return None;
    }
    let mut wanted = volume_claim(&name, Use::Exclusive, Use::Exclusive);
    wanted.push((Object::Volume(deleted_name(&name)), Use::Exclusive));
    Some((Change::VolumeSetAside { name }, wanted))
}

fn plan_undelete(oracle: &Oracle, chance: &mut Chance) -> Plan {
    let name =
        pick_name(chance, oracle.deleted().keys().filter(|name| !oracle.volumes().contains_key(*name)))?;
    let mut wanted = volume_claim(&name, Use::Exclusive, Use::Exclusive);
    wanted.push((Object::Volume(deleted_name(&name)), Use::Exclusive));
    Some((Change::VolumeUndelete { name }, wanted))
}

/// The oracle takes the snapshot of before as the volumes are: nobody writes to them meanwhile.
fn plan_restore_keeping(world: &World, oracle: &Oracle, chance: &mut Chance) -> Plan {
    if oracle.snapshots().len() as u64 >= world.scenario.snapshots_max {
        return None;
    }
    let (Change::SnapshotRestore { name }, _) = plan_restore(oracle, chance)? else { return None };
    let backup = new_name(oracle, chance, "b");
    let volumes = oracle.snapshots()[&name].images.keys();
    let mut wanted = vec![
        (Object::Snapshot(name.clone()), Use::Shared),
        (Object::Snapshot(backup.clone()), Use::Exclusive),
    ];
    for volume in volumes {
        wanted.extend(volume_claim(volume, Use::Exclusive, Use::Exclusive));
    }
    Some((Change::RestoreKeeping { name, backup }, wanted))
}

fn plan_clone(world: &World, oracle: &Oracle, chance: &mut Chance) -> Plan {
    if oracle.volumes().len() as u64 >= world.scenario.volumes + CLONES_EXTRA {
        return None;
    }
    let name = new_name(oracle, chance, "c");
    let (source, mut wanted, sources) = if chance.one_in(3) {
        let volume = pick_name(chance, oracle.volumes().keys())?;
        let wanted = volume_claim(&volume, Use::Shared, Use::Shared);
        (CloneSource::Volume(volume.clone()), wanted, vec![volume])
    } else {
        let snapshot = pick_name(chance, oracle.snapshots().keys())?;
        let wanted = vec![(Object::Snapshot(snapshot.clone()), Use::Shared)];
        let volumes: Vec<String> = oracle.snapshots()[&snapshot].images.keys().cloned().collect();
        if chance.one_in(3) {
            let volume = chance.pick(&volumes).clone();
            (CloneSource::SnapshotVolume { snapshot, volume: volume.clone() }, wanted, vec![volume])
        } else {
            (CloneSource::Snapshot(snapshot), wanted, volumes)
        }
    };
    for (clone, _) in clone_names(&name, &sources) {
        wanted.extend(volume_claim(&clone, Use::Exclusive, Use::Exclusive));
    }
    // The prefix itself, so that two clones of groups do not choose the same one.
    if sources.len() > 1 {
        wanted.push((Object::Volume(name.clone()), Use::Exclusive));
    }
    Some((Change::Clone { name, source }, wanted))
}

/// The pool's own full check, beside everything else.
pub async fn check(world: &World) {
    match world.system.check().await {
        Ok(errors) => {
            world.record.count(|counters| counters.checks += 1);
            let is_excused = world.array.borrow().errors_in_life() > 0 || world.array.borrow().is_damaged();
            if let Some(first) = errors.first()
                && !is_excused
                && !world.is_closing()
            {
                world.record.fail(format!("check found {} errors, the first: {first}", errors.len()));
            }
        }
        Err(trouble) => world.judge("check", &trouble),
    }
    world.progress();
}

/// Switches and empties things that no host may notice.
async fn change_dedupe(world: &World) {
    let volume = {
        let oracle = world.oracle.borrow();
        world.draw(|chance| pick_name(chance, oracle.volumes().keys()))
    };
    let Some(volume) = volume else { return };
    let Some(claim) = world.claims.try_claim(vec![(Object::Volume(volume.clone()), Use::Shared)]) else {
        return;
    };
    let action = world.draw(|chance| match chance.below(8) {
        0 => DedupeAction::Drop,
        1 => DedupeAction::Resize,
        2 | 3 => DedupeAction::Rebuild,
        _ => DedupeAction::Switch { volume, is_on: !chance.one_in(3) },
    });
    world.record.note(|| format!("{action:?}"));
    if let Err(trouble) = world.system.dedupe(action.clone()).await {
        world.judge(&format!("{action:?}"), &trouble);
    }
    drop(claim);
    world.progress();
}

async fn verify_a_snapshot(world: &Rc<World>) {
    let picked = {
        let oracle = world.oracle.borrow();
        world.draw(|chance| pick_name(chance, oracle.snapshots().keys()))
    };
    if let Some(name) = picked {
        verify_snapshot(world, name).await;
    }
}

/// Reads a snapshot in full while its volumes are written, and judges it as an instant.
async fn verify_snapshot(world: &Rc<World>, name: String) {
    if !world.oracle.borrow().snapshots().contains_key(&name) {
        return;
    }
    let wanted = vec![(Object::Snapshot(name.clone()), Use::Shared)];
    let Some(claim) = world.claims.try_claim(wanted) else { return };
    let volumes: Vec<String> = world.oracle.borrow().snapshots()[&name].images.keys().cloned().collect();
    for volume in volumes {
        verify_image(world, &ImageKey::Frozen { snapshot: name.clone(), volume }).await;
    }
    if let Err(wrong) = world.oracle.borrow_mut().check_exactness_of(&name) {
        world.record.fail(wrong);
    }
    drop(claim);
}
