//! A working database on an array that suffers: orders on a pool that loses two drives and is killed.
//! Everything acknowledged is there, all conditions hold, in the database and in a clone of every snapshot.
#![allow(clippy::unwrap_used)]

mod support;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ashlar_postgres::{Adoption, Installation, Places, Search, Server, Settings};
use ashlar_programs::Launcher;
use ashlar_workload::driver::{Ending, Observer, Plan, Progress};
use ashlar_workload::orders::conditions::{self, Moment};
use ashlar_workload::orders::ledger::{Ledger, Mark};
use ashlar_workload::orders::{self, Orders, Size};
use support::{Array, can_attach};

const LIMIT: Duration = Duration::from_secs(60);
const SIZE: Size = Size { items: 1000, customers_per_district: 30, orders_per_district: 40 };

/// Has its way with the array while orders are worked off.
struct Suffering {
    array: Array,
    ledger: Arc<Ledger>,
    marks: Vec<(&'static str, Mark)>,
    step: usize,
}

impl Observer for Suffering {
    fn second(&mut self, progress: &Progress) {
        let due = Duration::from_secs(1 + self.step as u64);
        if progress.elapsed < due {
            return;
        }
        let drive = |number: &str| ["pool", "offline-drive", "main", number, "--yes"].map(String::from);
        match self.step {
            0 => self.snapshot("whole"),
            1 => drop(self.array.good(&drive("1").each_ref().map(String::as_str))),
            2 => self.snapshot("one-lost"),
            // The other drive is there, and full of rubbish where its data was.
            3 => rubbish(&self.array.path("d3.img")),
            4 => drop(self.array.good(&drive("3").each_ref().map(String::as_str))),
            5 => self.snapshot("two-lost"),
            6 => self.array.kill(),
            _ => {}
        }
        self.step += 1;
    }
}

impl Suffering {
    fn snapshot(&mut self, name: &'static str) {
        let (mark, _) = self.ledger.mark(|| self.array.good(&["snapshot", "create", name, "db"]));
        self.marks.push((name, mark));
    }
}

/// Behind its superblocks and before its end.
fn rubbish(drive: &Path) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::File::options().write(true).open(drive).unwrap();
    let noise: Vec<u8> = (0..1_u32 << 20).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for place in 1..64_u64 {
        file.write_all_at(&noise, place * (8 << 20)).unwrap();
    }
}

fn server(installation: &Installation, data: &Path, socket: &Path) -> Server {
    let places = Places {
        data: data.to_path_buf(),
        wal: None,
        tablespaces: Vec::new(),
        temporary: None,
        socket: socket.to_path_buf(),
        port: 5432,
    };
    let settings = Settings::new().with("listen_addresses", "").with("shared_buffers", "64MB");
    Server::new(installation, places, settings)
}

/// All conditions hold, and everything acknowledged before the mark is there.
fn assert_kept(what: &str, server: &Server, ledger: &Ledger, mark: Mark) -> u64 {
    let mut session = server.session().unwrap();
    for verdict in conditions::check(&mut session, Moment::AfterRun).unwrap() {
        assert!(
            verdict.holds,
            "{what}: condition {} ({}): {:?}",
            verdict.number, verdict.name, verdict.example
        );
    }
    let found = ledger.check(&mut session, mark).unwrap();
    assert!(found.holds(), "{what}: {:?}", found.problems);
    found.acknowledged_orders
}

#[test]
fn orders_outlive_two_drives_and_a_killed_array_in_every_snapshot() {
    if !can_attach() {
        return;
    }
    let array = Array::started();
    let drives =
        (0..5).map(|number| format!("{},size=1GiB", array.path(&format!("d{number}.img")).display()));
    let drives: Vec<String> = drives.flat_map(|drive| ["--drive".to_string(), drive]).collect();
    let mut create = vec!["pool", "create", "main", "--protection", "dual"];
    create.extend(drives.iter().map(String::as_str));
    array.good(&create);
    array.good(&["volume", "create", "db", "--size", "1GiB"]);
    let mount = array.path("mnt");
    let at = mount.display().to_string();
    array.good(&["attach", "db", "--format", "ext4", "--mount", &at]);

    let logs = array.path("programs");
    std::fs::create_dir(&logs).unwrap();
    let launcher = Arc::new(Launcher::new(logs.clone(), logs, Arc::new(AtomicBool::new(false))));
    let installation = Installation::ensure(&launcher, &Search::default()).unwrap().0;
    let mut database = server(&installation, &mount.join("pgdata"), &array.path("socket"));
    database.initialise().unwrap();
    database.start().unwrap();
    let load = orders::Load { warehouses: 2, size: SIZE, seed: 1, sessions: 2, limit: LIMIT };
    let never = AtomicBool::new(false);
    orders::load(&database.address(), &load, &never).unwrap();
    let ledger = Arc::new(Ledger::begin(&mut database.session().unwrap(), None).unwrap());
    let workload = Orders::open(&database.address(), orders::Settings::new(1), Some(ledger.clone())).unwrap();
    let plan = Plan::closed(8, Duration::ZERO, Duration::from_secs(120), 3);
    let mut suffering = Suffering { array, ledger: ledger.clone(), marks: Vec::new(), step: 0 };
    let outcome = workload.run(&plan, &never, &mut suffering).unwrap().outcome;
    let Suffering { mut array, marks, .. } = suffering;
    assert!(matches!(outcome.ending, Ending::Lost(_) | Ending::Failed(_)), "{:?}", outcome.ending);
    assert_eq!(marks.len(), 3);
    let committed = outcome.kind("new_order").unwrap().committed;
    assert!(committed > 50, "{committed}");
    database.abandon();
    drop(database);

    array.start();
    array.wait_attached("db");
    let mut database = server(&installation, &mount.join("pgdata"), &array.path("socket"));
    database.forget_lock().unwrap();
    database.start().unwrap();
    assert_eq!(assert_kept("the database", &database, &ledger, ledger.now()), committed);
    let mut before = 0;
    for (name, mark) in marks {
        let mount = array.path(&format!("mnt-{name}"));
        let clone = format!("clone-of-{name}");
        array.good(&["clone", "create", &clone, "--from", name]);
        array.good(&["attach", &clone, "--mount", &mount.display().to_string()]);
        let mut copy = server(&installation, &mount.join("pgdata"), &array.path("socket-of-copy"));
        copy.adopt(&Adoption::default()).unwrap();
        copy.start().unwrap();
        let count = assert_kept(name, &copy, &ledger, mark);
        assert!((before..=committed).contains(&count), "{name}: {count}");
        before = count;
        copy.stop().unwrap();
        array.good(&["detach", &clone]);
    }
    assert!(before > 0);
    database.stop().unwrap();
    array.good(&["detach", "db"]);
    array.good(&["pool", "scrub", "main"]);
}
