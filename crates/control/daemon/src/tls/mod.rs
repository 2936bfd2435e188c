//! The array's certificate, for the API's address and for NBD, and which names it goes by.
//!
//! The certificate is that of the settings, or one that the array makes for itself. It can be read again
//! while the array runs: connections that are open keep the one they have, and a wrong one changes nothing.
//!
//! ```text
//!  tls_certificate, tls_key ──┐
//!                             ├─► Certificate ─► Tls ─► each new connection
//!  STATE/tls/*.pem (made) ────┘                   └───► names that requests may use
//! ```

mod certificate;
mod made;

use std::fmt;
use std::path::PathBuf;
use std::sync::{Arc, RwLock};

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{ServerConfig, SupportedProtocolVersion, version};
use tokio_rustls::TlsAcceptor;

use crate::error::Result;
use crate::settings::{Address, Settings};
use crate::state::State;

pub(crate) use certificate::{Certificate, read};
pub(crate) use made::is_name as is_host;

/// TLS 1.2 is what older programs speak; below it nothing is safe.
static VERSIONS: [&SupportedProtocolVersion; 2] = [&version::TLS13, &version::TLS12];

/// Where the certificate comes from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum CertificateFrom {
    /// Files that the settings name: the certificate with those that lead to its root, and its key.
    Files { certificate: PathBuf, key: PathBuf },
    /// It is made in the state directory, for these names.
    Made { directory: PathBuf, names: Vec<String> },
}

impl CertificateFrom {
    /// As the settings say. One that is made is for all addresses that speak TLS.
    pub(crate) fn of(settings: &Settings, state: &State) -> CertificateFrom {
        match (settings.tls_certificate.as_str(), settings.tls_key.as_str()) {
            ("", _) => {
                let of_api = match settings.api {
                    Address::At(address) => Some(address),
                    Address::Off => None,
                };
                let addresses = of_api.iter().chain(&settings.nbd_tls_listen).map(|address| address.ip());
                let names = made::names(addresses, &settings.api_names);
                CertificateFrom::Made { directory: state.path(made::DIRECTORY), names }
            }
            (certificate, key) => CertificateFrom::Files { certificate: certificate.into(), key: key.into() },
        }
    }

    /// The files of the certificate and its key.
    pub(crate) fn files(&self) -> [PathBuf; 2] {
        match self {
            CertificateFrom::Files { certificate, key } => [certificate.clone(), key.clone()],
            CertificateFrom::Made { directory, .. } => made::files(directory),
        }
    }

    /// Reads the certificate; makes it where there is none yet, or it will not do any more.
    pub(crate) fn load(&self) -> Result<Certificate> {
        match self {
            CertificateFrom::Files { certificate, key } => Certificate::load(certificate, key),
            CertificateFrom::Made { directory, names } => made::load_or_make(directory, names),
        }
    }
}

/// The certificate in force.
#[derive(Clone)]
pub(crate) struct Tls(Arc<Current>);

struct Current(RwLock<Arc<Certificate>>);

impl Tls {
    pub(crate) fn new(certificate: Certificate) -> Tls {
        Tls(Arc::new(Current(RwLock::new(Arc::new(certificate)))))
    }

    /// The one in force.
    pub(crate) fn certificate(&self) -> Arc<Certificate> {
        self.0.0.read().expect("no holder of this lock panics").clone()
    }

    /// New connections get this one.
    pub(crate) fn replace(&self, certificate: Certificate) {
        *self.0.0.write().expect("no holder of this lock panics") = Arc::new(certificate);
    }

    /// What begins TLS on a connection.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&VERSIONS)
            .expect("the provider has suites of both versions")
            .with_no_client_auth()
            .with_cert_resolver(self.0.clone());
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        TlsAcceptor::from(Arc::new(config))
    }
}

impl fmt::Debug for Current {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Current")
    }
}

impl ResolvesServerCert for Current {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.read().expect("no holder of this lock panics").key.clone())
    }
}
