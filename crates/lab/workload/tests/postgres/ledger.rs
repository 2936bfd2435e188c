//! The ledger: what was acknowledged is found again after a crash, and what is not there is told.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ashlar_postgres::{Address, Session};
use ashlar_workload::driver::{Ending, Observer, Outcome, Plan, Progress};
use ashlar_workload::orders::conditions::Moment;
use ashlar_workload::orders::ledger::{Found, Ledger, Mark, ProblemKind};
use ashlar_workload::orders::{Draw, Mix, Orders, Settings};

use super::database::{Database, assert_holds, counted, load_into};
use super::server::Server;

fn begin(session: &mut Session, file: Option<&Path>) -> Arc<Ledger> {
    Arc::new(Ledger::begin(session, file).expect("it begins"))
}

fn run(address: &Address, ledger: &Arc<Ledger>, plan: &Plan, observer: &mut dyn Observer) -> Outcome {
    let orders = Orders::open(address, Settings::new(1), Some(Arc::clone(ledger))).expect("it is loaded");
    orders.run(plan, &AtomicBool::new(false), observer).expect("it runs").outcome
}

fn committed(outcome: &Outcome, name: &str) -> u64 {
    outcome.kind(name).map_or(0, |kind| kind.committed)
}

fn kinds(found: &Found) -> Vec<ProblemKind> {
    let mut kinds: Vec<ProblemKind> = found.problems.iter().map(|problem| problem.kind).collect();
    kinds.sort_by_key(|kind| format!("{kind:?}"));
    kinds
}

#[test]
fn after_a_crash_under_load_everything_acknowledged_is_there() {
    struct Killer(Server);
    impl Observer for Killer {
        fn second(&mut self, progress: &Progress) {
            if progress.elapsed >= Duration::from_secs(2) {
                self.0.kill();
            }
        }
    }
    let mut killer = Killer(Server::new("-c shared_buffers=64MB"));
    let address = killer.0.address();
    load_into(&address, 2, 1);
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("ledger");
    let ledger = begin(&mut killer.0.session(), Some(&path));
    let plan = Plan::closed(8, Duration::ZERO, Duration::from_secs(600), 3);
    let outcome = run(&address, &ledger, &plan, &mut killer);
    let Ending::Lost(sight) = &outcome.ending else { panic!("{:?}", outcome.ending) };
    println!("client {} saw first: {}", sight.client, sight.context);
    assert!((2.0..60.0).contains(&outcome.measured_seconds), "{}", outcome.measured_seconds);
    killer.0.start();
    let mut session = killer.0.session();
    assert_holds(&mut session, Moment::AfterRun);
    let found = ledger.check(&mut session, ledger.now()).expect("it answers");
    println!("{found:?}");
    assert!(found.holds(), "{found:?}");
    assert_eq!(found.acknowledged_orders, committed(&outcome, "new_order"));
    assert_eq!(found.acknowledged_payments, committed(&outcome, "payment"));
    assert!(found.acknowledged_orders > 20 && found.unknown_absent + found.unknown_present <= 8, "{found:?}");
    // Whoever wrote it may be gone: the file tells the same.
    let read = Ledger::read(&path).expect("it is whole");
    assert_eq!(read.check(&mut session, read.now()).expect("it answers"), found);
    // A run that goes on after the crash gives numbers again whose orders were never acknowledged.
    let more = run(&address, &ledger, &counted(4, 50), &mut ());
    let found = ledger.check(&mut session, ledger.now()).expect("it answers");
    assert!(found.holds(), "{found:?}");
    let orders = committed(&outcome, "new_order") + committed(&more, "new_order");
    assert_eq!(found.acknowledged_orders, orders);
}

