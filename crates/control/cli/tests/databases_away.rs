//! Clones that run on another machine. That machine is a mount namespace of this one with nothing of the
//! array's state in it: its iSCSI is qemu's, which copies the volumes into files and back, and its systemd a
//! few lines of shell that do what the units say. The script that the array prints runs as it is.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use ashlar_postgres::{Address, Session};
use serde_json::Value;
use support::iscsi::{GOOD, Initiator};
use support::{Array, Done, done, has_program};

const HOST: &str = "iqn.2026-11.io.example:db1";
const OTHER: &str = "iqn.2026-11.io.example:db2";
const PATIENCE: Duration = Duration::from_secs(60);
/// What the server's account is called by on the other machine: not as here.
const ACCOUNT_THERE: u32 = 54_321;
/// LOGICAL UNIT NOT SUPPORTED (SPC-4 table D.1).
const UNIT_NOT_SUPPORTED: u16 = 0x2500;

/// An array that serves iSCSI, with a database `prod` and a host `db1`.
struct Site {
    array: Array,
    port: u16,
}

impl Site {
    fn new() -> Option<Site> {
        if !support::can_attach() {
            return None;
        }
        let mut array = Array::unstarted();
        let open = std::os::unix::fs::PermissionsExt::from_mode(0o711);
        std::fs::set_permissions(array.path(""), open).unwrap();
        let settings = support::for_databases();
        array.configure(&format!("{settings}iscsi_listen = [\"127.0.0.1:0\"]\n"));
        array.start();
        let port = iscsi_port(&array);
        array.configure(&format!("{settings}iscsi_listen = [\"127.0.0.1:{port}\"]\n"));
        let drive = format!("{},size=3GiB", array.path("main.img").display());
        array.good(&["pool", "create", "main", "--drive", &drive]);
        array.good(&["host", "create", "db1", "--iqn", HOST]);
        let site = Site { array, port };
        let more = ["--log-size", "256MiB", "--tablespace", "archive=128MiB", "--temp-size", "128MiB"];
        let words = [&["database", "create", "prod", "--size", "512MiB"][..], &more].concat();
        site.array.good(&words);
        site.ask("prod", "create table t as select generate_series(1, 1000) as x");
        site.ask("prod", "create table old tablespace archive as select generate_series(1, 500) as x");
        // PostgreSQL makes the directory of a new tablespace, and leaves it to the file system when it is
        // durable: a clone of the seconds before is refused.
        let tablespace = site.array.state().join("databases/prod/tablespace-archive");
        assert!(Command::new("sync").arg("--file-system").arg(tablespace).status().unwrap().success());
        Some(site)
    }

