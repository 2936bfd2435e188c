//! TLS of a session, as libpq's parameters ask for it: `sslmode` and `sslrootcert` in the address, or else
//! `PGSSLMODE` and `PGSSLROOTCERT` in the environment (manual, 34.19).
//!
//! | sslmode | encrypted | certificate checked | name checked |
//! | --- | --- | --- | --- |
//! | `disable` | no | no | no |
//! | `prefer` (where nothing is said) | where the server does it | no | no |
//! | `require` | yes | where roots are named | no |
//! | `verify-ca` | yes | yes | no |
//! | `verify-full` | yes | yes | yes |
//!
//! What is asked for and cannot be had is an error, and never a session without it.

use std::future::Future;
use std::io;
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{verify_server_cert_signed_by_trust_anchor, verify_server_name};
use rustls::crypto::{WebPkiSupportedAlgorithms, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::ParsedCertificate;
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio_postgres::config::SslMode;
use tokio_postgres::tls::{ChannelBinding, MakeTlsConnect, TlsConnect, TlsStream};
use tokio_rustls::TlsConnector;

use crate::error::{Error, Result};

/// Variables of the environment that libpq reads, too.
const MODE: &str = "PGSSLMODE";
const ROOTS: &str = "PGSSLROOTCERT";
/// Where libpq looks for roots that nobody named, below the home.
const ROOTS_OF_HOME: &str = ".postgresql/root.crt";
/// In the place of a file: those that this machine trusts.
const SYSTEM: &str = "system";
/// Where Debian keeps them.
const SYSTEM_ROOTS: &str = "/etc/ssl/certs/ca-certificates.crt";

/// How much is asked for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(crate) enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// What an address asks for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Asked {
    pub(crate) mode: Mode,
    /// A file of certificates that are trusted.
    roots: Option<PathBuf>,
}

impl Mode {
    fn parse(text: &str) -> Option<Mode> {
        Some(match text {
            "disable" => Mode::Disable,
            "prefer" => Mode::Prefer,
            "require" => Mode::Require,
            "verify-ca" => Mode::VerifyCa,
            "verify-full" => Mode::VerifyFull,
            _ => return None,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Mode::Disable => "disable",
            Mode::Prefer => "prefer",
            Mode::Require => "require",
            Mode::VerifyCa => "verify-ca",
            Mode::VerifyFull => "verify-full",
        }
    }

    /// As the client library knows it: it leaves certificates to us.
    pub(crate) fn of_client(self) -> SslMode {
        match self {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        }
    }
}

impl Asked {
    /// None: of a socket of this machine.
    pub(crate) fn none() -> Asked {
        Asked { mode: Mode::Disable, roots: None }
    }

    /// Takes its two parameters out of an address; what the address does not say, the environment does.
    pub(crate) fn take(url: &str) -> Result<(String, Asked)> {
        Asked::take_beside(url, |name| std::env::var(name).ok())
    }

