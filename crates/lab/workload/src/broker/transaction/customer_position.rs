//! Customer-Position: what a customer's accounts are worth, and in half of all cases what became of the last
//! ten trades of one of them.

use ashlar_postgres::Statement;

use crate::broker::desk::{Desk, Level};
use crate::broker::names::tax_number;
use crate::broker::origin::account;
use crate::broker::trader::Scene;
use crate::error::{Error, Result};
use crate::fields::{integer, only};
use crate::prepare::Prepare;
use crate::random::Random;
use crate::workload::Done;

/// Who, and what of.
pub(in crate::broker) struct Input {
    customer: i32,
    accounts: usize,
    /// Half of all say who they are to the tax office.
    tax_number: Option<String>,
    /// Of which account the last trades are asked for.
    history_of: Option<i32>,
}

pub(super) struct Statements<S = Statement> {
    by_tax_number: S,
    customer: S,
    accounts: S,
    history: S,
}

impl<S> Statements<S> {
    pub(super) fn prepare(session: &mut impl Prepare<Statement = S>) -> Result<Statements<S>> {
        Ok(Statements {
            by_tax_number: session.prepare("SELECT id FROM lab_broker.customer WHERE tax_number = $1")?,
            customer: session.prepare(
                "SELECT c.tax_number, c.tier, c.last_name, c.first_name, c.born, c.phone, c.email,
                    c.second_email, c.street, p.code, p.town
                 FROM lab_broker.customer c JOIN lab_broker.place p ON p.id = c.place WHERE c.id = $1",
            )?,
            accounts: session.prepare(
                "SELECT a.id, a.balance, coalesce(sum(h.quantity * l.price), 0) FROM lab_broker.account a
                 LEFT JOIN lab_broker.holding_summary h ON h.account = a.id
                 LEFT JOIN lab_broker.last_trade l ON l.security = h.security
                 WHERE a.customer = $1 GROUP BY a.id ORDER BY 3",
            )?,
            history: session.prepare(
                "SELECT t.id, s.symbol, t.quantity, h.status, h.at
                 FROM (SELECT id, security, quantity FROM lab_broker.trade WHERE account = $1
                    ORDER BY at DESC LIMIT 10) t
                 JOIN lab_broker.security s ON s.id = t.security
                 JOIN lab_broker.trade_history h ON h.trade = t.id ORDER BY h.at DESC LIMIT 30",
            )?,
        })
    }
}

impl Input {
    pub(super) fn draw(scene: &Scene, random: &mut Random) -> Input {
        let customer = scene.preference.customer(random);
        let accounts = scene.origin.accounts_of(customer);
        let tax_number = random.is_percent(50.0).then(|| tax_number(customer));
        let place = random.between(0, accounts - 1);
        let history_of = random.is_percent(50.0).then(|| account(customer, place));
        Input { customer, accounts: accounts as usize, tax_number, history_of }
    }

    pub(super) fn perform(&self, desk: &mut Desk, statements: &Statements) -> Result<Done> {
        desk.begin(Level::ReadCommitted)?;
        let mut customer = self.customer;
        if let Some(number) = &self.tax_number {
            let rows = desk.query(&statements.by_tax_number, &[number])?;
            customer = integer(only(&rows, "a customer by the tax number")?, 0)?;
        }
        let rows = desk.query(&statements.customer, &[&customer])?;
        only(&rows, "a customer")?;
        let accounts = desk.query(&statements.accounts, &[&customer])?.len();
        if customer != self.customer || accounts != self.accounts {
            let found = format!("found customer {customer} with {accounts} accounts");
            let asked = format!("customer {} has {}", self.customer, self.accounts);
            return Err(Error::content(format!("{asked}, {found}")));
        }
        if let Some(account) = &self.history_of {
            desk.query(&statements.history, &[account])?;
        }
        desk.commit()
    }
}