    /// Where a server of this name answers, on whatever machine.
    fn ask(&self, name: &str, statement: &str) -> String {
        let address = Address::Url(self.array.good(&["database", "url", name]).trim().to_string());
        let end = Instant::now() + PATIENCE;
        let mut session = loop {
            match Session::open(&address, "test", Duration::from_secs(30)) {
                Ok(session) => break session,
                Err(error) => assert!(Instant::now() < end, "{name}: {error}"),
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        let rows = session.run(statement).unwrap();
        rows.first().and_then(|row| row[0].clone()).unwrap_or_default()
    }

    /// How often the array said that it exports a volume to the host.
    fn exports_told(&self) -> usize {
        self.array.log().matches("exported to db1 as LUN").count()
    }

    fn wait_for_exports(&self, count: usize) {
        let end = Instant::now() + PATIENCE;
        while self.exports_told() < count {
            assert!(Instant::now() < end, "{}", self.array.log());
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn show(&self, name: &str) -> Value {
        self.array.json(&["database", "show", name])
    }

    /// The volumes of the exports there are.
    fn exported(&self) -> Vec<String> {
        let all = self.array.json(&["export", "list"]);
        all.as_array().unwrap().iter().map(|one| one["volume"].as_str().unwrap().to_string()).collect()
    }

    /// Copies a unit into a file, or the file into the unit.
    fn copy(&self, unit: &Value, target: &str, file: &Path, is_back: bool) -> Done {
        let portal = format!("portal=127.0.0.1:{},target={target},lun={unit}", self.port);
        let unit = format!("driver=iscsi,transport=tcp,{portal},initiator-name={HOST}");
        let file = file.to_str().unwrap();
        let mut command = Command::new("qemu-img");
        match is_back {
            true => command.args(["convert", "-n", "-f", "raw", "--target-image-opts", file]).arg(&unit),
            false => command.args(["convert", "--image-opts", "-O", "raw", &unit, file]),
        };
        done(command.stdin(Stdio::null()).output().unwrap())
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        support::end_databases(&self.array);
    }
}

fn iscsi_port(array: &Array) -> u16 {
    let status = array.json(&["status"]);
    let doors = status["doors"].as_array().unwrap();
    let door = doors.iter().find(|door| door["name"] == "iscsi").unwrap();
    door["address"].as_str().unwrap().rsplit(':').next().unwrap().parse().unwrap()
}

/// What stands for systemd: `enable --now` and `disable --now` do what is in the unit.
const SYSTEMCTL: &str = r#"#!/bin/sh
echo "systemctl $*" >> "$(dirname "$0")/said"
value() { sed -n "s/^$1=//p" "/etc/systemd/system/$unit"; }
unit="${3:-}"
pid="$(cat "$(dirname "$0")/server.pid" 2> /dev/null)"
runs() { kill -0 "$pid" 2> /dev/null && [ "$(cut -d' ' -f3 "/proc/$pid/stat")" != Z ]; }
case "$1 ${2:-} $unit" in
    "enable --now "*.mount) mountpoint -q "$(value Where)" && exit
        exec mount -t "$(value Type)" -o "$(value Options)" "$(value What)" "$(value Where)" ;;
    "disable --now "*.mount) exec umount "$(value Where)" ;;
    "enable --now "*.service)
        runs && exit
        set -- $(value ExecStart)
        setsid setpriv --reuid "$(id -u "$(value User)")" --regid "$(id -g "$(value User)")" --clear-groups \
            "$@" > "$(dirname "$0")/server.log" 2>&1 < /dev/null &
        echo $! > "$(dirname "$0")/server.pid"
        ;;
    "disable --now "*.service)
        kill -INT "$pid"
        while runs; do sleep 0.05; done
        ;;
    "-q is-active "*) exit 3 ;;
esac
"#;
/// What stands for open-iscsi: no session and no node is there yet.
const ISCSIADM: &str = r#"#!/bin/sh
echo "iscsiadm $*" >> "$(dirname "$0")/said"
case "$*" in
    "-m session") exit 21 ;;
    *-o*|*--login*) exit 0 ;;
    *) exit 21 ;;
esac
"#;
const DOES_NOTHING: &str = "#!/bin/sh\necho \"$(basename \"$0\") $*\" >> \"$(dirname \"$0\")/said\"\n";
/// A /dev with little in it, no state of the array, no units, and an account of another number.
const FURNISH: &str = r#"set -eu
mkdir -p "$1/dev"
mount -t tmpfs -o mode=755 none "$1/dev"
for device in /dev/null /dev/zero /dev/full /dev/random /dev/urandom $4; do
    touch "$1$device"
    mount --bind "$device" "$1$device"
done
mkdir -p "$1/dev/shm" "$1/dev/disk/by-id"
mount -t tmpfs -o mode=1777 none "$1/dev/shm"
mount --rbind "$1/dev" /dev
mount -t tmpfs -o mode=755 none "$2"
mkdir -p /etc/systemd/system
mount -t tmpfs none /etc/systemd/system
sed "s/^postgres:\([^:]*\):[0-9]*:/postgres:\1:$3:/" /etc/passwd > "$1/passwd"
mount --bind "$1/passwd" /etc/passwd
exec sleep 3600
"#;

