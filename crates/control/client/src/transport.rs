//! One HTTP request over a fresh connection.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use ashlar_api::{ErrorKind, Problem};
use http_body_util::{BodyExt, Full};
use hyper::HeaderMap;
use hyper::body::{Bytes, Incoming};
use hyper::client::conn::http1;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::{TcpStream, UnixStream};

use crate::error::{Error, Result};
use crate::tls::Remote;

/// Longest wait for an answer: a check of a large pool and a `mkfs` of a large volume take minutes.
const ANSWER_SECONDS_MAX: u64 = 3600;
/// The same for what copies a database.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30 * 24 * 3600);
/// After so long without an answer the array is asked whether it answers at all, again and again. Arbitrary:
/// most commands take milliseconds.
const QUIET_MAX: Duration = Duration::from_secs(4);
/// And must answer that within so long. Arbitrary: it takes microseconds, and seconds when all drives hang.
const HEALTH_WAIT_MAX: Duration = Duration::from_secs(6);

/// Where the array listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Address {
    /// `STATE/api.sock`.
    Socket(PathBuf),
    /// A TCP address of this machine.
    Tcp(SocketAddr),
    /// Another machine, over TLS.
    Remote(Remote),
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Address::Socket(path) => write!(f, "{}", path.display()),
            Address::Tcp(address) => write!(f, "http://{address}"),
            Address::Remote(remote) => write!(f, "https://{}", remote.authority_of_uri()),
        }
    }
}

