//! `ashlar pool add-drive`, `remove-drive`, `replace-drive`, `online-drive`, `offline-drive`: the life of a
//! pool's drives.

use std::time::Duration;

use ashlar_api::{Drive, DriveOnline, DriveSpec, DrivesAdd, Pool as PoolView, PoolState, Rebuild, Removal};
use ashlar_client::Client;

use super::show;
use crate::Context;
use crate::ask::confirm;
use crate::failure::{Failure, Result};
use crate::output::size;
use crate::parse;
use crate::progress::{Progress, line};

/// How often a rebuild is asked after. Arbitrary: often enough to see it move.
const ASK_INTERVAL: Duration = Duration::from_millis(200);
/// Answers in a row that show a drive neither rebuilt nor waiting for its turn, before it is given up:
/// five seconds. Arbitrary: between two rebuilds there is a moment without one.
const IDLE_ANSWERS_MAX: u32 = 25;

/// Add drives to a pool: there is more room at once, and nothing is moved.
///
/// In a pool with protection they make rows of their own, so that at least as many are added at once as its
/// rows are wide.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar pool add-drive main --drive /dev/nvme8n1")]
pub struct AddDrive {
    /// Name of the pool.
    pool: String,
    /// A block device or a file; `size=` makes the file. May be given several times.
    #[arg(long = "drive", value_name = "PATH[,size=SIZE]", required = true, value_parser = parse::drive)]
    drives: Vec<DriveSpec>,
}

/// Let a drive leave a pool without protection for good, while the pool serves.
///
/// Nothing new goes onto it from now on, and what is on it moves to the other drives in the background,
/// behind the hosts. When nothing is left the drive no longer carries the pool. `ashlar pool show` tells how
/// far it is; until the end `ashlar pool online-drive` takes the drive back. The numbers of the other drives
/// stay, and its own is not used again.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar pool remove-drive main 1 --wait")]
pub struct RemoveDrive {
    /// Name of the pool.
    pool: String,
    /// Number of the drive, as `ashlar pool show` tells it.
    number: u32,
    /// Return when the drive has left, with progress on stderr.
    #[arg(long)]
    wait: bool,
}

/// Put a new drive in the place of one that is out of service, and rebuild what it lacks.
///
/// The pool serves meanwhile, and writes to the new drive from the start. A drive that is in service is
/// taken out first: `ashlar pool offline-drive`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar pool replace-drive main 3 --with /dev/nvme7n1 --wait")]
pub struct ReplaceDrive {
    /// Name of the pool.
    pool: String,
    /// Number of the drive, as `ashlar pool show` tells it.
    number: u32,
    /// A block device or a file that is at least as large as the pool needs; `size=` makes the file.
    #[arg(long, value_name = "PATH[,size=SIZE]", value_parser = parse::drive)]
    with: DriveSpec,
    /// Return when the rebuild is over, with its progress on stderr.
    #[arg(long)]
    wait: bool,
}

/// Take a drive back into service that was away, and rebuild only what was written meanwhile.
///
/// One that is leaving stays.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar pool online-drive main 3 --drive /dev/nvme7n1")]
pub struct OnlineDrive {
    /// Name of the pool.
    pool: String,
    /// Number of the drive, as `ashlar pool show` tells it.
    number: u32,
    /// Where the drive is [default: where it was].
    #[arg(long, value_name = "PATH", value_parser = parse::path_text)]
    drive: Option<String>,
    /// Return when the rebuild is over, with its progress on stderr.
    #[arg(long)]
    wait: bool,
}

/// Take a drive out of service, if the pool can do without it.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar pool offline-drive main 3 --yes")]
pub struct OfflineDrive {
    /// Name of the pool.
    pool: String,
    /// Number of the drive, as `ashlar pool show` tells it.
    number: u32,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

impl AddDrive {
    pub fn run(self, context: &Context) -> Result<()> {
        let pool = context.client()?.drives_add(&self.pool, &DrivesAdd { drives: self.drives })?;
        Ok(context.output.print(&pool, show)?)
    }
}

impl RemoveDrive {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        let pool = client.drive_remove(&self.pool, self.number)?;
        if self.wait {
            let pool = until_removed(&client, pool, self.number)?;
            return Ok(context.output.print(&pool, show)?);
        }
        Ok(context.output.print(&pool, |pool| {
            let (name, number) = (&pool.name, self.number);
            format!(
                "{}drive {number} is leaving: `ashlar pool show {name}` tells how far, \
                 `ashlar pool online-drive {name} {number}` takes it back\n",
                show(pool)
            )
        })?)
    }
}