/// The other machine.
struct Machine {
    holder: Child,
    directory: PathBuf,
    loops: Vec<String>,
}

impl Machine {
    /// It has these files as devices, which udev calls by these names.
    fn new(site: &Site, devices: &[(PathBuf, String)]) -> Machine {
        let loops: Vec<String> = devices.iter().map(|(file, _)| loop_device(file)).collect();
        let directory = site.array.path("machine");
        std::fs::create_dir(&directory).unwrap();
        let program = |name: &str, text: &str| {
            let path = directory.join(name);
            std::fs::write(&path, text).unwrap();
            std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        };
        program("systemctl", SYSTEMCTL);
        program("iscsiadm", ISCSIADM);
        program("udevadm", DOES_NOTHING);
        program("modprobe", DOES_NOTHING);
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private", "sh", "-c", FURNISH, "sh"]);
        command.arg(&directory).arg(site.array.state()).args([&ACCOUNT_THERE.to_string(), &loops.join(" ")]);
        let holder = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let machine = Machine { holder, directory, loops };
        let end = Instant::now() + PATIENCE;
        while machine.run("grep -q :54321: /etc/passwd && test -d /dev/disk/by-id").status != 0 {
            assert!(Instant::now() < end, "the machine is not furnished");
            std::thread::sleep(Duration::from_millis(20));
        }
        for (device, (_, name)) in machine.loops.iter().zip(devices) {
            machine.good(&format!("ln -s {device} /dev/disk/by-id/{name}"));
        }
        machine
    }

    /// Runs a line there as root, with the programs of this machine that are no stand-ins.
    fn run(&self, line: &str) -> Done {
        let mut command = Command::new("nsenter");
        command.args(["--mount", "--target", &self.holder.id().to_string(), "sh", "-c"]);
        let line = format!("PATH={}:$PATH:/usr/sbin; export PATH; {line}", self.directory.display());
        done(command.arg(line).stdin(Stdio::null()).output().unwrap())
    }

    fn good(&self, line: &str) -> String {
        let done = self.run(line);
        assert_eq!(done.status, 0, "{line}: {}{}\n{}", done.out, done.err, self.said("server.log"));
        done.out
    }

    fn said(&self, name: &str) -> String {
        std::fs::read_to_string(self.directory.join(name)).unwrap_or_default()
    }

    fn remove_devices(&mut self) {
        for device in self.loops.drain(..) {
            let freed = Command::new("losetup").args(["--detach", &device]).status().unwrap();
            assert!(freed.success(), "{device}");
        }
    }
}

fn loop_device(file: &Path) -> String {
    let made = done(Command::new("losetup").args(["--find", "--show"]).arg(file).output().unwrap());
    assert_eq!(made.status, 0, "{}", made.err);
    made.out.trim().to_string()
}

impl Drop for Machine {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("--- the other machine ---\n{}\n{}", self.said("said"), self.said("server.log"));
            let _ = self.run("kill -KILL $(cat server.pid)");
        }
        let _ = self.holder.kill();
        let _ = self.holder.wait();
        for device in self.loops.drain(..) {
            let _ = Command::new("losetup").args(["--detach", &device]).status();
        }
    }
}

/// What this needs besides an array that attaches.
fn has_programs() -> bool {
    let all = ["qemu-img", "nsenter", "unshare", "setpriv", "systemd-escape", "losetup"];
    let driver = Path::new("/usr/lib/x86_64-linux-gnu/qemu/block-iscsi.so");
    all.iter().all(|one| has_program(one)) && {
        let is_there = driver.exists();
        if !is_there {
            println!("skipped: qemu has no iSCSI driver (qemu-block-extra)");
        }
        is_there
    }
}

