//! By a base backup of a running server: its log is streamed meanwhile, so the copy needs nothing else.

use std::fs::{self, File};
use std::os::unix::fs::PermissionsExt;

use super::server::{Asker, write_pass_file};
use super::{Survey, failed, settings, spaces};
use crate::error::Result;
use crate::postgres::{Postgres, write_secret};
use crate::progress::Teller;
use crate::task::Outcome;
use crate::url::{Primary, Secret};

/// Takes it, and makes it a database of ours, or a standby.
pub(super) fn bring(
    postgres: &mut Postgres,
    primary: &Primary,
    slot: Option<&str>,
    survey: &Survey,
    teller: &mut Teller,
) -> Result<Outcome> {
    let (places, log) = (postgres.site().places(), postgres.site().log());
    let owner = postgres.installation().owner();
    if slot.is_some() {
        write_pass_file(&postgres.pass_file(), primary, owner)?;
    }
    for directory in [&places.data].into_iter().chain(&log).chain(&places.tablespaces) {
        postgres.installation().make_directory(directory)?;
        fs::set_permissions(directory, fs::Permissions::from_mode(0o700))
            .map_err(|error| failed("close", directory, &error))?;
    }
    let asker = Asker::new(postgres.installation(), primary);
    let mut command = asker.client("pg_basebackup")?;
    command.args(["-X", "stream", "--checkpoint=fast", "--no-password", "-d", &primary.url, "-D"]);
    command.arg(&places.data);
    if let Some(log) = &log {
        command.arg("--waldir").arg(log);
    }
    command.args(survey.spaces.iter().map(|space| spaces::mapping(space, postgres.site())));
    if let Some(slot) = slot {
        command.args(["--create-slot", "--slot", slot]);
    }
    teller.stage("takes a base backup", survey.data_bytes)?;
    let launcher = postgres.installation().launcher();
    let running = launcher.start("pg_basebackup", command).map_err(ashlar_postgres::Error::from)?;
    let done = teller.watch(postgres.installation(), running)?;
    if !done.status.success() {
        return Err(asker.refusal(&done.stderr));
    }
    teller.stage("makes it a database of its own", 0)?;
    let is_made_anew = settings::make_missing(postgres, &survey.settings)?;
    let mut notes = settings::take_over(postgres, false)?;
    if is_made_anew {
        notes.push("its settings were asked of the server, which keeps their files elsewhere".to_string());
    }
    postgres.let_in(survey.superuser.as_deref().unwrap_or("postgres"))?;
    postgres.adopt_import()?;
    if slot.is_some() {
        let signal = places.data.join("standby.signal");
        File::create(&signal).map_err(|error| failed("write", &signal, &error))?;
        postgres.give(&signal)?;
        // Its superuser's password is the primary's, and known where that is who asks.
        if let Some(Secret(password)) = &primary.password
            && survey.superuser.as_ref() == Some(&primary.user)
        {
            write_secret(&postgres.password_on_volume(), password)?;
        }
    }
    postgres.sync()?;
    Ok(Outcome { superuser: survey.superuser.clone(), notes, ..postgres.outcome() })
}
