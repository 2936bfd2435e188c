//! TLS to an array on another machine: whom it must be, and who says so.

use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;

use ashlar_api::ErrorKind;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::{CertificateError, ClientConfig, RootCertStore};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::error::{Error, Result};

/// Where distributions keep the certificates that the machine trusts.
static OF_MACHINE: [&str; 2] = ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"];
/// The port of `https` where none is named.
const PORT: u16 = 443;

/// An array on another machine.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Remote {
    /// Name or address of the machine, which its certificate must have.
    pub host: String,
    pub port: u16,
    /// File with the certificate of who vouches for it, or with its own; absent: whom this machine trusts.
    pub authority: Option<PathBuf>,
}

impl FromStr for Remote {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Remote, String> {
        let wrong = || format!("`{text}` is no address of an array: write https://HOST:PORT");
        let place = text.strip_prefix("https://").ok_or_else(wrong)?.trim_end_matches('/');
        let is_port = |port: &str| !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
        let (host, port) = match place.rsplit_once(':') {
            Some((host, port)) if is_port(port) => (host, port.parse().map_err(|_| wrong())?),
            _ => (place, PORT),
        };
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        ServerName::try_from(host.to_string()).map_err(|_| wrong())?;
        Ok(Remote { host: host.to_string(), port, authority: None })
    }
}

impl Remote {
    /// What requests call it by.
    pub(crate) fn authority_of_uri(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// Begins TLS on a connection.
    pub(crate) async fn secure(&self, stream: TcpStream) -> Result<TlsStream<TcpStream>> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has suites of all versions")
            .with_root_certificates(self.roots()?)
            .with_no_client_auth();
        let name = ServerName::try_from(self.host.clone()).expect("it was checked when it was parsed");
        let connector = TlsConnector::from(Arc::new(config));
        connector.connect(name, stream).await.map_err(|error| self.not_secure(&error))
    }

    fn roots(&self) -> Result<RootCertStore> {
        let of_machine = || OF_MACHINE.iter().map(|path| Path::new(*path)).find(|path| path.is_file());
        let path = self.authority.as_deref().or_else(of_machine);
        let Some(path) = path else { return Ok(RootCertStore::empty()) };
        let unreadable = |why: String| {
            Error::new(
                ErrorKind::Invalid,
                format!("certificates of {}: {why}", path.display()),
                "name a PEM file with --ca",
            )
        };
        let bytes = std::fs::read(path).map_err(|error| unreadable(error.to_string()))?;
        let mut roots = RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(&bytes) {
            let certificate = certificate.map_err(|error| unreadable(error.to_string()))?;
            // Bundles of distributions have some that are no roots to this library.
            let _ = roots.add(certificate);
        }
        match roots.is_empty() {
            true => Err(unreadable("there is none in it".to_string())),
            false => Ok(roots),
        }
    }

    fn not_secure(&self, error: &std::io::Error) -> Error {
        let place = self.authority_of_uri();
        let cause = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
        let action = match cause {
            Some(rustls::Error::InvalidCertificate(why)) if is_authority(why) => {
                "it was made as one of an authority (CA:TRUE), as `openssl req -x509` does: make one with \
                 `-addext basicConstraints=critical,CA:FALSE`, or let an authority sign one"
            }
            Some(rustls::Error::InvalidCertificate(_)) => {
                "give --ca FILE with the certificate that vouches for it; the array's own is tls/certificate.pem of its \
                 state directory, and its log has the fingerprint"
            }
            Some(_) => "look whether it is an array that speaks TLS there",
            None => {
                "it may have as many connections as it takes: ask again, and look at the log of the array"
            }
        };
        Error::new(
            ErrorKind::Closed,
            match cause {
                Some(_) => format!("https://{place} is not trusted or speaks no TLS: {error}"),
                None => format!("https://{place} ended the connection before TLS began: {error}"),
            },
            action,
        )
    }
}

/// Whether a certificate that vouches for others was shown as that of a machine. The library has no name of
/// its own for it.
fn is_authority(why: &CertificateError) -> bool {
    matches!(why, CertificateError::Other(_)) && format!("{why:?}").contains("CaUsedAsEndEntity")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn addresses_of_arrays_are_https_with_a_host() {
        for (text, host, port) in [
            ("https://array.example:9410", "array.example", 9410),
            ("https://array.example/", "array.example", 443),
            ("https://192.0.2.7:9410", "192.0.2.7", 9410),
            ("https://[2001:db8::7]:9410", "2001:db8::7", 9410),
        ] {
            let remote: Remote = text.parse().unwrap();
            assert_eq!((remote.host.as_str(), remote.port), (host, port), "{text}");
        }
        for wrong in [
            "",
            "http://array.example:1",
            "array.example:9410",
            "https://",
            "https://a b:1",
            "https://x:99999",
        ] {
            assert!(wrong.parse::<Remote>().is_err(), "{wrong}");
        }
    }
}