/// Page 83h of a unit: its first designator, as udev names disks by it.
fn wwn_told(site: &Site, target: &str, unit: u8) -> String {
    let mut initiator = Initiator::log_in(site.port, HOST, target).unwrap();
    initiator.hear(unit);
    let told = initiator.command(unit, &[0x12, 1, 0x83, 0, 252, 0], &[]);
    assert_eq!((told.status, told.data[5] & 0x0f, told.data[7]), (GOOD, 3, 8), "{told:x?}");
    let digits: Vec<String> = told.data[8..16].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("0x{}", digits.concat())
}

fn check_refused_while_away(site: &Site) {
    let array = &site.array;
    let words = &["`dev` is away at host `db1`", "ashlar database return dev"];
    for request in [
        &["start", "dev"][..],
        &["stop", "dev"],
        &["reset", "dev", "--yes"],
        &["reset", "dev", "--latest", "--yes"],
        &["clone", "dev", "next"],
        &["snapshot", "dev", "now"],
        &["snapshot", "prod,dev", "now", "--checkpoint"],
        &["settings", "dev", "work_mem=8MB"],
        &["resize", "dev", "--size", "1GiB"],
        &["verify", "dev"],
        &["diff", "prod", "dev"],
        &["waits", "dev", "--time", "1s"],
    ] {
        array.refused(&[&["database"][..], request].concat(), words);
    }
    array.refused(&["attach", "dev-data"], &["exported over iSCSI"]);
    array.refused(&["export", "delete", "dev-data"], &["away at host `db1`", "database return dev"]);
    array.refused(&["host", "delete", "db1"], &["names host `db1`"]);
    array.refused(&["database", "handover", "prod"], &["`prod` is not away"]);
    // Nobody is asked about what is not away.
    array.refused(&["database", "return", "prod"], &["`prod` is not away"]);
}

/// Nothing of it is on this machine, and its host has it.
fn check_away(site: &Site) {
    let shown = site.show("dev");
    assert_eq!((&shown["state"], &shown["away"]["host"]), (&"away".into(), &"db1".into()), "{shown}");
    assert!(site.array.good(&["database", "list"]).contains("away at db1"));
    let volumes = ["dev-data", "dev-log", "dev-tablespace-archive", "dev-temp"];
    assert_eq!(site.exported(), volumes);
    for volume in volumes {
        assert!(site.array.json(&["volume", "show", volume])["device"].is_null(), "{volume} is attached");
        assert_eq!(site.array.json(&["export", "show", volume])["hosts"], serde_json::json!(["db1"]));
    }
    let mounted = std::fs::read_to_string("/proc/self/mounts").unwrap();
    let below = site.array.state().join("databases/dev/");
    assert!(!mounted.contains(below.to_str().unwrap()), "{mounted}");
    assert!(ashlar_postgres::processes_below(&below).is_empty());
}

/// Copies of the volumes, and what udev calls each: by what the unit itself tells.
fn units_as_files(site: &Site, handover: &Value) -> Vec<(PathBuf, String)> {
    let target = handover["target"].as_str().unwrap();
    let mut devices = Vec::new();
    for (index, volume) in handover["volumes"].as_array().unwrap().iter().enumerate() {
        let wwn = volume["wwn"].as_str().unwrap();
        assert_eq!(wwn, wwn_told(site, target, volume["lun"].as_u64().unwrap() as u8));
        let file = site.array.path(&format!("unit-{index}"));
        let copied = site.copy(&volume["lun"], target, &file, false);
        assert_eq!(copied.status, 0, "{}", copied.err);
        // Of the names that a system may have the least one is there, for one of them.
        let name = if index == 1 { format!("scsi-3{}", &wwn[2..]) } else { format!("wwn-{wwn}") };
        devices.push((file, name));
    }
    devices
}

