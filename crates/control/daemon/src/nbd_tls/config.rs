//! What TLS of NBD asks of both sides: our certificate, and one of an authority that we were told.

use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::error::{Error, Result};
use crate::settings::Settings;

/// When each file changed last.
type Stamp = [Option<SystemTime>; 3];

/// TLS by the files of the settings as they are now.
pub(crate) struct Certificates {
    settings: Arc<Settings>,
    held: Mutex<(Stamp, Arc<ServerConfig>)>,
}

impl Certificates {
    pub(crate) fn load(settings: Arc<Settings>) -> Result<Certificates> {
        let stamp = stamp(&settings);
        let config = config(&settings)?;
        Ok(Certificates { settings, held: Mutex::new((stamp, config)) })
    }

    /// What the next client gets. Files that have changed are read again; where they are not good those
    /// before stay in force, and the error says why.
    pub(super) fn now(&self) -> (Arc<ServerConfig>, Option<Error>) {
        let newest = stamp(&self.settings);
        let mut held = self.held.lock().expect("no holder of this lock panics");
        if held.0 == newest {
            return (held.1.clone(), None);
        }
        held.0 = newest;
        match config(&self.settings) {
            Ok(config) => {
                held.1 = config;
                (held.1.clone(), None)
            }
            Err(error) => (held.1.clone(), Some(error)),
        }
    }
}

fn stamp(settings: &Settings) -> Stamp {
    [&settings.tls_certificate, &settings.tls_key, &settings.nbd_tls_clients]
        .map(|path| std::fs::metadata(path).and_then(|file| file.modified()).ok())
}

/// TLS by our certificate, for clients whose certificate one of the authorities signed.
fn config(settings: &Settings) -> Result<Arc<ServerConfig>> {
    let certificates = certificates(&settings.tls_certificate)?;
    let key = PrivateKeyDer::from_pem_file(&settings.tls_key)
        .map_err(|error| refused(&settings.tls_key, &error))?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let authorities = Arc::new(authorities(&settings.nbd_tls_clients)?);
    let verifier = WebPkiClientVerifier::builder_with_provider(authorities, provider.clone())
        .build()
        .map_err(|error| refused(&settings.nbd_tls_clients, &error))?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has what the versions ask for")
        .with_client_cert_verifier(verifier)
        .with_single_cert(certificates, key)
        .map_err(|error| refused(&settings.tls_certificate, &error))?;
    Ok(Arc::new(config))
}

fn certificates(path: &str) -> Result<Vec<CertificateDer<'static>>> {
    let read = || CertificateDer::pem_file_iter(Path::new(path))?.collect::<std::result::Result<Vec<_>, _>>();
    let certificates = read().map_err(|error| refused(path, &error))?;
    match certificates.is_empty() {
        true => Err(refused(path, &"it holds no certificate (PEM)")),
        false => Ok(certificates),
    }
}

fn authorities(path: &str) -> Result<RootCertStore> {
    let mut roots = RootCertStore::empty();
    for certificate in certificates(path)? {
        roots.add(certificate).map_err(|error| refused(path, &error))?;
    }
    Ok(roots)
}

fn refused(path: &str, why: &dyn std::fmt::Display) -> Error {
    let action = "put certificates and key there as PEM: they are read again when they change";
    Error::new(ashlar_api::ErrorKind::Invalid, format!("NBD over TLS: {path}: {why}"), action)
}