#[test]
fn an_older_copy_of_the_data_is_told_and_a_mark_says_what_it_holds() {
    let mut server = Server::new("-c fsync=off -c shared_buffers=64MB");
    let address = server.address();
    load_into(&address, 1, 1);
    let ledger = begin(&mut server.session(), None);
    let first = run(&address, &ledger, &counted(3, 60), &mut ());
    let [data, old] = ["data", "old"].map(|name| server.data().with_file_name(name).display().to_string());
    // As a snapshot of the volume would be.
    let (mark, ()) = ledger.mark(|| {
        server.stop();
        server.command("cp", &["-a", &data, &old]);
    });
    server.start();
    let second = run(&address, &ledger, &counted(3, 60), &mut ());
    let checked =
        |server: &Server, mark: Mark| ledger.check(&mut server.session(), mark).expect("it answers");
    assert!(checked(&server, ledger.now()).holds());
    let later = checked(&server, mark);
    assert_eq!(kinds(&later), [ProblemKind::OrderFromLater, ProblemKind::PaymentFromLater]);
    assert_eq!(later.problems[0].count, committed(&second, "new_order"), "{later:?}");
    server.stop();
    server.command("rm", &["-rf", &data]);
    server.command("mv", &[&old, &data]);
    server.start();
    let found = checked(&server, mark);
    assert!(found.holds(), "{found:?}");
    assert_eq!(found.acknowledged_orders, committed(&first, "new_order"));
    let lost = checked(&server, ledger.now());
    assert_eq!(kinds(&lost), [ProblemKind::OrderMissing, ProblemKind::PaymentMissing]);
    assert_eq!(lost.problems[0].count, committed(&second, "new_order"), "{lost:?}");
    assert_eq!(lost.problems[1].count, committed(&second, "payment"), "{lost:?}");
    // The data are whole in themselves: only the ledger knows better.
    assert_holds(&mut server.session(), Moment::AfterRun);
    // Numbers are given a second time now, even to orders that are alike; the first ones are still missing.
    run(&address, &ledger, &counted(3, 60), &mut ());
    let lost = checked(&server, ledger.now());
    assert_eq!(kinds(&lost), [ProblemKind::OrderMissing, ProblemKind::PaymentMissing]);
    assert_eq!(lost.problems[0].count, committed(&second, "new_order"), "{lost:?}");
}

#[test]
fn marks_under_load_say_what_a_snapshot_must_hold() {
    /// Sees the database as it was at a mark: what a snapshot would hold.
    struct Snapshots<'a> {
        ledger: &'a Ledger,
        database: &'a Database,
        seen: Vec<(Mark, Session)>,
    }
    impl Observer for Snapshots<'_> {
        fn second(&mut self, _progress: &Progress) {
            let mut session = self.database.session();
            let (mark, answer) = self
                .ledger
                .mark(|| session.run("BEGIN ISOLATION LEVEL REPEATABLE READ; SELECT count(*) FROM pg_class"));
            answer.expect("it answers");
            self.seen.push((mark, session));
        }
    }
    let (database, _) = Database::loaded("marks", 1, 1);
    let ledger = begin(&mut database.session(), None);
    let mut snapshots = Snapshots { ledger: &ledger, database: &database, seen: Vec::new() };
    let plan = Plan::closed(4, Duration::ZERO, Duration::from_millis(3300), 3);
    let outcome = run(&database.address, &ledger, &plan, &mut snapshots);
    assert!(snapshots.seen.len() >= 2, "{outcome:?}");
    let mut last = 0;
    for (mark, session) in &mut snapshots.seen {
        let found = ledger.check(session, *mark).expect("it answers");
        println!("{mark:?}: {found:?}");
        assert!(found.holds() && found.acknowledged_orders >= last, "{found:?}");
        // Only what was under way while the mark was made, however long a busy machine took.
        assert!(found.unknown_present + found.unknown_absent < last.max(100), "{found:?}");
        last = found.acknowledged_orders;
    }
    assert!(last > 0, "nothing was promised");
    assert!(last < committed(&outcome, "new_order"));
    let found = ledger.check(&mut database.session(), ledger.now()).expect("it answers");
    assert!(found.holds() && found.unknown_present + found.unknown_absent == 0, "{found:?}");
}

