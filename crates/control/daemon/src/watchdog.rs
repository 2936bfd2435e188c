//! Tells systemd that the array is alive, only as long as the data shard itself answers: a stuck shard is the
//! failure that hosts feel, and the threads of the control side would not notice.

use std::time::Duration;

use crate::array::Array;
use crate::error::{Error, Result};

/// Beats in the time that systemd waits for one (sd_watchdog_enabled(3) advises half of it).
const BEATS: u32 = 3;

/// How long systemd waits, if it watches this process.
pub(crate) fn patience(micros: Option<&str>, process_id: Option<&str>) -> Option<Duration> {
    let is_for_us = process_id.is_none_or(|id| id == std::process::id().to_string());
    let micros = micros?.parse().ok().filter(|micros| *micros > 0 && is_for_us)?;
    Some(Duration::from_micros(micros))
}

/// Beats until the data shard is gone.
pub(crate) async fn feed(array: &Array, patience: Duration, beat: impl Fn()) {
    let pause = patience / BEATS;
    loop {
        let begun = tokio::time::Instant::now();
        match answer(array).await {
            Ok(()) => beat(),
            Err(error) if error == Error::stopping() => return,
            // Too much is under way on it: it will answer when it has done some of it.
            Err(_) => {}
        }
        tokio::time::sleep_until(begun + pause).await;
    }
}

/// Returns when the data shard has run a task.
pub(crate) async fn answer(array: &Array) -> Result<()> {
    array.run(|_, _| Box::pin(async { Ok(()) })).await
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::sync::atomic::{AtomicU32, Ordering};

    use super::*;
    use crate::settings::Settings;

    #[test]
    fn only_the_process_that_is_meant_is_watched() {
        let own = std::process::id().to_string();
        assert_eq!(patience(Some("30000000"), None), Some(Duration::from_secs(30)));
        assert_eq!(patience(Some("30000000"), Some(&own)), Some(Duration::from_secs(30)));
        assert_eq!(patience(Some("30000000"), Some("1")), None);
        assert_eq!(patience(Some("0"), None), None);
        assert_eq!(patience(Some("soon"), None), None);
        assert_eq!(patience(None, None), None);
    }

    #[test]
    fn a_stuck_data_shard_is_not_said_to_be_alive() {
        let array = Array::start(&Settings::default()).unwrap();
        let beats = AtomicU32::new(0);
        let beat = || {
            beats.fetch_add(1, Ordering::Relaxed);
        };
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let patience = Duration::from_millis(150);
            let feeding =
                async { tokio::time::timeout(Duration::from_secs(3), feed(&array, patience, beat)).await };
            let sticking = async {
                while beats.load(Ordering::Relaxed) < 3 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                let stuck = array.run(|_, _| {
                    Box::pin(async {
                        // What a shard must never do, and does when it is stuck.
                        std::thread::sleep(Duration::from_millis(1000));
                        Ok(())
                    })
                });
                let counting = async {
                    tokio::time::sleep(Duration::from_millis(200)).await;
                    let before = beats.load(Ordering::Relaxed);
                    tokio::time::sleep(Duration::from_millis(600)).await;
                    assert_eq!(beats.load(Ordering::Relaxed), before, "a stuck shard beats");
                };
                let (stuck, ()) = tokio::join!(stuck, counting);
                stuck.unwrap();
                let before = beats.load(Ordering::Relaxed);
                while beats.load(Ordering::Relaxed) < before + 2 {
                    tokio::time::sleep(Duration::from_millis(5)).await;
                }
                array.stop().await;
            };
            let (fed, ()) = tokio::join!(feeding, sticking);
            assert_eq!(fed, Ok(()), "it ends with the shard");
        });
    }
}
