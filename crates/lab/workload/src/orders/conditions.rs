//! Twelve statements about the data that hold at all times, whatever transactions run: a test of the
//! integrity of whatever stores it.
//!
//! The numbers are those of the rules that the workload derives from. Each is one statement, so it sees one
//! state of the database even while transactions run. They read all tables: the session's limit must allow
//! for that.

use ashlar_postgres::Session;
use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// When the conditions are asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Moment {
    /// Right after the load, before any transaction: all twelve.
    AfterLoad,
    /// Later: all but the eleventh.
    AfterRun,
}

/// A condition.
#[derive(Clone, Copy, Debug)]
pub struct Condition {
    /// From 1.
    pub number: u8,
    /// What holds.
    pub name: &'static str,
    /// Rows that offend it, each as a text.
    pub(crate) offending: &'static str,
}

/// Whether a condition holds.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Verdict {
    /// Of the condition.
    pub number: u8,
    /// Of the condition.
    pub name: String,
    /// Nothing offends it.
    pub holds: bool,
    /// How many rows or groups of rows offend it.
    pub offending: u64,
    /// One of them.
    pub example: Option<String>,
}

/// Only right after the load.
const AFTER_LOAD_ONLY: u8 = 11;

/// All twelve.
pub const CONDITIONS: [Condition; 12] = [
    Condition {
        number: 1,
        name: "what a warehouse took is what its districts took",
        offending: "SELECT format('warehouse %s took %s, its districts %s', w_id, w_ytd, sum) AS example
            FROM lab_orders.warehouse
            FULL JOIN (SELECT d_w_id, sum(d_ytd) FROM lab_orders.district GROUP BY d_w_id) d ON d_w_id = w_id
            WHERE w_ytd IS DISTINCT FROM sum",
    },
    Condition {
        number: 2,
        name: "the next order number of a district follows its last order and its last new order",
        offending: "SELECT format('warehouse %s district %s: next %s, last order %s, last new order %s',
                d_w_id, d_id, d_next_o_id, o_max, no_max) AS example
            FROM lab_orders.district
            LEFT JOIN (SELECT o_w_id, o_d_id, max(o_id) AS o_max FROM lab_orders.orders GROUP BY 1, 2) o
                ON o_w_id = d_w_id AND o_d_id = d_id
            LEFT JOIN (SELECT no_w_id, no_d_id, max(no_o_id) AS no_max FROM lab_orders.new_order GROUP BY 1, 2) n
                ON no_w_id = d_w_id AND no_d_id = d_id
            WHERE d_next_o_id - 1 IS DISTINCT FROM o_max OR d_next_o_id - 1 <> no_max",
    },
    Condition {
        number: 3,
        name: "the new orders of a district have numbers without gaps",
        offending: "SELECT format('warehouse %s district %s: %s new orders from %s to %s',
                no_w_id, no_d_id, count(*), min(no_o_id), max(no_o_id)) AS example
            FROM lab_orders.new_order GROUP BY no_w_id, no_d_id
            HAVING max(no_o_id) - min(no_o_id) + 1 <> count(*)",
    },
    Condition {
        number: 4,
        name: "a district has as many order lines as its orders say",
        offending: "SELECT format('warehouse %s district %s: %s lines by its orders, %s are there',
                coalesce(o_w_id, ol_w_id), coalesce(o_d_id, ol_d_id), told, found) AS example
            FROM (SELECT o_w_id, o_d_id, sum(o_ol_cnt) AS told FROM lab_orders.orders GROUP BY 1, 2) o
            FULL JOIN (SELECT ol_w_id, ol_d_id, count(*) AS found FROM lab_orders.order_line GROUP BY 1, 2) l
                ON ol_w_id = o_w_id AND ol_d_id = o_d_id
            WHERE told IS DISTINCT FROM found",
    },
    Condition {
        number: 5,
        name: "an order without a carrier is a new order, and no other is",
        offending: "SELECT format('warehouse %s district %s order %s: carrier %s, new order %s',
                coalesce(o_w_id, no_w_id), coalesce(o_d_id, no_d_id), o_id, o_carrier_id, no_o_id) AS example
            FROM lab_orders.orders
            FULL JOIN lab_orders.new_order ON no_w_id = o_w_id AND no_d_id = o_d_id AND no_o_id = o_id
            WHERE o_id IS NULL OR (o_carrier_id IS NULL) <> (no_o_id IS NOT NULL)",
    },
    Condition {
        number: 6,
        name: "an order has as many lines as it says",
        offending: "SELECT format('warehouse %s district %s order %s: %s lines by the order, %s are there',
                coalesce(o_w_id, ol_w_id), coalesce(o_d_id, ol_d_id), coalesce(o_id, ol_o_id), o_ol_cnt, found)
                AS example
            FROM lab_orders.orders
            FULL JOIN (SELECT ol_w_id, ol_d_id, ol_o_id, count(*) AS found FROM lab_orders.order_line
                GROUP BY 1, 2, 3) l ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
            WHERE o_ol_cnt IS DISTINCT FROM found",
    },
    Condition {
        number: 7,
        name: "a line has a day of delivery when its order has a carrier, and only then",
        offending: "SELECT format('warehouse %s district %s order %s line %s: delivered %s, carrier %s',
                ol_w_id, ol_d_id, ol_o_id, ol_number, ol_delivery_d, o_carrier_id) AS example
            FROM lab_orders.order_line
            JOIN lab_orders.orders ON o_w_id = ol_w_id AND o_d_id = ol_d_id AND o_id = ol_o_id
            WHERE (ol_delivery_d IS NULL) <> (o_carrier_id IS NULL)",
    },
    Condition {
        number: 8,
        name: "what a warehouse took is the sum of its payments",
        offending: "SELECT format('warehouse %s took %s, its payments are %s', coalesce(w_id, h_w_id), w_ytd, sum)
                AS example
            FROM lab_orders.warehouse
            FULL JOIN (SELECT h_w_id, sum(h_amount) FROM lab_orders.history GROUP BY 1) h ON h_w_id = w_id
            WHERE w_ytd IS DISTINCT FROM sum",
    },
    Condition {
        number: 9,
        name: "what a district took is the sum of its payments",
        offending: "SELECT format('warehouse %s district %s took %s, its payments are %s',
                coalesce(d_w_id, h_w_id), coalesce(d_id, h_d_id), d_ytd, sum) AS example
            FROM lab_orders.district
            FULL JOIN (SELECT h_w_id, h_d_id, sum(h_amount) FROM lab_orders.history GROUP BY 1, 2) h
                ON h_w_id = d_w_id AND h_d_id = d_id
            WHERE d_ytd IS DISTINCT FROM sum",
    },
    Condition {
        number: 10,
        name: "a customer's balance is what was delivered to him less what he paid",
        offending: "SELECT format('warehouse %s district %s customer %s: balance %s, delivered %s, paid %s',
                c_w_id, c_d_id, c_id, c_balance, delivered, paid) AS example
            FROM lab_orders.customer
            LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered FROM lab_orders.orders
                JOIN lab_orders.order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
                WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3) o
                ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
            LEFT JOIN (SELECT h_c_w_id, h_c_d_id, h_c_id, sum(h_amount) AS paid FROM lab_orders.history
                GROUP BY 1, 2, 3) h ON h_c_w_id = c_w_id AND h_c_d_id = c_d_id AND h_c_id = c_id
            WHERE c_balance <> coalesce(delivered, 0) - coalesce(paid, 0)",
    },
    Condition {
        number: AFTER_LOAD_ONLY,
        name: "right after the load, seven of ten orders of a district are delivered",
        offending: "SELECT format('warehouse %s district %s: %s orders, %s new orders', d_w_id, d_id, all_orders, open)
                AS example
            FROM lab_orders.origin, lab_orders.district
            LEFT JOIN (SELECT o_w_id, o_d_id, count(*) AS all_orders FROM lab_orders.orders GROUP BY 1, 2) o
                ON o_w_id = d_w_id AND o_d_id = d_id
            LEFT JOIN (SELECT no_w_id, no_d_id, count(*) AS open FROM lab_orders.new_order GROUP BY 1, 2) n
                ON no_w_id = d_w_id AND no_d_id = d_id
            WHERE coalesce(all_orders, 0) - coalesce(open, 0) <> delivered",
    },
    Condition {
        number: 12,
        name: "a customer's balance and payments together are what was delivered to him",
        offending: "SELECT format('warehouse %s district %s customer %s: balance %s, payments %s, delivered %s',
                c_w_id, c_d_id, c_id, c_balance, c_ytd_payment, delivered) AS example
            FROM lab_orders.customer
            LEFT JOIN (SELECT o_w_id, o_d_id, o_c_id, sum(ol_amount) AS delivered FROM lab_orders.orders
                JOIN lab_orders.order_line ON ol_w_id = o_w_id AND ol_d_id = o_d_id AND ol_o_id = o_id
                WHERE ol_delivery_d IS NOT NULL GROUP BY 1, 2, 3) o
                ON o_w_id = c_w_id AND o_d_id = c_d_id AND o_c_id = c_id
            WHERE c_balance + c_ytd_payment <> coalesce(delivered, 0)",
    },
];

