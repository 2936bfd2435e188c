//! A real array in a directory of its own, and its command line.

#![allow(clippy::unwrap_used, dead_code)] // Each test file uses its part of this.

pub mod browser;
pub mod frozen;
pub mod iscsi;
pub mod nbd;

use std::io::{Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The program under test: the one built with the tests, or what `ASHLAR_BIN` names, a release build for one.
pub fn program() -> String {
    std::env::var("ASHLAR_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_ashlar").to_string())
}

/// Nothing here takes longer unless something is wrong.
const PATIENCE: Duration = Duration::from_secs(60);

/// A check of the lab that holds on any machine, however busy.
pub const HOLDS: &str = "[[check]]\nkind = \"value\"\nof = \"iops\"\nat_least = 1\n";

/// A state directory, and the process that serves it while there is one.
pub struct Array {
    scratch: tempfile::TempDir,
    state: PathBuf,
    serve: Option<Child>,
}

/// What a command did.
pub struct Done {
    pub status: i32,
    pub out: String,
    pub err: String,
}

/// Settings of an array with databases that outlive it, on ports that no other test has.
pub fn for_databases() -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let of_process = 200 * (std::process::id() % 100);
    let first = 10_000 + of_process + 20 * (NEXT.fetch_add(1, Ordering::Relaxed) % 10);
    format!("fuse_transport = \"classic\"\nattach_wait_seconds = 60\ndatabase_port_first = {first}\n")
}

/// An array with a pool of this size, through whose directory the account of servers may pass; `None` where
/// nothing can be attached.
pub fn array_for_databases(pool: &str) -> Option<Array> {
    array_for_databases_in(pool, |_| ()).map(|(array, ())| array)
}

/// The same, with something done to its directory before.
pub fn array_for_databases_in<T>(pool: &str, prepare: impl FnOnce(&Array) -> T) -> Option<(Array, T)> {
    can_attach().then(|| {
        let mut array = Array::unstarted();
        let prepared = prepare(&array);
        let open = std::fs::Permissions::from_mode(0o711);
        std::fs::set_permissions(array.path(""), open).unwrap();
        array.configure(&for_databases());
        array.start();
        let drive = format!("{},size={pool}", array.path("main.img").display());
        array.good(&["pool", "create", "main", "--drive", &drive]);
        (array, prepared)
    })
}

/// Unmounts when the test ends, however it ends. Dropped before the array's directory.
pub struct Mounted(PathBuf);

impl Drop for Mounted {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(&self.0).status();
    }
}

/// Gives an array that is not started a state directory of this size.
pub fn on_small_state(array: &Array, size: &str) -> Mounted {
    std::fs::create_dir(array.state()).unwrap();
    let options = format!("size={size},mode=711");
    let mut mount = Command::new("mount");
    let done = mount.args(["-t", "tmpfs", "-o", &options, "none"]).arg(array.state()).status();
    assert!(done.unwrap().success());
    Mounted(array.state().to_path_buf())
}

/// Deletes the databases of an array; behind a test that failed, whatever there is of them.
pub fn end_databases(array: &Array) {
    if !std::thread::panicking() {
        for one in array.json(&["database", "list"]).as_array().unwrap() {
            array.good(&["database", "delete", one["name"].as_str().unwrap(), "--with-schedules", "--yes"]);
        }
        return;
    }
    let _ = array.run(&["stop", "--detach", "--force", "--yes"]);
    let below = array.state().join("databases");
    ashlar_postgres::end_processes(&below, |_| true, &[rustix::process::Signal::KILL]);
}

impl Array {
    /// A directory without a process.
    pub fn unstarted() -> Array {
        let scratch = tempfile::Builder::new().prefix("ashlar-test-").tempdir().unwrap();
        let state = scratch.path().join("state");
        let array = Array { scratch, state, serve: None };
        array.configure("");
        array
    }

    /// An array that serves.
    pub fn started() -> Array {
        let mut array = Array::unstarted();
        array.start();
        array
    }

