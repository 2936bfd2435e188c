//! The ledger of `broker`: what was acknowledged is found again after a crash and in a copy, and what is not
//! there is told.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ashlar_postgres::{Address, Session};
use ashlar_workload::broker::ledger::{Found, Ledger, ProblemKind};
use ashlar_workload::broker::{Broker, Settings, load};
use ashlar_workload::driver::{Ending, Observer, Plan, Progress};

use crate::database::{SERVER, counted};
use crate::server::{LIMIT, Server};

use super::{assert_holds, loaded, run, what};

fn kinds(found: &Found) -> Vec<ProblemKind> {
    found.problems.iter().map(|problem| problem.kind).collect()
}

#[test]
fn after_a_crash_under_load_every_acknowledged_trade_is_there() {
    struct Killer(Server);
    impl Observer for Killer {
        fn second(&mut self, progress: &Progress) {
            // However long that takes: what is looked for must have been promised.
            if progress.done >= 1000 {
                self.0.kill();
            }
        }
    }
    let mut killer = Killer(Server::new("-c shared_buffers=64MB"));
    let address = killer.0.address();
    load(&address, &what(1, 2), &AtomicBool::new(false)).expect("it loads");
    let ledger = Arc::new(Ledger::begin(&mut killer.0.session()).expect("it begins"));
    let broker = Broker::open(&address, Settings::new(1), Some(Arc::clone(&ledger))).expect("it is loaded");
    let plan = Plan::closed(8, Duration::ZERO, Duration::from_secs(600), 3);
    let outcome = broker.run(&plan, &AtomicBool::new(false), &mut killer).expect("it runs").outcome;
    assert!(matches!(outcome.ending, Ending::Lost(_)), "{:?}", outcome.ending);
    killer.0.start();
    let mut session = killer.0.session();
    assert_holds(&mut session);
    let found = ledger.check(&mut session, ledger.now()).expect("it answers");
    assert!(found.holds(), "{found:?}");
    let committed = |name: &str| outcome.kind(name).map_or(0, |kind| kind.committed);
    assert_eq!(found.acknowledged_orders, committed("trade_order"));
    assert_eq!(found.acknowledged_results, committed("trade_result"));
    assert!(found.acknowledged_results > 20, "{found:?}");
    assert!(found.unknown_present + found.unknown_absent <= 8, "one of each client: {found:?}");
}

#[test]
fn a_copy_has_what_was_acknowledged_before_and_nothing_from_later() {
    let (database, _) = loaded("broker_copied", 1);
    let ledger = Arc::new(Ledger::begin(&mut database.session()).expect("it begins"));
    let more = || run(&database, Settings::new(2), Some(&ledger), &counted(2, 300)).outcome;
    assert_eq!(more().ending, Ending::Complete);
    let (mark, copied) = ledger
        .mark(|| SERVER.session().run("CREATE DATABASE broker_copy TEMPLATE broker_copied").map(|_| ()));
    copied.expect("a copy");
    assert_eq!(more().ending, Ending::Complete);
    let Address::Socket { directory, port, .. } = database.address.clone() else {
        unreachable!("the test's server has a socket")
    };
    let address = Address::Socket { directory, port, database: "broker_copy".into() };
    let mut copy = Session::open(&address, "test", LIMIT).expect("it answers");
    let found = ledger.check(&mut copy, mark).expect("it answers");
    assert!(found.holds() && found.acknowledged_orders > 50, "{found:?}");
    let found = ledger.check(&mut copy, ledger.now()).expect("it answers");
    assert_eq!(kinds(&found), [ProblemKind::OrderMissing, ProblemKind::ResultMissing]);
    let found = ledger.check(&mut database.session(), mark).expect("it answers");
    assert_eq!(kinds(&found), [ProblemKind::OrderFromLater, ProblemKind::ResultFromLater]);
    // What is lost, changed or made up is seen.
    let last = "(SELECT max(trade) FROM lab_broker.settlement)";
    let damage = [
        (format!("DELETE FROM lab_broker.settlement WHERE trade = {last}"), ProblemKind::ResultMissing),
        (format!("UPDATE lab_broker.trade SET price = 1 WHERE id = {last}"), ProblemKind::ResultDiffers),
        (format!("UPDATE lab_broker.trade SET account = 11 WHERE id = {last}"), ProblemKind::OrderDiffers),
        (format!("UPDATE lab_broker.trade SET id = 999999 WHERE id = {last}"), ProblemKind::OrderMissing),
    ];
    for (change, kind) in damage {
        database.session().run(&change).expect(&change);
        let found = ledger.check(&mut database.session(), ledger.now()).expect("it answers");
        assert!(kinds(&found).contains(&kind), "{change}: {found:?}");
    }
    let found = ledger.check(&mut database.session(), ledger.now()).expect("it answers");
    assert!(kinds(&found).contains(&ProblemKind::OrderNeverSent));
}
