//! `ashlar lab bases`: databases that were loaded once and are kept on their targets.

use std::time::{SystemTime, UNIX_EPOCH};

use ashlar_report::{bytes, seconds};
use ashlar_target::{KeptBase, Shelf};
use serde::Serialize;

use crate::Context;
use crate::failure::{Failure, Result};

/// List the databases that `ashlar lab run --keep-base` keeps on a target, or delete them.
///
/// Each is what a run loaded, as its server left it when it was stopped: in a directory a copy of its files,
/// in a pool a snapshot of its volumes. A run uses one only where all that made it is the same.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar lab bases --target /mnt/db\n  \
        ashlar lab bases --target ashlar:main --delete")]
pub struct Bases {
    /// Only these.
    #[arg(value_name = "BASE")]
    names: Vec<String>,
    /// The target that they lie on, as for `ashlar lab run`; may be given several times.
    #[arg(long, value_name = "TARGET", required = true)]
    target: Vec<String>,
    /// Delete them.
    #[arg(long)]
    delete: bool,
}

#[derive(Serialize)]
struct Told {
    bases: Vec<KeptBase>,
    deleted: bool,
}

impl Bases {
    pub fn run(self, context: &Context) -> Result<()> {
        let access = super::access(context, false, self.target.iter())?;
        let refused = |refusal: ashlar_target::Refusal| Failure::Unable(refusal.to_string());
        let mut bases: Vec<KeptBase> = Vec::new();
        for target in &self.target {
            let shelf = Shelf::of(target, &access).map_err(refused)?.ok_or_else(|| {
                let what = "only directories, pools and simulated drives over a directory keep bases";
                Failure::Unable(format!("{target}: {what}"))
            })?;
            let wanted = |base: &KeptBase| self.names.is_empty() || self.names.contains(&base.name);
            for base in shelf.list().map_err(refused)?.into_iter().filter(wanted) {
                if self.delete {
                    shelf.remove(&base.name).map_err(refused)?;
                }
                bases.push(base);
            }
        }
        if let Some(name) = self.names.iter().find(|name| bases.iter().all(|base| base.name != **name)) {
            return Err(Failure::Unable(format!("{name}: no such base lies on {}", self.target.join(", "))));
        }
        let told = Told { bases, deleted: self.delete };
        Ok(context.output.print(&told, Told::text)?)
    }
}

impl Told {
    fn text(&self) -> String {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
        let line = |base: &KeptBase| {
            let size = base.bytes.map_or(String::new(), |size| format!(", {}", bytes(size)));
            let state = match (base.is_whole, base.made_unix_seconds) {
                (true, Some(made)) => format!(", made {} ago", seconds(now.saturating_sub(made).max(1))),
                (true, None) => String::new(),
                (false, _) => ", cut short, never used".into(),
            };
            let of = base.of.as_ref().map_or(String::new(), |of| format!("\n  {of}"));
            let deleted = if self.deleted { "deleted: " } else { "" };
            format!("{deleted}{} on {}{size}{state}{of}", base.name, base.target)
        };
        match self.bases.is_empty() {
            true => "no bases are kept there".into(),
            false => self.bases.iter().map(line).collect::<Vec<_>>().join("\n"),
        }
    }
}
