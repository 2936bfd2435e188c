//! The web address that gets an event: one POST over a fresh connection.

use std::time::Duration;

use axum::body::Body;
use axum::http::Request;
use axum::http::header::{CONTENT_TYPE, HOST, USER_AGENT};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;

use super::WebAddress;

const AGENT: &str = concat!("ashlar/", env!("CARGO_PKG_VERSION"));

/// Posts an event; what is taken is answered with a status of 200 to 299 within `limit`.
pub(super) async fn post(address: &WebAddress, body: &str, limit: Duration) -> Result<(), String> {
    let answered = tokio::time::timeout(limit, exchange(address, body)).await;
    let why = match answered {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(why)) => why,
        Err(_) => format!("no answer within {} s", limit.as_secs_f32()),
    };
    Err(format!("{address}: {why}"))
}

async fn exchange(address: &WebAddress, body: &str) -> Result<(), String> {
    let stream = TcpStream::connect(address.peer()).await.map_err(|error| format!("connect: {error}"))?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    // Its errors come out of `send_request` too; it ends when nobody waits for an answer any more.
    tokio::spawn(connection);
    let request = Request::post(address.path())
        .header(HOST, address.host_header())
        .header(CONTENT_TYPE, "application/json")
        .header(USER_AGENT, AGENT)
        .body(Body::from(body.to_string()))
        .map_err(|error| error.to_string())?;
    let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
    match response.status().is_success() {
        true => Ok(()),
        false => Err(format!("answered {}", response.status())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;

    use super::*;

    /// Takes one connection, reads a request with `{"a":1}`, answers; returns what it read.
    async fn receiver(answer: &'static str) -> (WebAddress, tokio::task::JoinHandle<String>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = WebAddress::parse(&format!("http://{}/hook?key=1", listener.local_addr().unwrap()));
        let task = tokio::spawn(async move {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut read = Vec::new();
            while !read.ends_with(b"{\"a\":1}") {
                assert!(stream.read_buf(&mut read).await.unwrap() > 0);
            }
            stream.write_all(answer.as_bytes()).await.unwrap();
            String::from_utf8(read).unwrap()
        });
        (address.unwrap(), task)
    }

    const LONG: Duration = Duration::from_secs(20);

    #[tokio::test]
    async fn an_event_is_posted_and_the_status_counts() {
        let (address, task) = receiver("HTTP/1.1 204 No Content\r\n\r\n").await;
        post(&address, "{\"a\":1}", LONG).await.unwrap();
        let read = task.await.unwrap();
        assert!(read.starts_with("POST /hook?key=1 HTTP/1.1\r\n"), "{read}");
        let lower = read.to_ascii_lowercase();
        for header in ["content-type: application/json\r\n", "content-length: 7\r\n", "host: 127.0.0.1:"] {
            assert!(lower.contains(header), "{header} is not in {read}");
        }
        let (address, _task) = receiver("HTTP/1.1 503 Busy\r\ncontent-length: 0\r\n\r\n").await;
        let why = post(&address, "{\"a\":1}", LONG).await.unwrap_err();
        assert!(why.contains("503") && !why.contains("key"), "the path may be a secret: {why}");
    }

    #[tokio::test]
    async fn nobody_there_and_nobody_answering_are_told() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = WebAddress::parse(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
        let why = post(&address, "x", Duration::from_millis(200)).await.unwrap_err();
        assert!(why.contains("no answer within 0.2 s"), "{why}");
        drop(listener);
        let why = post(&address, "x", LONG).await.unwrap_err();
        assert!(why.contains("connect: "), "{why}");
    }
}
