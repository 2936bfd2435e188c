//! A server on some of the processors, and the rate at which it keeps them as busy as was asked for.
//!
//! ```text
//!  a guess ─▶ offer it for a while ─▶ how busy? ─▶ as much more or less ─▶ … ─▶ near enough: measure
//! ```
//! Users who key in and think are as good as requests at random times, so requests are offered; how many such
//! users they stand for is told.

use std::time::{Duration, Instant};

use ashlar_postgres::{Limitation, Limits, Server};
use ashlar_scenario::Processors;
use ashlar_workload::Workload;
use ashlar_workload::driver::{self, Loop};
use serde::{Deserialize, Serialize};

use super::{Driving, ended};
use crate::{Error, Result};

/// What is offered first, for each core: far below what any server takes.
const RATE_FIRST: f64 = 40.0;
/// So near is near enough: the paper says "near 60 %".
const NEAR: f64 = 0.03;
/// So far from it something else than processors was the limit, or the load changed meanwhile.
const MISS_SHARE: f64 = 0.1;
/// More looks are not better ones, where the machine has other work.
const LOOKS_MAX: u64 = 8;
/// One look does not raise the rate by more.
const RISE_MAX: f64 = 4.0;
/// Of the warm-up each look has so much, and this at least.
const LOOK_SHARE: u32 = 4;
const LOOK_MIN: Duration = Duration::from_secs(2);
/// Where less is served than this share of what is offered, something else than processors is the limit.
const SERVED_MIN: f64 = 0.9;
/// A user who keys in and thinks as TPC-C has it (5.2.5.7) does something so often, in the mean of its mix.
const USER_SECONDS: f64 = 21.0;

/// How busy the server was, and with what.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct LevelFigures {
    pub cores: u64,
    /// Of their time; asked for.
    pub busy_asked: f64,
    /// While it was measured.
    pub busy: f64,
    /// Offered.
    pub per_second: f64,
    /// So many who key in and think offer as much.
    pub users: u64,
    /// How often the rate was changed.
    pub looks: u64,
    /// Absent where the server had processors of its own; otherwise how it was kept to as much time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shared_because: Option<String>,
}

/// Puts the server on the first processors; by its share of time where the kernel does not let us.
pub(super) fn confine(server: &mut Server, memory_bytes: Option<u64>, cores: u64) -> Result<Option<String>> {
    let cpuset = Some(format!("0-{}", cores.saturating_sub(1)));
    server.limit(&Limits { memory_bytes, cpuset, ..Limits::default() })?;
    let Limitation::NotLimited(why) = server.limitation().clone() else { return Ok(None) };
    server.limit(&Limits { memory_bytes, cores: Some(cores as f64), ..Limits::default() })?;
    match server.limitation() {
        Limitation::NotLimited(neither) => Err(Error::environment(format!(
            "the server cannot be kept on {cores} of the processors here: {why}; nor to their time: {neither}"
        ))),
        Limitation::NotAsked | Limitation::Limited => Ok(Some(why)),
    }
}

/// The rate that keeps the server busy, and a look at it while it is offered.
pub(super) struct Level {
    pub(super) per_second: f64,
    looks: u64,
    processors: Processors,
}

/// The server's processor time from a moment on.
struct Look {
    begun: Instant,
    used: Duration,
}

impl Look {
    fn begin(server: &Server) -> Result<Look> {
        Ok(Look { begun: Instant::now(), used: used(server)? })
    }

    /// Of the cores' time since then.
    fn busy(&self, server: &Server, cores: u64) -> Result<f64> {
        let used = used(server)?.saturating_sub(self.used);
        Ok(used.as_secs_f64() / self.begun.elapsed().as_secs_f64().max(1e-9) / cores as f64)
    }
}

fn used(server: &Server) -> Result<Duration> {
    let told = server.usage()?.and_then(|usage| usage.cpu);
    told.ok_or_else(|| {
        Error::environment("the kernel does not count the processor time of the server (cpuacct)".to_string())
    })
}

/// The next rate: in proportion to how busy it was, which is what the time of a request comes to.
fn next_rate(rate: f64, busy: f64, asked: f64) -> f64 {
    rate * (asked / busy.max(1e-3)).clamp(1.0 / RISE_MAX, RISE_MAX)
}

impl Level {
    /// Offers more or less until the server is as busy as was asked for, or serves no more.
    pub(super) fn find<W: Workload>(
        workload: &W,
        driving: &Driving<'_>,
        processors: Processors,
    ) -> Result<Level> {
        let Processors { cores, busy: asked } = processors;
        let (server, plan) = (driving.server.own()?, driving.plan);
        let time = (plan.warm_up / LOOK_SHARE).max(LOOK_MIN);
        let (mut per_second, mut has_fallen_short) = (RATE_FIRST * cores as f64, false);
        for look in 1..=LOOKS_MAX {
            let level = |per_second: f64| Level { per_second, looks: look, processors };
            let seed = plan.seed.wrapping_add(look);
            let mut offered = driver::Plan::closed(plan.clients, Duration::ZERO, time, seed);
            offered.pace = Loop::Open { per_second };
            let begun = Look::begin(server)?;
            let outcome = driver::run(workload, &offered, driving.stop, &mut ())?;
            let busy = begun.busy(server, cores)?;
            ended(&outcome)?;
            if (busy - asked).abs() <= NEAR {
                return Ok(level(per_second));
            }
            if outcome.per_second() < SERVED_MIN * per_second && busy < asked {
                // Once may be because nothing was in memory yet.
                if has_fallen_short {
                    return Ok(level(outcome.per_second()));
                }
                has_fallen_short = true;
                continue;
            }
            has_fallen_short = false;
            per_second = next_rate(per_second, busy, asked);
        }
        Ok(Level { per_second, looks: LOOKS_MAX, processors })
    }

    /// Tells how busy the server is while something runs.
    pub(super) fn watch<T>(
        &self,
        server: &Server,
        run: impl FnOnce() -> Result<T>,
    ) -> Result<(T, LevelFigures)> {
        let begun = Look::begin(server)?;
        let done = run()?;
        let Processors { cores, busy: busy_asked } = self.processors;
        let figures = LevelFigures {
            cores,
            busy_asked,
            busy: begun.busy(server, cores)?,
            per_second: self.per_second,
            users: (self.per_second * USER_SECONDS).round() as u64,
            looks: self.looks,
            shared_because: None,
        };
        Ok((done, figures))
    }
}

impl LevelFigures {
    /// What to tell where the server was much busier or idler than was asked for.
    pub(crate) fn miss(&self) -> Option<String> {
        let percent = |share: f64| (100.0 * share).round();
        let is_far = (self.busy - self.busy_asked).abs() > MISS_SHARE;
        is_far.then(|| {
            let (busy, asked) = (percent(self.busy), percent(self.busy_asked));
            format!("the server was {busy} % busy where {asked} % were asked for")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::next_rate;

    #[test]
    fn the_rate_follows_how_busy_the_server_was_and_never_leaps() {
        assert!((next_rate(100.0, 0.3, 0.6) - 200.0).abs() < 1e-9);
        assert!((next_rate(100.0, 0.9, 0.6) - 66.7).abs() < 0.1);
        assert!((next_rate(100.0, 0.0, 0.6) - 400.0).abs() < 1e-9, "idle: four times as much");
        // A server that takes 1.5 ms of a core for each, from far below: three looks are enough.
        let mut rate = 40.0;
        for _ in 0..3 {
            rate = next_rate(rate, rate * 0.0015, 0.6);
        }
        assert!((rate * 0.0015 - 0.6).abs() < 0.03, "{rate}");
    }
}
