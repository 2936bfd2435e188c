//! The API's listeners: the UNIX socket always, TCP for who has a token and only as the settings say.
//!
//! Each has so many places, so that no crowd of clients takes the descriptors of the rest, and a time for
//! the head of a request. Who finds no place is told so; over TCP who has shown no token gives way first.

use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use ashlar_api::{ErrorKind, PROBLEM_MEDIA_TYPE, Reason, TokenScope};
use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::{GracefulShutdown, Watcher};
use hyper_util::service::TowerToHyperService;
use rustix::net::{RecvFlags, SendFlags};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinHandle;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use crate::asker::{Asker, Visitor};
use crate::console::ConsoleDoor;
use crate::error::{Error, Result};
use crate::gate;
use crate::http::{self, Keys, Site, Unread};
use crate::log::{Log, announce};
use crate::places::Caller;
use crate::process::Descriptors;
use crate::service::Service;
use crate::settings::{Address, Settings};
use crate::sockets::{self, Group};
use crate::state::{API_PORT, API_SOCKET, API_TOKEN, METRICS_PORT, METRICS_TOKEN, State};
use crate::strangers::{Place, Standing, Strangers};
use crate::tls::Tls;
use crate::token::{Readers, Token};

/// How long a stop waits for answers that are under way.
const DRAIN_MAX: Duration = Duration::from_secs(5);
/// How long the head of a request may take, and a connection be idle between two. Arbitrary: programs take
/// milliseconds.
const HEAD_WAIT_MAX: Duration = Duration::from_secs(10);
/// How long a client that finds no place may take to hear it.
const REFUSAL_WAIT_MAX: Duration = Duration::from_secs(1);
/// So many hear it at their ease; the others at once or not at all. Each takes a descriptor. Arbitrary.
const REFUSED_MAX: usize = 8;
/// Places out of four that guests may have.
const GUESTS_PER_FOUR: usize = 3;
/// As many accounts at least find a place, whoever comes first. Arbitrary.
const ACCOUNTS_MIN: usize = 3;
/// Connections to the console. Arbitrary: a browser opens six.
const CONSOLE_PLACES: usize = 64;
/// How long the beginning of TLS may take.
const HANDSHAKE_MAX: Duration = Duration::from_secs(5);
/// What TLS begins with (RFC 8446, section 5.1: a record of a handshake).
const HANDSHAKE_RECORD: u8 = 22;
/// Pause between two lines about it. Arbitrary: refused clients come back many times a second.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

/// One way in to the API, and who uses it.
pub(crate) struct Entrance {
    /// As in metrics: `api` or `metrics`.
    pub(crate) name: &'static str,
    pub(crate) address: String,
    places_max: usize,
    places: Arc<Semaphore>,
    /// Those of them that guests may have: the rest is for who administers the array.
    guest_places: Arc<Semaphore>,
    strangers: Strangers,
    refused_now: Arc<Semaphore>,
    refused: AtomicU64,
    told: Mutex<Option<Instant>>,
}

impl Entrance {
    fn new(name: &'static str, address: String, places_max: usize) -> Arc<Entrance> {
        Arc::new(Entrance {
            name,
            address,
            places_max,
            places: Arc::new(Semaphore::new(places_max)),
            guest_places: Arc::new(Semaphore::new((places_max * GUESTS_PER_FOUR).div_ceil(4))),
            strangers: Strangers::new((places_max * GUESTS_PER_FOUR).div_ceil(4 * ACCOUNTS_MIN)),
            refused_now: Arc::new(Semaphore::new(REFUSED_MAX)),
            refused: AtomicU64::new(0),
            told: Mutex::new(None),
        })
    }

    /// A place for this caller, if one is free or a stranger has one.
    fn admit(&self, caller: Caller) -> Option<Place> {
        self.free_place(caller).or_else(|| self.strangers.replace_oldest())
    }

    fn free_place(&self, caller: Caller) -> Option<Place> {
        let guest = match caller {
            Caller::Owner => None,
            Caller::Person | Caller::Guest => Some(self.guest_places.clone().try_acquire_owned().ok()?),
        };
        Some(Place { _of_all: self.places.clone().try_acquire_owned().ok()?, _of_guests: guest })
    }

    /// Connections now.
    pub(crate) fn clients(&self) -> u64 {
        (self.places_max - self.places.available_permits()) as u64
    }

