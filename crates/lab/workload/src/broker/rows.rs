//! The rows to begin with, as pieces for COPY: the same for the same seed, whoever makes which part of them.

pub(super) mod fixed;
pub(super) mod growing;
pub(super) mod market;
pub(super) mod people;

/// Where nothing else is known of a purchase or a sale.
pub(super) const BOUGHT: &str = "bought";
/// The same.
pub(super) const SOLD: &str = "sold";
/// How a trade is settled that is paid at once.
pub(super) const CASH: &str = "cash account";
/// How one is that is not.
pub(super) const MARGIN: &str = "margin";

fn flag(is_true: bool) -> &'static str {
    if is_true { "t" } else { "f" }
}
