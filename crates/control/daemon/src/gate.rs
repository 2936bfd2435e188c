//! The API's TCP address where it takes more than a free port: TLS, and off loopback somebody who may come
//! in.
//!
//! It opens as soon as it may. What stands in the way is told at the door, and tried again: a certificate
//! that is mended, an address that comes up late, the first user. All else of the array serves meanwhile.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use ashlar_api::ErrorKind;
use tokio::net::TcpListener;
use tokio::sync::watch;

use crate::error::{Error, Result};
use crate::server::wait;
use crate::service::Service;
use crate::settings::Settings;
use crate::tls::{Certificate, CertificateFrom, Tls};

/// Pause between two attempts; the first user and the first token end it at once. Arbitrary.
const RETRY: Duration = Duration::from_secs(5);
/// How often the certificate is looked at while the array runs.
const LOOK_INTERVAL: Duration = Duration::from_secs(3600);
/// Its end is told when it is so near.
const DAYS_LEFT_MIN: u64 = 14;

/// TLS that is served.
#[derive(Default)]
pub(crate) struct Gate(Mutex<Option<Secured>>);

#[derive(Clone)]
struct Secured {
    tls: Tls,
    /// The days left that were told last.
    told_days: Option<u64>,
}

/// An address that is open.
pub(crate) struct Opened {
    pub(crate) listener: TcpListener,
    pub(crate) bound: SocketAddr,
    pub(crate) tls: Tls,
}

/// Opens the address once that is possible; `None` when the array stops before.
pub(crate) async fn open_when_possible(
    service: &Arc<Service>,
    address: SocketAddr,
    stopped: &mut watch::Receiver<bool>,
) -> Option<Opened> {
    loop {
        let changed = service.access.changed.notified();
        match open(service, address).await {
            Ok(opened) => return Some(opened),
            Err(error) => {
                service.doors.note_api_closed("api", &format!("https://{address}"), &error, &service.log)
            }
        }
        tokio::select! {
            () = changed => {}
            () = tokio::time::sleep(RETRY) => {}
            () = wait(stopped) => return None,
        }
    }
}

async fn open(service: &Arc<Service>, address: SocketAddr) -> Result<Opened> {
    if !address.ip().is_loopback() && !service.access.lets_anybody_in() {
        service.access.check_known()?;
        return Err(Error::new(
            ErrorKind::Forbidden,
            "there is no user and no token that could come in",
            "make one: `ashlar user create` or `ashlar token create`; the address opens then",
        ));
    }
    let certificate = load(from(service)).await?;
    let listener = TcpListener::bind(address).await;
    let listener = listener.map_err(|error| {
        Error::new(
            ErrorKind::Busy,
            format!("api cannot listen on {address}: {error}"),
            "give this machine that address, or name another one in `api`",
        )
    })?;
    let bound = listener.local_addr().map_err(|error| {
        Error::new(ErrorKind::Medium, format!("api at {address}: {error}"), "start the array again")
    })?;
    tell(service, &certificate);
    let tls = Tls::new(certificate);
    service.gate.set(Secured { tls: tls.clone(), told_days: None });
    Ok(Opened { listener, bound, tls })
}

fn from(service: &Service) -> CertificateFrom {
    CertificateFrom::of(&service.settings.now(), service.state())
}

/// Files may lie where reading takes long, and a key is made by chance.
async fn load(from: CertificateFrom) -> Result<Certificate> {
    tokio::task::spawn_blocking(move || from.load()).await.unwrap_or_else(|_| Err(Error::stopping()))
}

fn tell(service: &Service, certificate: &Certificate) {
    let (days, fingerprint) = (certificate.days_left(), &certificate.fingerprint);
    let whose = if certificate.is_made { "made by the array" } else { "of the settings" };
    service.log.info("tls", format!("certificate {whose}, for {days} days: SHA-256 {fingerprint}"));
    if certificate.is_authority {
        service.log.warning(
            "tls",
            "the certificate of the settings is one of an authority (CA:TRUE): browsers may take it, the command \
             line does not; make one with basicConstraints=critical,CA:FALSE",
        );
    }
}

impl Gate {
    fn get(&self) -> Option<Secured> {
        self.0.lock().expect("no holder of this lock panics").clone()
    }

    fn set(&self, secured: Secured) {
        *self.0.lock().expect("no holder of this lock panics") = Some(secured);
    }
}

impl Service {
    /// The certificate as its file is now, with names of newer settings where the array makes it: read before
    /// anything changes.
    pub(crate) async fn newer_certificate(&self, settings: &Settings) -> Result<Option<Certificate>> {
        if self.gate.get().is_none() {
            return Ok(None);
        }
        // Their paths change at the next start, as those of NBD do.
        let now = Settings { api_names: settings.api_names.clone(), ..(*self.settings.now()).clone() };
        load(CertificateFrom::of(&now, self.state())).await.map(Some)
    }

    /// New connections get this one; those that are open keep theirs. Whether it is another one.
    pub(crate) fn take_certificate(&self, newer: Option<Certificate>) -> bool {
        let Some((secured, newer)) = self.gate.get().zip(newer) else { return false };
        let is_another = secured.tls.certificate().fingerprint != newer.fingerprint;
        if is_another {
            tell(self, &newer);
        }
        secured.tls.replace(newer);
        is_another
    }

    /// Makes the array's own certificate anew before its end, and tells that of another.
    pub(crate) async fn watch_certificate(self: Arc<Self>) {
        loop {
            tokio::time::sleep(LOOK_INTERVAL).await;
            self.look_at_certificate().await;
        }
    }

    async fn look_at_certificate(&self) {
        let from = from(self);
        let is_used = self.gate.get().is_some() || !self.settings.now().nbd_tls_listen.is_empty();
        if is_used && matches!(from, CertificateFrom::Made { .. }) {
            // NBD sees that the files have changed.
            match load(from).await {
                Ok(newer) => {
                    self.take_certificate(Some(newer));
                }
                Err(error) => {
                    self.log.warning("tls", format!("its own certificate is not made anew: {error}"))
                }
            }
            return;
        }
        let Some(secured) = self.gate.get() else { return };
        let now = secured.tls.certificate();
        let days = now.days_left();
        if days < DAYS_LEFT_MIN && secured.told_days != Some(days) {
            self.log.warning(
                "tls",
                format!("the certificate of the settings ends in {days} days: put a new one there, then `ashlar reload`"),
            );
            self.gate.set(Secured { told_days: Some(days), ..secured });
        }
    }
}
