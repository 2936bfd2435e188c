//! Broker-Volume: how much is asked for through some brokers in one sector.

use ashlar_postgres::Statement;

use crate::broker::desk::{Desk, Level};
use crate::broker::names::{SECTORS, broker};
use crate::broker::trader::Scene;
use crate::error::Result;
use crate::prepare::Prepare;
use crate::random::Random;
use crate::workload::Done;

/// Whose requests.
pub(in crate::broker) struct Input {
    brokers: Vec<String>,
    sector: &'static str,
}

pub(super) struct Statements<S = Statement> {
    volume: S,
}

impl<S> Statements<S> {
    pub(super) fn prepare(session: &mut impl Prepare<Statement = S>) -> Result<Statements<S>> {
        Ok(Statements {
            volume: session.prepare(
                "SELECT b.name, sum(r.quantity * r.bid) FROM lab_broker.broker b
                 JOIN lab_broker.trade_request r ON r.broker = b.id
                 JOIN lab_broker.security s ON s.id = r.security JOIN lab_broker.company c ON c.id = s.company
                 JOIN lab_broker.industry i ON i.id = c.industry JOIN lab_broker.sector o ON o.id = i.sector
                 WHERE b.name = ANY($1) AND o.name = $2 GROUP BY b.name ORDER BY 2 DESC",
            )?,
        })
    }
}

impl Input {
    /// Twenty to forty neighbours, or all.
    pub(super) fn draw(scene: &Scene, random: &mut Random) -> Input {
        let all = scene.origin.brokers();
        let count = random.between(20, 40).min(all);
        let first = random.between(0, all - 1);
        let brokers = (0..count).map(|place| broker((first + place) % all + 1)).collect();
        Input { brokers, sector: SECTORS[random.between(0, SECTORS.len() as i32 - 1) as usize] }
    }

    pub(super) fn perform(&self, desk: &mut Desk, statements: &Statements) -> Result<Done> {
        desk.begin(Level::ReadCommitted)?;
        desk.query(&statements.volume, &[&self.brokers, &self.sector])?;
        desk.commit()
    }
}
