//! `ashlar database waits`.

use ashlar_api::{DatabaseWaits, WaitCause};

use crate::Context;
use crate::failure::Result;
use crate::output::table;

/// What the sessions of a database wait for: is it the storage?
///
/// Its server is asked many times a second what each session that is at work waits for. The numbers are
/// sessions at a time. Those at the storage wait for reads, writes and flushes of files, or for another
/// session's flush of the log: `ashlar top` tells how long such requests take here.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  ashlar database waits prod\n  ashlar database waits prod --time 30s --json"
)]
pub struct Waits {
    /// Name of the database.
    name: String,
    /// How long to look, from 1s to 60s.
    #[arg(long, value_name = "TIME", default_value = "3s", value_parser = ashlar_schedule::term)]
    time: u64,
}

impl Waits {
    pub fn run(self, context: &Context) -> Result<()> {
        let found = context.client()?.database_waits(&self.name, self.time)?;
        Ok(context.output.print(&found, lines)?)
    }
}

fn lines(found: &DatabaseWaits) -> String {
    if found.waits.is_empty() {
        return format!("no session of {} was at work\n", found.name);
    }
    let share = |count: f64| format!("{:.0} %", 100.0 * count / found.session_count);
    let rows = found.waits.iter().map(|one| {
        let cause = one.cause.meaning().to_string();
        vec![one.event.clone(), format!("{:.2}", one.session_count), share(one.session_count), cause]
    });
    let of = |cause: WaitCause| {
        let those = found.waits.iter().filter(|one| one.cause == cause);
        those.map(|one| one.session_count).sum::<f64>()
    };
    let mut causes: Vec<(WaitCause, f64)> =
        WaitCause::ALL.into_iter().map(|cause| (cause, of(cause))).collect();
    causes.sort_by(|one, other| other.1.total_cmp(&one.1));
    let told = causes.iter().filter(|(_, count)| *count > 0.0);
    let told: Vec<String> =
        told.map(|(cause, count)| format!("{} {}", share(*count), cause.meaning())).collect();
    format!(
        "{}\n{:.2} sessions at work at a time: {}\n",
        table(&["WAITS FOR", "SESSIONS", "SHARE", "THAT IS"], &[1, 2], &rows.collect::<Vec<_>>()),
        found.session_count,
        told.join(", ")
    )
}

#[cfg(test)]
mod tests {
    use ashlar_api::DatabaseWait;

    use super::*;

    #[test]
    fn the_largest_cause_is_told_first() {
        let wait = |event: &str, session_count| DatabaseWait {
            event: event.to_string(),
            cause: WaitCause::of(event),
            session_count,
        };
        let waits = vec![wait("CPU:Running", 2.0), wait("IO:WALSync", 1.5), wait("LWLock:WALWrite", 1.5)];
        let found = DatabaseWaits { name: "prod".into(), look_count: 20, session_count: 5.0, waits };
        let text = lines(&found);
        assert!(
            text.ends_with("5.00 sessions at work at a time: 60 % the storage, 40 % the processor\n"),
            "{text}"
        );
        assert!(text.contains("IO:WALSync"), "{text}");
        let idle = DatabaseWaits { waits: Vec::new(), ..found };
        assert_eq!(lines(&idle), "no session of prod was at work\n");
    }
}