    /// An array with a pool `main` on one drive of 1 GiB.
    pub fn with_pool() -> Array {
        let array = Array::started();
        let drive = format!("{},size=1GiB", array.path("main.img").display());
        array.good(&["pool", "create", "main", "--drive", &drive]);
        array
    }

    pub fn state(&self) -> &Path {
        &self.state
    }

    /// A path beside the state directory.
    pub fn path(&self, name: &str) -> PathBuf {
        self.scratch.path().join(name)
    }

    /// Writes the settings file of the next start. Where it does not say otherwise a start waits for no drive
    /// of a pool that can do without, since tests look at such pools at once, and what is attached ends
    /// with the array, so that nothing is left behind.
    pub fn configure(&self, text: &str) {
        let mut whole = format!("{text}\n");
        for (setting, value) in [("missing_drive_wait_seconds", "0"), ("fuse_transport", "\"uring\"")] {
            if !text.contains(setting) {
                whole += &format!("{setting} = {value}\n");
            }
        }
        std::fs::write(self.path("ashlar.toml"), whole).unwrap();
    }

    pub fn serve_command(&self) -> Command {
        let mut command = Command::new(program());
        command.args(["serve", "--state"]).arg(&self.state);
        command.arg("--config").arg(self.path("ashlar.toml"));
        command.env_remove("NOTIFY_SOCKET").env_remove("JOURNAL_STREAM");
        command
    }

    /// Starts the process and waits until it answers.
    pub fn start(&mut self) {
        self.start_as(self.serve_command());
    }

    /// Starts an array that may have so many descriptors.
    pub fn start_with_descriptors(&mut self, count: u32) {
        let serve = self.serve_command();
        let mut command = Command::new("prlimit");
        command.arg(format!("--nofile={count}")).arg(serve.get_program()).args(serve.get_args());
        self.start_as(command);
    }

    /// Starts an array that tells this socket how far it is.
    pub fn start_notifying(&mut self, socket: &Path) {
        let mut command = self.serve_command();
        command.env("NOTIFY_SOCKET", socket);
        self.start_as(command);
    }

    /// Starts an array whose /dev is a plain directory, as a container's may be, with what it needs but no
    /// loop device.
    pub fn start_in_bare_dev(&mut self) {
        const BARE_DEV: &str = "set -e; mkdir -p \"$0\"; mount -t tmpfs -o mode=755 none \"$0\"; \
            for name in null zero urandom fuse loop-control; do \
            touch \"$0/$name\"; mount --bind \"/dev/$name\" \"$0/$name\"; done; \
            mount --rbind \"$0\" /dev; exec \"$@\"";
        let serve = self.serve_command();
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", BARE_DEV]);
        command.arg(self.path("dev")).arg(serve.get_program()).args(serve.get_args());
        self.start_as(command);
    }

