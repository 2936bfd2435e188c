//! The command that gets an event: a process with the event on its standard input and a time to end.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

/// Runs a command to its end. One that takes longer than `limit` is killed with all that it started.
pub(super) async fn run(command: &[String], body: &str, limit: Duration) -> Result<(), String> {
    let Some((program, arguments)) = command.split_first() else { return Ok(()) };
    let spawned = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        // Standard output is for scripts that start the array; what is wrong belongs with the log.
        .stdout(Stdio::null())
        .stderr(Stdio::inherit())
        // What a terminal sends to the array's group is not for it.
        .process_group(0)
        .kill_on_drop(true)
        .spawn();
    let mut child = spawned.map_err(|error| format!("{program} did not start: {error}"))?;
    let group = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
    let input = child.stdin.take();
    let work = async {
        if let Some(mut input) = input {
            // One that does not read is judged by how it ends.
            let _unread = input.write_all(body.as_bytes()).await;
        }
        child.wait().await
    };
    match tokio::time::timeout(limit, work).await {
        Ok(Ok(status)) if status.success() => Ok(()),
        Ok(Ok(status)) => Err(format!("{program} ended with {status}")),
        Ok(Err(error)) => Err(format!("{program}: {error}")),
        Err(_) => {
            // Gone meanwhile is as good as killed.
            let _gone = group.map(|group| kill_process_group(group, Signal::KILL));
            Err(format!("{program} took longer than {} s and was ended", limit.as_secs_f32()))
        }
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

    #[tokio::test]
    async fn a_command_that_hangs_is_killed_with_what_it_started() {
        let scratch = tempfile::tempdir().unwrap();
        let file = scratch.path().join("child");
        let begun = Instant::now();
        let script = format!("sleep 600 & echo $! > {}; wait", file.display());
        let why = run(&shell(&script), "x", Duration::from_secs(1)).await.unwrap_err();
        assert!(why.contains("took longer") && begun.elapsed() < Duration::from_secs(20), "{why}");
        let child = std::fs::read_to_string(&file).unwrap();
        // A zombie until somebody reaps it.
        let is_gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.trim())).unwrap_or_default();
            stat.rsplit(')').next().is_none_or(|rest| rest.is_empty() || rest.trim_start().starts_with('Z'))
        };
        while !is_gone() {
            assert!(begun.elapsed() < Duration::from_secs(20), "process {child} is still there");
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    }
}
