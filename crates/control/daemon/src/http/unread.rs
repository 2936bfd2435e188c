//! What a refused request still sends: it is read away, so that the client comes to the answer.
//!
//! A connection that is closed with bytes of a request unread is broken under a client that is still writing
//! them: it then sees that, and not the answer.

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::http::header::{CONNECTION, EXPECT};
use axum::http::{HeaderMap, HeaderValue};
use axum::response::Response;
use hyper::body::{Body as _, Frame, Incoming, SizeHint};

use super::extract::BODY_BYTES_MAX;

/// So much is read away; behind more the connection ends. Arbitrary: twice what any operation takes.
const UNREAD_BYTES_MAX: usize = 2 * BODY_BYTES_MAX;
/// How long that may take. Arbitrary: a program sends its body at once.
const UNREAD_WAIT_MAX: Duration = Duration::from_secs(2);

/// A body that its connection can still reach when who should read it has let go of it.
#[derive(Clone)]
pub(crate) struct Unread {
    body: Arc<Mutex<Incoming>>,
    /// The client sends the body only when it is asked to.
    is_awaited: bool,
}

impl Unread {
    /// The request with a body that stays within reach.
    pub(crate) fn of(request: hyper::Request<Incoming>) -> (Unread, hyper::Request<Body>) {
        let (parts, body) = request.into_parts();
        let is_awaited = parts.headers.contains_key(EXPECT);
        let unread = Unread { body: Arc::new(Mutex::new(body)), is_awaited };
        let body = Body::new(Reached(unread.clone()));
        (unread, hyper::Request::from_parts(parts, body))
    }

    fn body(&self) -> MutexGuard<'_, Incoming> {
        self.body.lock().expect("no holder of this lock panics")
    }

    /// Reads away what nobody read, or has the connection end behind the answer.
    pub(crate) async fn read_away(self, response: &mut Response) {
        if self.body().is_end_stream() {
            return;
        }
        let is_read = !self.is_awaited
            && tokio::time::timeout(UNREAD_WAIT_MAX, self.read_rest()).await.is_ok_and(|is_read| is_read);
        if !is_read {
            end_behind(response.headers_mut());
        }
    }

    /// True when its end was reached.
    async fn read_rest(&self) -> bool {
        let mut bytes = 0;
        while let Some(frame) = poll_fn(|context| self.poll(context)).await {
            bytes += frame.map_or(UNREAD_BYTES_MAX, |frame| frame.data_ref().map_or(0, Bytes::len));
            if bytes >= UNREAD_BYTES_MAX {
                return false;
            }
        }
        true
    }

    fn poll(&self, context: &mut Context<'_>) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        Pin::new(&mut *self.body()).poll_frame(context)
    }
}

/// The connection ends behind the answer with these.
pub(super) fn end_behind(headers: &mut HeaderMap) {
    headers.insert(CONNECTION, HeaderValue::from_static("close"));
}

/// The body as it is read.
struct Reached(Unread);

impl hyper::body::Body for Reached {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<hyper::Result<Frame<Bytes>>>> {
        self.0.poll(context)
    }

    fn is_end_stream(&self) -> bool {
        self.0.body().is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.0.body().size_hint()
    }
}
