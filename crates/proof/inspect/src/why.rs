//! Why something cannot be had.

use std::fmt;

use serde::Serialize;

/// Why bytes that a pool should hold are gone.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Why {
    /// They lie on drives that are missing, lack them or cannot be read, more than parity makes up for.
    Unreadable,
    /// What is there does not prove to be them, whatever columns are computed from parity.
    Damaged,
    /// No segment that was found and no relocation leads to them: tables are damaged.
    Nowhere,
    /// The map page that leads to them cannot be read.
    MapUnreadable,
    /// The map page that leads to them is damaged.
    MapDamaged,
    /// Nothing leads to the map page that leads to them.
    MapNowhere,
    /// They come from a volume or snapshot whose entry is lost.
    OriginLost,
}

impl Why {
    /// The same of what a map page leads to.
    pub(crate) fn of_map(self) -> Why {
        match self {
            Why::Unreadable => Why::MapUnreadable,
            Why::Damaged => Why::MapDamaged,
            Why::Nowhere => Why::MapNowhere,
            other @ (Why::MapUnreadable | Why::MapDamaged | Why::MapNowhere | Why::OriginLost) => other,
        }
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Why::Unreadable => "on drives that are missing, lack it or cannot be read",
            Why::Damaged => "damaged, and no parity restores it",
            Why::Nowhere => "neither in a segment that was found nor moved",
            Why::MapUnreadable => "its map page is on drives that are missing, lack it or cannot be read",
            Why::MapDamaged => "its map page is damaged, and no parity restores it",
            Why::MapNowhere => "its map page is neither in a segment that was found nor moved",
            Why::OriginLost => "the entry of the volume or snapshot it comes from is lost",
        })
    }
}
