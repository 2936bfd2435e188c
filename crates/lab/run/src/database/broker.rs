//! Customers who trade: loaded, driven, and everything asked of them.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ashlar_postgres::{Address, Session};
use ashlar_scenario::Tables;
use ashlar_workload::broker::ledger::{Ledger, Mark, Problem, ProblemKind};
use ashlar_workload::broker::{self, Broker, conditions};
use ashlar_workload::driver::{Observer, Outcome};

use super::{ANSWER_LIMIT, DatabaseFigures, Driving, LOAD_LIMIT, Loading, broken, whole};
use crate::copies::{Kept, Promises};
use crate::{Error, Result};

pub(super) fn load(loading: &Loading<'_>, customers: u64, trade_days: u64) -> Result<()> {
    let tables = Tables::Broker { customers, trade_days };
    load_broker(&loading.server.address(), tables, (loading.seed, loading.sessions, loading.stop))
}

/// Into the database at this address.
pub(crate) fn load_broker(
    address: &Address,
    tables: Tables,
    (seed, sessions, stop): (u64, usize, &AtomicBool),
) -> Result<()> {
    let Tables::Broker { customers, trade_days } = tables else {
        return Err(Error::environment("only databases of `broker` are loaded beside others"));
    };
    let load = broker::Load {
        customers: i32::try_from(customers).unwrap_or(i32::MAX),
        size: broker::Size::FULL.with_trade_days(i32::try_from(trade_days).unwrap_or(i32::MAX)),
        seed,
        spaces: broker::Spaces::default(),
        sessions,
        limit: LOAD_LIMIT,
    };
    broker::load(address, &load, stop)?;
    whole(conditions::check(&mut Session::open(address, "ashlar lab", LOAD_LIMIT)?)?)
}

/// Drives them, and asks whether everything holds.
pub(super) fn drive(driving: &Driving<'_>) -> Result<(Outcome, DatabaseFigures)> {
    let mut session = driving.server.session()?;
    // What a run before this left open is called off before the ledger begins.
    broker::cleanup(&mut session)?;
    let ledger = Arc::new(Ledger::begin(&mut session)?);
    let mut settings = broker::Settings::new(driving.seed);
    settings.limit = ANSWER_LIMIT;
    let workload = Broker::open(&driving.server.address(), settings, Some(ledger.clone()))?;
    let run = |observer: &mut dyn Observer| Ok(workload.run(driving.plan, driving.stop, observer)?);
    let (found, figures) = driving.kept(&*ledger, run, |found| &found.outcome)?;
    let figures = DatabaseFigures { trades_per_second: Some(found.trades_per_second), ..figures };
    Ok((found.outcome, figures))
}

impl Promises for Ledger {
    type Mark = Mark;

    fn mark_while<T>(&self, make: impl FnOnce() -> T) -> (Mark, T) {
        self.mark(make)
    }

    fn look(&self, session: &mut Session, mark: Mark) -> Result<Kept> {
        let mut offences = broken(conditions::check(session)?);
        let books = self.check(session, mark)?;
        offences.extend(books.problems.iter().map(problem));
        Ok(Kept { offences, acknowledged: books.acknowledged_orders + books.acknowledged_results })
    }
}

fn problem(of: &Problem) -> String {
    let what = match of.kind {
        ProblemKind::OrderMissing => "order acknowledged and not there",
        ProblemKind::OrderDiffers => "order not as it was sent",
        ProblemKind::OrderNeverSent => "order that nobody sent",
        ProblemKind::OrderFromLater => "order from later",
        ProblemKind::ResultMissing => "result acknowledged and not there",
        ProblemKind::ResultDiffers => "result not as it was sent",
        ProblemKind::ResultNeverSent => "result that nobody asked for",
        ProblemKind::ResultFromLater => "result from later",
    };
    format!("{what}, {} times: {}", of.count, of.example)
}
