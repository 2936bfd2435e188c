//! The parameter list of PERSISTENT RESERVE OUT (SPC-4 6.16.3).

use crate::bytes::{u8_at, u16_at, u32_at, u64_at};
use crate::reservation::{Nexus, OutAction, transport_id};
use crate::sense::{Sense, code};

/// Bytes of the list of every service action but REGISTER AND MOVE, and of that one before the TransportID.
const LIST_BYTES: usize = 24;

/// What PERSISTENT RESERVE OUT asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub action: OutAction,
    pub scope: u8,
    pub kind: u8,
    /// RESERVATION KEY: the key the nexus says it is registered with.
    pub key: u64,
    /// SERVICE ACTION RESERVATION KEY: what the action is about.
    pub subject_key: u64,
    /// APTPL: keep the state over a loss of power.
    pub is_kept: bool,
    /// REGISTER AND MOVE: to whom, and whether the nexus that moves is unregistered (UNREG).
    pub target: Option<Nexus>,
    pub unregisters: bool,
}

/// Reads the list. `length` is what the CDB says, `can_keep` whether there is a store for APTPL.
pub(crate) fn parse_list(
    action: OutAction,
    (scope, kind): (u8, u8),
    length: usize,
    data: &[u8],
    can_keep: bool,
) -> Result<Request, Sense> {
    let is_move = action == OutAction::RegisterAndMove;
    let is_whole = data.len() >= length && (length == LIST_BYTES || (is_move && length > LIST_BYTES));
    if !is_whole {
        return Err(Sense::illegal(code::PARAMETER_LIST_LENGTH));
    }
    let data = &data[..length];
    let mut request = Request {
        action,
        scope,
        kind,
        key: u64_at(data, 0),
        subject_key: u64_at(data, 8),
        is_kept: false,
        target: None,
        unregisters: false,
    };
    let (flags, flags_at) = if is_move { (u8_at(data, 17), 17) } else { (u8_at(data, 20), 20) };
    let is_registration =
        matches!(action, OutAction::Register | OutAction::RegisterAndIgnore | OutAction::RegisterAndMove);
    // Other actions ignore the flags (SPC-4 table 228).
    if is_registration {
        request.is_kept = flags & 1 != 0;
        if request.is_kept && !can_keep {
            return Err(Sense::field_in_list(flags_at, Some(0)));
        }
    }
    if is_move {
        request.unregisters = flags & 2 != 0;
        let id_bytes = u32_at(data, 20) as usize;
        if data.len() - LIST_BYTES != id_bytes {
            return Err(Sense::illegal(code::PARAMETER_LIST_LENGTH));
        }
        let initiator =
            transport_id::decode(&data[LIST_BYTES..]).ok_or(Sense::field_in_list(LIST_BYTES, None))?;
        request.target = Some(Nexus { initiator, port: u16_at(data, 18) });
    } else if is_registration && flags & 8 != 0 {
        // SPEC_I_PT: registering others. Capabilities say that it is not there.
        return Err(Sense::field_in_list(flags_at, Some(3)));
    }
    // ALL_TG_PT needs nothing: a target here has one port (RFC 7143 4.4: a portal group is a SCSI port).
    Ok(request)
}
