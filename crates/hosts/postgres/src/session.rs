//! A session with a server: statements, prepared statements, COPY, each with a limit on the wait.
//!
//! One thread drives one session; what a call returns has been acknowledged by the server: a commit is
//! `CommandComplete` and `ReadyForQuery` (frontend/backend protocol 3.0). Where no answer came the error is
//! [`ErrorKind::Lost`](crate::ErrorKind::Lost), and nobody knows whether it was done.

use std::future::Future;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use futures_util::SinkExt;
use tokio::runtime::Runtime;
use tokio_postgres::{Client, Config, SimpleQueryMessage};
pub use tokio_postgres::{Row, Statement, types::ToSql};

use crate::error::{Error, Result};
use crate::tls::Asked;

/// The variable of the environment that libpq reads, too (manual, 34.15).
const PASSWORD: &str = "PGPASSWORD";

/// Rows of text; NULL is `None`.
pub type Rows = Vec<Vec<Option<String>>>;

/// Where a server is found, and as whom.
#[derive(Clone, Debug)]
pub enum Address {
    /// Its socket lies in this directory; the superuser `postgres` needs no password.
    Socket { directory: PathBuf, port: u16, database: String },
    /// The same for a superuser of another name.
    SocketAs { directory: PathBuf, port: u16, database: String, user: String },
    /// As libpq reads it: `postgres://USER@HOST:PORT/DATABASE?sslmode=…&sslrootcert=…`; a password may stand
    /// in `PGPASSWORD`.
    Url(String),
}

impl Address {
    /// The database `postgres` of a server whose socket lies in `directory`.
    #[must_use]
    pub fn socket(directory: impl Into<PathBuf>, port: u16) -> Address {
        Address::Socket { directory: directory.into(), port, database: "postgres".into() }
    }

    fn config(&self) -> Result<(Config, Asked)> {
        match self {
            Address::Socket { directory, port, database } => {
                let mut config = Config::new();
                config.host_path(directory).port(*port).user("postgres").dbname(database);
                Ok((config, Asked::none()))
            }
            Address::SocketAs { directory, port, database, user } => {
                let mut config = Config::new();
                config.host_path(directory).port(*port).user(user).dbname(database);
                Ok((config, Asked::none()))
            }
            Address::Url(url) => {
                let within =
                    |error: Error| Error { context: format!("{}: {}", self.shown(), error.context), ..error };
                let (url, asked) = Asked::take(url).map_err(within)?;
                let mut config: Config = url.parse().map_err(|error: tokio_postgres::Error| {
                    let why =
                        std::error::Error::source(&error).map_or(error.to_string(), ToString::to_string);
                    Error::environment(format!("{}: {why}", self.shown()))
                })?;
                if let Some(password) = std::env::var_os(PASSWORD).filter(|_| config.get_password().is_none())
                {
                    config.password(password.as_encoded_bytes());
                }
                config.ssl_mode(asked.mode.of_client());
                Ok((config, asked))
            }
        }
    }

    /// What is looked at of the server's certificate where a session is encrypted, in words.
    ///
    /// # Errors
    /// When the address asks for what does not exist.
    pub fn certificate_in_words(&self) -> Result<&'static str> {
        Ok(self.config()?.1.in_words())
    }

    /// For messages: without a password.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Address::Socket { directory, port, .. } | Address::SocketAs { directory, port, .. } => {
                directory.join(format!(".s.PGSQL.{port}")).display().to_string()
            }
            Address::Url(url) => match (url.find("://"), url.rfind('@')) {
                (Some(scheme), Some(at)) if scheme + 3 <= at => {
                    format!("{}{}", &url[..scheme + 3], &url[at + 1..])
                }
                _ => url.clone(),
            },
        }
    }
}

/// One session. Dropping it closes the connection; the server rolls back what was not committed.
pub struct Session {
    // Before the runtime that its connection runs on.
    client: Client,
    runtime: Runtime,
    limit: Duration,
}

