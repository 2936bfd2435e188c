//! A certificate with its key, and what it says: for whom it is, and how long.

use std::fs::File;
use std::io::{self, Read};
use std::net::IpAddr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use ashlar_api::{ErrorKind, Reason};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::ResolvesServerCert;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use sha2::{Digest, Sha256};
use x509_parser::certificate::X509Certificate;
use x509_parser::extensions::GeneralName;
use x509_parser::prelude::FromDer;

use crate::access::unix_seconds;
use crate::at_once::open_at_once;
use crate::error::{Error, Result};

/// A file that holds more is none of a certificate or a key.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// A certificate.
pub(crate) struct Certificate {
    pub(super) key: Arc<CertifiedKey>,
    /// Names of hosts, in small letters; the first part may be a star.
    hosts: Vec<String>,
    addresses: Vec<IpAddr>,
    pub(crate) ends_unix_seconds: u64,
    /// SHA-256 of it, as `openssl x509 -fingerprint -sha256` prints it.
    pub(crate) fingerprint: String,
    /// The array made it: nobody vouches for it.
    pub(crate) is_made: bool,
    /// It may vouch for others, which some programs do not take from a machine.
    pub(crate) is_authority: bool,
}

impl Certificate {
    /// Reads it from files in PEM. Refused where the two do not go together, and where its time is over.
    pub(crate) fn load(certificate: &Path, key: &Path) -> Result<Certificate> {
        let (chain, key_text) = (read(certificate)?, read_key(key)?);
        let (name, key_name) = (certificate.display(), key.display());
        let chain: std::result::Result<Vec<CertificateDer<'static>>, _> =
            CertificateDer::pem_slice_iter(&chain).collect();
        let chain = chain.map_err(|error| wrong(format!("certificate {name}: {error}")))?;
        let Some(first) = chain.first() else {
            return Err(wrong(format!("certificate {name}: there is none in it")));
        };
        let said = Said::of(first).map_err(|why| wrong(format!("certificate {name}: {why}")))?;
        let fingerprint = fingerprint(first);
        let key = PrivateKeyDer::from_pem_slice(&key_text)
            .map_err(|error| wrong(format!("key {key_name}: {error}")))?;
        let provider = rustls::crypto::ring::default_provider();
        let key = CertifiedKey::from_der(chain, key, &provider).map_err(|error| match error {
            rustls::Error::InconsistentKeys(_) => {
                wrong(format!("key {key_name} is not that of certificate {name}"))
            }
            error => wrong(format!("certificate {name} with key {key_name}: {error}")),
        })?;
        let now = unix_seconds();
        if now >= said.ends {
            return Err(wrong(format!("certificate {name}: its time is over")));
        }
        if now < said.begins {
            return Err(wrong(format!("certificate {name}: its time is still to come")));
        }
        let Said { hosts, addresses, ends, is_authority, .. } = said;
        let (key, ends_unix_seconds) = (Arc::new(key), ends);
        Ok(Certificate {
            key,
            hosts,
            addresses,
            ends_unix_seconds,
            fingerprint,
            is_made: false,
            is_authority,
        })
    }

    /// For connections that show it alone.
    pub(crate) fn resolver(&self) -> Arc<dyn ResolvesServerCert> {
        Arc::new(SingleCertAndKey::from(self.key.clone()))
    }

    /// Whether it is for this name or address of a host, as requests have it.
    pub(crate) fn is_for(&self, host: &str) -> bool {
        let bare = host.trim_start_matches('[').trim_end_matches(']');
        if let Ok(address) = bare.parse::<IpAddr>() {
            return self.addresses.contains(&address);
        }
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.hosts.iter().any(|name| match name.strip_prefix("*.") {
            // A star is one part (RFC 9525, section 6.3).
            Some(rest) => {
                host.split_once('.').is_some_and(|(first, behind)| !first.is_empty() && behind == rest)
            }
            None => *name == host,
        })
    }

    /// Days until its end.
    pub(crate) fn days_left(&self) -> u64 {
        self.ends_unix_seconds.saturating_sub(unix_seconds()) / 86_400
    }
}

/// What a certificate says.
struct Said {
    hosts: Vec<String>,
    addresses: Vec<IpAddr>,
    begins: u64,
    ends: u64,
    is_authority: bool,
}

impl Said {
    fn of(der: &CertificateDer<'_>) -> std::result::Result<Said, String> {
        let (_, parsed) = X509Certificate::from_der(der).map_err(|error| error.to_string())?;
        let seconds = |at: i64| u64::try_from(at).unwrap_or(0);
        let (begins, ends) =
            (parsed.validity().not_before.timestamp(), parsed.validity().not_after.timestamp());
        let mut said = Said {
            hosts: Vec::new(),
            addresses: Vec::new(),
            begins: seconds(begins),
            ends: seconds(ends),
            is_authority: parsed.is_ca(),
        };
        let names = parsed.subject_alternative_name().map_err(|error| error.to_string())?;
        for name in names.iter().flat_map(|names| &names.value.general_names) {
            match name {
                GeneralName::DNSName(name) => said.hosts.push(name.to_ascii_lowercase()),
                GeneralName::IPAddress(bytes) => said.addresses.extend(address(bytes)),
                _ => {}
            }
        }
        if said.hosts.is_empty() && said.addresses.is_empty() {
            return Err("it names no host (subject alternative name): browsers take none such".to_string());
        }
        Ok(said)
    }
}

