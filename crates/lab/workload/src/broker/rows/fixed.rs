//! Rows of the tables of which there are as many however many customers there are.

use crate::broker::names::{EXCHANGES, SECTORS};
use crate::broker::origin::Origin;
use crate::broker::past::{Stream, stream};
use crate::broker::prices::{TAXES, TradeKind, tax_parts};
use crate::fields::{Line, Pieces, rows_of};

/// Of each sector.
pub(in crate::broker) const INDUSTRIES_PER_SECTOR: i32 = 8;
/// Towns that customers and companies live in. Arbitrary.
pub(in crate::broker) const PLACES: i32 = 2000;

pub(in crate::broker) fn sectors(_origin: &Origin) -> Pieces {
    rows_of((1..).zip(SECTORS), |(sector, name), piece| {
        Line::begin(piece).integer(sector).text(name).end();
    })
}

pub(in crate::broker) fn industries(_origin: &Origin) -> Pieces {
    rows_of(1..=industries_count(), |industry, piece| {
        let sector = (industry - 1) / INDUSTRIES_PER_SECTOR;
        let name = format!("{} {industry}", SECTORS[sector as usize]);
        Line::begin(piece).integer(industry).integer(sector + 1).text(name).end();
    })
}

pub(in crate::broker) fn industries_count() -> i32 {
    SECTORS.len() as i32 * INDUSTRIES_PER_SECTOR
}

/// Nothing was traded on them yet today.
pub(in crate::broker) fn exchanges(_origin: &Origin) -> Pieces {
    rows_of((1..).zip(EXCHANGES), |(exchange, name), piece| {
        let name = format!("Exchange {name}");
        Line::begin(piece).integer(exchange).text(name).text("09:00").text("17:00").integer(0).end();
    })
}

pub(in crate::broker) fn places(origin: &Origin) -> Pieces {
    let mut random = stream(origin, Stream::Fixed, 0);
    rows_of(1..=PLACES, move |place, piece| {
        let mut line = Line::begin(piece);
        line.integer(place);
        random.digits(5, line.field());
        random.letters(6, 20, line.field());
        line.end();
    })
}

pub(in crate::broker) fn taxes(_origin: &Origin) -> Pieces {
    rows_of(1..=TAXES, |tax, piece| {
        let of = if tax <= TAXES / 2 { "country" } else { "town" };
        Line::begin(piece).integer(tax).text(format!("tax of {of} {tax}")).rate(tax_parts(tax) as i32).end();
    })
}

pub(in crate::broker) fn rates(_origin: &Origin) -> Pieces {
    let all = TradeKind::ALL.into_iter().flat_map(|kind| (1..=3).map(move |tier| (kind, tier)));
    rows_of(all, |(kind, tier), piece| {
        let mut line = Line::begin(piece);
        line.integer(kind as i32).integer(tier).cents(kind.charge_cents(tier));
        line.rate(kind.commission_parts(tier) as i32).end();
    })
}
