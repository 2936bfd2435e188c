//! The certificates that a primary's is checked against: the file that `sslrootcert` of its address names is
//! copied, since neither the account of servers nor a server behind its mounts can read any file of root's.
//!
//! ```text
//!  sslrootcert=/root/ca.crt ──► DIRECTORY/primary-root.crt ──► the volume of data, for the standby's server
//! ```

use std::fs;
use std::io::{self, Read};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use crate::error::{Error, Result};
use crate::postgres::{Postgres, failed, remove_file};
use crate::record::Role;
use crate::site::Site;
use crate::url::Primary;

/// The parameter (manual, 34.1.2).
const ROOT: &str = "sslrootcert";
/// Its value that means those of the machine, and no file.
const OF_MACHINE: &str = "system";
const ON_VOLUME: &str = "ashlar-primary-root.crt";
/// Of a file of certificates: all those of a distribution have a quarter of it.
const BYTES_MAX: u64 = 1 << 20;

/// The file that an address names.
fn named(primary: &Primary) -> Option<String> {
    primary.parameter(ROOT).filter(|value| !value.is_empty() && value != OF_MACHINE)
}

fn on_volume(site: &Site) -> PathBuf {
    site.mount(&Role::Data).join(ON_VOLUME)
}

/// Copies the file that an address names; the address with the copy in it.
pub(crate) fn take_in(site: &Site, primary: &Primary) -> Result<Primary> {
    let Some(name) = named(primary) else { return Ok(primary.clone()) };
    let path = Path::new(&name);
    if !path.is_absolute() {
        let what = format!("sslrootcert={} is no absolute path", name.escape_debug());
        return Err(Error::refused(what, "name the file from the root on"));
    }
    let mut bytes = Vec::new();
    let mut read = || fs::File::open(path)?.take(BYTES_MAX + 1).read_to_end(&mut bytes);
    let unreadable = |why: String| {
        let action = "name the file of the certificate that signed the primary's, or leave sslrootcert out";
        Error::refused(format!("sslrootcert={name}: {why}"), action)
    };
    let count = read().map_err(|error| unreadable(error.to_string()))?;
    if count as u64 > BYTES_MAX {
        return Err(unreadable(format!("it has more than {BYTES_MAX} bytes")));
    }
    let copy = site.root_file();
    write_open(&copy, &bytes).map_err(|error| failed("write", &copy, &error))?;
    Ok(reached(site, primary))
}

/// The same address with the copy in it, where there is one.
pub(crate) fn reached(site: &Site, primary: &Primary) -> Primary {
    let copies = [site.root_file(), on_volume(site)];
    match (named(primary), copies.into_iter().find(|copy| copy.is_file())) {
        (Some(_), Some(copy)) => primary.with_instead(ROOT, &copy.display().to_string()),
        _ => primary.clone(),
    }
}

/// The address as the standby's server reaches it.
pub(crate) fn for_server(site: &Site, primary: &Primary) -> Primary {
    match named(primary) {
        Some(_) => primary.with_instead(ROOT, &on_volume(site).display().to_string()),
        None => primary.clone(),
    }
}

/// Puts the copy on the volume of data, for the server.
pub(crate) fn keep(postgres: &Postgres) -> Result<()> {
    let (from, to) = (postgres.site().root_file(), on_volume(postgres.site()));
    if !from.is_file() {
        return Ok(());
    }
    let copy = || write_open(&to, &fs::read(&from)?);
    copy().map_err(|error| failed("write", &to, &error))?;
    postgres.give(&to)
}

/// Removes the copies.
pub(crate) fn forget(site: &Site) -> Result<()> {
    remove_file(&site.root_file())?;
    remove_file(&on_volume(site))
}

/// Anybody may read it: it is what is shown to everybody.
fn write_open(path: &Path, bytes: &[u8]) -> io::Result<()> {
    fs::write(path, bytes)?;
    fs::set_permissions(path, fs::Permissions::from_mode(0o644))
}
