//! `ashlar host`: who may come in over iSCSI.

use std::path::{Path, PathBuf};

use ashlar_api::{ChapLogin, Host as Shown, HostChange, HostCreate, HostsQuery};
use clap::Subcommand;

use crate::Context;
use crate::ask::confirm;
use crate::failure::{Failure, Result};
use crate::output::{fields, table, utc};

/// Hosts that may come in over iSCSI.
///
/// A host is known by its iSCSI name, and proves it by a CHAP secret. At an address off loopback only hosts
/// with a secret come in. `ashlar export create` says what they see.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  \
        ashlar host create db1 --iqn iqn.1993-08.org.debian:01:2f6b9d8a51c --chap-user db1 \
        --chap-secret-file db1.secret\n  \
        ashlar host set db1 --chap-user db1 --chap-secret-file new.secret\n  ashlar host list")]
pub struct Host {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Let a host in.
    #[command(after_help = "Example:\n  \
            ashlar host create db1 --iqn iqn.1993-08.org.debian:01:2f6b9d8a51c --chap-user db1 \
            --chap-secret-file db1.secret")]
    Create(Create),
    /// All hosts, and where they are logged in from.
    #[command(visible_alias = "ls", after_help = "Example:\n  ashlar host list --json")]
    List,
    /// One host: its name on the wire, what it sees, its sessions. Its secrets are never shown.
    #[command(after_help = "Example:\n  ashlar host show db1")]
    Show {
        /// Name of the host.
        name: String,
    },
    /// Change what a host proves, from its next login on. Its sessions and exports stay.
    ///
    /// What is not named stays as it is. To have sessions that began with the old secret end, cut them off
    /// with `ashlar client disconnect`: they log in again, if they can.
    #[command(
        after_help = "Example:\n  ashlar host set db1 --chap-user db1 --chap-secret-file new.secret\n  \
            ashlar host set db1 --no-mutual"
    )]
    Set(Set),
    /// Let a host in no more. Refused while an export names it, and while it is logged in.
    #[command(after_help = "Example:\n  ashlar host delete db1")]
    Delete {
        /// Name of the host.
        name: String,
        /// End its sessions: what it had under way there fails.
        #[arg(long)]
        force: bool,
        /// Do not ask, where --force makes it necessary.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(clap::Args)]
struct Create {
    /// What to call it here.
    name: String,
    /// Its iSCSI name; on Linux in /etc/iscsi/initiatorname.iscsi.
    #[arg(long, value_name = "IQN")]
    iqn: String,
    /// The pool whose volumes it may see; needed where there are several.
    #[arg(long)]
    pool: Option<String>,
    /// The name that it proves by a secret.
    #[arg(long, value_name = "USER", requires = "chap_secret_file")]
    chap_user: Option<String>,
    /// File whose first line is that secret: 12 to 255 bytes, for Windows at most 16.
    #[arg(long, value_name = "FILE", requires = "chap_user")]
    chap_secret_file: Option<PathBuf>,
    /// The name that the array proves to it, if it asks for that.
    #[arg(long, value_name = "USER", requires = "mutual_secret_file", requires = "chap_user")]
    mutual_user: Option<String>,
    /// File whose first line is the array's secret: another one.
    #[arg(long, value_name = "FILE", requires = "mutual_user")]
    mutual_secret_file: Option<PathBuf>,
}

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true)
    .args(["chap_user", "no_chap", "mutual_user", "no_mutual"]))]
struct Set {
    /// Name of the host.
    name: String,
    /// The name that it proves by a secret.
    #[arg(long, value_name = "USER", requires = "chap_secret_file")]
    chap_user: Option<String>,
    /// File whose first line is that secret: 12 to 255 bytes, for Windows at most 16.
    #[arg(long, value_name = "FILE", requires = "chap_user")]
    chap_secret_file: Option<PathBuf>,
    /// It proves nothing any more, and nothing is proven to it. Refused while an address off loopback is
    /// open.
    #[arg(long, conflicts_with_all = ["chap_user", "mutual_user", "no_mutual"])]
    no_chap: bool,
    /// The name that the array proves to it, if it asks for that.
    #[arg(long, value_name = "USER", requires = "mutual_secret_file")]
    mutual_user: Option<String>,
    /// File whose first line is the array's secret: another one.
    #[arg(long, value_name = "FILE", requires = "mutual_user")]
    mutual_secret_file: Option<PathBuf>,
    /// Nothing is proven to it any more.
    #[arg(long, conflicts_with = "mutual_user")]
    no_mutual: bool,
}

