//! `ashlar pool add-drive`, `remove-drive`, `replace-drive`, `online-drive`, `offline-drive`: the life of a
//! pool's drives.

use std::time::Duration;

use ashlar_api::{Drive, DriveOnline, DriveSpec, DrivesAdd, Pool as PoolView, Rebuild, Removal};
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
    /// Take them although they hold data, a file system or another pool, which are lost.
    #[arg(long)]
    force: bool,
    /// Do not ask, where --force makes it necessary.
    #[arg(long)]
    yes: bool,
}

/// Let a drive leave a pool for good, while the pool serves.
///
/// Without protection nothing new goes onto it from now on, and what is on it moves to the other drives; it
/// is refused when they lack the room, which the cleaner first tries to win. With protection it goes to
/// spare space (`pool create --spares`), also when the drive is out of service, and one that serves does so
/// until that is over. Both go on in the background, behind the hosts; when nothing is left the drive no
/// longer carries the pool. `ashlar pool show` tells how far it is; until the end `ashlar pool online-drive`
/// takes the drive back. The numbers of the other drives stay.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar pool remove-drive main 1 --yes --wait")]
pub struct RemoveDrive {
    /// Name of the pool.
    pool: String,
    /// Number of the drive, as `ashlar pool show` tells it.
    number: u32,
    /// Return when the drive has left, with progress on stderr.
    #[arg(long)]
    wait: bool,
    /// Do not ask.
    #[arg(long)]
    yes: bool,
}

/// Put a new drive in the place of another, and give it what it lacks.
///
/// The pool serves meanwhile, and writes to the new drive from the start. A drive that is in service goes on
/// serving until the new one has everything; so does spare space. Nothing is lost on the way.
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
    /// Take it although it holds data, a file system or another pool, which are lost.
    #[arg(long)]
    force: bool,
    /// Do not ask, where --force makes it necessary.
    #[arg(long)]
    yes: bool,
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

/// The drives, to be taken whatever they hold if that is said.
pub fn forced(drives: Vec<DriveSpec>, force: bool) -> Vec<DriveSpec> {
    drives.into_iter().map(|drive| DriveSpec { force, ..drive }).collect()
}

/// Asks before drives are taken by force.
pub fn confirm_force(drives: &[DriveSpec], is_yes: bool) -> Result<()> {
    let paths: Vec<&str> = drives.iter().map(|drive| drive.path.as_str()).collect();
    confirm(is_yes, &format!("take {} by force? What is there is lost.", paths.join(", ")))
}

impl AddDrive {
    pub fn run(self, context: &Context) -> Result<()> {
        if self.force {
            confirm_force(&self.drives, self.yes)?;
        }
        let drives = forced(self.drives, self.force);
        let pool = context.client()?.drives_add(&self.pool, &DrivesAdd { drives })?;
        Ok(context.output.print(&pool, show)?)
    }
}

