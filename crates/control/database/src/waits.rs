//! What the sessions of a running server wait for, from many looks in a row.

use std::thread;
use std::time::{Duration, Instant};

use ashlar_postgres::{Server, Session, Waits};

use crate::error::Result;

/// Between two looks. Arbitrary: many looks in a second, and nothing for the server.
const INTERVAL: Duration = Duration::from_millis(50);
/// How long the server may take to answer, beyond the looks.
const ANSWER_MAX: Duration = Duration::from_secs(5);

/// Looks again and again for so long, at least once.
pub(crate) fn waits(server: &Server, millis: u64) -> Result<Waits> {
    let time = Duration::from_millis(millis);
    let mut session = Session::open(&server.address_of("template1"), "ashlar", time + ANSWER_MAX)?;
    let (mut waits, begun) = (Waits::default(), Instant::now());
    loop {
        waits.look(&mut session)?;
        if begun.elapsed() + INTERVAL > time {
            return Ok(waits);
        }
        thread::sleep(INTERVAL);
    }
}
