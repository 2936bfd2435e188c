//! `ashlar sim`: the deterministic simulator.
use crate::{Context, failure::Result};
#[derive(clap::Args)]
pub struct Sim {}
impl Sim {
    pub fn run(self, _: &Context) -> Result<()> {
        Ok(())
    }
}
