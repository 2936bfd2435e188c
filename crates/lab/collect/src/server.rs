//! What a database server says of itself, in a session of its own.

use std::collections::BTreeMap;
use std::time::Duration;

use ashlar_postgres::{Address, Session, Waits};

use crate::processor;
use crate::sample::ServerSample;

/// A server that takes longer to answer is left alone until the next look.
const ANSWER_LIMIT: Duration = Duration::from_millis(500);
const COUNTERS: &str = "select pg_backend_pid(), pg_current_wal_insert_lsn() - '0/0', \
     (select sum(blks_read) * current_setting('block_size')::bigint from pg_stat_database), \
     (select count(*) from pg_stat_activity where backend_type = 'checkpointer' \
     and wait_event is distinct from 'CheckpointerMain')";

/// Counters of one moment.
#[derive(Clone, Default, Debug)]
pub(crate) struct Reading {
    pub(crate) sessions: BTreeMap<String, u64>,
    pub(crate) log_bytes: u64,
    pub(crate) read_bytes: u64,
    pub(crate) is_checkpoint: bool,
}

impl Reading {
    /// Of several servers.
    pub(crate) fn and(mut self, other: Reading) -> Reading {
        for (event, count) in other.sessions {
            *self.sessions.entry(event).or_default() += count;
        }
        self.log_bytes += other.log_bytes;
        self.read_bytes += other.read_bytes;
        self.is_checkpoint |= other.is_checkpoint;
        self
    }

    /// Without one before there are sessions, and no rates. A server that was started anew counts from zero.
    pub(crate) fn since(&self, before: Option<&Reading>, seconds: f64) -> ServerSample {
        let rate = |now: u64, then: fn(&Reading) -> u64| {
            let then = before.map_or(now, then);
            now.saturating_sub(then) as f64 / seconds
        };
        ServerSample {
            sessions: self.sessions.clone(),
            read_bytes_per_second: rate(self.read_bytes, |before| before.read_bytes),
            log_bytes_per_second: rate(self.log_bytes, |before| before.log_bytes),
            is_checkpoint: self.is_checkpoint,
        }
    }
}

/// A server that comes and goes.
pub(crate) struct Watching<'a> {
    address: &'a Address,
    session: Option<Session>,
    /// The process that answers, and its time at the first look and at the last.
    backend: Option<(u32, Duration)>,
    /// Of it and of those before it.
    processor_time: Duration,
}

impl<'a> Watching<'a> {
    pub(crate) fn new(address: &'a Address) -> Watching<'a> {
        Watching { address, session: None, backend: None, processor_time: Duration::ZERO }
    }

    /// `None` while it does not answer.
    pub(crate) fn look(&mut self) -> Option<Reading> {
        if self.session.is_none() {
            self.session = Session::open(self.address, "ashlar lab watch", ANSWER_LIMIT).ok();
        }
        let found = ask(self.session.as_mut()?);
        let Some((pid, reading)) = found else {
            self.session = None;
            self.backend = None;
            return None;
        };
        let spent = processor::of_process(pid);
        let before =
            self.backend.filter(|(known, _)| *known == pid).map_or(Duration::ZERO, |(_, before)| before);
        self.processor_time += spent.saturating_sub(before);
        self.backend = Some((pid, spent));
        Some(reading)
    }

    pub(crate) fn processor_time(&self) -> Duration {
        self.processor_time
    }
}

fn ask(session: &mut Session) -> Option<(u32, Reading)> {
    let mut waits = Waits::default();
    waits.look(session).ok()?;
    let row = session.run(COUNTERS).ok()?.pop()?;
    let number = |column: usize| row.get(column)?.as_deref()?.parse::<u64>().ok();
    let reading = Reading {
        sessions: waits.sessions,
        log_bytes: number(1)?,
        read_bytes: number(2).unwrap_or(0),
        is_checkpoint: number(3)? > 0,
    };
    Some((u32::try_from(number(0)?).ok()?, reading))
}
