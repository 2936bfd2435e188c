//! The parameter data of PERSISTENT RESERVE IN (SPC-4 6.14).

use crate::reservation::{Held, InAction, Reservations, transport_id};

/// Bytes of a full status descriptor before its TransportID.
const DESCRIPTOR_BYTES: usize = 24;

/// What the service action asks for. `can_keep` is whether there is a store for APTPL.
pub(crate) fn report(state: &Reservations, action: InAction, can_keep: bool) -> Vec<u8> {
    match action {
        InAction::ReadKeys => {
            let keys: Vec<u8> = state.registrations.values().flat_map(|key| key.to_be_bytes()).collect();
            with_header(state, &keys)
        }
        InAction::ReadReservation => with_header(state, &reservation(state)),
        InAction::ReportCapabilities => capabilities(state, can_keep),
        InAction::ReadFullStatus => with_header(state, &full_status(state)),
    }
}

fn with_header(state: &Reservations, body: &[u8]) -> Vec<u8> {
    let mut bytes = state.generation.to_be_bytes().to_vec();
    bytes.extend_from_slice(&(body.len() as u32).to_be_bytes());
    bytes.extend_from_slice(body);
    bytes
}

fn reservation(state: &Reservations) -> Vec<u8> {
    let Some(held) = &state.held else { return Vec::new() };
    // An all registrants reservation has no one key: zero (SPC-4 6.14.3.2).
    let key = held.by.as_ref().and_then(|nexus| state.registrations.get(nexus)).copied().unwrap_or(0);
    let mut bytes = vec![0; 16];
    bytes[..8].copy_from_slice(&key.to_be_bytes());
    bytes[13] = held.kind as u8;
    bytes
}

fn capabilities(state: &Reservations, can_keep: bool) -> Vec<u8> {
    // Byte 2: CRH, ATP_C (the one port is all ports), PTPL_C. Byte 3: TMV, ALLOW COMMANDS 100b (what table 66
    // allows, and no more), PTPL_A. Bytes 4 and 5: every type.
    let can_keep = u8::from(can_keep);
    vec![0, 8, 0x10 | 0x04 | can_keep, 0x80 | 0x40 | u8::from(state.is_kept), 0xea, 0x01, 0, 0]
}

fn full_status(state: &Reservations) -> Vec<u8> {
    let mut bytes = Vec::new();
    for (nexus, key) in &state.registrations {
        let id = transport_id::encode(&nexus.initiator);
        let mut descriptor = vec![0; DESCRIPTOR_BYTES];
        descriptor[..8].copy_from_slice(&key.to_be_bytes());
        if let Some(Held { kind, .. }) = &state.held
            && state.is_holder(nexus)
        {
            descriptor[12] = 1;
            descriptor[13] = *kind as u8;
        }
        descriptor[18..20].copy_from_slice(&nexus.port.to_be_bytes());
        descriptor[20..24].copy_from_slice(&(id.len() as u32).to_be_bytes());
        bytes.extend_from_slice(&descriptor);
        bytes.extend_from_slice(&id);
    }
    bytes
}