    /// Connections since the start that found no place.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Counts and tells that one found no place; returns the whole answer it gets.
    fn note_refused(&self, log: &Log) -> Vec<u8> {
        self.refused.fetch_add(1, Ordering::Relaxed);
        let what = format!("{} connections are open at {}, which is the limit", self.clients(), self.address);
        let mut told = self.told.lock().expect("no holder of this lock panics");
        if told.is_none_or(|told| told.elapsed() >= REFUSED_PAUSE) {
            *told = Some(Instant::now());
            log.warning(self.name, format!("{what}: more are refused"));
        }
        let refusal = Error::new(ErrorKind::Closed, what, "ask again later").because(Reason::Overloaded);
        whole_answer("503 Service Unavailable", "retry-after: 1\r\n", &refusal)
    }
}

/// An answer as it goes over the wire, after which the connection ends.
fn whole_answer(status: &str, more: &str, refusal: &Error) -> Vec<u8> {
    let body = serde_json::to_string(&refusal.problem()).expect("problems are plain data");
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\ncontent-type: {PROBLEM_MEDIA_TYPE}\r\n{more}");
    format!("{head}connection: close\r\ncontent-length: {length}\r\n\r\n{body}").into_bytes()
}

/// For who speaks plain HTTP where TLS is spoken.
fn not_in_the_clear() -> Vec<u8> {
    let refusal =
        Error::invalid("this address speaks TLS, and the request came in the clear", "use https://");
    whole_answer("400 Bad Request", "", &refusal)
}

/// A connection that tells who is at its other end.
trait Connection: AsyncRead + AsyncWrite + AsFd + Unpin + Send + Sync + 'static {
    /// Who it is, is known by a token alone.
    const SHOWS_TOKEN: bool;

    fn caller(&self) -> Caller;

    /// Who asks, where that is known without a token.
    fn asker(&self) -> Option<Asker>;

    /// Where it comes from.
    fn visitor(&self) -> Visitor;

    /// The first byte that it sends, which stays to be read.
    fn first_byte(&self) -> impl Future<Output = Option<u8>> + Send;
}

impl Connection for UnixStream {
    const SHOWS_TOKEN: bool = false;

    fn caller(&self) -> Caller {
        let own = rustix::process::geteuid().as_raw();
        match self.peer_cred() {
            Ok(peer) if [0, own].contains(&peer.uid()) => Caller::Owner,
            _ => Caller::Guest,
        }
    }

    fn asker(&self) -> Option<Asker> {
        let uid = self.peer_cred().ok().map(|peer| peer.uid());
        Some(Asker::at_socket(uid, self.caller()))
    }

    fn visitor(&self) -> Visitor {
        Visitor { address: None }
    }

    async fn first_byte(&self) -> Option<u8> {
        None
    }
}

impl Connection for TcpStream {
    const SHOWS_TOKEN: bool = true;

    fn caller(&self) -> Caller {
        Caller::Guest
    }

    fn asker(&self) -> Option<Asker> {
        None
    }

    fn visitor(&self) -> Visitor {
        Visitor { address: self.peer_addr().ok() }
    }

    async fn first_byte(&self) -> Option<u8> {
        let mut first = [0];
        (self.peek(&mut first).await.ok()? == 1).then_some(first[0])
    }
}

/// What the TCP addresses ask for.
pub(crate) struct Tokens {
    api: Token,
    metrics: Token,
}

impl Tokens {
    /// Made at the first start, also where nothing asks for them yet: who sets up a client finds them.
    pub(crate) fn load_or_make(state: &State, settings: &Settings) -> Result<Tokens> {
        let path = |setting: &str, default| match setting {
            "" => state.path(default),
            named => PathBuf::from(named),
        };
        let api = Token::load_or_make(&path(&settings.token_file, API_TOKEN), Readers::Owner)?;
        let metrics_file = path(&settings.metrics_token_file, METRICS_TOKEN);
        Ok(Tokens { api, metrics: Token::load_or_make(&metrics_file, Readers::Group)? })
    }
}

/// The API, listening.
pub(crate) struct Server {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<()>>,
}

impl Server {
    /// Opens the socket, and the TCP addresses that the settings name.
    pub(crate) async fn start(
        service: &Arc<Service>,
        settings: &Settings,
        group: Option<Group>,
        descriptors: Descriptors,
        tokens: Tokens,
    ) -> Result<Server> {
        let (stop, _) = watch::channel(false);
        let mut server = Server { stop, tasks: Vec::new() };
        let router = http::router(service.clone());
        let api = Tcp { name: "api", setting: "--api", port_file: API_PORT, places: descriptors.api_tcp };
        let of_api = (tokens.api, Asker::with_file(None));
        let keys = keys_of(service, [of_api.clone()].into(), true);
        server.open_api(service, settings, api, (router.clone(), keys)).await?;
        let metrics =
            Tcp { name: "metrics", setting: "metrics", port_file: METRICS_PORT, places: descriptors.metrics };
        let of_metrics = (tokens.metrics, Asker::with_file(Some(TokenScope::Metrics)));
        let keys = keys_of(service, [of_metrics, of_api].into(), false);
        let site = Site::new(Ipv4Addr::LOCALHOST.into(), &[], None);
        let metrics_router = guarded(http::metrics_router(service.clone()), keys, site);
        server.open_tcp(service, metrics, settings.metrics, metrics_router).await?;
        server.open_socket(service, group, descriptors.api_socket, router)?;
        Ok(server)
    }