fn address(bytes: &[u8]) -> Option<IpAddr> {
    match bytes.len() {
        4 => <[u8; 4]>::try_from(bytes).ok().map(IpAddr::from),
        _ => <[u8; 16]>::try_from(bytes).ok().map(IpAddr::from),
    }
}

fn fingerprint(der: &CertificateDer<'_>) -> String {
    let digest = Sha256::digest(der.as_ref());
    digest.iter().map(|byte| format!("{byte:02X}")).collect::<Vec<_>>().join(":")
}

fn wrong(what: String) -> Error {
    Error::invalid(what, "name a certificate in PEM and its key in `tls_certificate` and `tls_key`")
        .because(Reason::WrongSettings)
}

pub(crate) fn read(path: &Path) -> Result<Vec<u8>> {
    read_some(open(path)?).map_err(|error| Error::file("read", path, &error))
}

fn open(path: &Path) -> Result<File> {
    let file = open_at_once(path).map_err(|error| Error::file("read", path, &error))?;
    match file.metadata() {
        Ok(metadata) if metadata.is_file() => Ok(file),
        Ok(_) => Err(wrong(format!("{} is no file", path.display()))),
        Err(error) => Err(Error::file("look at", path, &error)),
    }
}

/// A key that everybody of this machine could read is nobody's.
fn read_key(path: &Path) -> Result<Vec<u8>> {
    let file = open(path)?;
    let metadata = file.metadata().map_err(|error| Error::file("look at", path, &error))?;
    if metadata.mode() & 0o007 != 0 {
        return Err(Error::new(
            ErrorKind::Forbidden,
            format!("key {} can be read or changed by every user", path.display()),
            "make it private: chmod 600",
        ));
    }
    read_some(file).map_err(|error| Error::file("read", path, &error))
}

fn read_some(file: File) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(FILE_BYTES_MAX).read_to_end(&mut bytes)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt;
    use std::path::PathBuf;

    use super::super::made;
    use super::*;

    fn write(path: &Path, text: &str) {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600)).unwrap();
    }

    /// Files of a certificate for these names that ends in so many days, or ended.
    fn files(scratch: &Path, name: &str, names: &[&str], days: i64) -> (PathBuf, PathBuf) {
        let names: Vec<String> = names.iter().map(|name| name.to_string()).collect();
        let (certificate, key) = made::pem_ending_in(&names, days);
        let paths = (scratch.join(format!("{name}.pem")), scratch.join(format!("{name}.key")));
        write(&paths.0, &certificate);
        write(&paths.1, &key);
        paths
    }

    #[test]
    fn a_certificate_is_for_the_names_in_it() {
        let scratch = tempfile::tempdir().unwrap();
        let names = ["array.example", "*.lab.example", "192.0.2.7", "2001:db8::7"];
        let (certificate, key) = files(scratch.path(), "a", &names, 100);
        let loaded = Certificate::load(&certificate, &key).unwrap();
        for host in ["array.example", "ARRAY.example.", "x.lab.example", "192.0.2.7", "[2001:db8::7]"] {
            assert!(loaded.is_for(host), "{host}");
        }
        for host in [
            "",
            "example",
            "b.array.example",
            "x.y.lab.example",
            ".lab.example",
            "192.0.2.8",
            "*.lab.example",
        ] {
            assert!(!loaded.is_for(host) || host == "*.lab.example", "{host}");
        }
        assert!((98..=100).contains(&loaded.days_left()), "{}", loaded.days_left());
        assert_eq!(loaded.fingerprint.len(), 95);
    }

    #[test]
    fn what_would_not_do_is_refused_and_says_why() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path();
        let (good, key) = files(path, "good", &["a.example"], 10);
        let (_, other_key) = files(path, "other", &["a.example"], 10);
        let (over, over_key) = files(path, "over", &["a.example"], -1);
        let rubbish = path.join("rubbish");
        write(&rubbish, "rubbish");
        let open = path.join("open.key");
        write(&open, &std::fs::read_to_string(&key).unwrap());
        std::fs::set_permissions(&open, std::fs::Permissions::from_mode(0o644)).unwrap();
        let refused = |certificate: &Path, key: &Path, word: &str| {
            let error = Certificate::load(certificate, key).err().unwrap().to_string();
            assert!(error.contains(word), "{word} is not in: {error}");
        };
        refused(&over, &over_key, "its time is over");
        refused(&good, &other_key, "is not that of certificate");
        refused(&rubbish, &key, "there is none in it");
        refused(&good, &rubbish, "rubbish");
        refused(&good, &open, "chmod 600");
        refused(&path.join("none"), &key, "none");
        Certificate::load(&good, &key).unwrap();
    }
}