impl ReplaceDrive {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        let pool = client.drive_replace(&self.pool, self.number, &self.with)?;
        let pool = if self.wait { until_rebuilt(&client, pool, self.number)? } else { pool };
        Ok(context.output.print(&pool, show)?)
    }
}

impl OnlineDrive {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        let pool = client.drive_online(&self.pool, self.number, &DriveOnline { path: self.drive })?;
        let pool = if self.wait { until_rebuilt(&client, pool, self.number)? } else { pool };
        Ok(context.output.print(&pool, show)?)
    }
}

impl OfflineDrive {
    pub fn run(self, context: &Context) -> Result<()> {
        let (name, number) = (&self.pool, self.number);
        let question =
            format!("take drive {number} of pool `{name}` out of service? It survives one loss less.");
        confirm(self.yes, &question)?;
        let pool = context.client()?.drive_offline(name, number)?;
        Ok(context.output.print(&pool, show)?)
    }
}

/// Asks after a drive until it has left.
fn until_removed(client: &Client, pool: PoolView, number: u32) -> Result<PoolView> {
    let mut pool = pool;
    let mut progress = Progress::new("removal", 0);
    let done = loop {
        match pool.drives.iter().find(|drive| drive.number == Some(number)) {
            None => break Ok(()),
            Some(drive) if drive.state != "leaving" => break Err(format!("it is {} again", drive.state)),
            Some(_) => {}
        }
        match &pool.removal {
            Some(Removal { trouble: Some(trouble), .. }) => break Err(trouble.clone()),
            Some(removal) => progress.show_line(|_| removal_line(removal)),
            None => {}
        }
        std::thread::sleep(ASK_INTERVAL);
        pool = match client.pool(&pool.name) {
            Ok(pool) => pool,
            Err(error) => {
                progress.end();
                return Err(error.into());
            }
        };
    };
    progress.end();
    done.map_err(|why| {
        let name = &pool.name;
        Failure::new(format!(
            "drive {number} of pool `{name}` has not left: {why}: while it is leaving it is tried again, \
             `ashlar pool online-drive {name} {number}` takes it back"
        ))
    })?;
    Ok(pool)
}

fn removal_line(removal: &Removal) -> String {
    let elapsed = Duration::from_millis(removal.elapsed_millis);
    line("leaving", removal.done_bytes, removal.total_bytes, elapsed)
}

/// Asks after the rebuild of a drive until it is over.
fn until_rebuilt(client: &Client, pool: PoolView, number: u32) -> Result<PoolView> {
    let mut pool = pool;
    let mut progress = Progress::new("rebuild", 0);
    let mut idle_answers = 0;
    let done = loop {
        let drive = pool.drives.iter().find(|drive| drive.number == Some(number));
        match drive.map_or(("gone", None), |drive| (drive.state.as_str(), drive.reason.as_deref())) {
            ("online", _) => break Ok(()),
            ("rebuilding", _) => {}
            (state, reason) => {
                break Err(format!("it is {state}: {}", reason.unwrap_or("no reason is known")));
            }
        }
        match &pool.rebuild {
            Some(rebuild) => {
                idle_answers = 0;
                progress.show_line(|_| rebuild_line(rebuild, number));
            }
            None => idle_answers += 1,
        }
        if idle_answers > IDLE_ANSWERS_MAX {
            break Err(pool.rebuild_error.clone().unwrap_or_else(|| "it does not go on".to_string()));
        }
        std::thread::sleep(ASK_INTERVAL);
        pool = match client.pool(&pool.name) {
            Ok(pool) => pool,
            Err(error) => {
                progress.end();
                return Err(error.into());
            }
        };
    };
    progress.end();
    done.map_err(|why| {
        let name = &pool.name;
        Failure::new(format!(
            "rebuild of drive {number} of pool `{name}` failed: {why}: `ashlar pool show {name}` shows its drives, \
             `ashlar pool online-drive {name} {number}` tries again once it is out"
        ))
    })?;
    Ok(pool)
}

fn rebuild_line(rebuild: &Rebuild, number: u32) -> String {
    let what = match rebuild.drive_number == number {
        true => format!("rebuild of drive {number}"),
        false => format!("waits for the rebuild of drive {}", rebuild.drive_number),
    };
    line(&what, rebuild.done_bytes, rebuild.total_bytes, Duration::from_millis(rebuild.elapsed_millis))
}

/// The state in one word; `degraded` for a pool that serves without some of its drives.
pub fn state_name_with_drives(pool: &PoolView) -> &'static str {
    let is_degraded =
        pool.state == PoolState::Online && pool.drives.iter().any(|drive| !is_whole(&drive.state));
    if is_degraded { "degraded" } else { super::state_name(pool.state) }
}

