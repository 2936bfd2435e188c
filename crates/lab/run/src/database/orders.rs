//! Orders: loaded, driven, and everything asked of them.

use std::sync::Arc;

use ashlar_postgres::Session;
use ashlar_scenario::Processors;
use ashlar_workload::driver::{Loop, Observer, Outcome};
use ashlar_workload::orders::ledger::{Ledger, Mark, Problem, ProblemKind};
use ashlar_workload::orders::{self, Orders, conditions};

use super::level::Level;
use super::{ANSWER_LIMIT, DatabaseFigures, Driving, Loading, broken, whole};
use crate::Result;
use crate::copies::{Kept, Promises};

pub(super) fn load(loading: &Loading<'_>, warehouses: u64) -> Result<()> {
    let load = orders::Load {
        warehouses: i32::try_from(warehouses).unwrap_or(i32::MAX),
        size: orders::Size::FULL,
        seed: loading.seed,
        sessions: loading.sessions,
        limit: loading.limit,
    };
    orders::load(&loading.server.address(), &load, loading.stop)?;
    whole(conditions::check(&mut loading.server.session()?, conditions::Moment::AfterLoad)?)
}

/// Drives them, and asks whether everything holds.
pub(super) fn drive(
    driving: &Driving<'_>,
    processors: Option<Processors>,
) -> Result<(Outcome, DatabaseFigures)> {
    let mut settings = orders::Settings::new(driving.seed);
    settings.limit = ANSWER_LIMIT;
    let (address, mut plan) = (driving.server.address(), driving.plan.clone());
    // What is done to find the rate is in no ledger, and before it.
    let level = processors
        .map(|processors| Level::find(&Orders::open(&address, settings, None)?, driving, processors));
    let level = level.transpose()?;
    if let Some(level) = &level {
        plan.pace = Loop::Open { per_second: level.per_second };
    }
    let ledger = Arc::new(Ledger::begin(&mut driving.server.session()?, None)?);
    let workload = Orders::open(&address, settings, Some(ledger.clone()))?;
    let mut seen = None;
    let run = |observer: &mut dyn Observer| {
        let mut run = || Ok(workload.run(&plan, driving.stop, observer)?);
        let Some(level) = &level else { return run() };
        let (found, figures) = level.watch(driving.server.own()?, run)?;
        seen = Some(figures);
        Ok(found)
    };
    let (found, figures) = driving.kept(&*ledger, run, |found| &found.outcome)?;
    let figures = DatabaseFigures {
        new_orders_per_minute: Some(found.new_orders_per_minute),
        engine_new_orders_per_minute: found.engine_new_orders_per_minute,
        level: seen,
        ..figures
    };
    Ok((found.outcome, figures))
}

impl Promises for Ledger {
    type Mark = Mark;

    fn mark_while<T>(&self, make: impl FnOnce() -> T) -> (Mark, T) {
        self.mark(make)
    }

    fn look(&self, session: &mut Session, mark: Mark) -> Result<Kept> {
        let mut offences = broken(conditions::check(session, conditions::Moment::AfterRun)?);
        let books = self.check(session, mark)?;
        offences.extend(books.problems.iter().map(problem));
        Ok(Kept { offences, acknowledged: books.acknowledged_orders + books.acknowledged_payments })
    }
}

fn problem(of: &Problem) -> String {
    let what = match of.kind {
        ProblemKind::OrderMissing => "order acknowledged and not there",
        ProblemKind::OrderDiffers => "order not as it was sent",
        ProblemKind::OrderNeverSent => "order that nobody sent",
        ProblemKind::OrderFromLater => "order from later",
        ProblemKind::PaymentMissing => "payment acknowledged and not there",
        ProblemKind::PaymentDiffers => "payment not as it was sent",
        ProblemKind::PaymentNeverSent => "payment that nobody sent, or twice",
        ProblemKind::PaymentFromLater => "payment from later",
        ProblemKind::OtherPayments => "payments without a mark have changed in number",
    };
    format!("{what}, {} times: {}", of.count, of.example)
}