#[test]
fn a_clone_runs_on_another_machine_and_comes_back() {
    if !has_programs() {
        return;
    }
    let Some(mut site) = Site::new() else { return };
    let cloned = site.array.json(&["database", "clone", "prod", "dev", "--host", "db1"]);
    let handover = &cloned["handover"];
    assert_eq!(handover, &site.array.json(&["database", "handover", "dev"]));
    let password = |name: &str| {
        let url = site.array.good(&["database", "url", name]);
        url.split(':').nth(2).and_then(|rest| rest.split('@').next()).unwrap().to_string()
    };
    assert_ne!(password("dev"), password("prod"), "the other machine is not to know it");
    check_away(&site);
    check_refused_while_away(&site);
    let before = (site.exported(), handover.clone());
    site.array.terminate();
    site.array.start();
    check_away(&site);
    site.array.kill();
    site.array.start();
    check_away(&site);
    assert_eq!(before, (site.exported(), site.array.json(&["database", "handover", "dev"])));

    // Nobody else sees it.
    let target = handover["target"].as_str().unwrap();
    let devices = units_as_files(&site, handover);
    assert_eq!(
        Initiator::log_in(site.port, OTHER, target).unwrap().command(0, &[0; 6], &[]).sense_code(),
        UNIT_NOT_SUPPORTED
    );

    let mut machine = Machine::new(&site, &devices);
    let script = site.array.path("dev.sh");
    std::fs::write(&script, site.array.good(&["database", "handover", "dev"])).unwrap();
    let script = script.display();
    machine.good(&format!("sh {script}"));
    assert_eq!(site.ask("dev", "select count(*) from t"), "1000", "{}", machine.said("server.log"));
    assert_eq!(site.ask("dev", "select count(*) from old"), "500");
    assert_eq!(site.ask("dev", "show cluster_name"), "dev");
    // Of the data directory, as its server there has it: given to the account of that machine.
    let data = handover["data_directory"].as_str().unwrap();
    assert_eq!(machine.good(&format!("stat -c %u {data}")).trim(), ACCOUNT_THERE.to_string());
    assert_eq!(site.ask("dev", "insert into t values (0) returning 'in'"), "in");
    let said = machine.said("said");
    for words in
        ["node.startup -v automatic", "--login", "enable --now ashlar-database-dev.service", "udevadm settle"]
    {
        assert!(said.contains(words), "{words}: {said}");
    }
    assert!(!said.contains("auth.password"), "no secret was given: {said}");
    // The array's machine does not take it for its own, even where that is the same one.
    assert_eq!(site.show("dev")["state"], "away");
    // Once more: what is there stays.
    machine.good(&format!("sh {script}"));
    machine.good(&format!("sh {script} remove"));
    assert_eq!(machine.good("ls -A /etc/systemd/system"), "");
    machine.remove_devices();

    for (volume, (file, _)) in handover["volumes"].as_array().unwrap().iter().zip(&devices) {
        let copied = site.copy(&volume["lun"], target, file, true);
        assert_eq!(copied.status, 0, "{}", copied.err);
    }
    site.array.good(&["database", "return", "dev", "--yes"]);
    assert_eq!(site.ask("dev", "select count(*) from t"), "1001", "what was written there is not here");
    assert_eq!(site.ask("dev", "select count(*) from old"), "500");
    assert_eq!((site.show("dev")["state"].as_str(), site.exported().len()), (Some("running"), 0));
    site.array.good(&["database", "reset", "dev", "--yes"]);
    assert_eq!(site.ask("dev", "select count(*) from t"), "1000");
}

