//! `ashlar export`: volumes as hosts reach them over iSCSI.

use ashlar_api::{Export as Shown, ExportCreate, ExportsQuery};
use clap::Subcommand;

use crate::Context;
use crate::ask::confirm;
use crate::failure::Result;
use crate::output::{fields, table, utc};

/// Volumes that hosts reach over iSCSI.
///
/// Each pool is one target; a volume that is exported is a LUN of it. Hosts come in at the addresses of
/// `ashlar serve --iscsi-listen`.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar export create db --host db1\n  ashlar export list")]
pub struct Export {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Export a volume. Hosts that are logged in see it when they look again.
    #[command(after_help = "Example:\n  ashlar export create db --host db1 --host db2\n  \
            ashlar export create db --lun 4 --block-size 512")]
    Create {
        /// Name of the volume.
        volume: String,
        /// A host that sees it; may be given several times. Without: every host that comes in, and on
        /// loopback that is everybody.
        #[arg(long = "host", value_name = "HOST")]
        hosts: Vec<String>,
        /// Its number at the target, 0 to 16383 [default: the next that is free].
        #[arg(long = "lun", value_name = "N")]
        unit: Option<u16>,
        /// The block that hosts address, 512 or 4096 [default: the logical block of the volume].
        #[arg(long, value_name = "BYTES")]
        block_size: Option<u32>,
    },
    /// All exports.
    #[command(visible_alias = "ls", after_help = "Example:\n  ashlar export list --json")]
    List,
    /// The export of one volume.
    #[command(after_help = "Example:\n  ashlar export show db")]
    Show {
        /// Name of the volume.
        volume: String,
    },
    /// Export a volume no more, and forget its reservations. Refused while a host that sees it is logged in.
    #[command(after_help = "Example:\n  ashlar export delete db")]
    Delete {
        /// Name of the volume.
        volume: String,
        /// Take it from hosts that are logged in: they get errors.
        #[arg(long)]
        force: bool,
        /// Do not ask, where --force makes it necessary.
        #[arg(long)]
        yes: bool,
    },
}

impl Export {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        match self.verb {
            Verb::Create { volume, hosts, unit, block_size } => {
                let request = ExportCreate { volume, hosts, unit, block_bytes: block_size };
                context.output.print(&client.export_create(&request)?, show)?;
            }
            Verb::List => {
                let exports = client.exports_page(&ExportsQuery::default())?.items;
                context.output.print(&exports, |exports| list(exports))?;
            }
            Verb::Show { volume } => context.output.print(&client.export(&volume)?, show)?,
            Verb::Delete { volume, force, yes } => {
                if force {
                    confirm(yes, &format!("Take {volume} from hosts that may be using it?"))?;
                }
                client.export_delete(&volume, force)?;
                context.output.done("deleted export of", &volume)?;
            }
        }
        Ok(())
    }
}

fn hosts(export: &Shown) -> String {
    if export.hosts.is_empty() { "every host".to_string() } else { export.hosts.join(" ") }
}

fn list(exports: &[Shown]) -> String {
    let row = |export: &Shown| {
        vec![
            export.volume.clone(),
            export.target.clone(),
            export.unit.to_string(),
            export.block_bytes.to_string(),
            hosts(export),
            export.session_count.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = exports.iter().map(row).collect();
    table(&["VOLUME", "TARGET", "LUN", "BLOCK", "HOSTS", "SESSIONS"], &[2, 3, 5], &rows)
}

fn show(export: &Shown) -> String {
    let addresses = match export.addresses.is_empty() {
        true => "none: start the array with --iscsi-listen ADDRESS:PORT".to_string(),
        false => export.addresses.join(" "),
    };
    fields(&[
        ("volume", export.volume.clone()),
        ("pool", export.pool.clone()),
        ("target", export.target.clone()),
        ("lun", export.unit.to_string()),
        ("wwn", export.wwn.clone()),
        ("block", export.block_bytes.to_string()),
        ("hosts", hosts(export)),
        ("addresses", addresses),
        ("sessions", export.session_count.to_string()),
        ("created", utc(export.created_unix_seconds)),
    ])
}
