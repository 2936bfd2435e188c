//! The API's listeners: the UNIX socket always, TCP as the settings say.

use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::sync::Arc;
use std::time::Duration;

use ashlar_api::ErrorKind;
use axum::Router;
use tokio::net::{TcpListener, UnixListener};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::error::{Error, Result};
use crate::http;
use crate::log::announce;
use crate::service::Service;
use crate::settings::Address;
use crate::state::{API_PORT, API_SOCKET};

/// How long a stop waits for answers that are under way.
const DRAIN_MAX: Duration = Duration::from_secs(5);

/// The API, listening.
pub(crate) struct Server {
    stop: watch::Sender<bool>,
    tasks: Vec<JoinHandle<io::Result<()>>>,
}

impl Server {
    /// Opens the socket and, unless it is off, the TCP port. A taken default port is reported and
    /// left; one that was asked for must be free.
    pub(crate) async fn start(service: &Arc<Service>, tcp: Address, is_asked_for: bool) -> Result<Server> {
        let (stop, _) = watch::channel(false);
        let mut server = Server { stop, tasks: Vec::new() };
        let router = http::router(service.clone());
        server.open_tcp(service, tcp, is_asked_for, router.clone()).await?;
        server.open_socket(service, router)?;
        Ok(server)
    }

    fn open_socket(&mut self, service: &Arc<Service>, router: Router) -> Result<()> {
        let path = service.state().path(API_SOCKET);
        // We hold the state directory's lock: whatever is there was left by an array that is gone.
        service.state().remove(API_SOCKET);
        let listener = UnixListener::bind(&path).map_err(|error| Error::file("listen on", &path, &error))?;
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600))
            .map_err(|error| Error::file("protect", &path, &error))?;
        let mut stopped = self.stop.subscribe();
        self.tasks.push(tokio::spawn(async move {
            axum::serve(listener, router)
                .with_graceful_shutdown(async move { wait(&mut stopped).await })
                .await
        }));
        announce(&format!("api: {}", path.display()));
        service.doors.note_api("unix", path.display().to_string(), None);
        Ok(())
    }

    async fn open_tcp(
        &mut self,
        service: &Arc<Service>,
        tcp: Address,
        is_asked_for: bool,
        router: Router,
    ) -> Result<()> {
        service.state().remove(API_PORT);
        let Address::At(address) = tcp else { return Ok(()) };
        let (listener, bound) = match listen(address).await {
            Ok(listening) => listening,
            Err(error) => {
                let error = Error::new(
                    ErrorKind::Busy,
                    format!("the API cannot listen on {address}: {error}"),
                    "name another address with --api, 127.0.0.1:0 for any free port",
                );
                if is_asked_for {
                    return Err(error);
                }
                service.log.warning("api", format!("{error}; going on with the socket"));
                service.doors.note_api("tcp", address.to_string(), Some(&error));
                return Ok(());
            }
        };
        service.state().store_port(bound.port())?;
        let router = router.layer(axum::middleware::from_fn(http::only_local));
        let mut stopped = self.stop.subscribe();
        self.tasks.push(tokio::spawn(async move {
            axum::serve(listener, router)
                .with_graceful_shutdown(async move { wait(&mut stopped).await })
                .await
        }));
        announce(&format!("api: http://{bound}"));
        service.doors.note_api("tcp", format!("http://{bound}"), None);
        Ok(())
    }

    /// Lets answers under way go out, then closes and removes the socket.
    pub(crate) async fn stop(self, service: &Service) {
        self.stop.send_replace(true);
        for mut task in self.tasks {
            if tokio::time::timeout(DRAIN_MAX, &mut task).await.is_err() {
                task.abort();
            }
        }
        service.state().remove(API_SOCKET);
        service.state().remove(API_PORT);
    }
}

async fn listen(address: SocketAddr) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    Ok((listener, bound))
}

async fn wait(stopped: &mut watch::Receiver<bool>) {
    // An error says that the sender is gone, which is a stop too.
    let _ = stopped.wait_for(|is_stopped| *is_stopped).await;
}