impl Session {
    /// Connects; no answer within `limit`, now or to any statement, is an error.
    ///
    /// # Errors
    /// When the server is not there, or refuses.
    pub fn open(address: &Address, application: &str, limit: Duration) -> Result<Session> {
        let (mut config, asked) = address.config()?;
        config.application_name(application).connect_timeout(limit);
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| Error::io("begin a session", &error))?;
        let what = address.shown();
        let tls = asked.connector();
        let tls = tls.map_err(|error| Error { context: format!("{what}: {}", error.context), ..error })?;
        let connected = async {
            config.connect(tls).await.map_err(|error| match asked.explained(&error) {
                Some(why) => Error::environment(format!("{what}: {why}")),
                None => Error::of_client(&what, &error),
            })
        };
        let (client, connection) = within(&runtime, limit, &what, connected)?;
        runtime.spawn(connection);
        Ok(Session { client, runtime, limit })
    }

    /// Runs statements as they stand, in one transaction unless they say otherwise; rows of all of them.
    ///
    /// # Errors
    /// When the server refuses one or does not answer.
    pub fn run(&mut self, statements: &str) -> Result<Rows> {
        let asked = self.client.simple_query(statements);
        let messages = answer(&self.runtime, self.limit, statements, asked)?;
        let text = |row: &tokio_postgres::SimpleQueryRow| {
            (0..row.len()).map(|column| row.get(column).map(str::to_string)).collect()
        };
        let row = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::Row(row) => Some(text(row)),
            _ => None,
        };
        Ok(messages.iter().filter_map(row).collect())
    }

    /// Runs statements as they stand, and returns how many rows they changed or answered.
    ///
    /// # Errors
    /// When the server refuses one or does not answer.
    pub fn change(&mut self, statements: &str) -> Result<u64> {
        let asked = self.client.simple_query(statements);
        let messages = answer(&self.runtime, self.limit, statements, asked)?;
        let count = |message: &SimpleQueryMessage| match message {
            SimpleQueryMessage::CommandComplete(rows) => *rows,
            _ => 0,
        };
        Ok(messages.iter().map(count).sum())
    }

    /// Makes a statement ready to be run many times.
    ///
    /// # Errors
    /// When the server refuses it or does not answer.
    pub fn prepare(&mut self, statement: &str) -> Result<Statement> {
        answer(&self.runtime, self.limit, statement, self.client.prepare(statement))
    }

    /// Runs a prepared statement and returns its rows.
    ///
    /// # Errors
    /// When the server refuses it or does not answer.
    pub fn query(&mut self, statement: &Statement, values: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>> {
        answer(&self.runtime, self.limit, "a prepared query", self.client.query(statement, values))
    }

    /// Runs a prepared statement and returns how many rows it changed.
    ///
    /// # Errors
    /// When the server refuses it or does not answer.
    pub fn execute(&mut self, statement: &Statement, values: &[&(dyn ToSql + Sync)]) -> Result<u64> {
        answer(&self.runtime, self.limit, "a prepared statement", self.client.execute(statement, values))
    }

    /// Sends rows in the form that `statement` (`COPY … FROM STDIN`) states, piece by piece until there is no
    /// more; returns how many rows came in. The limit is on each piece.
    ///
    /// # Errors
    /// When the server refuses them or does not answer; then none of them came in.
    pub fn copy(&mut self, statement: &str, next: &mut dyn FnMut() -> Option<Vec<u8>>) -> Result<u64> {
        let limit = self.limit;
        let sink = answer(&self.runtime, limit, statement, self.client.copy_in::<_, Bytes>(statement))?;
        let mut sink = Box::pin(sink);
        while let Some(piece) = next() {
            answer(&self.runtime, limit, statement, sink.feed(Bytes::from(piece)))?;
        }
        answer(&self.runtime, limit, statement, sink.as_mut().finish())
    }
}

/// Waits for an answer, but not for ever.
fn answer<T>(
    runtime: &Runtime,
    limit: Duration,
    what: &str,
    asked: impl Future<Output = std::result::Result<T, tokio_postgres::Error>>,
) -> Result<T> {
    let what = if what.len() > SHOWN_MAX { what.get(..SHOWN_MAX).unwrap_or("a statement") } else { what };
    let asked = async { asked.await.map_err(|error| Error::of_client(what, &error)) };
    within(runtime, limit, what, asked)
}

fn within<T>(
    runtime: &Runtime,
    limit: Duration,
    what: &str,
    asked: impl Future<Output = Result<T>>,
) -> Result<T> {
    // The timer belongs to the runtime, so it is made inside.
    match runtime.block_on(async { tokio::time::timeout(limit, asked).await }) {
        Ok(answered) => answered,
        Err(_late) => Err(Error::lost(format!("{what}: no answer within {} s", limit.as_secs_f64()))),
    }
}

/// Of a statement in a message.
const SHOWN_MAX: usize = 200;
