//! Names of people, companies and goods, and words for what is written about them: made up here.

use crate::random::{Random, mixed};

const FIRST: [&str; 32] = [
    "Ada", "Bela", "Cato", "Dora", "Egon", "Fina", "Gero", "Hedi", "Ivo", "Jana", "Karl", "Lena", "Milo",
    "Nora", "Olaf", "Pia", "Quin", "Rosa", "Sven", "Tilda", "Ugo", "Vera", "Wim", "Xenia", "Yara", "Zeno",
    "Alma", "Bruno", "Clea", "Dario", "Elin", "Falk",
];
const LAST: [[&str; 24]; 2] = [
    [
        "Alder", "Birk", "Claver", "Dorn", "Esch", "Fern", "Ginst", "Hasel", "Ilex", "Juniper", "Kamm",
        "Linden", "Mohn", "Nessel", "Oster", "Pappel", "Quend", "Raine", "Schilf", "Tann", "Ulm", "Veil",
        "Weid", "Zeder",
    ],
    [
        "bach", "berg", "brook", "burn", "by", "dale", "feld", "ford", "garth", "grove", "ham", "hof",
        "kamp", "land", "ley", "mark", "mere", "moor", "ried", "rode", "stede", "ton", "wald", "wick",
    ],
];
const TRADE: [&str; 16] = [
    "Bricks", "Bearings", "Cables", "Dyes", "Engines", "Ferries", "Glass", "Harbours", "Inks", "Looms",
    "Mills", "Optics", "Paper", "Quarries", "Ropes", "Timber",
];
pub(super) const SECTORS: [&str; 12] = [
    "Building",
    "Chemicals",
    "Clothing",
    "Energy",
    "Farming",
    "Finance",
    "Health",
    "Machines",
    "Media",
    "Metals",
    "Transport",
    "Water",
];
pub(super) const EXCHANGES: [&str; 4] = ["North", "East", "South", "West"];
/// Of what news say; as common texts do, they compress.
const WORDS: [&str; 64] = [
    "a",
    "after",
    "again",
    "all",
    "and",
    "at",
    "before",
    "board",
    "but",
    "by",
    "capital",
    "change",
    "costs",
    "customers",
    "day",
    "demand",
    "early",
    "expects",
    "fell",
    "first",
    "for",
    "from",
    "goods",
    "half",
    "has",
    "in",
    "is",
    "its",
    "last",
    "less",
    "long",
    "many",
    "market",
    "more",
    "new",
    "not",
    "of",
    "offer",
    "old",
    "on",
    "orders",
    "over",
    "plant",
    "price",
    "profit",
    "quarter",
    "reports",
    "rose",
    "sales",
    "says",
    "second",
    "share",
    "since",
    "that",
    "the",
    "to",
    "under",
    "was",
    "week",
    "will",
    "with",
    "without",
    "work",
    "year",
];

fn pick<'a>(names: &[&'a str], number: u64) -> &'a str {
    names[(number % names.len() as u64) as usize]
}

/// The first and last name of somebody.
pub(super) fn person(kind: &str, number: i64) -> (&'static str, String) {
    let bits = mixed(number as u64 ^ mixed(kind.len() as u64));
    let last = [pick(&LAST[0], bits >> 8), pick(&LAST[1], bits >> 20)].concat();
    (pick(&FIRST, bits), last)
}

/// A broker's name; all are different.
pub(super) fn broker(number: i32) -> String {
    let (first, last) = person("broker", number.into());
    format!("{first} {last} {number}")
}

/// A company's name; all are different.
pub(super) fn company(number: i32) -> String {
    let bits = mixed(number as u64);
    let names = [pick(&LAST[0], bits), pick(&LAST[1], bits >> 12)].concat();
    format!("{names} {} {number}", pick(&TRADE, bits >> 24))
}

/// The symbol of a security: at least four letters, all are different.
pub(super) fn symbol(security: i32) -> String {
    let mut letters = Vec::new();
    let mut left = security as u32;
    while left > 0 || letters.len() < 4 {
        letters.push(b'A' + (left % 26) as u8);
        left /= 26;
    }
    letters.reverse();
    letters.into_iter().map(char::from).collect()
}

/// A number that names a customer to the tax office: ten digits, all are different.
pub(super) fn tax_number(customer: i32) -> String {
    // An odd factor maps 32 bits onto 32 bits.
    format!("{:010}", (customer as u32).wrapping_mul(2_654_435_761))
}

/// Appends at least so many bytes of words.
pub(super) fn words(random: &mut Random, min_bytes: usize, text: &mut Vec<u8>) {
    let end = text.len() + min_bytes;
    while text.len() < end {
        let mut bits = random.bits();
        for _ in 0..10 {
            text.extend_from_slice(pick(&WORDS, bits & 63).as_bytes());
            text.push(b' ');
            bits >>= 6;
        }
    }
    text.pop();
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn names_that_must_differ_do() {
        let all = |make: fn(i32) -> String| (1..=20_000).map(make).collect::<BTreeSet<_>>().len();
        assert_eq!([all(broker), all(company), all(symbol), all(tax_number)], [20_000; 4]);
        assert_eq!([symbol(1), symbol(26), symbol(500_000)], ["AAAB", "AABA", "BCLQU"]);
        assert!((1..2000).all(|number| company(number).len() <= 40));
    }
}
