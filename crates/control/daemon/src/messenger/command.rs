//! The command that gets an event: a process with the event on its standard input and a time to end.

use std::process::Stdio;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::started::{MARK, Started};
use crate::log::random_id;

/// Runs a command to its end. One that takes longer than `limit` is killed with all that it started, and so
/// is one that nobody waits for any more.
pub(super) async fn run(command: &[String], body: &str, limit: Duration) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let mark = random_id();
    let spawned = Command::new(program)
        .args(arguments)
        .env(MARK, &mark)
        .stdin(Stdio::piped())
        // Standard output is for scripts that start the array; what is wrong belongs with the log.
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        // What a terminal sends to the array's group is not for it.
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let mut child = spawned.map_err(|error| format!("{program} did not start: {error}"))?;
    // Dropped before the child, which would be killed before what it started is found.
    let started = Started::new(mark, child.id());
    let input = child.stdin.take();
    let work = async {
        if let Some(mut input) = input {
            // One that does not read is judged by how it ends.
            let _unread = input.write_all(body.as_bytes()).await;
        }
        child.wait().await
    };
    let ended = tokio::time::timeout(limit, work).await;
    if ended.is_ok() {
        started.keep();
    }
    match ended {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("{program} ended with {status}")),
        Ok(Err(error)) => Err(format!("{program}: {error}")),
        Err(_) => Err(format!("{program} took longer than {} s and was ended", limit.as_secs_f32())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::time::Instant;

    use super::*;

    fn shell(script: &str) -> Vec<String> {
        ["/bin/sh", "-c", script].map(str::to_string).to_vec()
    }

    #[tokio::test]
    async fn a_command_gets_the_event_and_is_judged_by_its_status() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("event");
        let second = Duration::from_secs(20);
        run(&shell(&format!("cat > {}", file.display())), "{\"a\":1}", second).await.unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), "{\"a\":1}");
        let long = "x".repeat(1 << 20);
        run(&shell("exit 0"), &long, second).await.unwrap();
        let why = run(&shell("exit 3"), "x", second).await.unwrap_err();
        assert!(why.contains("/bin/sh") && why.contains('3'), "{why}");
        assert!(!why.contains("exit 3"), "arguments may be secrets: {why}");
        let why = run(&["/no/such/program".to_string()], "x", second).await.unwrap_err();
        assert!(why.contains("did not start"), "{why}");
    }

    /// A script that leaves processes behind in each way, and a file for their numbers: in its group, in a
    /// session of its own, as nobody's child, and behind one that clears its environment.
    fn leaving(scratch: &tempfile::TempDir) -> (Vec<String>, std::path::PathBuf) {
        let file = scratch.path().join("children");
        let keep = format!("echo $$ >> {}; exec sleep 600", file.display());
        let script = format!(
            "sh -c '{keep}' & setsid sh -c '{keep}' & (setsid sh -c '{keep}' &); \
             setsid env -i /bin/sh -c '{keep}' & wait"
        );
        (shell(&script), file)
    }

    async fn until_all_are_there(file: &std::path::Path) {
        let begun = Instant::now();
        while std::fs::read_to_string(file).unwrap_or_default().lines().count() < 4 {
            assert!(begun.elapsed() < Duration::from_secs(20), "they do not come");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }

    async fn none_is_left(file: &std::path::Path) {
        let begun = Instant::now();
        for child in std::fs::read_to_string(file).unwrap().lines() {
            // A zombie until somebody reaps it.
            let is_gone = || {
                let stat = std::fs::read_to_string(format!("/proc/{child}/stat")).unwrap_or_default();
                stat.rsplit(')')
                    .next()
                    .is_none_or(|rest| rest.is_empty() || rest.trim_start().starts_with('Z'))
            };
            while !is_gone() {
                assert!(begun.elapsed() < Duration::from_secs(20), "process {child} is still there");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        }
    }

    /// The harm: each event left one more process in a session of its own.
    #[tokio::test]
    async fn a_command_that_hangs_is_killed_with_what_it_started() {
        let scratch = tempfile::tempdir().unwrap();
        let (command, file) = leaving(&scratch);
        let begun = Instant::now();
        let running = run(&command, "x", Duration::from_secs(3));
        let (why, ()) = tokio::join!(running, until_all_are_there(&file));
        let why = why.unwrap_err();
        assert!(why.contains("took longer") && begun.elapsed() < Duration::from_secs(20), "{why}");
        none_is_left(&file).await;
    }

    #[tokio::test]
    async fn a_command_that_nobody_waits_for_is_killed_with_what_it_started() {
        let scratch = tempfile::tempdir().unwrap();
        let (command, file) = leaving(&scratch);
        tokio::select! {
            ended = run(&command, "x", Duration::from_secs(600)) => panic!("{ended:?}"),
            () = until_all_are_there(&file) => {}
        }
        none_is_left(&file).await;
    }
}