impl Host {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        match self.verb {
            Verb::Create(create) => {
                context.output.print(&client.host_create(&create.request()?)?, show)?;
            }
            Verb::List => {
                let hosts = client.hosts_page(&HostsQuery::default())?.items;
                context.output.print(&hosts, |hosts| list(hosts))?;
            }
            Verb::Show { name } => context.output.print(&client.host(&name)?, show)?,
            Verb::Set(set) => {
                let (name, change) = set.change()?;
                context.output.print(&client.host_change(&name, &change)?, show)?;
            }
            Verb::Delete { name, force, yes } => {
                if force {
                    confirm(yes, &format!("End the sessions of {name}?"))?;
                }
                client.host_delete(&name, force)?;
                context.output.done("deleted host", &name)?;
            }
        }
        Ok(())
    }
}

impl Create {
    fn request(self) -> Result<HostCreate> {
        Ok(HostCreate {
            name: self.name,
            initiator: self.iqn,
            pool: self.pool,
            chap: login(self.chap_user, self.chap_secret_file.as_deref())?,
            mutual_chap: login(self.mutual_user, self.mutual_secret_file.as_deref())?,
        })
    }
}

impl Set {
    fn change(self) -> Result<(String, HostChange)> {
        let change = HostChange {
            chap: login(self.chap_user, self.chap_secret_file.as_deref())?,
            without_chap: self.no_chap,
            mutual_chap: login(self.mutual_user, self.mutual_secret_file.as_deref())?,
            without_mutual_chap: self.no_mutual,
        };
        Ok((self.name, change))
    }
}

fn login(user: Option<String>, file: Option<&Path>) -> Result<Option<ChapLogin>> {
    let Some((user, file)) = user.zip(file) else { return Ok(None) };
    let text = std::fs::read_to_string(file).map_err(|error| {
        Failure::new(format!("read secret {}: {error}: name a file with one line of text", file.display()))
    })?;
    let secret = text.lines().next().unwrap_or_default().to_string();
    Ok(Some(ChapLogin { user, secret }))
}

fn proof(host: &Shown) -> String {
    match (&host.chap_user, &host.mutual_chap_user) {
        (None, _) => "none".to_string(),
        (Some(user), None) => format!("CHAP {user}"),
        (Some(user), Some(own)) => format!("CHAP {user}, mutual {own}"),
    }
}

fn list(hosts: &[Shown]) -> String {
    let row = |host: &Shown| {
        let from: Vec<&str> = host.sessions.iter().map(|session| session.address.as_str()).collect();
        vec![
            host.name.clone(),
            host.pool.clone(),
            host.initiator.clone(),
            proof(host),
            host.volumes.join(" "),
            from.join(" "),
        ]
    };
    let rows: Vec<Vec<String>> = hosts.iter().map(row).collect();
    table(&["NAME", "POOL", "IQN", "PROOF", "VOLUMES", "LOGGED IN FROM"], &[], &rows)
}

fn show(host: &Shown) -> String {
    let sessions = host.sessions.iter().map(|session| {
        let (seconds, count) = (session.connected_seconds, session.in_flight_count);
        format!("{} for {seconds} s, {count} in flight", session.address)
    });
    fields(&[
        ("name", host.name.clone()),
        ("pool", host.pool.clone()),
        ("iqn", host.initiator.clone()),
        ("proof", proof(host)),
        ("volumes", host.volumes.join(" ")),
        ("sessions", sessions.collect::<Vec<_>>().join("; ")),
        ("created", utc(host.created_unix_seconds)),
    ])
}
