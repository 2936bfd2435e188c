//! `ashlar schedule`: snapshots that are taken by themselves, and deleted in turn.

use ashlar_api::{Schedule as Shown, ScheduleChange, ScheduleCreate, ScheduleDeletion, ScheduleState};
use ashlar_schedule::{Every, Keep};
use clap::Subcommand;

use crate::Context;
use crate::ask::confirm;
use crate::failure::Result;
use crate::output::{fields, table, utc};

/// Snapshots of databases and volumes by the clock: taken every second or every week, kept by a rule.
///
/// They are aligned to the clock, in UTC: every 15 minutes is at :00, :15, :30 and :45. After downtime one is
/// taken at once. A schedule takes none while its pool is 90 % full, says so once, and goes on by itself.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  \
        ashlar schedule create prod --of prod --every 15m --keep hourly=24,daily=7,weekly=4\n  \
        ashlar schedule create undo --of prod --every 1s --keep seconds=3600,hourly=24\n  \
        ashlar database clone prod before --at 13:05:07")]
pub struct Schedule {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make a schedule. Its snapshots are called NAME and the time: prod.20261128T130507Z.
    #[command(after_help = "Example:\n  \
        ashlar schedule create prod --of prod --every 15m --keep hourly=24,daily=7,weekly=4\n  \
        ashlar schedule create undo --of prod --every 1s --keep seconds=3600,hourly=24\n  \
        ashlar schedule create both --of orders,billing --every 1h --keep last=48 --prove-every 24\n  \
        ashlar schedule create files --of-volume docs,mail --every 1d --keep daily=7")]
    Create {
        /// Name of the schedule, unique over all pools; at most 44 bytes.
        name: String,
        /// Databases of one pool, all at one instant.
        #[arg(long, value_name = "DATABASE[,DATABASE...]", value_delimiter = ',')]
        #[arg(required_unless_present = "of_volume", conflicts_with = "of_volume")]
        of: Vec<String>,
        /// Volumes of one pool, all at one instant.
        #[arg(long, value_name = "VOLUME[,VOLUME...]", value_delimiter = ',')]
        of_volume: Vec<String>,
        /// How often, aligned to the clock: 1s, 15m, 6h, 1d, 1w.
        #[arg(long, value_name = "TIME", value_parser = Every::parse)]
        every: Every,
        /// Which snapshots stay: the newest of each of so many seconds, minutes, hours, days, weeks and
        /// months that have one (seconds=, minutes=, hourly=, daily=, weekly=, monthly=), and so many of the
        /// last (last=). What is held stays, too.
        #[arg(long, value_name = "RULE", value_parser = Keep::parse)]
        keep: Keep,
        /// Prove one of so many snapshots, as `ashlar database verify` does. One that fails is an event.
        #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
        prove_every: Option<u32>,
    },
    /// All schedules.
    #[command(visible_alias = "ls", after_help = "Example:\n  ashlar schedule list --json")]
    List,
    /// One schedule: what it takes, which snapshots there are, and why it takes none.
    #[command(after_help = "Example:\n  ashlar schedule show prod")]
    Show {
        /// Name of the schedule.
        name: String,
    },
    /// Take a snapshot now, also while the schedule is paused.
    #[command(after_help = "Example:\n  ashlar schedule run prod")]
    Run {
        /// Name of the schedule.
        name: String,
    },
    /// Change how often it takes snapshots, which stay, or whether it pauses. Its snapshots stay its own.
    #[command(after_help = "Example:\n  ashlar schedule change prod --every 5m\n  \
        ashlar schedule change prod --keep hourly=48,daily=14 --resume --yes")]
    Change {
        /// Name of the schedule.
        name: String,
        /// How often, aligned to the clock: 1s, 15m, 6h, 1d, 1w.
        #[arg(long, value_name = "TIME", value_parser = Every::parse)]
        #[arg(required_unless_present_any = ["keep", "pause", "resume"])]
        every: Option<Every>,
        /// Which snapshots stay, as with `create`. Those that it does not keep any more are deleted.
        #[arg(long, value_name = "RULE", value_parser = Keep::parse)]
        keep: Option<Keep>,
        /// Take no snapshots until somebody lets it go on, and delete none.
        #[arg(long, conflicts_with = "resume")]
        pause: bool,
        /// Go on.
        #[arg(long)]
        resume: bool,
        /// Do not ask whether snapshots that a new rule does not keep may go.
        #[arg(long)]
        yes: bool,
    },
    /// Take no snapshots until somebody lets it go on, and delete none.
    #[command(after_help = "Example:\n  ashlar schedule pause prod")]
    Pause {
        /// Name of the schedule.
        name: String,
    },
    /// Take snapshots again. If one is overdue, it is taken at once.
    #[command(after_help = "Example:\n  ashlar schedule resume prod")]
    Resume {
        /// Name of the schedule.
        name: String,
    },
    /// Delete a schedule. Its snapshots stay, unless they are to go, too.
    #[command(after_help = "Example:\n  ashlar schedule delete prod --yes\n  \
            ashlar schedule delete undo --with-snapshots --yes")]
    Delete {
        /// Name of the schedule.
        name: String,
        /// Delete its snapshots, too, but for those that are held or used.
        #[arg(long)]
        with_snapshots: bool,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

impl Schedule {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        match self.verb {
            Verb::Create { name, of, of_volume, every, keep, prove_every } => {
                let request = ScheduleCreate {
                    name,
                    databases: of,
                    volumes: of_volume,
                    every_seconds: every.seconds(),
                    keep: keep.to_string(),
                    prove_every_count: prove_every,
                };
                context.output.print(&client.schedule_create(&request)?, show)?;
            }
            Verb::List => context.output.print(&client.schedules()?, |all| list(all))?,
            Verb::Show { name } => context.output.print(&client.schedule(&name)?, show)?,
            Verb::Run { name } => context.output.print(&client.schedule_run(&name)?, |taken| {
                format!("snapshot {} of {}\n", taken.name, taken.volumes.join(" "))
            })?,
            Verb::Change { name, every, keep, pause, resume, yes } => {
                if let Some(keep) = &keep {
                    let question =
                        format!("have schedule `{name}` keep {keep}, and delete its other snapshots?");
                    confirm(yes, &question)?;
                }
                let request = ScheduleChange {
                    every_seconds: every.map(Every::seconds),
                    keep: keep.map(|keep| keep.to_string()),
                    is_paused: (pause || resume).then_some(pause),
                };
                context.output.print(&client.schedule_change(&name, &request)?, show)?;
            }
            Verb::Pause { name } => context.output.print(&client.schedule_pause(&name)?, show)?,
            Verb::Resume { name } => context.output.print(&client.schedule_resume(&name)?, show)?,
            Verb::Delete { name, with_snapshots, yes } => {
                let what = if with_snapshots { " with its snapshots" } else { "" };
                confirm(yes, &format!("delete schedule `{name}`{what}?"))?;
                context.output.print(&client.schedule_delete(&name, with_snapshots)?, deletion)?;
            }
        }
        Ok(())
    }
}

fn state(schedule: &Shown) -> &'static str {
    match schedule.state {
        ScheduleState::Active => "active",
        ScheduleState::Paused => "paused",
        ScheduleState::NoSpace => "no space",
        ScheduleState::Failing => "failing",
    }
}