    fn open_socket(
        &mut self,
        service: &Arc<Service>,
        group: Option<Group>,
        places: usize,
        router: Router,
    ) -> Result<()> {
        let path = service.state().path(API_SOCKET);
        // We hold the state directory's lock: whatever is there was left by an array that is gone.
        service.state().remove(API_SOCKET);
        let listener = UnixListener::bind(&path).map_err(|error| Error::file("listen on", &path, &error))?;
        sockets::protect(&path, group)?;
        let entrance = Entrance::new("api", path.display().to_string(), places);
        self.serve(service, listener, entrance, router);
        announce(&format!("api: {}", path.display()));
        service.doors.note_api("api", "unix", path.display().to_string());
        Ok(())
    }

    async fn open_tcp(
        &mut self,
        service: &Arc<Service>,
        tcp: Tcp,
        address: Address,
        router: Router,
    ) -> Result<Option<SocketAddr>> {
        let Tcp { name, setting, port_file, places } = tcp;
        service.state().remove(port_file);
        let Address::At(address) = address else { return Ok(None) };
        let (listener, bound) = listen(address).await.map_err(|error| {
            Error::new(
                ErrorKind::Busy,
                format!("{name} cannot listen on {address}: {error}"),
                format!("name another address with {setting}, 127.0.0.1:0 for any free port"),
            )
        })?;
        service.state().store_port(port_file, bound.port())?;
        let entrance = Entrance::new(name, format!("http://{bound}"), places);
        self.serve(service, listener, entrance, router);
        announce(&format!("{name}: http://{bound}"));
        service.doors.note_api(name, "tcp", format!("http://{bound}"));
        Ok(Some(bound))
    }

    /// In the clear on loopback; TLS there where the settings name a certificate, and everywhere else.
    async fn open_api(
        &mut self,
        service: &Arc<Service>,
        settings: &Settings,
        tcp: Tcp,
        (router, keys): (Router, Keys),
    ) -> Result<()> {
        let is_plain = settings.tls_certificate.is_empty();
        match settings.api {
            Address::At(address) if !(is_plain && address.ip().is_loopback()) => {
                service.state().remove(tcp.port_file);
                let stopped = self.stop.subscribe();
                let opened = serve_securely(service.clone(), tcp, address, (router, keys), stopped);
                self.tasks.push(tokio::spawn(opened));
            }
            Address::At(_) | Address::Off => {
                let site = Site::new(Ipv4Addr::LOCALHOST.into(), &settings.api_names, None);
                let bound = self.open_tcp(service, tcp, settings.api, guarded(router, keys, site)).await?;
                let door =
                    bound.map(|address| ConsoleDoor { origin: format!("http://{address}"), listener: None });
                *service.console.door.lock().await = door;
            }
        }
        Ok(())
    }

    fn serve<L>(&mut self, service: &Arc<Service>, listener: L, entrance: Arc<Entrance>, router: Router)
    where
        L: Listener,
        L::Io: Connection,
    {
        service.doors.note_entrance(entrance.clone());
        let stopped = self.stop.subscribe();
        let log = service.log.clone();
        self.tasks.push(tokio::spawn(accept_all(listener, entrance, router, log, stopped, None)));
    }

    /// Lets answers under way go out, then closes and removes the socket.
    pub(crate) async fn stop(self, service: &Service) {
        self.stop.send_replace(true);
        let console = service.console.door.lock().await.take().and_then(|door| door.listener);
        let console = console.map(|(stop, task)| {
            stop.send_replace(true);
            task
        });
        for mut task in self.tasks.into_iter().chain(console) {
            if tokio::time::timeout(DRAIN_MAX, &mut task).await.is_err() {
                task.abort();
            }
        }
        for name in [API_SOCKET, API_PORT, METRICS_PORT] {
            service.state().remove(name);
        }
    }
}

