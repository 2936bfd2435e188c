//! Persistent reservations in notes: a page of registrations each, the reservation beside the first.

use ashlar_scsi::reservation::{Held, ReservationKind};
use ashlar_scsi::{Nexus, Saved};
use serde::{Deserialize, Serialize};

/// Registrations in one note. A name has 240 bytes at most, each of which JSON may write as two.
const REGISTRATIONS_MAX: usize = 6;

#[derive(Default, Serialize, Deserialize)]
struct Page {
    /// Initiator port, target port, key.
    registrations: Vec<(String, u16, u64)>,
    /// The type's code, and who holds it; nobody named: every registrant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    held: Option<(u8, Option<(String, u16)>)>,
}

/// The values of the notes, in order; none where there is nothing to keep.
pub(crate) fn as_notes(saved: &Saved) -> Vec<Vec<u8>> {
    let registration = |(nexus, key): &(Nexus, u64)| (nexus.initiator.clone(), nexus.port, *key);
    let mut pages: Vec<Page> = saved
        .registrations
        .chunks(REGISTRATIONS_MAX)
        .map(|chunk| Page { registrations: chunk.iter().map(registration).collect(), held: None })
        .collect();
    if let Some(first) = pages.first_mut() {
        let holder = |held: &Held| held.by.as_ref().map(|nexus| (nexus.initiator.clone(), nexus.port));
        first.held = saved.held.as_ref().map(|held| (held.kind as u8, holder(held)));
    }
    pages.iter().map(|page| serde_json::to_vec(page).expect("pages are plain data")).collect()
}

/// What the notes say. Pages that cannot be read are left out, and the unit leaves out what makes no sense.
pub(crate) fn from_notes<'a>(notes: impl Iterator<Item = &'a [u8]>) -> Saved {
    let mut saved = Saved::default();
    for page in notes.filter_map(|note| serde_json::from_slice::<Page>(note).ok()) {
        let nexus = |initiator, port| Nexus { initiator, port };
        let registrations = page.registrations.into_iter();
        saved.registrations.extend(registrations.map(|(initiator, port, key)| (nexus(initiator, port), key)));
        if let Some((code, by)) = page.held
            && let Some(kind) = ReservationKind::from_wire(code)
        {
            saved.held = Some(Held { kind, by: by.map(|(initiator, port)| nexus(initiator, port)) });
        }
    }
    saved
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_kept_comes_back_and_each_page_fits_a_note() {
        let nexus = |number: usize| Nexus { initiator: format!("{}{number:03}", "\"".repeat(237)), port: 1 };
        let registrations: Vec<(Nexus, u64)> =
            (0..256).map(|number| (nexus(number), u64::MAX - number as u64)).collect();
        let held = Held { kind: ReservationKind::WriteExclusiveRegistrants, by: Some(nexus(7)) };
        let saved = Saved { registrations, held: Some(held) };
        let notes = as_notes(&saved);
        assert!(notes.iter().all(|note| note.len() <= ashlar_format::notes::NOTE_VALUE_BYTES_MAX));
        assert_eq!(from_notes(notes.iter().map(Vec::as_slice)), saved);
        let of_all = Held { kind: ReservationKind::ExclusiveAccessAll, by: None };
        let saved = Saved { registrations: vec![(nexus(1), 1)], held: Some(of_all) };
        assert_eq!(from_notes(as_notes(&saved).iter().map(Vec::as_slice)), saved);
        assert!(as_notes(&Saved::default()).is_empty());
        assert_eq!(from_notes([&b"no page"[..]].into_iter()), Saved::default());
    }
}