    fn take_beside(url: &str, environment: impl Fn(&str) -> Option<String>) -> Result<(String, Asked)> {
        let (head, query) = url.split_once('?').unwrap_or((url, ""));
        let (mut mode, mut roots, mut others) = (None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value.to_string()),
                Some(("sslrootcert", value)) => roots = Some(decoded(value)),
                _ => others.push(pair),
            }
        }
        let mode = match mode.or_else(|| environment(MODE)) {
            None => Mode::Prefer,
            Some(text) => Mode::parse(&text).ok_or_else(|| {
                Error::environment(format!(
                    "sslmode={text}: it is one of disable, prefer, require, verify-ca, verify-full"
                ))
            })?,
        };
        let roots = roots.or_else(|| environment(ROOTS)).map(PathBuf::from);
        let rest = if others.is_empty() { head.to_string() } else { format!("{head}?{}", others.join("&")) };
        Ok((rest, Asked { mode, roots }))
    }

    /// What is looked at of a certificate.
    pub(crate) fn in_words(&self) -> &'static str {
        match self.mode {
            Mode::VerifyFull => "its certificate and its name checked",
            Mode::VerifyCa => "its certificate checked, its name not",
            Mode::Require if self.roots.is_some() => "its certificate checked, its name not",
            Mode::Disable | Mode::Prefer | Mode::Require => "its certificate not checked",
        }
    }

    /// What a session is opened with.
    pub(crate) fn connector(&self) -> Result<Tls> {
        let provider = Arc::new(ring::default_provider());
        let check = Check {
            mode: self.mode,
            trusted: self.trusted()?,
            algorithms: provider.signature_verification_algorithms,
        };
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| Error::environment(format!("TLS: {error}")))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(check))
            .with_no_client_auth();
        Ok(Tls { connector: TlsConnector::from(Arc::new(config)) })
    }

    /// The certificates that are trusted, where any is to be checked against them.
    fn trusted(&self) -> Result<Option<Trusted>> {
        let path = match &self.roots {
            Some(path) if path == Path::new(SYSTEM) => PathBuf::from(SYSTEM_ROOTS),
            Some(path) => path.clone(),
            None if self.mode < Mode::VerifyCa => return Ok(None),
            None => self.roots_of_home()?,
        };
        if self.mode < Mode::Require {
            return Ok(None);
        }
        Trusted::read(&path).map(Some)
    }

    fn roots_of_home(&self) -> Result<PathBuf> {
        let path = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(ROOTS_OF_HOME));
        path.filter(|path| path.exists()).ok_or_else(|| {
            Error::environment(format!(
                "sslmode={}: it takes certificates to check against: name their file as sslrootcert=FILE, or \
                 sslrootcert=system for those that this machine trusts",
                self.mode.name()
            ))
        })
    }

    /// Why no session came of it, where TLS is why; in words that say what to do.
    pub(crate) fn explained(&self, error: &dyn std::error::Error) -> Option<String> {
        let mut text = String::new();
        let mut cause = Some(error);
        while let Some(one) = cause {
            text += &format!("{one}\n");
            cause = one.source();
        }
        let mode = self.mode.name();
        let roots = match &self.roots {
            Some(path) if path == Path::new(SYSTEM) => SYSTEM_ROOTS.to_string(),
            Some(path) => path.display().to_string(),
            None => ROOTS_OF_HOME.to_string(),
        };
        let has = |word: &str| text.contains(word);
        if has("does not support TLS") {
            return Some(format!("the server does no TLS, and sslmode={mode} asks for it"));
        }
        if has("no hostname") {
            return Some(format!("sslmode={mode}: a socket of this machine has no TLS: leave sslmode out"));
        }
        if has("UnknownIssuer") || has("BadSignature") || has("CaUsedAsEndEntity") {
            return Some(format!(
                "sslmode={mode}: the server's certificate is signed by none of those in {roots}"
            ));
        }
        if has("NotValidForName") || has("not valid for name") {
            let why = "the server's certificate is of another name";
            return Some(format!(
                "sslmode={mode}: {why}: name it as the certificate does, or take verify-ca"
            ));
        }
        if has("Expired") || has("NotValidYet") || has("expired") || has("not valid yet") {
            return Some(format!("sslmode={mode}: the server's certificate is out of its time"));
        }
        has("TLS handshake").then(|| format!("sslmode={mode}: {}", text.trim().replace('\n', ": ")))
    }
}