/// A success.
pub(crate) struct Answered {
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

/// Sends one request and returns the answer of a success. A long operation is waited for as long as the array
/// answers others beside it.
pub(crate) async fn exchange(
    address: &Address,
    token: Option<&str>,
    method: Method,
    path: &str,
    body: Option<String>,
) -> Result<Answered> {
    exchange_within(Duration::from_secs(ANSWER_SECONDS_MAX), address, token, method, path, body).await
}

/// The same with a longest wait of one's own.
pub(crate) async fn exchange_within(
    wait: Duration,
    address: &Address,
    token: Option<&str>,
    method: Method,
    path: &str,
    body: Option<String>,
) -> Result<Answered> {
    let answer = tokio::time::timeout(wait, exchange_unbounded(address, token, method, path, body));
    tokio::select! {
        answer = answer => answer.unwrap_or_else(|_| {
            Err(Error::new(
                ErrorKind::Closed,
                format!("the array at {address} did not answer within {} s", wait.as_secs()),
                "look at the output of `ashlar serve`",
            ))
        }),
        seconds = silence(address, token) => Err(Error::new(
            ErrorKind::Closed,
            format!("the array at {address} does not answer: nothing was heard of it for {seconds} s"),
            "whether the request was carried out is unknown; look at the log of `ashlar serve`, and whether \
             its process is stopped or a drive of it hangs",
        )),
    }
}

/// Returns how long the array was silent once it has not answered a question that takes it no time.
async fn silence(address: &Address, token: Option<&str>) -> u64 {
    loop {
        tokio::time::sleep(QUIET_MAX).await;
        let ask = exchange_unbounded(address, token, Method::GET, "/v1/health", None);
        // A refusal is an answer, too: the request itself tells what is wrong.
        if tokio::time::timeout(HEALTH_WAIT_MAX, ask).await.is_err() {
            return (QUIET_MAX + HEALTH_WAIT_MAX).as_secs();
        }
    }
}

async fn exchange_unbounded(
    address: &Address,
    token: Option<&str>,
    method: Method,
    path: &str,
    body: Option<String>,
) -> Result<Answered> {
    let response = open(address, token, method, path, body, &[]).await?;
    let headers = response.headers().clone();
    Ok(Answered { headers, body: whole(address, response).await? })
}

/// A request over one of our connections.
fn request_to(
    address: &Address,
    token: Option<&str>,
    method: Method,
    path: &str,
    body: Option<String>,
    more: &[(&str, &str)],
) -> Result<Request<Full<Bytes>>> {
    let host = match address {
        Address::Socket(_) => "localhost".to_string(),
        Address::Tcp(tcp) => tcp.to_string(),
        Address::Remote(remote) => remote.authority_of_uri(),
    };
    let mut request = Request::builder().method(method).uri(path).header("host", host);
    if let Some(token) = token {
        request = request.header("authorization", format!("Bearer {token}"));
    }
    if body.is_some() {
        request = request.header("content-type", "application/json");
    }
    let request = more.iter().fold(request, |request, (name, value)| request.header(*name, *value));
    request.body(Full::new(Bytes::from(body.unwrap_or_default()))).map_err(|e| {
        Error::new(
            ErrorKind::Invalid,
            format!("`{path}` is not a request: {e}"),
            "check the name of the object",
        )
    })
}

/// Sends a request over a fresh connection; returns the head of a success, its body still to come.
pub(crate) async fn open(
    address: &Address,
    token: Option<&str>,
    method: Method,
    path: &str,
    body: Option<String>,
    more: &[(&str, &str)],
) -> Result<Response<Incoming>> {
    let request = request_to(address, token, method, path, body, more)?;
    let response = match address {
        Address::Socket(socket) => {
            let stream = UnixStream::connect(socket).await.map_err(|e| not_connected(address, &e))?;
            over(stream, address, request).await?
        }
        Address::Tcp(tcp) => {
            let stream = TcpStream::connect(tcp).await.map_err(|e| not_connected(address, &e))?;
            over(stream, address, request).await?
        }
        Address::Remote(remote) => {
            let place = (remote.host.as_str(), remote.port);
            let stream = TcpStream::connect(place).await.map_err(|e| not_connected(address, &e))?;
            over(remote.secure(stream).await?, address, request).await?
        }
    };
    let status = response.status();
    if status.is_success() {
        return Ok(response);
    }
    let bytes = whole(address, response).await?;
    Err(refused(address, status, &bytes))
}

async fn over<S>(stream: S, address: &Address, request: Request<Full<Bytes>>) -> Result<Response<Incoming>>
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin + Send + 'static,
{
    let (mut sender, connection) =
        http1::handshake(TokioIo::new(stream)).await.map_err(|e| broken(address, &e.to_string()))?;
    // The connection's errors come out of `send_request` too.
    tokio::spawn(connection);
    let is_read_only = request.method() == Method::GET;
    let sent = sender.send_request(request).await;
    sent.map_err(|e| match is_read_only {
        _ if e.is_canceled() => not_taken(address),
        true => unanswered(address, &e.to_string()),
        false => broken(address, &e.to_string()),
    })
}

async fn whole(address: &Address, response: Response<Incoming>) -> Result<Bytes> {
    let body = response.into_body().collect().await;
    Ok(body.map_err(|e| broken(address, &e.to_string()))?.to_bytes())
}

fn refused(address: &Address, status: StatusCode, bytes: &[u8]) -> Error {
    match serde_json::from_slice::<Problem>(bytes) {
        Ok(problem) => problem.into(),
        Err(_) => Error::new(
            ErrorKind::Closed,
            format!("what listens at {address} answered {status} and is not an array"),
            "check --state",
        ),
    }
}

fn not_connected(address: &Address, error: &io::Error) -> Error {
    let action = match error.kind() {
        _ if matches!(address, Address::Remote(_)) => {
            "check --server; on its machine `ashlar status` says whether the address is open"
        }
        io::ErrorKind::PermissionDenied => "run as the user who runs `ashlar serve`",
        io::ErrorKind::NotFound
        | io::ErrorKind::ConnectionRefused
        | io::ErrorKind::ConnectionReset
        | io::ErrorKind::InvalidInput => {
            "start one with `ashlar serve`, or name its state directory with --state"
        }
        _ => "check --state",
    };
    let why = match error.kind() {
        io::ErrorKind::NotFound => "there is no such socket".to_string(),
        io::ErrorKind::ConnectionRefused => "nothing listens there".to_string(),
        _ => error.to_string(),
    };
    Error::new(ErrorKind::Closed, format!("no array answers at {address} ({why})"), action)
}

/// A question, which changes nothing.
fn unanswered(address: &Address, why: &str) -> Error {
    Error::new(
        ErrorKind::Closed,
        format!("the array at {address} closed the connection without an answer ({why})"),
        "it ends in this moment, or all its places are taken: ask again",
    )
}

/// The request was never sent.
fn not_taken(address: &Address) -> Error {
    Error::new(
        ErrorKind::Closed,
        format!("the array at {address} closed the connection before it took the request"),
        "nothing was done: repeat it",
    )
}

pub(crate) fn broken(address: &Address, why: &str) -> Error {
    Error::new(
        ErrorKind::Closed,
        format!("the connection to the array at {address} broke ({why})"),
        "whether the request was carried out is unknown: look, then repeat it",
    )
}
