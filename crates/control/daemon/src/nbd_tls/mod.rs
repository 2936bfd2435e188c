//! NBD over TLS, for other machines.
//!
//! ```text
//!   client ══TLS══► thread `nbd-tls` ──a pair of sockets──► the NBD server of the data shard
//! ```
//!
//! The thread speaks the protocol up to its STARTTLS and takes TLS off; the rest is the server's, which is
//! told the client's own address. It is no control thread: these stand still and clients go on.
//!
//! Invariants: (1) nobody reaches the server who has not shown a certificate that the authority of the
//! settings signed; (2) connections are bounded in number, and in time until they are through; (3) whoever
//! has shown none yet gives way to who comes later, so strangers keep nobody out.

mod config;
mod negotiation;

use std::io;
use std::net::SocketAddr;
use std::os::unix::net::UnixStream as Pair;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy_bidirectional_with_sizes};
use tokio::net::{TcpListener, TcpStream, UnixStream};
use tokio::sync::Semaphore;
use tokio_rustls::TlsAcceptor;

pub(crate) use config::Certificates;

use crate::service::Service;
use crate::strangers::{Place, Standing, Strangers};
use negotiation::{GREETING_BYTES, until_tls};

/// Bytes under way in each direction of a connection: some requests, as NBD's own buffers hold.
const PIECE_BYTES: usize = 256 << 10;
/// Pause after an accept that failed, for instance because descriptors ran out. Arbitrary.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);
/// Pause between two lines about clients that were let go. Arbitrary: rubbish comes often.
const TOLD_PAUSE: Duration = Duration::from_secs(60);

/// What all addresses share.
pub(crate) struct Relay {
    service: Arc<Service>,
    certificates: Certificates,
    places: Arc<Semaphore>,
    strangers: Strangers,
    told: Mutex<Option<Instant>>,
}

impl Relay {
    pub(crate) fn new(service: Arc<Service>, certificates: Certificates, clients_max: usize) -> Relay {
        let places = Arc::new(Semaphore::new(clients_max));
        Relay {
            service,
            certificates,
            places,
            strangers: Strangers::new(clients_max),
            told: Mutex::new(None),
        }
    }

    /// A place for who comes, if one is free or a stranger has one.
    fn admit(&self) -> Option<Standing> {
        let free = self.places.clone().try_acquire_owned().ok();
        let free = free.map(|permit| Place { _of_all: permit, _of_guests: None });
        Some(self.strangers.add(free.or_else(|| self.strangers.replace_oldest())?))
    }

    fn acceptor(&self) -> TlsAcceptor {
        let (config, error) = self.certificates.now();
        if let Some(error) = error {
            self.service.log.warning("nbd", format!("{error}; until then the certificates before are used"));
        }
        TlsAcceptor::from(config)
    }

    fn note_refused(&self, from: SocketAddr, error: &io::Error) {
        let mut told = self.told.lock().expect("no holder of this lock panics");
        if told.is_none_or(|told| told.elapsed() >= TOLD_PAUSE) {
            *told = Some(Instant::now());
            self.service
                .log
                .warning("nbd", format!("a client from {from} did not get as far as TLS: {error}"));
        }
    }
}

/// Serves an address until the process ends.
pub(crate) fn start(listener: std::net::TcpListener, relay: Arc<Relay>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    std::thread::Builder::new()
        .name("nbd-tls".to_string())
        .spawn(move || runtime.block_on(accept_all(listener, relay)))?;
    Ok(())
}

async fn accept_all(listener: std::net::TcpListener, relay: Arc<Relay>) {
    let listener = match TcpListener::from_std(listener) {
        Ok(listener) => listener,
        Err(error) => {
            return relay.service.log.error("nbd", format!("a listener of TLS is not served: {error}"));
        }
    };
    loop {
        let Ok((stream, from)) = listener.accept().await else {
            tokio::time::sleep(ACCEPT_PAUSE).await;
            continue;
        };
        // Who finds no place is let go: it has shown no certificate that a reason could be told to.
        let Some(standing) = relay.admit() else { continue };
        let relay = relay.clone();
        tokio::spawn(async move {
            let served = tokio::select! {
                served = serve(stream, from, &relay, &standing) => served,
                () = standing.until_unwelcome() => Err(io::ErrorKind::TimedOut.into()),
            };
            if let Err(error) = served {
                relay.note_refused(from, &error);
            }
        });
    }
}

/// Serves one client until it leaves.
async fn serve(
    mut stream: TcpStream,
    from: SocketAddr,
    relay: &Relay,
    standing: &Standing,
) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let Some(flags) = until_tls(&mut stream).await? else { return Ok(()) };
    let mut client = relay.acceptor().accept(stream).await?;
    // All clients of NBD are one.
    if standing.show_token(|| "nbd".to_string()).is_err() {
        return Ok(());
    }
    let (ours, theirs) = Pair::pair()?;
    ours.set_nonblocking(true)?;
    let mut server = UnixStream::from_std(ours)?;
    if !relay.service.doors.take_nbd(&relay.service.array, theirs, from).await {
        return Ok(());
    }
    // The server greets anew, and the client has heard that already.
    server.read_exact(&mut [0; GREETING_BYTES]).await?;
    server.write_all(&flags.to_be_bytes()).await?;
    // However either ends it, the other end is closed then; the server knows what it has done.
    let _ = copy_bidirectional_with_sizes(&mut client, &mut server, PIECE_BYTES, PIECE_BYTES).await;
    Ok(())
}
