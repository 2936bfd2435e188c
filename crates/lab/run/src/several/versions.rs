//! Which of the installed versions of PostgreSQL the servers are of.

use std::sync::Arc;

use ashlar_postgres::{Found, Installation, MAJOR_MIN, Search};
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
    let newest = Installation::ensure(launcher, &Search::default())?.0;
    let found = Installation::all(launcher, &Search::default())?;
    let older = found.iter().find(|one| is_usable(one) && one.major < newest.major());
    let before = || {
        let older = older.ok_or_else(|| one_major(&newest, &found))?;
        let search = Search { directory: Some(older.directory.clone()), major: Some(older.major) };
        Ok::<_, Error>(Installation::find(launcher, &search)?)
    };
    let of_server = |index: usize| match bases.version {
        Version::Any => Ok(newest.clone()),
        Version::Each if index == 0 || older.is_none() => Ok(newest.clone()),
        Version::Each | Version::Older => before(),
        Version::Newer => before().map(|_| newest.clone()),
    };
    (0..bases.servers.len()).map(of_server).collect()
}

fn is_usable(found: &Found) -> bool {
    found.missing.is_empty() && found.major >= MAJOR_MIN
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
