//! Files that another machine had become this one's again.
//!
//! The other machine may have its server under an account of another number, and its root may have put
//! anything on the volumes: what leads out of them is refused, as in a copy.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use ashlar_postgres::Adoption;

use crate::error::{Error, Result};
use crate::postgres::{Postgres, failed};

pub(crate) fn take_back(postgres: &Postgres) -> Result<()> {
    let site = postgres.site();
    let password = postgres.password_on_volume();
    if fs::symlink_metadata(&password).is_ok_and(|found| !found.is_file()) {
        let what = format!("{} is no plain file any more", password.display());
        return Err(Error::refused(what, "delete the clone: the other machine changed what is not its own"));
    }
    if let Some((user, _)) = postgres.installation().owner() {
        for role in &site.roles {
            give_all(postgres, site.mount(role), user)?;
        }
    }
    // It was led into itself when it was made: every link is to lead there still.
    let shared = vec![site.directory.clone()];
    postgres.server().adopt(&Adoption { moves: Vec::new(), shared })?;
    Ok(())
}

/// Gives whatever is no root's to the server's account. No link is followed.
fn give_all(postgres: &Postgres, mount: PathBuf, user: u32) -> Result<()> {
    let mut left = vec![mount];
    while let Some(path) = left.pop() {
        let found = fs::symlink_metadata(&path).map_err(|error| failed("look at", &path, &error))?;
        if found.uid() != user && found.uid() != 0 {
            postgres.give(&path)?;
        }
        if found.is_dir() {
            left.extend(entries(&path)?);
        }
    }
    Ok(())
}

fn entries(directory: &Path) -> Result<Vec<PathBuf>> {
    let context = |error: std::io::Error| failed("read", directory, &error);
    let all = fs::read_dir(directory).map_err(context)?;
    all.map(|entry| entry.map(|entry| entry.path()).map_err(context)).collect()
}