fn every(schedule: &Shown) -> String {
    Every::of_seconds(schedule.every_seconds).map_or("-".to_string(), |every| every.to_string())
}

fn target(schedule: &Shown) -> String {
    match schedule.databases.is_empty() {
        true => schedule.volumes.join(","),
        false => schedule.databases.join(","),
    }
}

fn list(schedules: &[Shown]) -> String {
    let row = |schedule: &Shown| {
        vec![
            schedule.name.clone(),
            target(schedule),
            every(schedule),
            schedule.keep.clone(),
            state(schedule).to_string(),
            schedule.snapshot_count.to_string(),
            schedule.held_count.to_string(),
            schedule.last_unix_seconds.map_or("-".to_string(), utc),
        ]
    };
    let rows: Vec<Vec<String>> = schedules.iter().map(row).collect();
    table(&["NAME", "OF", "EVERY", "KEEP", "STATE", "SNAPSHOTS", "HELD", "LAST"], &[5, 6], &rows)
}

fn show(schedule: &Shown) -> String {
    let what = if schedule.databases.is_empty() { "volumes" } else { "databases" };
    let mut pairs = vec![
        ("name", schedule.name.clone()),
        ("pool", schedule.pool.clone()),
        (what, target(schedule)),
        ("every", every(schedule)),
        ("keeps", schedule.keep.clone()),
        ("state", state(schedule).to_string()),
    ];
    pairs.extend(schedule.reason.as_ref().map(|reason| ("reason", reason.clone())));
    pairs.push(("snapshots", format!("{}, {} of them held", schedule.snapshot_count, schedule.held_count)));
    if let (Some(name), Some(time)) = (&schedule.last_snapshot, schedule.last_unix_seconds) {
        pairs.push(("last", format!("{name}, taken {}", utc(time))));
    }
    pairs.extend(schedule.next_unix_seconds.map(|time| ("next", utc(time))));
    pairs.extend(schedule.prove_every_count.map(|count| ("proves", format!("one of {count}"))));
    if let Some(proof) = &schedule.last_proof {
        let verdict = if proof.is_proven { "proven" } else { "NOT proven" };
        let time = utc(proof.proven_unix_seconds);
        pairs.push(("proof", format!("{} of {}: {verdict} {time}", proof.snapshot, proof.database)));
    }
    pairs.push(("created", utc(schedule.created_unix_seconds)));
    fields(&pairs)
}

fn deletion(deleted: &ScheduleDeletion) -> String {
    let ScheduleDeletion { name, deleted_count, left_count } = deleted;
    let mut text = format!("deleted schedule {name}\n");
    if *deleted_count > 0 {
        text.push_str(&format!("deleted {deleted_count} of its snapshots\n"));
    }
    if *left_count > 0 {
        text.push_str(&format!(
            "{left_count} of its snapshots stay: `ashlar snapshot delete` deletes them\n"
        ));
    }
    text
}
