//! The smallest PostgreSQL client: simple queries over a UNIX socket without a password.
//!
//! The ledger needs to know exactly when a commit was acknowledged, so it speaks the protocol itself
//! (frontend/backend protocol 3.0) and counts a commit only when `CommandComplete` and
//! `ReadyForQuery` have both arrived.

use std::io::{self, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::time::Duration;

/// No answer of ours is longer; a longer one is not from PostgreSQL.
const MESSAGE_BYTES_MAX: usize = 1 << 24;

/// One session.
pub(crate) struct Connection {
    stream: BufReader<UnixStream>,
}

/// Rows of text; NULL is `None`.
pub(crate) type Rows = Vec<Vec<Option<String>>>;

impl Connection {
    /// Connects to the server whose socket is in `directory`. No answer within `limit` is an error.
    pub(crate) fn open(directory: &Path, port: u16, limit: Duration) -> io::Result<Self> {
        let stream = UnixStream::connect(directory.join(format!(".s.PGSQL.{port}")))?;
        stream.set_read_timeout(Some(limit))?;
        stream.set_write_timeout(Some(limit))?;
        let mut connection = Self { stream: BufReader::new(stream) };
        let mut body = 196_608_u32.to_be_bytes().to_vec();
        body.extend_from_slice(b"user\0postgres\0database\0postgres\0application_name\0ledger\0\0");
        let mut packet = (body.len() as u32 + 4).to_be_bytes().to_vec();
        packet.extend_from_slice(&body);
        connection.stream.get_mut().write_all(&packet)?;
        connection.answer()?;
        Ok(connection)
    }

    /// Runs one statement in a transaction of its own: when it returns, the commit is acknowledged.
    pub(crate) fn query(&mut self, statement: &str) -> io::Result<Rows> {
        let mut packet = vec![b'Q'];
        packet.extend_from_slice(&(statement.len() as u32 + 5).to_be_bytes());
        packet.extend_from_slice(statement.as_bytes());
        packet.push(0);
        self.stream.get_mut().write_all(&packet)?;
        self.answer()
    }

    /// Reads until the server is ready for the next statement.
    fn answer(&mut self) -> io::Result<Rows> {
        let mut rows = Rows::new();
        let mut refusal = None;
        loop {
            let (kind, body) = self.message()?;
            match kind {
                b'Z' => return refusal.map_or(Ok(rows), Err),
                b'E' => {
                    let error = io::Error::other(error_text_of(&body));
                    // A fatal error before ReadyForQuery is followed by the end of the stream.
                    if body.windows(7).any(|w| w == b"SFATAL\0" || w == b"SPANIC\0") {
                        return Err(error);
                    }
                    refusal = Some(error);
                }
                b'D' => rows.push(row_of(&body)?),
                b'R' if body.get(..4) != Some(&[0; 4]) => {
                    return Err(io::Error::other("the server asks for a password"));
                }
                // Parameters, keys, notices, row descriptions, tags: of no interest here.
                _ => {}
            }
        }
    }

    fn message(&mut self) -> io::Result<(u8, Vec<u8>)> {
        let mut head = [0; 5];
        self.stream.read_exact(&mut head)?;
        let length = u32::from_be_bytes([head[1], head[2], head[3], head[4]]) as usize;
        if !(4..=MESSAGE_BYTES_MAX).contains(&length) {
            return Err(io::Error::other(format!("message of {length} bytes")));
        }
        let mut body = vec![0; length - 4];
        self.stream.read_exact(&mut body)?;
        Ok((head[0], body))
    }
}

/// A DataRow: a count, then for each column its length (-1 is NULL) and its bytes.
pub(crate) fn row_of(body: &[u8]) -> io::Result<Vec<Option<String>>> {
    let short = || io::Error::other("short row");
    let (count, mut rest) = body.split_first_chunk::<2>().ok_or_else(short)?;
    let mut columns = Vec::new();
    for _ in 0..u16::from_be_bytes(*count) {
        let (length, after) = rest.split_first_chunk::<4>().ok_or_else(short)?;
        rest = after;
        let length = i32::from_be_bytes(*length);
        if length < 0 {
            columns.push(None);
            continue;
        }
        let (value, after) = rest.split_at_checked(length as usize).ok_or_else(short)?;
        columns.push(Some(String::from_utf8_lossy(value).into_owned()));
        rest = after;
    }
    Ok(columns)
}

/// The message field (`M`) of an ErrorResponse.
pub(crate) fn error_text_of(body: &[u8]) -> String {
    let fields = body.split(|byte| *byte == 0);
    let text = fields.filter_map(|field| field.strip_prefix(b"M")).next().unwrap_or(b"unknown error");
    String::from_utf8_lossy(text).into_owned()
}