impl RemoveDrive {
    pub fn run(self, context: &Context) -> Result<()> {
        let (pool, number) = (&self.pool, self.number);
        confirm(self.yes, &format!("let drive {number} leave pool `{pool}` for good?"))?;
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
        let drive = DriveSpec { force: self.force, ..self.with };
        if self.force {
            confirm_force(std::slice::from_ref(&drive), self.yes)?;
        }
        let client = context.client()?;
        let before = id_of(&client.pool(&self.pool)?, self.number);
        let pool = client.drive_replace(&self.pool, self.number, &drive)?;
        let pool = if self.wait { until_rebuilt(&client, pool, self.number)? } else { pool };
        if self.wait && id_of(&pool, self.number) == before {
            return Err(not_moved(&pool, self.number));
        }
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

/// Whatever comes into a drive's place has another identity.
fn id_of(pool: &PoolView, number: u32) -> Option<String> {
    let drive = pool.drives.iter().find(|drive| drive.number == Some(number));
    drive.map(|drive| drive.id.clone())
}

fn not_moved(pool: &PoolView, number: u32) -> Failure {
    let why = pool.rebuild_error.as_deref().unwrap_or("it is not known why");
    let name = &pool.name;
    Failure::new(format!(
        "drive {number} of pool `{name}` is where it was: {why}: `ashlar pool show {name}` shows the drives, then \
         try again"
    ))
}

/// What an answer about a drive says: it is done, or why it will not be; `None` while it goes on.
type Verdict = Option<std::result::Result<(), String>>;

/// Asks after a pool until `judge`, who shows how far it is, has a verdict.
fn follow(
    client: &Client,
    pool: PoolView,
    title: &'static str,
    mut judge: impl FnMut(&PoolView, &mut Progress) -> Verdict,
) -> Result<(PoolView, std::result::Result<(), String>)> {
    let mut pool = pool;
    let mut progress = Progress::new(title, 0);
    loop {
        if let Some(verdict) = judge(&pool, &mut progress) {
            progress.end();
            return Ok((pool, verdict));
        }
        std::thread::sleep(ASK_INTERVAL);
        let answer = client.pool(&pool.name);
        if answer.is_err() {
            progress.end();
        }
        pool = answer?;
    }
}

/// Asks after a drive until it has left.
fn until_removed(client: &Client, pool: PoolView, number: u32) -> Result<PoolView> {
    let (pool, left) = follow(client, pool, "removal", |pool, progress| {
        match pool.drives.iter().find(|drive| drive.number == Some(number)).map(|drive| drive.state.as_str())
        {
            None | Some("spare") => return Some(Ok(())),
            Some("leaving" | "moving" | "rebuilding") => {}
            Some(state) => {
                let why = pool.rebuild_error.as_deref().unwrap_or("nothing moves it");
                return Some(Err(format!("it is {state}: {why}")));
            }
        }
        if let Some(rebuild) = &pool.rebuild {
            progress.show_line(|_| rebuild_line(rebuild, number));
        }
        let removal = pool.removal.as_ref()?;
        if let Some(trouble) = &removal.trouble {
            return Some(Err(trouble.clone()));
        }
        progress.show_line(|_| removal_line(removal));
        None
    })?;
    left.map_err(|why| {
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
    let mut idle_answers = 0;
    let (pool, rebuilt) = follow(client, pool, "rebuild", |pool, progress| {
        let drive = pool.drives.iter().find(|drive| drive.number == Some(number));
        match drive.map_or(("gone", None), |drive| (drive.state.as_str(), drive.reason.as_deref())) {
            ("online" | "spare", _) => return Some(Ok(())),
            ("rebuilding" | "moving", _) => {}
            (state, reason) => {
                return Some(Err(format!("it is {state}: {}", reason.unwrap_or("no reason is known"))));
            }
        }
        match &pool.rebuild {
            Some(rebuild) => {
                idle_answers = 0;
                progress.show_line(|_| rebuild_line(rebuild, number));
            }
            None => idle_answers += 1,
        }
        let why = || pool.rebuild_error.clone().unwrap_or_else(|| "it does not go on".to_string());
        (idle_answers > IDLE_ANSWERS_MAX).then(|| Err(why()))
    })?;
    rebuilt.map_err(|why| {
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

/// Number, path, size, state, and why or how far.
pub fn drive_line(pool: &PoolView, drive: &Drive) -> String {
    let number = drive.number.map_or_else(String::new, |number| format!("{number}  "));
    let path = match (drive.path.as_str(), &drive.last_path) {
        ("", _) if drive.is_in_spare_space => "(spare space)".to_string(),
        ("", Some(last)) => format!("(not found, it was at {last})"),
        ("", None) => "(not found)".to_string(),
        (path, _) => path.to_string(),
    };
    let rebuild = pool.rebuild.as_ref().filter(|rebuild| drive.number == Some(rebuild.drive_number));
    let removal = pool.removal.as_ref().filter(|removal| drive.number == Some(removal.drive_number));
    if let Some(removal) = removal {
        let trouble = removal.trouble.as_ref().map_or_else(String::new, |why| format!("; in its way: {why}"));
        let (size, state) = (size(drive.size_bytes), removal_line(removal));
        return format!("{number}{path}  {size}  {state}{trouble}");
    }
    let state = match (&drive.reason, rebuild) {
        (Some(reason), _) if drive.is_awaited => {
            format!("{}: {reason}; it is taken back when it comes", drive.state)
        }
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
            generation: 1,
            name: "main".to_string(),
            id: String::new(),
            state: ashlar_api::PoolState::Online,
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
            provisioned_bytes: 0,
            full_percent: 0,
            segment_numbers_percent: 0,
            volume_count: 0,
            snapshot_count: 0,
            deleted_volume_count: 0,
            volumes_at_limit: Vec::new(),
            recoverable_bytes: None,
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
}
