//! Where a drive's head is, and when it could have done an access.
//!
//! After a read the drive reads on into its buffer, up to a segment, until something else is asked of it.
//! So a host that asks for the next bytes a moment too late does not lose a turn.

use super::Access;
use super::geometry::Geometry;
use crate::Kind;

/// The interface's time for a byte out of the buffer: 600 MB/s of SAS at 6 Gbit/s, 5 / 3 ns.
const BUFFER_NANOS: (u64, u64) = (5, 3);

/// A read that goes on by itself.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Stream {
    /// The first byte that nobody asked for yet.
    next: u64,
    /// When the head is over it.
    at: u64,
    /// Where it stops.
    until: u64,
}

/// One way to do an access.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// When the first byte is there.
    pub(crate) begin: u64,
    /// When the last one is.
    pub(crate) finish: u64,
    /// Where the head is then.
    track: u64,
    position: u64,
    stream: Option<Stream>,
}

#[derive(Clone, Debug)]
pub(crate) struct Head {
    phase: u64,
    track: u64,
    position: u64,
    stream: Option<Stream>,
}

impl Head {
    pub(crate) fn new(phase: u64) -> Head {
        Head { phase, track: 0, position: 0, stream: None }
    }

    /// The byte behind the last access.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    pub(crate) fn follow(&mut self, plan: &Plan) {
        self.track = plan.track;
        self.position = plan.position;
        self.stream = plan.stream;
    }

    /// The fastest way to do it from `now` on.
    pub(crate) fn plan(&self, geometry: &Geometry, now: u64, access: &Access) -> Plan {
        let direct = self.directly(geometry, now, access, access.offset);
        let out_of_buffer = match (access.kind, self.stream) {
            (Kind::Read, Some(stream)) => self.buffered(geometry, now, access, stream),
            _ => None,
        };
        match out_of_buffer {
            Some(buffered) if buffered.finish <= direct.finish => buffered,
            _ => direct,
        }
    }

    /// Seek, wait for the sector, transfer; the bytes before `from` are in the buffer.
    fn directly(&self, geometry: &Geometry, now: u64, access: &Access, from: u64) -> Plan {
        let is_write = access.kind == Kind::Write;
        let place = geometry.place(from);
        let arrived = now + geometry.seek(self.track, place.track, is_write);
        let begin = geometry.under_head(&place, arrived, self.phase);
        let end = access.end();
        let finish = begin + geometry.transfer(from, end);
        let stream = Stream {
            next: end,
            at: finish + geometry.gap_before(end),
            until: (end + geometry.read_ahead).min(geometry.capacity),
        };
        Plan {
            begin,
            finish,
            track: geometry.place(end - 1).track,
            position: end,
            stream: (!is_write && stream.until > end).then_some(stream),
        }
    }

    fn buffered(&self, geometry: &Geometry, now: u64, access: &Access, stream: Stream) -> Option<Plan> {
        let (start, end) = (access.offset, access.end());
        if !(stream.next..stream.until).contains(&start) {
            return None;
        }
        let passes = |byte: u64| stream.at + geometry.transfer(stream.next, byte);
        let over_interface = now + (access.length * BUFFER_NANOS.0).div_ceil(BUFFER_NANOS.1);
        let is_reading = now <= passes(stream.until);
        if !is_reading && end > stream.until {
            let rest = self.directly(geometry, now, access, stream.until);
            return Some(Plan { finish: rest.finish.max(over_interface), ..rest });
        }
        let passed = passes(end);
        // What was taken makes room in the buffer; but a head that stopped does not begin again by itself.
        let until = if is_reading { end + geometry.read_ahead } else { stream.until };
        let next =
            Stream { next: end, at: passed + geometry.gap_before(end), until: until.min(geometry.capacity) };
        Some(Plan {
            begin: now.max(passes(start)),
            finish: passed.max(over_interface),
            track: geometry.place(end - 1).track,
            position: end,
            stream: (next.until > end).then_some(next),
        })
    }
}
