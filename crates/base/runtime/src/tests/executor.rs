//! Tasks, wakes, timers, priorities and the way in from other threads.

use std::cell::{Cell, RefCell};
use std::pin::pin;
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::{Poll, Wake, Waker};
use std::time::Duration;

use super::{drivers, on_each_driver, settings};
use crate::executor::Executor;
use crate::inbox::Inbox;
use crate::sync::Notify;
use crate::{NotDone, Priority, WORKS_MAX, clock, start_shard};

#[test]
fn tasks_of_one_priority_take_turns() {
    on_each_driver(|runtime| async move {
        let order = Rc::new(RefCell::new(Vec::new()));
        let tasks: Vec<_> = (0..3)
            .map(|index| {
                let (order, yielding) = (order.clone(), runtime.clone());
                runtime.spawn(Priority::Host, async move {
                    for _ in 0..3 {
                        order.borrow_mut().push(index);
                        yielding.yield_now().await;
                    }
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        assert_eq!(*order.borrow(), [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    });
}

#[test]
fn busy_hosts_leave_the_background_a_share() {
    on_each_driver(|runtime| async move {
        let is_over = Rc::new(Cell::new(false));
        let counts = Rc::new(RefCell::new([0u64; 4]));
        let all = [Priority::Host, Priority::Journal, Priority::Destage, Priority::Background];
        for priority in all {
            for _ in 0..128 {
                let (is_over, counts, yielding) = (is_over.clone(), counts.clone(), runtime.clone());
                let _detached = runtime.spawn(priority, async move {
                    while !is_over.get() {
                        counts.borrow_mut()[priority as usize] += 1;
                        yielding.yield_now().await;
                    }
                });
            }
        }
        runtime.sleep(Duration::from_millis(30)).await;
        is_over.set(true);
        let counts = *counts.borrow();
        assert!(counts[3] > 100, "the background starved: {counts:?}");
        assert!(counts[0] > counts[2] * 3 && counts[2] > counts[3] * 3, "no preference: {counts:?}");
    });
}

#[test]
fn timers_fire_in_order_and_not_early() {
    on_each_driver(|runtime| async move {
        let order = Rc::new(RefCell::new(Vec::new()));
        let tasks: Vec<_> = [30u64, 10, 20]
            .into_iter()
            .map(|millis| {
                let (order, inside) = (order.clone(), runtime.clone());
                runtime.spawn(Priority::Host, async move {
                    let before = inside.now();
                    inside.sleep(Duration::from_millis(millis)).await;
                    assert!(inside.now() - before >= Duration::from_millis(millis));
                    order.borrow_mut().push(millis);
                })
            })
            .collect();
        for task in tasks {
            task.await;
        }
        assert_eq!(*order.borrow(), [10, 20, 30]);
        assert!(runtime.shard.timers.borrow().is_empty());
    });
}

#[test]
fn a_dropped_sleep_leaves_no_timer() {
    on_each_driver(|runtime| async move {
        let mut sleep = Box::pin(runtime.sleep(Duration::from_secs(1000)));
        std::future::poll_fn(|context| {
            assert!(sleep.as_mut().poll(context).is_pending());
            Poll::Ready(())
        })
        .await;
        drop(sleep);
        assert!(runtime.shard.timers.borrow().is_empty());
    });
}

#[test]
fn a_wake_from_another_thread_reaches_a_sleeping_shard() {
    on_each_driver(|runtime| async move {
        let flag = Arc::new(AtomicBool::new(false));
        let slot: Arc<Mutex<Option<Waker>>> = Arc::default();
        for _ in 0..200 {
            flag.store(false, Ordering::SeqCst);
            let (their_flag, their_slot) = (flag.clone(), slot.clone());
            let waker_thread = std::thread::spawn(move || {
                loop {
                    if let Some(waker) = their_slot.lock().unwrap().take() {
                        their_flag.store(true, Ordering::SeqCst);
                        waker.wake();
                        return;
                    }
                    std::thread::yield_now();
                }
            });
            std::future::poll_fn(|context| {
                if flag.load(Ordering::SeqCst) {
                    return Poll::Ready(());
                }
                *slot.lock().unwrap() = Some(context.waker().clone());
                Poll::Pending
            })
            .await;
            waker_thread.join().unwrap();
        }
        let clock = runtime.now();
        assert!(runtime.run_blocking(|| 41 + 1).await == 42 && runtime.now() >= clock);
    });
}

#[test]
fn an_idle_shard_uses_no_processor_time() {
    on_each_driver(|runtime| async move {
        // SAFETY: a zeroed timespec is valid, and the call writes to it.
        let busy = || unsafe {
            let mut time: libc::timespec = std::mem::zeroed();
            libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &mut time);
            time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
        };
        let before = busy();
        runtime.sleep(Duration::from_millis(200)).await;
        let used = busy() - before;
        assert!(used < 10_000_000, "{used} ns of processor time while idle ({})", runtime.driver_name());
    });
}

#[test]
fn work_sent_from_another_thread_runs_on_the_shard() {
    for driver in drivers() {
        let shard = start_shard(settings(driver), |runtime| {
            Box::pin(async move {
                runtime.sleep(Duration::from_millis(100)).await;
            })
        })
        .unwrap();
        let remote = shard.remote();
        let threads: Vec<_> = (0..4u64)
            .map(|thread| {
                let remote = remote.clone();
                std::thread::spawn(move || {
                    for call in 0..50u64 {
                        let result = remote.run(move |runtime| {
                            Box::pin(async move {
                                runtime.yield_now().await;
                                thread * 1000 + call
                            })
                        });
                        assert_eq!(result.wait(), Ok(thread * 1000 + call));
                    }
                })
            })
            .collect();
        for thread in threads {
            thread.join().unwrap();
        }
        // Still waiting when the shard ends, and sent after its end: both are told.
        let waiting = remote.run(|_| Box::pin(std::future::pending::<()>()));
        shard.join();
        assert_eq!(waiting.wait(), Err(NotDone::ShardGone));
        assert_eq!(remote.run(|_| Box::pin(async {})).wait(), Err(NotDone::ShardGone));
    }
}

/// A control side that asks without end, or whose questions never end, may not fill the shard's memory.
#[test]
fn a_shard_refuses_further_works_while_too_many_are_under_way() {
    for driver in drivers() {
        let shard = start_shard(settings(driver), |_| Box::pin(std::future::pending())).unwrap();
        let remote = shard.remote();
        let (release, waits) = (Arc::new(AtomicBool::new(false)), WORKS_MAX);
        let waiting: Vec<_> = (0..waits)
            .map(|_| {
                let release = release.clone();
                remote.run(move |runtime| {
                    Box::pin(async move {
                        while !release.load(Ordering::Acquire) {
                            runtime.sleep(Duration::from_millis(1)).await;
                        }
                    })
                })
            })
            .collect();
        assert_eq!(remote.run(|_| Box::pin(async {})).wait(), Err(NotDone::ShardFull));
        release.store(true, Ordering::Release);
        for result in waiting {
            assert_eq!(result.wait(), Ok(()));
        }
        // Every place is free again: as many as before are taken on.
        let again: Vec<_> = (0..waits).map(|_| remote.run(|_| Box::pin(async {}))).collect();
        assert!(again.into_iter().all(|result| result.wait() == Ok(())));
    }
}

/// However often other threads wake a task while its shard is busy, the inbox holds one wake of it.
#[test]
fn wakes_of_one_task_are_one_wake_in_the_inbox() {
    let inbox = Arc::new(Inbox::simulated());
    let executor = Executor::new(inbox.clone());
    let wakers = Arc::new(Mutex::new(Vec::new()));
    for _ in 0..3 {
        let wakers = wakers.clone();
        executor.spawn(
            Priority::Host,
            Box::pin(std::future::poll_fn(move |context| {
                wakers.lock().unwrap().push(context.waker().clone());
                Poll::Pending
            })),
        );
    }
    while executor.run_turn() {}
    let wakers = std::mem::take(&mut *wakers.lock().unwrap());
    for _ in 0..1000 {
        wakers.iter().for_each(Waker::wake_by_ref);
    }
    assert_eq!(inbox.take().unwrap().wakes.len(), 3);
}

#[test]
fn a_remote_result_is_a_future_for_any_executor() {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let bell = start_shard(settings(drivers()[0]), |runtime| {
        Box::pin(async move { runtime.sleep(Duration::from_millis(50)).await })
    })
    .unwrap();
    let mut result = pin!(bell.remote().run(|runtime| {
        Box::pin(async move {
            runtime.sleep(Duration::from_millis(5)).await;
            7
        })
    }));
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let value = loop {
        match result.as_mut().poll(&mut std::task::Context::from_waker(&waker)) {
            Poll::Ready(value) => break value,
            Poll::Pending => std::thread::park(),
        }
    };
    assert_eq!(value, Ok(7));
    bell.join();
}

#[test]
fn a_panic_on_the_shard_reaches_whoever_joins_and_whoever_waits() {
    let shard = start_shard(settings(drivers()[0]), |_| Box::pin(std::future::pending())).unwrap();
    let remote = shard.remote();
    let result = remote.run(|_| Box::pin(async { panic!("as planned") }));
    let joined = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| shard.join()));
    assert!(joined.is_err());
    let result: Result<(), NotDone> = result.wait();
    assert_eq!(result, Err(NotDone::ShardGone));
}

#[test]
fn a_bell_rung_from_a_task_wakes_its_waiter_within_the_turn() {
    on_each_driver(|runtime| async move {
        let bell = Notify::new();
        let heard = Rc::new(Cell::new(0));
        let (their_bell, their_heard) = (bell.clone(), heard.clone());
        let listener = runtime.spawn(Priority::Journal, async move {
            for _ in 0..1000 {
                their_bell.notified().await;
                their_heard.set(their_heard.get() + 1);
            }
        });
        let before = clock::monotonic_nanos();
        while heard.get() < 1000 {
            bell.notify_one();
            runtime.yield_now().await;
        }
        listener.await;
        assert!(clock::monotonic_nanos() - before < 1_000_000_000);
    });
}