/// Opens the API's address when it may be, and serves it.
async fn serve_securely(
    service: Arc<Service>,
    tcp: Tcp,
    address: SocketAddr,
    (router, keys): (Router, Keys),
    mut stopped: watch::Receiver<bool>,
) {
    let opened = gate::open_when_possible(&service, address, &mut stopped).await;
    let Some(gate::Opened { listener, bound, tls }) = opened else { return };
    if let Err(error) = service.state().store_port(tcp.port_file, bound.port()) {
        service.log.warning(tcp.name, format!("its port is told nowhere: {error}"));
    }
    let origin = format!("https://{bound}");
    let entrance = Entrance::new(tcp.name, origin.clone(), tcp.places);
    service.doors.note_entrance(entrance.clone());
    service.doors.note_api(tcp.name, "tcp", origin.clone());
    announce(&format!("{}: {origin}", tcp.name));
    service.console.door.lock().await.get_or_insert(ConsoleDoor { origin, listener: None });
    let site = Site::new(bound.ip(), &service.settings.now().api_names, Some(tls.clone()));
    let keys = Keys { is_far: !bound.ip().is_loopback(), ..keys };
    let router = guarded(router, keys, site);
    accept_all(listener, entrance, router, service.log.clone(), stopped, Some(tls)).await;
}

/// Opens a loopback address for the console where the API has none; tells where it is.
pub(crate) async fn open_console(service: &Arc<Service>) -> Result<String> {
    let mut door = service.console.door.lock().await;
    if service.is_stopping() {
        return Err(service.stopping());
    }
    if let Some(open) = &*door {
        return Ok(open.origin.clone());
    }
    let wanted = SocketAddr::from((Ipv4Addr::LOCALHOST, service.console_port()));
    let (listener, address) = listen(wanted).await.map_err(|error| {
        Error::new(
            ErrorKind::Busy,
            format!("the console cannot listen on {wanted}: {error}"),
            "name another port in the setting `console_port`, 0 for any free one",
        )
    })?;
    let keys = keys_of(service, [].into(), true);
    let site = Site::new(Ipv4Addr::LOCALHOST.into(), &[], None);
    let router = guarded(http::router(service.clone()), keys, site);
    let origin = format!("http://{address}");
    let entrance = Entrance::new("console", origin.clone(), CONSOLE_PLACES);
    service.doors.note_entrance(entrance.clone());
    service.doors.note_api("console", "tcp", origin.clone());
    service.log.info("console", format!("opened at {origin}/console/"));
    let (stop, stopped) = watch::channel(false);
    let task = tokio::spawn(accept_all(listener, entrance, router, service.log.clone(), stopped, None));
    *door = Some(ConsoleDoor { origin: origin.clone(), listener: Some((stop, task)) });
    Ok(origin)
}

/// What opens an address: these tokens of files, and those of the array; where people log in, sessions, too.
fn keys_of(service: &Arc<Service>, tokens: Arc<[(Token, Asker)]>, has_logins: bool) -> Keys {
    Keys {
        tokens,
        sessions: has_logins.then(|| service.console.sessions.clone()),
        access: service.access.clone(),
        audit: service.audit.clone(),
        is_far: false,
    }
}

/// For who shows one of these keys, and comes by a name of this address.
fn guarded(router: Router, keys: Keys, site: Site) -> Router {
    router
        .layer(axum::middleware::from_fn_with_state(keys, http::only_with_token))
        .layer(axum::middleware::from_fn_with_state(site, http::only_for_us))
}

/// A TCP address that asks for a token.
struct Tcp {
    name: &'static str,
    /// What a person changes.
    setting: &'static str,
    port_file: &'static str,
    places: usize,
}

async fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

async fn accept_all<L>(
    mut listener: L,
    entrance: Arc<Entrance>,
    router: Router,
    log: Arc<Log>,
    mut stopped: watch::Receiver<bool>,
    tls: Option<Tls>,
) where
    L: Listener,
    L::Io: Connection,
{
    let graceful = GracefulShutdown::new();
    let acceptor = tls.map(|tls| tls.acceptor());
    loop {
        let connection = tokio::select! {
            (connection, _) = listener.accept() => connection,
            () = wait(&mut stopped) => break,
        };
        match entrance.admit(connection.caller()) {
            Some(place) if L::Io::SHOWS_TOKEN => {
                let standing = Arc::new(entrance.strangers.add(place));
                let (router, watcher) = (router.clone(), graceful.watcher());
                let (acceptor, mut stopped) = (acceptor.clone(), stopped.clone());
                let peer = Peer::of(&connection, Some(standing.clone()));
                drop(tokio::spawn(async move {
                    let served = async {
                        let Some(acceptor) = acceptor else {
                            return serve_one(connection, peer, router, watcher).await;
                        };
                        let secured = tokio::select! {
                            secured = secure(connection, &acceptor) => secured,
                            () = wait(&mut stopped) => None,
                        };
                        if let Some(secured) = secured {
                            serve_one(secured, peer, router, watcher).await;
                        }
                    };
                    tokio::select! {
                        () = served => {}
                        () = standing.until_unwelcome() => {}
                    }
                }));
            }
            Some(place) => {
                let peer = Peer::of(&connection, None);
                let served = serve_one(connection, peer, router.clone(), graceful.watcher());
                drop(tokio::spawn(async move {
                    served.await;
                    drop(place);
                }));
            }
            None => {
                let answer = entrance.note_refused(&log);
                if acceptor.is_some() {
                    // What it would read is no TLS.
                    continue;
                }
                match entrance.refused_now.clone().try_acquire_owned() {
                    Ok(place) => drop(tokio::spawn(refuse(connection, answer, place))),
                    Err(_) => refuse_at_once(&connection, &answer),
                }
            }
        }
    }
    drop(listener);
    graceful.shutdown().await;
}

