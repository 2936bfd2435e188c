//! A PostgreSQL server of a test's own: a new directory, a socket in it, gone when the test's process is.

use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::time::{Duration, Instant};

use ashlar_postgres::{Address, Session};

const BIN: &str = "/usr/lib/postgresql/15/bin";
/// No statement of a test takes as long on a busy machine.
pub const LIMIT: Duration = Duration::from_secs(60);
/// As long as a crash recovery of a test may take on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(60);

/// Starts the server and waits until its input ends, which it does with the process that started it. Then the
/// server is stopped, and with "gone" for an answer its directory removed.
const WATCH: &str = r#"
trap '' INT TERM
"$1/postgres" -D "$2/data" -k "$2" -c listen_addresses= -c unix_socket_permissions=0777 $3 \
    </dev/null >>"$2/log" 2>&1 &
server=$!
echo $server
read -r answer
kill -QUIT $server 2>/dev/null
wait $server
[ "$answer" = keep ] || rm -rf "$2"
"#;

pub struct Server {
    directory: PathBuf,
    settings: String,
    watch: Option<(Child, ChildStdin)>,
    pid: u32,
}

/// As the account `postgres`, when the tests run as root: the server refuses to be root.
fn as_postgres(program: &str) -> Command {
    let is_root = std::fs::metadata("/proc/self").expect("proc").uid() == 0;
    if !is_root {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups", "--", program]);
    command
}

fn answer(command: &mut Command) -> String {
    let output = command.current_dir("/").output().expect("the command starts");
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}: {error}");
    String::from_utf8_lossy(&output.stdout).trim().to_string()
}

impl Server {
    /// A new one. `settings` are of the command line, `-c NAME=VALUE`.
    pub fn new(settings: &str) -> Server {
        let directory = answer(as_postgres("mktemp").args(["-d", "/tmp/ashlar-workload-XXXXXX"]));
        let directory = PathBuf::from(directory);
        answer(as_postgres("chmod").arg("755").arg(&directory));
        let initdb = format!("{BIN}/initdb");
        let mut command = as_postgres(&initdb);
        command.args([
            "--no-sync",
            "--auth=trust",
            "--username=postgres",
            "--encoding=UTF8",
            "--locale=C",
            "-D",
        ]);
        answer(command.arg(directory.join("data")));
        let mut server = Server { directory, settings: settings.to_string(), watch: None, pid: 0 };
        server.start();
        server
    }

    pub fn address(&self) -> Address {
        Address::socket(&self.directory, 5432)
    }

    pub fn session(&self) -> Session {
        Session::open(&self.address(), "test", LIMIT).expect("the server answers")
    }

    /// Where its data are.
    pub fn data(&self) -> PathBuf {
        self.directory.join("data")
    }

    pub fn start(&mut self) {
        let mut command = as_postgres("sh");
        command.args(["-c", WATCH, "sh", BIN]).arg(&self.directory).arg(&self.settings).current_dir("/");
        let mut watch = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("sh starts");
        let mut line = String::new();
        let stdout = watch.stdout.as_mut().expect("piped");
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line).expect("a pid");
        self.pid = line.trim().parse().expect("a pid");
        let stdin = watch.stdin.take().expect("piped");
        self.watch = Some((watch, stdin));
        let start = Instant::now();
        while Session::open(&self.address(), "test", LIMIT).is_err() {
            assert!(start.elapsed() < START_LIMIT, "{}", self.log());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Kills every process of the server at once; nothing is written any more.
    pub fn kill(&mut self) {
        let signal = |name: &str, pids: &[String]| {
            // A process that ended by itself meanwhile makes kill complain.
            Command::new("kill").arg(name).args(pids).output().expect("kill starts")
        };
        // Or it would start more of them meanwhile.
        signal("-STOP", &[self.pid.to_string()]);
        let pids = [vec![self.pid], children(self.pid)].concat();
        let pids: Vec<String> = pids.iter().map(ToString::to_string).collect();
        signal("-KILL", &pids);
        self.end("keep");
        let is_there = |pid: &String| Path::new("/proc").join(pid).join("fd").exists();
        while pids.iter().any(is_there) {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// Stops it in good order.
    pub fn stop(&mut self) {
        let pg_ctl = format!("{BIN}/pg_ctl");
        answer(
            as_postgres(&pg_ctl).args(["-m", "fast", "-w", "stop", "-D"]).arg(self.directory.join("data")),
        );
        self.end("keep");
    }

    /// Runs a command as the server's account, in its directory's place.
    pub fn command(&self, program: &str, arguments: &[&str]) -> String {
        answer(as_postgres(program).args(arguments).env("PGHOST", &self.directory).env("PGUSER", "postgres"))
    }

    fn end(&mut self, word: &str) {
        if let Some((mut watch, mut stdin)) = self.watch.take() {
            // It may have ended already; then nobody reads this.
            let _ = writeln!(stdin, "{word}");
            drop(stdin);
            watch.wait().expect("sh ends");
        }
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("log")).unwrap_or_default()
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end("gone");
    }
}

/// Processes whose parent this is.
fn children(parent: u32) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").expect("proc").flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let is_child = |pid: &u32| {
        let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        let rest = stat.rsplit_once(')').map_or("", |(_, rest)| rest);
        rest.split_whitespace().nth(1).and_then(|field| field.parse().ok()) == Some(parent)
    };
    pids.filter(is_child).collect()
}