impl Condition {
    /// The statement that counts what offends it, as anybody may run it.
    #[must_use]
    pub fn statement(&self) -> String {
        format!("SELECT count(*), min(example) FROM ({}) AS offending", self.offending)
    }

    /// Asks whether it holds.
    ///
    /// # Errors
    /// When the server refuses or does not answer: then nobody knows.
    pub fn check(&self, session: &mut Session) -> Result<Verdict> {
        let what = || format!("condition {}", self.number);
        let rows = session.run(&self.statement()).map_err(|error| Error::from(error).while_doing(&what()))?;
        let mut fields = rows.into_iter().next().unwrap_or_default().into_iter();
        let count = fields.next().flatten().and_then(|text| text.parse().ok());
        let offending: u64 = count.ok_or_else(|| Error::content(format!("{}: no count", what())))?;
        let example = fields.next().flatten();
        Ok(Verdict { number: self.number, name: self.name.into(), holds: offending == 0, offending, example })
    }
}

/// Asks whether all conditions of a moment hold.
///
/// # Errors
/// When the server refuses or does not answer.
pub fn check(session: &mut Session, moment: Moment) -> Result<Vec<Verdict>> {
    let is_asked =
        |condition: &&Condition| moment == Moment::AfterLoad || condition.number != AFTER_LOAD_ONLY;
    CONDITIONS.iter().filter(is_asked).map(|condition| condition.check(session)).collect()
}