    fn start_as(&mut self, mut command: Command) {
        let log = std::fs::File::options().create(true).append(true).open(self.path("log")).unwrap();
        command.stdin(Stdio::null()).stdout(log.try_clone().unwrap()).stderr(log);
        let mut child = command.spawn().unwrap();
        let end = Instant::now() + PATIENCE;
        while UnixStream::connect(self.state.join("api.sock")).is_err() {
            if let Some(status) = child.try_wait().unwrap() {
                panic!("serve ended with {status}:\n{}", self.log());
            }
            assert!(Instant::now() < end, "serve does not answer:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
        self.serve = Some(child);
    }

    pub fn log(&self) -> String {
        std::fs::read_to_string(self.path("log")).unwrap_or_default()
    }

    pub fn pid(&self) -> u32 {
        self.serve.as_ref().unwrap().id()
    }

    /// Sends a signal and waits for the end; returns the exit status, `None` after a deadly signal.
    pub fn end(&mut self, signal: rustix::process::Signal) -> Option<i32> {
        let mut child = self.serve.take().unwrap();
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = child.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < end, "serve does not end:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    pub fn terminate(&mut self) -> Option<i32> {
        self.end(rustix::process::Signal::TERM)
    }

    /// Starts it again where a command has stopped it.
    pub fn start_after_stop(&mut self) {
        let status = self.serve.take().unwrap().wait().unwrap();
        assert_eq!(status.code(), Some(0), "{}", self.log());
        self.start();
    }

    /// Waits until the start has attached a volume again.
    pub fn wait_attached(&self, volume: &str) {
        let end = Instant::now() + PATIENCE;
        while !self.json(&["volume", "show", volume])["device"].is_string() {
            assert!(Instant::now() < end, "{volume} is not attached:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits until the log, of all starts, has so many lines with this text.
    pub fn wait_for_log(&self, text: &str, count: usize) {
        let end = Instant::now() + PATIENCE;
        while self.log().lines().filter(|line| line.contains(text)).count() < count {
            assert!(Instant::now() < end, "{text} {count} times:\n{}", self.log());
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    pub fn kill(&mut self) {
        assert_eq!(self.end(rustix::process::Signal::KILL), None);
    }

    /// Runs `ashlar` with `--state` in front.
    pub fn run(&self, arguments: &[&str]) -> Done {
        let mut command = Command::new(program());
        command.arg("--state").arg(&self.state).args(arguments).stdin(Stdio::null());
        done(command.output().unwrap())
    }

    /// A connection to a TCP address whose port is in a file of the state directory.
    pub fn tcp(&self, port_file: &str) -> std::net::TcpStream {
        let port = std::fs::read_to_string(self.state.join(port_file)).unwrap();
        std::net::TcpStream::connect(("127.0.0.1", port.trim().parse::<u16>().unwrap())).unwrap()
    }

    /// The header that shows the token of a file in the state directory.
    pub fn token(&self, token_file: &str) -> String {
        let token = std::fs::read_to_string(self.state.join(token_file)).unwrap();
        format!("authorization: Bearer {}\r\n", token.trim())
    }

    /// Runs a command that must succeed.
    pub fn good(&self, arguments: &[&str]) -> String {
        let done = self.run(arguments);
        assert_eq!(done.status, 0, "{arguments:?}: {}\n{}", done.err, self.log());
        assert_eq!(done.err, "", "{arguments:?}");
        done.out
    }

    /// Runs a command with `--json` that must succeed.
    pub fn json(&self, arguments: &[&str]) -> Value {
        let mut arguments = arguments.to_vec();
        arguments.push("--json");
        serde_json::from_str(&self.good(&arguments)).unwrap()
    }

    /// Runs a command that must be refused: status 1, nothing on stdout, one line on stderr that
    /// holds every word. On a slow machine lines of progress may come before it.
    pub fn refused(&self, arguments: &[&str], words: &[&str]) {
        let done = self.run(arguments);
        assert_eq!(done.status, 1, "{arguments:?}: {}{}", done.out, done.err);
        assert_eq!(done.out, "", "{arguments:?}");
        let is_error = |line: &&str| line.starts_with("ashlar: ");
        assert_eq!(done.err.lines().filter(is_error).count(), 1, "{arguments:?}: {}", done.err);
        assert!(done.err.lines().next_back().as_ref().is_some_and(is_error), "{arguments:?}: {}", done.err);
        for word in words {
            assert!(done.err.contains(word), "{arguments:?}: `{word}` is not in: {}", done.err);
        }
    }

    /// Runs a command whose usage is wrong: status 2.
    pub fn misused(&self, arguments: &[&str], words: &[&str]) {
        let done = self.run(arguments);
        assert_eq!(done.status, 2, "{arguments:?}: {}{}", done.out, done.err);
        for word in words {
            assert!(done.err.contains(word), "{arguments:?}: `{word}` is not in: {}", done.err);
        }
    }

    /// Waits until events hold every text.
    pub fn wait_for_events(&self, texts: &[&str]) {
        let end = Instant::now() + Duration::from_secs(30);
        loop {
            let events = self.good(&["events"]);
            let missing: Vec<&&str> = texts.iter().filter(|text| !events.contains(**text)).collect();
            if missing.is_empty() {
                return;
            }
            assert!(Instant::now() < end, "no event with {missing:?} in {events}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// The same with extra header lines; returns the whole answer.
    pub fn ask(&self, method: &str, path: &str, headers: &str, body: Option<&str>) -> Answer {
        let stream = UnixStream::connect(self.state.join("api.sock")).unwrap();
        exchange_whole(stream, method, path, headers, body)
    }

    /// One HTTP request over the socket, written by hand; returns status and body.
    pub fn http(&self, method: &str, path: &str, body: Option<&str>) -> (u16, String) {
        let stream = UnixStream::connect(self.state.join("api.sock")).unwrap();
        exchange(stream, method, path, "", body)
    }
}

impl Drop for Array {
    fn drop(&mut self) {
        if let Some(mut child) = self.serve.take() {
            // In order, so that nothing stays mounted; by force if that takes too long.
            let _ = rustix::process::kill_process(
                rustix::process::Pid::from_child(&child),
                rustix::process::Signal::TERM,
            );
            let end = Instant::now() + PATIENCE;
            while child.try_wait().is_ok_and(|status| status.is_none()) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = child.kill();
            let _ = child.wait();
        }
        if std::thread::panicking() {
            eprintln!("--- log of the array ---\n{}", self.log());
        }
    }
}

pub fn done(output: Output) -> Done {
    Done {
        status: output.status.code().unwrap_or(-1),
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// An answer over HTTP.
pub struct Answer {
    pub status: u16,
    /// Its status line and headers.
    pub head: String,
    pub body: String,
}

impl Answer {
    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().skip(1).filter_map(|line| line.split_once(": "));
        lines.into_iter().find(|(found, _)| found.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    pub fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or_else(|error| panic!("{error}: {}", self.body))
    }
}

/// Sends one request with extra header lines; returns status and body.
pub fn exchange<S: Read + Write>(
    stream: S,
    method: &str,
    path: &str,
    headers: &str,
    body: Option<&str>,
) -> (u16, String) {
    let answer = exchange_whole(stream, method, path, headers, body);
    (answer.status, answer.body)
}

/// Sends one request with extra header lines and reads the whole answer.
pub fn exchange_whole<S: Read + Write>(
    mut stream: S,
    method: &str,
    path: &str,
    headers: &str,
    body: Option<&str>,
) -> Answer {
    let lower = headers.to_lowercase();
    let host = if lower.contains("host:") { "" } else { "host: localhost\r\n" };
    let is_plain = body.is_some() && !lower.contains("content-type:");
    let kind = if is_plain { "content-type: application/json\r\n" } else { "" };
    let body = body.unwrap_or("");
    let length = body.len();
    let request = format!(
        "{method} {path} HTTP/1.1\r\n{host}{headers}{kind}content-length: {length}\r\nconnection: close\r\n\r\n{body}"
    );
    // A refusal may come, and the connection end, before all of a long request is out.
    let _ = stream.write_all(request.as_bytes());
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    let answer = String::from_utf8(answer).unwrap();
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("no answer: {answer}"));
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Answer { status, head: head.to_string(), body: body.to_string() }
}

/// True when this machine lets us attach: root, FUSE and loop devices.
pub fn can_attach() -> bool {
    let opens = |path: &str| std::fs::File::options().read(true).write(true).open(path).is_ok();
    let is_able = rustix::process::geteuid().is_root() && opens("/dev/fuse") && opens("/dev/loop-control");
    if !is_able {
        println!("skipped: needs root, /dev/fuse and loop devices");
    }
    is_able
}

/// True when a program is installed.
pub fn has_program(name: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let is_there = std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    if !is_there {
        println!("skipped: {name} is not installed");
    }
    is_there
}

/// Waits until something is so.
pub fn wait_until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !is_so() {
        assert!(Instant::now() < end, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}
