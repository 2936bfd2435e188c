//! A wait that something else may end.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// Runs `future` until it is done, or `None` once `stop` is.
pub async fn race<T>(stop: impl Future<Output = ()>, future: impl Future<Output = T>) -> Option<T> {
    let (mut stop, mut future) = (pin!(stop), pin!(future));
    poll_fn(|context| {
        if stop.as_mut().poll(context).is_ready() {
            return Poll::Ready(None);
        }
        future.as_mut().poll(context).map(Some)
    })
    .await
}
