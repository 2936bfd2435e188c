//! Fields of rows as PostgreSQL's binary form has them, and rows as its COPY takes them.

use ashlar_postgres::Row;

use crate::error::{Error, Result};

/// Rows are sent in pieces of about this size: large enough that a piece costs nothing, small beside memory.
const PIECE_BYTES: usize = 64 << 10;

/// A 32-bit integer.
pub(crate) fn integer(row: &Row, index: usize) -> Result<i32> {
    row.try_get(index).map_err(|error| wrong(index, &error))
}

/// A 64-bit integer.
pub(crate) fn wide(row: &Row, index: usize) -> Result<i64> {
    row.try_get(index).map_err(|error| wrong(index, &error))
}

/// A text.
pub(crate) fn text(row: &Row, index: usize) -> Result<&str> {
    row.try_get(index).map_err(|error| wrong(index, &error))
}

/// Bytes.
pub(crate) fn bytes(row: &Row, index: usize) -> Result<&[u8]> {
    row.try_get(index).map_err(|error| wrong(index, &error))
}

fn wrong(index: usize, error: &dyn std::error::Error) -> Error {
    let why = error.source().map_or(error.to_string(), ToString::to_string);
    Error::content(format!("field {index} of a row: {why}"))
}

/// The only row of an answer.
pub(crate) fn only<'a>(rows: &'a [Row], what: &str) -> Result<&'a Row> {
    match rows {
        [row] => Ok(row),
        _ => Err(Error::content(format!("{what}: {} rows, not one", rows.len()))),
    }
}

/// A row in COPY's text form. What is written must not hold tabs, line ends or backslashes.
pub(crate) struct Line<'a> {
    text: &'a mut Vec<u8>,
    is_first: bool,
}

impl Line<'_> {
    pub(crate) fn begin(text: &mut Vec<u8>) -> Line<'_> {
        Line { text, is_first: true }
    }

    /// Where the next field is written.
    pub(crate) fn field(&mut self) -> &mut Vec<u8> {
        if !self.is_first {
            self.text.push(b'\t');
        }
        self.is_first = false;
        self.text
    }

    pub(crate) fn text(&mut self, text: impl AsRef<[u8]>) -> &mut Self {
        self.field().extend_from_slice(text.as_ref());
        self
    }

    pub(crate) fn integer(&mut self, value: impl Into<i64>) -> &mut Self {
        let value: i64 = value.into();
        self.text(value.to_string())
    }

    /// A sum in hundredths.
    pub(crate) fn cents(&mut self, cents: i64) -> &mut Self {
        let sign = if cents < 0 { "-" } else { "" };
        let cents = cents.unsigned_abs();
        self.text(format!("{sign}{}.{:02}", cents / 100, cents % 100))
    }

    /// A share in ten-thousandths.
    pub(crate) fn rate(&mut self, parts: i32) -> &mut Self {
        self.text(format!("0.{parts:04}"))
    }

    pub(crate) fn null(&mut self) -> &mut Self {
        self.text("\\N")
    }

    pub(crate) fn end(&mut self) {
        self.text.push(b'\n');
    }
}

/// Rows, one after the other, as pieces for COPY. `row` appends the next one and answers whether there was
/// one.
pub(crate) fn pieces(mut row: impl FnMut(&mut Vec<u8>) -> bool) -> impl FnMut() -> Option<Vec<u8>> {
    let mut is_over = false;
    move || {
        let mut piece = Vec::with_capacity(PIECE_BYTES + PIECE_BYTES / 4);
        while !is_over && piece.len() < PIECE_BYTES {
            is_over = !row(&mut piece);
        }
        (!piece.is_empty()).then_some(piece)
    }
}

/// The same for COPY in its binary form: `row` appends the number of fields, and each behind its length.
pub(crate) fn binary_pieces(mut row: impl FnMut(&mut Vec<u8>) -> bool) -> impl FnMut() -> Option<Vec<u8>> {
    let mut is_begun = false;
    pieces(move |piece| {
        if !is_begun {
            // Signature, no flags, no extension (PostgreSQL, COPY, file formats).
            piece.extend_from_slice(b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0");
            is_begun = true;
        }
        let is_row = row(piece);
        if !is_row {
            piece.extend_from_slice(&(-1_i16).to_be_bytes());
        }
        is_row
    })
}

/// Rows of one COPY.
pub(crate) type Pieces = Box<dyn FnMut() -> Option<Vec<u8>> + Send>;

/// The rows for each item of an iterator.
pub(crate) fn rows_of<T>(
    mut items: impl Iterator<Item = T> + Send + 'static,
    mut row: impl FnMut(T, &mut Vec<u8>) + Send + 'static,
) -> Pieces {
    Box::new(pieces(move |piece| items.next().map(|item| row(item, piece)).is_some()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_as_copy_reads_it() {
        let mut text = Vec::new();
        let mut line = Line::begin(&mut text);
        line.integer(7).text("a").null().cents(-1005).cents(9).rate(312).end();
        assert_eq!(String::from_utf8(text).unwrap(), "7\ta\t\\N\t-10.05\t0.09\t0.0312\n");
    }

    #[test]
    fn pieces_hold_every_row_once() {
        let mut left = 10_000;
        let mut next = pieces(|piece| {
            left -= 1;
            if left >= 0 {
                piece.extend_from_slice(b"0123456789012345678\n");
            }
            left >= 0
        });
        let sizes: Vec<usize> = std::iter::from_fn(&mut next).map(|piece| piece.len()).collect();
        assert_eq!(sizes.iter().sum::<usize>(), 200_000);
        assert_eq!(sizes.len(), 4);
        assert!(next().is_none());
    }
}
