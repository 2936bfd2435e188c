//! Which of the installed versions of PostgreSQL the servers are of.

use std::sync::Arc;

use ashlar_postgres::{Found, Installation, Search};
use ashlar_programs::Launcher;
use ashlar_scenario::{Load, Plan, Servers, Version};

use crate::{Error, Result};

/// That a plan can be run with what is installed: before anything is written.
pub(crate) fn check(launcher: &Arc<Launcher>, plan: &Plan) -> Result<()> {
    for variant in &plan.variants {
        if let Load::Several(load) = &variant.load
            && matches!(load.bases.version, Version::Newer | Version::Older)
        {
            choose(launcher, &load.bases)?;
        }
    }
    Ok(())
}

/// One for each server.
pub(crate) fn choose(launcher: &Arc<Launcher>, bases: &Servers) -> Result<Vec<Installation>> {
    let usual = Installation::ensure(launcher, &Search::default())?.0;
    let found = Installation::all(launcher, &Search::default())?;
    let majors = majors(&found);
    let two = || match majors[..] {
        [newer, older, ..] => {
            Ok::<_, Error>([Installation::of(launcher, newer)?, Installation::of(launcher, older)?])
        }
        _ => Err(one_major(&usual, &found)),
    };
    let of_server = |index: usize| match bases.version {
        Version::Any => Ok(usual.clone()),
        Version::Each if majors.len() < 2 => Ok(usual.clone()),
        Version::Each => two().map(|[newer, older]| if index == 0 { newer } else { older }),
        Version::Newer => two().map(|[newer, _]| newer),
        Version::Older => two().map(|[_, older]| older),
    };
    (0..bases.servers.len()).map(of_server).collect()
}

/// The newest of each major version that can be used, the newest first.
fn majors(found: &[Found]) -> Vec<&Found> {
    let mut usable: Vec<&Found> = found.iter().filter(|one| one.is_usable()).collect();
    usable.dedup_by_key(|one| one.major);
    usable
}

fn one_major(newest: &Installation, found: &[Found]) -> Error {
    let lacking = found.iter().filter(|one| !one.missing.is_empty()).map(|one| {
        format!("; {} in {} lacks {}", one.version, one.directory.display(), one.missing.join(", "))
    });
    Error::environment(format!(
        "two major versions of PostgreSQL are compared, and only {} in {} can be used{}: install another one \
         beside it (from the PostgreSQL project's own packages, or any build in /opt/postgresql/MAJOR) and run again",
        newest.version(),
        newest.directory().display(),
        lacking.collect::<String>()
    ))
}
