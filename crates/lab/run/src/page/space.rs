//! Where the bytes of databases are: from what was promised to what is on the drives, and what comes back.

use ashlar_report::{Page, bytes, nanos};
use ashlar_scenario::Variant;

use crate::Outcome;
use crate::answer::number;
use crate::space::{Factors, SpaceFigures, words};

/// Lines of tables: what each is called, and how it is found.
type FactorLine = (&'static str, fn(&Factors) -> f64);
type SpaceLine = (&'static str, fn(&SpaceFigures) -> String);

impl Outcome {
    /// Nothing where no room was counted.
    pub(super) fn space(&self, page: &mut Page) {
        let with: Vec<(&Variant, &SpaceFigures)> = self
            .outline
            .plan
            .variants
            .iter()
            .filter_map(|variant| Some((variant, words::first(&self.runs, variant)?)))
            .collect();
        if with.is_empty() {
            return;
        }
        page.heading("Where the bytes are");
        let names: Vec<&str> = with.iter().map(|(variant, _)| variant.name.as_str()).collect();
        let header: Vec<&str> = std::iter::once("").chain(names.iter().copied()).collect();
        let right: Vec<usize> = (1..header.len()).collect();
        let falls: Vec<_> = with.iter().map(|(_, found)| words::waterfall(&found.taken)).collect();
        let rows: Vec<Vec<String>> = (0..falls[0].len())
            .map(|step| {
                let values = falls.iter().map(|fall| signed(fall[step].1));
                std::iter::once(falls[0][step].0.to_string()).chain(values).collect()
            })
            .collect();
        page.table(&header, &right, &rows);
        page.remark(
            "Of the first run of each variant: what the accounts of the pool had more than before it, when nothing \
             was waited for any more. Each line is what is left of the one above it, down to what is compressed; \
             then comes what is stored beside it.",
        );
        page.heading("What the ratio is made of");
        page.table(&header, &right, &factor_rows(&with));
        page.remark(
            "A console multiplies all of them. Thin space and snapshots are promises and no data: zeroes, equal \
             blocks and compression are what is saved of data.",
        );
        page.heading("To make it, and what comes back");
        page.table(&header, &right, &ways(&with));
    }
}

fn signed(value: i64) -> String {
    let sign = if value < 0 { "-" } else { "" };
    format!("{sign}{}", bytes(value.unsigned_abs()))
}

fn factor_rows(with: &[(&Variant, &SpaceFigures)]) -> Vec<Vec<String>> {
    let of: [FactorLine; 8] = [
        ("thin space", |found| found.thin),
        ("snapshots", |found| found.snapshots),
        ("zeroes", |found| found.zero),
        ("equal blocks", |found| found.content),
        ("compression", |found| found.compression),
        ("metadata and parity", |found| found.beside),
        ("of the data itself: zeroes, equal blocks, compression", |found| {
            found.zero * found.content * found.compression
        }),
        ("all together", Factors::product),
    ];
    let row = |(name, factor): &FactorLine| {
        let told = |found: &SpaceFigures| {
            Factors::of(&found.taken).map_or_else(String::new, |found| number(factor(&found)))
        };
        std::iter::once((*name).to_string()).chain(with.iter().map(|(_, found)| told(found))).collect()
    };
    of.iter().map(row).collect()
}

fn ways(with: &[(&Variant, &SpaceFigures)]) -> Vec<Vec<String>> {
    let of: [SpaceLine; 6] = [
        ("to make a volume", |found| nanos(found.create_nanos as f64)),
        ("with a file system, mounted", |found| nanos(found.ready_nanos as f64)),
        ("all volumes made and filled", |found| format!("{:.1} s", found.fill_seconds)),
        ("left when databases and snapshots were deleted and trimmed", |found| {
            signed(found.emptied.physical_bytes())
        }),
        ("left when the volumes were deleted", |found| signed(found.left.physical_bytes())),
        ("every page read back", |found| match found.offences.is_empty() {
            true => "as it was written".into(),
            false => found.offences.join("; "),
        }),
    ];
    let row = |(name, told): &SpaceLine| {
        std::iter::once((*name).to_string()).chain(with.iter().map(|(_, found)| told(found))).collect()
    };
    of.iter().map(row).collect()
}
