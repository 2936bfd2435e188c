//! What TLS of NBD asks of both sides: our certificate, and one of an authority that we were told.

use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::error::{Error, Result};
use crate::settings::Settings;
use crate::state::State;
use crate::tls::{self, CertificateFrom};

/// Where each file lies and when it changed, be it by another in its place that claims the same time.
type Stamp = [Option<(u64, u64, i64, i64)>; 3];

/// TLS by the files of the settings as they are now.
pub(crate) struct Certificates {
    own: CertificateFrom,
    clients: PathBuf,
    held: Mutex<(Stamp, Arc<ServerConfig>)>,
}

impl Certificates {
    pub(crate) fn load(settings: &Settings, state: &State) -> Result<Certificates> {
        let (own, clients) = (CertificateFrom::of(settings, state), PathBuf::from(&settings.nbd_tls_clients));
        // Before they are read: what changes meanwhile is read again.
        let stamp = stamp(&own, &clients);
        let held = Mutex::new((stamp, config(&own, &clients)?));
        Ok(Certificates { own, clients, held })
    }

    /// What the next client gets. Files that have changed are read again; where they are not good those
    /// before stay in force, and the error says why.
    pub(super) fn now(&self) -> (Arc<ServerConfig>, Option<Error>) {
        let newest = stamp(&self.own, &self.clients);
        let mut held = self.held.lock().expect("no holder of this lock panics");
        if held.0 == newest {
            return (held.1.clone(), None);
        }
        held.0 = newest;
        match config(&self.own, &self.clients) {
            Ok(config) => {
                held.1 = config;
                (held.1.clone(), None)
            }
            Err(error) => (held.1.clone(), Some(error)),
        }
    }
}

fn stamp(own: &CertificateFrom, clients: &Path) -> Stamp {
    let [certificate, key] = own.files();
    [certificate.as_path(), key.as_path(), clients].map(|path| {
        let file = std::fs::metadata(path).ok()?;
        Some((file.dev(), file.ino(), file.ctime(), file.ctime_nsec()))
    })
}

/// TLS by our certificate, for clients whose certificate one of the authorities signed.
fn config(own: &CertificateFrom, clients: &Path) -> Result<Arc<ServerConfig>> {
    let own = own.load()?;
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier =
        WebPkiClientVerifier::builder_with_provider(Arc::new(authorities(clients)?), provider.clone())
            .build()
            .map_err(|error| refused(clients, &error))?;
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("the provider has what the versions ask for")
        .with_client_cert_verifier(verifier)
        .with_cert_resolver(own.resolver());
    Ok(Arc::new(config))
}

/// The authorities in a file.
fn authorities(path: &Path) -> Result<RootCertStore> {
    let bytes = tls::read(path)?;
    let certificates: std::result::Result<Vec<_>, _> = CertificateDer::pem_slice_iter(&bytes).collect();
    let certificates = certificates.map_err(|error| refused(path, &error))?;
    if certificates.is_empty() {
        return Err(refused(path, &"it holds no certificate (PEM)"));
    }
    let mut roots = RootCertStore::empty();
    for certificate in certificates {
        roots.add(certificate).map_err(|error| refused(path, &error))?;
    }
    Ok(roots)
}

fn refused(path: &Path, why: &dyn std::fmt::Display) -> Error {
    let action = "put certificates of authorities there as PEM: the file is read again when it changes";
    Error::new(ashlar_api::ErrorKind::Invalid, format!("NBD over TLS: {}: {why}", path.display()), action)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::fs::File;

    use super::*;

    /// Programs that renew certificates may keep the times of files. The harm: one that has expired stays.
    #[test]
    fn a_file_in_the_place_of_another_with_its_time_is_another() {
        let scratch = tempfile::tempdir().unwrap();
        let [certificate, key, clients, next] =
            ["certificate", "key", "clients", "next"].map(|name| scratch.path().join(name));
        for path in [&certificate, &key, &clients, &next] {
            File::create(path).unwrap();
        }
        let modified = std::fs::metadata(&clients).unwrap().modified().unwrap();
        File::options().write(true).open(&next).unwrap().set_modified(modified).unwrap();
        let own = CertificateFrom::Files { certificate, key };
        let before = stamp(&own, &clients);
        assert!(before == stamp(&own, &clients));
        std::fs::rename(&next, &clients).unwrap();
        assert!(before != stamp(&own, &clients));
    }
}