/// Whether a drive in this state holds what it should.
fn is_whole(state: &str) -> bool {
    matches!(state, "online" | "leaving")
}

/// Number, path, size, state, and why or how far.
pub fn drive_line(pool: &PoolView, drive: &Drive) -> String {
    let number = drive.number.map_or_else(String::new, |number| format!("{number}  "));
    let path = if drive.path.is_empty() { "(not found)" } else { &drive.path };
    let rebuild = pool.rebuild.as_ref().filter(|rebuild| drive.number == Some(rebuild.drive_number));
    let removal = pool.removal.as_ref().filter(|removal| drive.number == Some(removal.drive_number));
    if let Some(removal) = removal {
        let trouble = removal.trouble.as_ref().map_or_else(String::new, |why| format!("; in its way: {why}"));
        let (size, state) = (size(drive.size_bytes), removal_line(removal));
        return format!("{number}{path}  {size}  {state}{trouble}");
    }
    let state = match (&drive.reason, rebuild) {
        (Some(reason), _) => format!("{}: {reason}", drive.state),
        (None, Some(rebuild)) => {
            let elapsed = Duration::from_millis(rebuild.elapsed_millis);
            line(&drive.state, rebuild.done_bytes, rebuild.total_bytes, elapsed)
        }
        (None, None) => drive.state.clone(),
    };
    let size = if drive.size_bytes == 0 { "-".to_string() } else { size(drive.size_bytes) };
    format!("{number}{path}  {size}  {state}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pool(drives: &[&str], rebuild: Option<Rebuild>) -> PoolView {
        let drive = |(number, state): (u32, &&str)| Drive {
            number: Some(number),
            path: format!("/d{number}"),
            size_bytes: 1 << 30,
            state: (*state).to_string(),
            reason: (**state == *"out").then(|| "gone".to_string()),
            ..Drive::default()
        };
        PoolView {
            name: "main".to_string(),
            id: String::new(),
            state: PoolState::Online,
            reason: None,
            protection: ashlar_api::Protection::Dual,
            drives: (0..).zip(drives).map(drive).collect(),
            unused_drives: Vec::new(),
            rebuild,
            rebuild_error: None,
            removal: None,
            scrub: None,
            scrubbed_unix_seconds: None,
            space: None,
            full_percent: 0,
            volume_count: 0,
            snapshot_count: 0,
            recovery: None,
            counters: Default::default(),
        }
    }

    #[test]
    fn a_drive_shows_why_it_is_away_and_how_far_it_is_rebuilt() {
        let rebuild = Rebuild {
            drive_number: 1,
            total_bytes: 4 << 30,
            done_bytes: 1 << 30,
            elapsed_millis: 2000,
            remaining_millis: Some(6000),
        };
        let pool = pool(&["online", "rebuilding", "out"], Some(rebuild));
        let lines: Vec<String> = pool.drives.iter().map(|drive| drive_line(&pool, drive)).collect();
        assert_eq!(lines[0], "0  /d0  1 GiB  online");
        assert_eq!(lines[1], "1  /d1  1 GiB  rebuilding: 25 % of 4 GiB, 512 MiB a second, 6 s left");
        assert_eq!(lines[2], "2  /d2  1 GiB  out: gone");
        assert_eq!(state_name_with_drives(&pool), "degraded");
    }

    #[test]
    fn a_drive_that_leaves_shows_how_far_it_is_and_what_is_in_its_way() {
        let mut pool = pool(&["online", "leaving"], None);
        let removal = Removal {
            drive_number: 1,
            total_bytes: 4 << 30,
            done_bytes: 1 << 30,
            elapsed_millis: 2000,
            remaining_millis: Some(6000),
            trouble: None,
        };
        pool.removal = Some(removal.clone());
        assert_eq!(
            drive_line(&pool, &pool.drives[1]),
            "1  /d1  1 GiB  leaving: 25 % of 4 GiB, 512 MiB a second, 6 s left"
        );
        assert_eq!(state_name_with_drives(&pool), "online");
        pool.removal = Some(Removal { trouble: Some("it is full".to_string()), ..removal });
        assert!(drive_line(&pool, &pool.drives[1]).ends_with("left; in its way: it is full"));
    }

    /// A drive of a pool that did not open was shown with 0 B.
    #[test]
    fn a_size_that_is_not_known_is_a_dash() {
        let mut pool = pool(&["unknown"], None);
        pool.drives[0].size_bytes = 0;
        assert_eq!(drive_line(&pool, &pool.drives[0]), "0  /d0  -  unknown");
    }

    #[test]
    fn a_pool_with_all_its_drives_is_not_degraded() {
        assert_eq!(state_name_with_drives(&pool(&["online", "online"], None)), "online");
    }
}