#[test]
fn a_deleted_clone_is_taken_from_its_host() {
    let Some(site) = Site::new() else { return };
    let volumes = || {
        let listed = site.array.json(&["volume", "list"]);
        listed.as_array().unwrap().iter().map(|volume| volume["name"].clone()).collect::<Vec<_>>()
    };
    let before = volumes();
    let clone = |host: &str| ["database", "clone", "prod", "dev", "--host", host].map(str::to_string);
    let refused = |host: &str, words: &[&str]| {
        let request = clone(host);
        site.array.refused(&request.each_ref().map(String::as_str), words);
        assert_eq!((volumes(), site.exported().len()), (before.clone(), 0));
    };
    refused("nobody", &["host `nobody` does not exist"]);
    let drive = format!("{},size=1GiB", site.array.path("other.img").display());
    site.array.good(&["pool", "create", "other", "--drive", &drive]);
    site.array.good(&["host", "create", "db2", "--iqn", OTHER, "--pool", "other"]);
    refused("db2", &["host `db2` is one of pool `other`"]);
    let shop = ["database", "create", "shop", "--engine", "none", "--size", "256MiB", "--pool", "main"];
    site.array.good(&shop);
    let request = ["database", "clone", "shop", "dev", "--host", "db1"];
    site.array.refused(&request, &["does not know how its server runs on another machine"]);
    site.array.good(&["database", "delete", "shop", "--yes"]);

    // The script is what the command prints, and is for sh.
    let script =
        site.array.good(&["database", "clone", "prod", "dev", "--host", "db1", "--memory", "512MiB"]);
    assert!(script.starts_with("#!/bin/sh\n") && script.contains("MemoryMax=536870912"), "{script}");
    assert!(script.contains("NOTE: the array serves iSCSI to its own machine alone"), "{script}");
    let target = site.array.json(&["export", "list"])[0]["target"].as_str().unwrap().to_string();
    let mut initiator = Initiator::log_in(site.port, HOST, &target).unwrap();
    initiator.hear(0);
    assert_eq!(initiator.command(0, &[0; 6], &[]).status, GOOD);
    let deleted = site.array.json(&["database", "delete", "dev", "--yes"]);
    assert!(deleted["notes"].to_string().contains("host db1 has its volumes no more"), "{deleted}");
    assert_eq!(initiator.command(0, &[0; 6], &[]).sense_code(), UNIT_NOT_SUPPORTED);
    assert_eq!((volumes(), site.exported().len()), (before, 0));
    site.array.good(&["host", "delete", "db1", "--force", "--yes"]);
}

/// Wherever the array is killed meanwhile: the clone is away as a whole, or nothing of it is there.
#[test]
fn a_handover_that_is_cut_short_is_whole_or_undone() {
    let Some(mut site) = Site::new() else { return };
    let began = Instant::now();
    site.array.good(&["database", "clone", "prod", "dev", "--host", "db1"]);
    let whole = began.elapsed();
    site.array.good(&["database", "delete", "dev", "--yes"]);
    let mut met = Vec::new();
    for round in 1..=8 {
        let exports = site.exports_told();
        let mut command = Command::new(env!("CARGO_BIN_EXE_ashlar"));
        command.arg("--state").arg(site.array.state());
        command.args(["database", "clone", "prod", "dev", "--host", "db1"]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        match round {
            // Between its exports.
            1..=4 => site.wait_for_exports(exports + round as usize),
            _ => std::thread::sleep(whole * (round * 2 - 3) / 10),
        }
        site.array.kill();
        child.wait().unwrap();
        site.array.start();
        let end = Instant::now() + PATIENCE;
        let is_away = loop {
            let all = site.array.json(&["database", "list"]);
            let dev = all.as_array().unwrap().iter().find(|one| one["name"] == "dev");
            match dev.map(|dev| dev["state"].as_str().unwrap()) {
                None => break false,
                Some("away") => break true,
                Some(state) => assert!(Instant::now() < end, "{round}: {state}\n{}", site.array.log()),
            }
            std::thread::sleep(Duration::from_millis(50));
        };
        met.push(is_away);
        match is_away {
            true => {
                check_away(&site);
                site.array.good(&["database", "delete", "dev", "--yes"]);
            }
            false => assert!(site.exported().is_empty(), "{round}: {:?}", site.exported()),
        }
        let volumes = site.array.good(&["volume", "list"]);
        assert!(!volumes.contains("dev-"), "{round}: {volumes}");
    }
    println!("away after a kill: {met:?}");
    assert_eq!(site.ask("prod", "select count(*) from t"), "1000");
}
