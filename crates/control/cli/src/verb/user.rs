//! `ashlar user`: who may log in.

use std::path::PathBuf;

use ashlar_api::{Role, TokensQuery, User as Shown, UserChange, UserCreate, UsersQuery};
use clap::Subcommand;

use crate::Context;
use crate::ask::confirm;
use crate::failure::Result;
use crate::output::{fields, table, utc};
use crate::{parse, password, stderr};

/// People who may log in: at the console, and over the API.
///
/// A viewer sees everything but secrets. An operator works with volumes, snapshots, clones, databases and
/// schedules. An admin may do everything. Users are kept in the state directory; root over the socket needs
/// none.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar user create ada --role operator\n  ashlar user list")]
pub struct User {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make a user. Asks for the password, of 12 letters at least.
    #[command(after_help = "Example:\n  ashlar user create ada --role operator\n  \
            pass show ada | ashlar user create ada --role operator --password-file -")]
    Create {
        /// What the user is called.
        name: String,
        /// What it may do: viewer, operator or admin.
        #[arg(long, value_parser = parse::role)]
        role: Role,
        /// File whose first line is the password; - for standard input.
        #[arg(long, value_name = "FILE")]
        password_file: Option<PathBuf>,
    },
    /// All users.
    #[command(visible_alias = "ls", after_help = "Example:\n  ashlar user list --json")]
    List,
    /// One user.
    #[command(after_help = "Example:\n  ashlar user show ada")]
    Show {
        /// Name of the user.
        name: String,
    },
    /// Give a user another role or password, or keep it out. Its sessions end.
    #[command(
        after_help = "Example:\n  ashlar user set ada --role viewer\n  ashlar user set ada --password\n  \
            ashlar user set ada --disable"
    )]
    Set(Set),
    /// Delete a user. Its sessions end.
    #[command(after_help = "Example:\n  ashlar user delete ada")]
    Delete {
        /// Name of the user.
        name: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

#[derive(clap::Args)]
#[command(group = clap::ArgGroup::new("what").required(true).multiple(true))]
struct Set {
    /// Name of the user.
    name: String,
    /// What it may do from now on: viewer, operator or admin.
    #[arg(long, value_parser = parse::role, group = "what")]
    role: Option<Role>,
    /// Ask for another password.
    #[arg(long, group = "what", conflicts_with = "password_file")]
    password: bool,
    /// File whose first line is another password; - for standard input.
    #[arg(long, value_name = "FILE", group = "what")]
    password_file: Option<PathBuf>,
    /// Keep it out.
    #[arg(long, group = "what")]
    disable: bool,
    /// Let it in again.
    #[arg(long, group = "what", conflicts_with = "disable")]
    enable: bool,
}

impl User {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        match self.verb {
            Verb::Create { name, role, password_file } => {
                let password = password::new(password_file.as_deref())?;
                let user = client.user_create(&UserCreate { name, role, password })?;
                context.output.print(&user, show)?;
            }
            Verb::List => {
                let users = client.users_page(&UsersQuery::default())?.items;
                context.output.print(&users, |users| list(users))?;
            }
            Verb::Show { name } => context.output.print(&client.user(&name)?, show)?,
            Verb::Set(set) => {
                let name = set.name.clone();
                context.output.print(&client.user_change(&name, &set.change()?)?, show)?;
            }
            Verb::Delete { name, yes } => {
                let maker = format!("user {name}");
                let tokens = client.tokens_page(&TokensQuery::default())?.items;
                let made = tokens.into_iter().filter(|token| token.created_by == maker);
                let made: Vec<String> = made.map(|token| token.name).collect();
                let stay = match made.is_empty() {
                    true => String::new(),
                    false => format!(" Tokens that it made stay: {}.", made.join(", ")),
                };
                confirm(yes, &format!("Delete user {name}?{stay}"))?;
                client.user_delete(&name)?;
                context.output.done("deleted user", &name)?;
                if !made.is_empty() {
                    stderr::line(format_args!("ashlar:{stay} `ashlar token delete` takes them out"));
                }
            }
        }
        Ok(())
    }
}

impl Set {
    fn change(self) -> Result<UserChange> {
        let has_password = self.password || self.password_file.is_some();
        let password = match has_password {
            true => Some(password::new(self.password_file.as_deref())?),
            false => None,
        };
        let is_disabled = if self.disable { Some(true) } else { self.enable.then_some(false) };
        Ok(UserChange { role: self.role, password, is_disabled })
    }
}

fn state(user: &Shown) -> String {
    if user.is_disabled { "disabled" } else { "may log in" }.to_string()
}

fn last(user: &Shown) -> String {
    user.last_login_unix_seconds.map_or_else(|| "never".to_string(), utc)
}

fn list(users: &[Shown]) -> String {
    let row = |user: &Shown| {
        vec![
            user.name.clone(),
            user.role.name().to_string(),
            state(user),
            last(user),
            user.session_count.to_string(),
        ]
    };
    let rows: Vec<Vec<String>> = users.iter().map(row).collect();
    table(&["NAME", "ROLE", "STATE", "LAST LOGIN", "SESSIONS"], &[4], &rows)
}

fn show(user: &Shown) -> String {
    fields(&[
        ("name", user.name.clone()),
        ("role", user.role.name().to_string()),
        ("state", state(user)),
        ("sessions", user.session_count.to_string()),
        ("last login", last(user)),
        ("password set", utc(user.password_set_unix_seconds)),
        ("created", utc(user.created_unix_seconds)),
    ])
}
