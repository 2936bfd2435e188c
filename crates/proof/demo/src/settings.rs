//! What a user of the demo may choose.

use std::path::PathBuf;

/// Choices of one run of the demo.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The `ashlar` program to show; normally the running one.
    pub binary: PathBuf,
    /// Scale of pgbench's database: one unit is 100,000 accounts, about 15 MiB.
    pub scale: u32,
    /// How long the load beside the clone runs, in seconds; each phase around lost drives takes a third.
    pub seconds: u32,
    /// Leave the array and its database running at the end, and say where they are.
    pub is_kept: bool,
    /// Where a picture of the run and its figures go, if anywhere.
    pub record: Option<PathBuf>,
}

impl Settings {
    /// 0.9 GiB of rows: larger than PostgreSQL's buffers, and everything behind takes its time from it.
    pub const SCALE_DEFAULT: u32 = 60;
    /// Long enough for a clone to be made and checked beside the load.
    pub const SECONDS_DEFAULT: u32 = 36;

    /// The default demo of the program at `binary`.
    pub fn new(binary: PathBuf) -> Self {
        Self {
            binary,
            scale: Self::SCALE_DEFAULT,
            seconds: Self::SECONDS_DEFAULT,
            is_kept: false,
            record: None,
        }
    }
}
