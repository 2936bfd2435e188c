//! Waiting between tasks of one shard: no atomics, first come first served.

mod channel;
mod mutex;
mod notify;
mod oneshot;
mod race;
mod semaphore;
mod waiters;

#[cfg(test)]
mod tests;

pub use channel::{Receiver, SendError, Sender, TryRecvError, TrySendError, channel};
pub use mutex::{Mutex, MutexGuard};
pub use notify::{Notified, Notify};
pub use oneshot::{Closed, OneshotReceiver, OneshotSender, oneshot};
pub use race::race;
pub use semaphore::{Acquire, Permit, Semaphore};