/// Who is at the other end of a connection.
struct Peer {
    caller: Caller,
    asker: Option<Asker>,
    visitor: Visitor,
    /// Of who must show a token.
    standing: Option<Arc<Standing>>,
}

impl Peer {
    fn of<C: Connection>(connection: &C, standing: Option<Arc<Standing>>) -> Peer {
        let (caller, asker, visitor) = (connection.caller(), connection.asker(), connection.visitor());
        Peer { caller, asker, visitor, standing }
    }
}

/// Begins TLS on a connection. Who speaks plain HTTP is told so; who takes too long is let go.
async fn secure<C: Connection>(mut connection: C, acceptor: &TlsAcceptor) -> Option<TlsStream<C>> {
    let begun = async {
        if connection.first_byte().await? == HANDSHAKE_RECORD {
            return acceptor.accept(connection).await.ok();
        }
        let _ = connection.write_all(&not_in_the_clear()).await;
        let _ = connection.shutdown().await;
        // What is left unread would take the answer with it.
        let mut rest = [0; 4096];
        while connection.read(&mut rest).await.is_ok_and(|count| count > 0) {}
        None
    };
    tokio::time::timeout(HANDSHAKE_MAX, begun).await.ok().flatten()
}

async fn serve_one<S>(stream: S, peer: Peer, router: Router, watcher: Watcher)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let Peer { caller, asker, visitor, standing } = peer;
    let service = TowerToHyperService::new(router);
    let service = hyper::service::service_fn(move |request: hyper::Request<hyper::body::Incoming>| {
        let (unread, mut request) = Unread::of(request);
        request.extensions_mut().insert(caller);
        request.extensions_mut().insert(visitor);
        if let Some(asker) = &asker {
            request.extensions_mut().insert(asker.clone());
        }
        if let Some(standing) = &standing {
            request.extensions_mut().insert(standing.clone());
        }
        let answered = hyper::service::Service::call(&service, request);
        async move {
            let mut response = answered.await?;
            unread.read_away(&mut response).await;
            Ok::<_, std::convert::Infallible>(response)
        }
    });
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_WAIT_MAX)
        .serve_connection(TokioIo::new(stream), service);
    // Who leaves in the middle, or never says what he wants, is of no interest to anybody.
    let _ = watcher.watch(served).await;
}

/// Answers once something is asked, since clients take no answer before, and reads what comes after it, so
/// that the answer is not lost with it.
async fn refuse<C: Connection>(mut connection: C, answer: Vec<u8>, _place: OwnedSemaphorePermit) {
    let mut asked = [0; 4096];
    let _ = tokio::time::timeout(REFUSAL_WAIT_MAX, connection.read(&mut asked)).await;
    let _ = tokio::time::timeout(REFUSAL_WAIT_MAX, async {
        connection.write_all(&answer).await?;
        connection.shutdown().await?;
        while connection.read(&mut asked).await? > 0 {}
        io::Result::Ok(())
    })
    .await;
}

/// Answers who has asked already, and waits for nobody: who is slower may find the connection closed.
fn refuse_at_once<C: Connection>(connection: &C, answer: &[u8]) {
    let mut asked = [0; 4096];
    let _ = rustix::net::recv(connection, &mut asked[..], RecvFlags::DONTWAIT);
    let _ = rustix::net::send(connection, answer, SendFlags::DONTWAIT | SendFlags::NOSIGNAL);
}

/// Returns when the array stops.
pub(crate) async fn wait(stopped: &mut watch::Receiver<bool>) {
    // An error says that the sender is gone, which is a stop too.
    let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
}
