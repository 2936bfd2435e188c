//! Twelve statements about the data that hold at all times, whatever transactions run: a test of the
//! integrity of whatever stores it.
//!
//! ```text
//!  trade ─┬─ history             7         holding ── history of holdings   1   8
//!         ├─ settlement ── cash  5 6 11       └────── sum by account        2
//!         └─ request             9        account 3   broker 4   exchange 10   what was loaded 12
//! ```
//! Each is one statement, so it sees one state of the database even while transactions run. They read all
//! tables: the session's limit must allow for that.

use ashlar_postgres::Session;

use crate::error::Result;
pub use crate::orders::conditions::{Condition, Verdict};

/// All twelve.
pub const CONDITIONS: [Condition; 12] = [
    Condition {
        number: 1,
        name: "a holding is what its history made of it",
        offending: "SELECT format('holding %s: %s held, %s by its history', coalesce(h.trade, y.holding),
                quantity, moved) AS example
            FROM lab_broker.holding h
            FULL JOIN (SELECT holding, sum(after - before) AS moved FROM lab_broker.holding_history
                GROUP BY holding) y ON y.holding = h.trade
            WHERE coalesce(quantity, 0) IS DISTINCT FROM moved",
    },
    Condition {
        number: 2,
        name: "what an account holds of a security is the sum of its holdings",
        offending: "SELECT format('account %s security %s: %s held, its holdings are %s',
                coalesce(s.account, h.account), coalesce(s.security, h.security), s.quantity, h.quantity)
                AS example
            FROM lab_broker.holding_summary s
            FULL JOIN (SELECT account, security, sum(quantity) AS quantity FROM lab_broker.holding
                GROUP BY 1, 2) h
                ON h.account = s.account AND h.security = s.security
            WHERE coalesce(s.quantity, 0) <> coalesce(h.quantity, 0) OR s.quantity = 0",
    },
    Condition {
        number: 3,
        name: "the balance of an account is what it began with and its payments",
        offending: "SELECT format('account %s: balance %s, began with %s, payments %s',
                coalesce(a.id, p.account), balance, start_balance, paid) AS example
            FROM lab_broker.account a
            FULL JOIN (SELECT account, sum(amount) AS paid FROM lab_broker.cash_transaction c
                LEFT JOIN lab_broker.trade t ON t.id = c.trade GROUP BY account) p ON p.account = a.id
            WHERE a.id IS NULL OR balance <> start_balance + coalesce(paid, 0)",
    },
    Condition {
        number: 4,
        name: "a broker's trades and commission are those of the completed trades of his accounts",
        offending: "SELECT format('broker %s: %s trades, commission %s; completed were %s, commission %s',
                coalesce(b.id, t.broker), b.trades, b.commission, t.trades, t.commission) AS example
            FROM lab_broker.broker b
            FULL JOIN (SELECT broker, count(*) AS trades, sum(commission) AS commission
                FROM lab_broker.trade t LEFT JOIN lab_broker.account a ON a.id = t.account
                WHERE status = 3 GROUP BY broker) t ON t.broker = b.id
            WHERE b.id IS NULL OR b.trades <> coalesce(t.trades, 0)
                OR b.commission <> coalesce(t.commission, 0)",
    },
    Condition {
        number: 5,
        name: "a completed trade has a settlement and a price, and no other trade has",
        offending: "SELECT format('trade %s: status %s, price %s, settlement %s', coalesce(t.id, s.trade),
                status, price, amount) AS example
            FROM lab_broker.trade t FULL JOIN lab_broker.settlement s ON s.trade = t.id
            WHERE t.id IS NULL OR (status = 3) <> (amount IS NOT NULL)
                OR (status = 3) <> (price IS NOT NULL)",
    },
    Condition {
        number: 6,
        name: "what is paid at once is the settlement of a trade in cash, and nothing else is",
        offending: "SELECT format('trade %s: cash %s, settled %s, paid %s', coalesce(t.id, c.trade),
                is_cash, settled, c.amount) AS example
            FROM (SELECT id, is_cash, amount AS settled FROM lab_broker.trade
                JOIN lab_broker.settlement ON trade = id) t
            FULL JOIN lab_broker.cash_transaction c ON c.trade = t.id
            WHERE (CASE WHEN is_cash THEN settled END) IS DISTINCT FROM c.amount",
    },
    Condition {
        number: 7,
        name: "a trade is where its history ends, and came there step by step",
        offending: "SELECT format('trade %s: status %s since %s; %s steps to %s, the last at %s',
                coalesce(t.id, h.trade), status, t.at, steps, reached, h.at) AS example
            FROM lab_broker.trade t
            FULL JOIN (SELECT trade, count(*) AS steps, max(status) AS reached, max(at) AS at
                FROM lab_broker.trade_history GROUP BY trade) h ON h.trade = t.id
            WHERE status IS DISTINCT FROM reached OR t.at IS DISTINCT FROM h.at
                OR CASE status WHEN 4 THEN steps NOT BETWEEN 2 AND CASE WHEN kind > 2 THEN 3 ELSE 2 END
                    ELSE steps <> CASE WHEN kind > 2 THEN status ELSE status - 1 END END",
    },
    Condition {
        number: 8,
        name: "a completed trade moved as much as it is of, and no other moved anything",
        offending: "SELECT format('trade %s: kind %s, status %s, quantity %s, moved %s',
                coalesce(t.id, h.trade), kind, status, quantity, moved) AS example
            FROM lab_broker.trade t
            FULL JOIN (SELECT trade, sum(after - before) AS moved FROM lab_broker.holding_history
                GROUP BY trade) h ON h.trade = t.id
            WHERE CASE WHEN status = 3 THEN CASE WHEN kind IN (1, 3) THEN quantity ELSE -quantity END END
                IS DISTINCT FROM moved",
    },
    Condition {
        number: 9,
        name: "a pending trade has a request like it, and no other trade has",
        offending: "SELECT format('trade %s: status %s, request %s', coalesce(t.id, r.trade), status, r)
                AS example
            FROM (SELECT * FROM lab_broker.trade WHERE status = 1) t
            FULL JOIN lab_broker.trade_request r ON r.trade = t.id
            WHERE (t.security, t.quantity, t.kind, t.bid)
                IS DISTINCT FROM (r.security, r.quantity, r.kind, r.bid)",
    },
    Condition {
        number: 10,
        name: "the volume of an exchange is that of the last trades of its securities",
        offending: "SELECT format('exchange %s: volume %s, its securities %s',
                coalesce(e.id, s.exchange), e.volume, s.volume) AS example
            FROM lab_broker.exchange e
            FULL JOIN (SELECT exchange, sum(volume) AS volume FROM lab_broker.security
                LEFT JOIN lab_broker.last_trade ON security = id GROUP BY exchange) s ON s.exchange = e.id
            WHERE e.volume IS DISTINCT FROM s.volume",
    },
    Condition {
        number: 11,
        name: "a settlement is the value of its trade less charge, commission and tax",
        offending: "SELECT format('trade %s: %s times %s, charge %s, commission %s, tax %s, settled %s',
                id, quantity, price, charge, commission, tax, amount) AS example
            FROM lab_broker.trade t JOIN lab_broker.settlement ON trade = id
            WHERE amount IS DISTINCT FROM CASE WHEN t.kind IN (1, 3) THEN -quantity ELSE quantity END * price
                - charge - commission - tax",
    },
    Condition {
        number: 12,
        name: "all trades that were loaded are there",
        offending: "SELECT format('%s trades were loaded, %s are there', trades, found) AS example
            FROM lab_broker.origin, LATERAL (SELECT count(*) AS found FROM lab_broker.trade
                WHERE id <= trades) t WHERE found <> trades",
    },
];

/// Asks whether all conditions hold: after the load, after a run, at any time.
///
/// # Errors
/// When the server refuses or does not answer.
pub fn check(session: &mut Session) -> Result<Vec<Verdict>> {
    CONDITIONS.iter().map(|condition| condition.check(session)).collect()
}
