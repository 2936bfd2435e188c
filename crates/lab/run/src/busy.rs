//! How busy all processors of this machine are, whoever keeps them so: server, load generator, array, others.

/// Ticks of all processors together since the machine started (proc(5), `/proc/stat`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Ticks {
    idle: u64,
    all: u64,
}

impl Ticks {
    /// Until now; `None` where the system does not tell.
    pub(crate) fn now() -> Option<Ticks> {
        Ticks::of(&std::fs::read_to_string("/proc/stat").ok()?)
    }

    /// What a hypervisor took away counts as busy: nobody here could have it. The last two fields are in
    /// others already.
    fn of(stat: &str) -> Option<Ticks> {
        let rest = stat.lines().next()?.strip_prefix("cpu ")?;
        let fields = rest.split_whitespace().take(8).map(|field| field.parse().ok());
        match fields.collect::<Option<Vec<u64>>>()?[..] {
            [user, nice, system, idle, waiting, interrupts, soft, stolen] => {
                let idle = idle + waiting;
                Some(Ticks { idle, all: idle + user + nice + system + interrupts + soft + stolen })
            }
            _ => None,
        }
    }

    /// The share of all processors' time since then; `None` of no time.
    pub(crate) fn busy_since(self, before: Ticks) -> Option<f64> {
        let all = self.all.checked_sub(before.all).filter(|all| *all > 0)?;
        Some(1.0 - self.idle.saturating_sub(before.idle) as f64 / all as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_is_idle_and_stolen_is_busy() {
        let before = Ticks::of("cpu  100 10 40 800 50 0 0 0 7 7\ncpu0 1 2 3 4 5 6 7 8 9 9\n").unwrap();
        let after = Ticks::of("cpu  130 10 60 820 60 5 5 10 9 9\n").unwrap();
        assert_eq!(before, Ticks { idle: 850, all: 1000 });
        // 30 of 100 ticks were idle or waited for a drive.
        assert!((after.busy_since(before).unwrap() - 0.7).abs() < 1e-9);
        assert_eq!(before.busy_since(before), None);
        assert_eq!(Ticks::of("cpu 1 2 3\n"), None);
        assert_eq!(Ticks::of("intr 1\n"), None);
    }
}