/// What is done to the data behind the ledger's back, one after the other, and what is told of it then.
const DAMAGE: [(&str, ProblemKind); 6] = [
    (
        "DELETE FROM lab_orders.new_order WHERE no_o_id = 41 AND no_d_id = 1;
         DELETE FROM lab_orders.order_line WHERE ol_o_id = 41 AND ol_d_id = 1;
         DELETE FROM lab_orders.orders WHERE o_id = 41 AND o_d_id = 1",
        ProblemKind::OrderMissing,
    ),
    (
        "UPDATE lab_orders.order_line SET ol_quantity = ol_quantity + 1
         WHERE ol_o_id = 41 AND ol_d_id = 2 AND ol_number = 5",
        ProblemKind::OrderDiffers,
    ),
    ("INSERT INTO lab_orders.orders VALUES (9999, 3, 1, 1, now(), NULL, 5, 1)", ProblemKind::OrderNeverSent),
    (
        "DELETE FROM lab_orders.history WHERE ctid = (
            SELECT max(ctid) FROM lab_orders.history WHERE h_data LIKE '%.1.0')",
        ProblemKind::PaymentMissing,
    ),
    (
        "UPDATE lab_orders.history SET h_amount = h_amount + 1 WHERE ctid = (
            SELECT max(ctid) FROM lab_orders.history WHERE h_data LIKE '%.1.1')",
        ProblemKind::PaymentDiffers,
    ),
    (
        "INSERT INTO lab_orders.history
            SELECT * FROM lab_orders.history WHERE h_data LIKE '%.1.2'",
        ProblemKind::PaymentNeverSent,
    ),
];

#[test]
fn whatever_is_lost_or_changed_or_added_is_told() {
    let (database, _) = Database::loaded("damage", 1, 1);
    let mut session = database.session();
    // What an earlier run did, with a ledger of its own, is what was there before.
    let paid = Settings { mix: Mix { weights: [0, 1, 0, 0, 0], draw: Draw::Deck }, ..Settings::new(1) };
    let orders =
        Orders::open(&database.address, paid, Some(begin(&mut session, None))).expect("it is loaded");
    orders.run(&counted(1, 5), &AtomicBool::new(false), &mut ()).expect("it runs");
    let ledger = begin(&mut session, None);
    // Enough that every district has an order.
    run(&database.address, &ledger, &counted(2, 200), &mut ());
    let mut told = Vec::new();
    let checked = |session: &mut Session| ledger.check(session, ledger.now()).expect("it answers");
    assert!(checked(&mut session).holds());
    for (damage, kind) in DAMAGE {
        session.run(damage).expect(damage);
        told.push(kind);
        told.sort_by_key(|kind| format!("{kind:?}"));
        let found = checked(&mut session);
        assert_eq!(kinds(&found), told, "{found:?}");
        assert!(found.problems.iter().all(|problem| problem.count == 1), "{found:?}");
    }
    session.run("INSERT INTO lab_orders.history VALUES (1, 1, 1, 1, 1, now(), 1, 'x')").expect("it goes in");
    session
        .run(
            "INSERT INTO lab_orders.history SELECT h_c_id, h_c_d_id, h_c_w_id, h_d_id, h_w_id, h_date, h_amount,
                left(h_data, 9) || 'zz' FROM lab_orders.history WHERE h_data LIKE '%.1.10'",
        )
        .expect("it goes in");
    let found = checked(&mut session);
    assert!(kinds(&found).contains(&ProblemKind::OtherPayments), "{found:?}");
    let strange = found.problems.iter().find(|problem| problem.kind == ProblemKind::PaymentNeverSent);
    assert_eq!(strange.map(|problem| problem.count), Some(2), "{found:?}");
}
