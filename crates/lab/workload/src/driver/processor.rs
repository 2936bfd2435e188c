//! Processor time of this process, as Linux counts it.

/// Ticks a second in `/proc`; Linux shows all programs this number whatever it uses itself (proc(5),
/// USER_HZ).
const TICKS_PER_SECOND: f64 = 100.0;

/// User and system seconds of this process so far, all threads together.
pub(super) fn seconds() -> Option<f64> {
    of_stat(&std::fs::read_to_string("/proc/self/stat").ok()?)
}

/// Fields 14 and 15 of `/proc/PID/stat`. The second field, the name, may hold blanks and parentheses.
fn of_stat(stat: &str) -> Option<f64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11);
    let user: u64 = fields.next()?.parse().ok()?;
    let system: u64 = fields.next()?.parse().ok()?;
    Some((user + system) as f64 / TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_are_found_behind_any_name() {
        let stat = "4711 (a ) b) S 1 2 3 4 5 6 7 8 9 10 250 75 11 12";
        assert_eq!(of_stat(stat), Some(3.25));
        assert_eq!(of_stat("4711"), None);
    }

    #[test]
    fn work_costs_processor_time() {
        let before = seconds().unwrap();
        let mut number = 1_u64;
        while seconds().unwrap() < before + 0.03 {
            number = std::hint::black_box(crate::random::mixed(number));
        }
    }
}
