//! `ashlar token`: what programs show.

use std::time::Duration;

use ashlar_api::{ApiToken, Role, TokenCreate, TokenCreated, TokenScope, TokensQuery};
use clap::Subcommand;

use crate::Context;
use crate::ask::confirm;
use crate::failure::Result;
use crate::output::{fields, table, utc};
use crate::parse;

/// Tokens: what programs show over TCP instead of a password.
///
/// A token has a role as a user has, and may be for one thing alone. Its secret is printed once, when it is
/// made; the array keeps a hash of it.
#[derive(clap::Args)]
#[command(
    after_help = "Example:\n  ashlar token create backup --role operator --expires 90d --only snapshots\n  \
        ashlar token list"
)]
pub struct Token {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Subcommand)]
enum Verb {
    /// Make a token and print its secret, this once.
    #[command(
        after_help = "Example:\n  ashlar token create backup --role operator --expires 90d > backup.token\n  \
            ashlar token create prometheus --role viewer --only metrics"
    )]
    Create {
        /// What the token is called.
        name: String,
        /// What it may do: viewer, operator or admin.
        #[arg(long, value_parser = parse::role)]
        role: Role,
        /// How long it opens anything, e.g. 90d or 12h [default: until it is deleted].
        #[arg(long, value_name = "TIME", value_parser = parse::days)]
        expires: Option<Duration>,
        /// The only thing it is for: metrics or snapshots.
        #[arg(long, value_parser = scope)]
        only: Option<TokenScope>,
    },
    /// All tokens, and when they were used last.
    #[command(visible_alias = "ls", after_help = "Example:\n  ashlar token list --json")]
    List,
    /// One token. Its secret is not known any more.
    #[command(after_help = "Example:\n  ashlar token show backup")]
    Show {
        /// Name of the token.
        name: String,
    },
    /// Delete a token: it opens nothing from now on.
    #[command(after_help = "Example:\n  ashlar token delete backup")]
    Delete {
        /// Name of the token.
        name: String,
        /// Do not ask.
        #[arg(long)]
        yes: bool,
    },
}

fn scope(text: &str) -> std::result::Result<TokenScope, String> {
    let found = TokenScope::ALL.into_iter().find(|scope| scope.name() == text);
    found.ok_or_else(|| "say metrics or snapshots".to_string())
}

impl Token {
    pub fn run(self, context: &Context) -> Result<()> {
        let client = context.client()?;
        match self.verb {
            Verb::Create { name, role, expires, only } => {
                let expires_after_seconds = expires.map(|time| time.as_secs());
                let made = client.token_create(&TokenCreate { name, role, only, expires_after_seconds })?;
                // The secret alone, so that it can go into a file.
                context.output.print(&made, |made: &TokenCreated| format!("{}\n", made.secret))?;
            }
            Verb::List => {
                let tokens = client.tokens_page(&TokensQuery::default())?.items;
                context.output.print(&tokens, |tokens| list(tokens))?;
            }
            Verb::Show { name } => context.output.print(&client.token_show(&name)?, show)?,
            Verb::Delete { name, yes } => {
                confirm(yes, &format!("Delete token {name}? Who shows it is let in no more."))?;
                client.token_delete(&name)?;
                context.output.done("deleted token", &name)?;
            }
        }
        Ok(())
    }
}

fn only(token: &ApiToken) -> String {
    token.only.map_or_else(|| "all".to_string(), |only| only.name().to_string())
}

fn end(token: &ApiToken) -> String {
    match token.expires_unix_seconds {
        None => "never".to_string(),
        Some(seconds) if token.is_expired => format!("{} (over)", utc(seconds)),
        Some(seconds) => utc(seconds),
    }
}

fn last(token: &ApiToken) -> String {
    token.last_used_unix_seconds.map_or_else(|| "never".to_string(), utc)
}

fn list(tokens: &[ApiToken]) -> String {
    let row = |token: &ApiToken| {
        let role = token.role.name().to_string();
        vec![token.name.clone(), role, only(token), end(token), last(token), token.created_by.clone()]
    };
    let rows: Vec<Vec<String>> = tokens.iter().map(row).collect();
    table(&["NAME", "ROLE", "FOR", "ENDS", "LAST USED", "MADE BY"], &[], &rows)
}

fn show(token: &ApiToken) -> String {
    fields(&[
        ("name", token.name.clone()),
        ("role", token.role.name().to_string()),
        ("for", only(token)),
        ("ends", end(token)),
        ("last used", last(token)),
        ("made by", token.created_by.clone()),
        ("created", utc(token.created_unix_seconds)),
    ])
}
