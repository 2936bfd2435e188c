//! A certificate that the array makes for itself, where the settings name none.
//!
//! Nobody vouches for it: whoever connects compares its fingerprint, or takes the file as what he trusts. So
//! it is kept as long as it will do, and made anew only when its end is near or a name is missing.

use std::net::IpAddr;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use ashlar_api::ErrorKind;

use super::Certificate;
use crate::error::{Error, Result};

/// Where it is in the state directory.
pub(super) const DIRECTORY: &str = "tls";
const CERTIFICATE: &str = "certificate.pem";
const KEY: &str = "key.pem";

/// How long it lasts. Arbitrary: browsers take no more than 825 days of one that is trusted by hand.
const DAYS: i64 = 730;
/// It is made anew so long before its end.
const DAYS_LEFT_MIN: u64 = 30;
/// Clocks of others may be behind by so much.
const DAYS_BEFORE: u64 = 1;

/// What this machine is called at its addresses, with more names that somebody gave.
pub(super) fn names(addresses: impl Iterator<Item = IpAddr>, more: &[String]) -> Vec<String> {
    let machine = rustix::system::uname().nodename().to_string_lossy().into_owned();
    let own = [machine, "localhost".to_string(), "127.0.0.1".to_string(), "::1".to_string()];
    let addresses = addresses.map(|address| address.to_string());
    let mut names: Vec<String> = own.into_iter().chain(addresses).chain(more.iter().cloned()).collect();
    names.retain(|name| is_name(name));
    names.sort();
    names.dedup();
    names
}

/// What may stand in a certificate as the name or address of a host.
pub(crate) fn is_name(name: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_alphanumeric() || b"-._*".contains(&byte);
    let is_host = (1..=253).contains(&name.len()) && name.bytes().all(is_letter);
    is_host || name.parse::<IpAddr>().is_ok()
}

/// Where the certificate and its key are.
pub(super) fn files(directory: &Path) -> [PathBuf; 2] {
    [CERTIFICATE, KEY].map(|name| directory.join(name))
}

/// The one that is there, if it will do, or a new one.
pub(super) fn load_or_make(directory: &Path, names: &[String]) -> Result<Certificate> {
    let [certificate, key] = files(directory);
    let kept = Certificate::load(&certificate, &key).ok();
    let does =
        |kept: &Certificate| kept.days_left() >= DAYS_LEFT_MIN && names.iter().all(|name| kept.is_for(name));
    let mut loaded = match kept.filter(does) {
        Some(kept) => kept,
        None => {
            make(directory, names)?;
            Certificate::load(&certificate, &key)?
        }
    };
    loaded.is_made = true;
    Ok(loaded)
}

fn make(directory: &Path, names: &[String]) -> Result<()> {
    match std::fs::DirBuilder::new().mode(0o700).create(directory) {
        Err(error) if error.kind() != std::io::ErrorKind::AlreadyExists => {
            return Err(Error::file("make", directory, &error));
        }
        _ => {}
    }
    let (certificate, key) = pem(names, DAYS).map_err(|error| {
        Error::new(
            ErrorKind::Medium,
            format!("make a certificate: {error}"),
            "name one in `tls_certificate` and `tls_key`",
        )
    })?;
    // A crash between the two leaves a pair that does not go together: it is made anew.
    write(directory, KEY, &key)?;
    write(directory, CERTIFICATE, &certificate)
}

/// Written aside and renamed, for its owner alone.
fn write(directory: &Path, name: &str, text: &str) -> Result<()> {
    use std::io::Write;
    let (path, aside) = (directory.join(name), directory.join(format!("{name}.new")));
    let write = || -> std::io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&aside)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        std::fs::rename(&aside, &path)?;
        std::fs::File::open(directory)?.sync_all()
    };
    write().map_err(|error| Error::file("write", &path, &error))
}

/// A certificate that signs itself, and its key.
fn pem(names: &[String], days: i64) -> std::result::Result<(String, String), rcgen::Error> {
    let key = rcgen::KeyPair::generate()?;
    let mut wanted = rcgen::CertificateParams::new(names.to_vec())?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let at = |since: Duration| rcgen::date_time_ymd(1970, 1, 1) + since;
    let day = Duration::from_secs(86_400);
    wanted.not_before = at(now.saturating_sub(day * (DAYS_BEFORE as u32 + u32::from(days < 0) * 100)));
    wanted.not_after = match u32::try_from(days) {
        Ok(days) => at(now + day * days),
        Err(_) => at(now.saturating_sub(day * u32::try_from(-days).unwrap_or(1))),
    };
    wanted.distinguished_name.push(rcgen::DnType::CommonName, "Ashlar");
    wanted.extended_key_usages = vec![rcgen::ExtendedKeyUsagePurpose::ServerAuth];
    let made = wanted.self_signed(&key)?;
    Ok((made.pem(), key.serialize_pem()))
}

/// One that ends in so many days, or ended so many days ago.
#[cfg(test)]
pub(super) fn pem_ending_in(names: &[String], days: i64) -> (String, String) {
    pem(names, days).expect("the names are good")
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn one_is_made_once_and_anew_when_it_will_not_do() {
        let scratch = tempfile::tempdir().unwrap();
        let directory = scratch.path().join(DIRECTORY);
        let address = "192.0.2.7".parse::<IpAddr>().ok();
        let own = names(address.into_iter(), &["array.example".to_string()]);
        let first = load_or_make(&directory, &own).unwrap();
        assert!(first.is_made && first.is_for("192.0.2.7") && first.is_for("array.example"));
        assert!(first.is_for("localhost") && !first.is_for("192.0.2.8"));
        for (path, mode) in [(directory.clone(), 0o700), (directory.join(KEY), 0o600)] {
            assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, mode, "{}", path.display());
        }
        let again = load_or_make(&directory, &own).unwrap();
        assert_eq!(again.fingerprint, first.fingerprint);
        // A name more.
        let more = names(address.into_iter(), &["other.example".to_string()]);
        let other = load_or_make(&directory, &more).unwrap();
        assert!(other.fingerprint != first.fingerprint && other.is_for("other.example"));
        // Its end is near.
        let (certificate, key) = pem_ending_in(&more, DAYS_LEFT_MIN as i64 - 1);
        write(&directory, CERTIFICATE, &certificate).unwrap();
        write(&directory, KEY, &key).unwrap();
        assert!(load_or_make(&directory, &more).unwrap().days_left() > DAYS_LEFT_MIN);
        // Half of it is lost.
        std::fs::remove_file(directory.join(KEY)).unwrap();
        assert!(load_or_make(&directory, &more).unwrap().is_for("other.example"));
    }

    #[test]
    fn names_are_hosts_and_addresses() {
        assert!(is_name("array.example") && is_name("*.lab.example") && is_name("::1"));
        assert!(!is_name("") && !is_name("a b") && !is_name("a/b") && !is_name("ä.example"));
    }
}