/// `%2F` is a slash.
fn decoded(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let digits = behind.get(..2).filter(|_| *first == b'%').and_then(|two| std::str::from_utf8(two).ok());
        match digits.and_then(|two| u8::from_str_radix(two, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &behind[2..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Certificates of a file.
#[derive(Debug)]
struct Trusted {
    roots: RootCertStore,
    /// As they stand: a server that made its own certificate is trusted where that very one is named.
    certificates: Vec<CertificateDer<'static>>,
}

impl Trusted {
    fn read(path: &Path) -> Result<Trusted> {
        let shown = path.display();
        let unread = |error: &dyn std::fmt::Display| {
            Error::environment(format!("sslrootcert={shown}: {error}: it is a file of certificates in PEM"))
        };
        let read = CertificateDer::pem_file_iter(path).map_err(|error| unread(&error))?;
        let certificates =
            read.collect::<std::result::Result<Vec<_>, _>>().map_err(|error| unread(&error))?;
        if certificates.is_empty() {
            return Err(unread(&"no certificate is in it"));
        }
        let mut roots = RootCertStore::empty();
        // One that no path could be built on trusts nobody.
        let _unusable = roots.add_parsable_certificates(certificates.iter().cloned());
        Ok(Trusted { roots, certificates })
    }
}

/// Looks at the server's certificate as the mode asks.
#[derive(Debug)]
struct Check {
    mode: Mode,
    trusted: Option<Trusted>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl ServerCertVerifier for Check {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        now: UnixTime,
    ) -> std::result::Result<ServerCertVerified, rustls::Error> {
        let Some(trusted) = &self.trusted else { return Ok(ServerCertVerified::assertion()) };
        let certificate = ParsedCertificate::try_from(end_entity)?;
        if !trusted.certificates.iter().any(|known| known.as_ref() == end_entity.as_ref()) {
            let algorithms = self.algorithms.all;
            let (roots, chain) = (&trusted.roots, intermediates);
            verify_server_cert_signed_by_trust_anchor(&certificate, roots, chain, now, algorithms)?;
        }
        if self.mode == Mode::VerifyFull {
            verify_server_name(&certificate, server_name)?;
        }
        Ok(ServerCertVerified::assertion())
    }

    // Whoever answers has the key of the certificate, whatever it is worth.
    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> std::result::Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

/// Encrypts connections, for the client library.
#[derive(Clone)]
pub(crate) struct Tls {
    connector: TlsConnector,
}

/// The same to one server.
pub(crate) struct ToServer {
    connector: TlsConnector,
    name: ServerName<'static>,
}

/// A connection that is encrypted.
pub(crate) struct Encrypted<S>(tokio_rustls::client::TlsStream<S>);

impl<S> MakeTlsConnect<S> for Tls
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type TlsConnect = ToServer;
    type Error = io::Error;

    fn make_tls_connect(&mut self, domain: &str) -> io::Result<ToServer> {
        // A socket of this machine has no name; nothing is encrypted there.
        let named = if domain.is_empty() { "localhost" } else { domain };
        let name = ServerName::try_from(named.to_string()).map_err(io::Error::other)?;
        Ok(ToServer { connector: self.connector.clone(), name })
    }
}

impl<S> TlsConnect<S> for ToServer
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    type Stream = Encrypted<S>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = io::Result<Encrypted<S>>> + Send>>;

    fn connect(self, stream: S) -> Self::Future {
        Box::pin(async move { Ok(Encrypted(self.connector.connect(self.name, stream).await?)) })
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> TlsStream for Encrypted<S> {
    fn channel_binding(&self) -> ChannelBinding {
        ChannelBinding::none()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Encrypted<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        into: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, into)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Encrypted<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asked(url: &str, mode: Option<&str>) -> Result<(String, Asked)> {
        Asked::take_beside(url, |name| (name == MODE).then(|| mode.map(str::to_string)).flatten())
    }

    #[test]
    fn the_parameters_of_tls_are_taken_out_and_the_others_stay() {
        let url = "postgres://me@db/x?sslmode=verify-full&connect_timeout=3&sslrootcert=%2Fetc%2Fca.pem";
        let (rest, found) = asked(url, None).unwrap();
        assert_eq!(rest, "postgres://me@db/x?connect_timeout=3");
        assert_eq!(found, Asked { mode: Mode::VerifyFull, roots: Some("/etc/ca.pem".into()) });
        let (rest, found) = asked("postgres://db", None).unwrap();
        assert_eq!((rest.as_str(), found.mode), ("postgres://db", Mode::Prefer));
        assert_eq!(asked("postgres://db", Some("require")).unwrap().1.mode, Mode::Require);
        assert_eq!(asked("postgres://db?sslmode=disable", Some("require")).unwrap().1.mode, Mode::Disable);
        let refused = asked("postgres://db?sslmode=verify", None).unwrap_err();
        assert!(refused.context.contains("sslmode=verify: it is one of"), "{refused}");
    }

    #[test]
    fn to_check_takes_certificates_and_a_file_that_has_them() {
        let directory = tempfile::tempdir().unwrap();
        let empty = directory.path().join("empty.pem");
        std::fs::write(&empty, "no certificate\n").unwrap();
        for roots in [directory.path().join("none.pem"), empty] {
            let asked = Asked { mode: Mode::VerifyCa, roots: Some(roots.clone()) };
            let refused = asked.connector().err().unwrap();
            assert!(refused.context.contains(&roots.display().to_string()), "{refused}");
        }
        assert!(Asked { mode: Mode::Require, roots: None }.connector().is_ok());
    }
}
