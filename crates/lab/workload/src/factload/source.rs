//! A row of a source: the same bytes in a file and in the COPY that fills a table.
//!
//! ```text
//!  fields 9 │ id 8 │ checksum 8 │ sold 8 │ product 8 │ customer 9 │ currency 3 │ quantity 4 │ price 8 │
//!     2 B   └ each behind its length, 4 B; 734 bytes, all rows alike                    payload 640 ┘
//! ```
//! A row of PostgreSQL's binary COPY, without what is in front of the first and behind the last one.
//! All but the key and the checksum are texts, as what comes from other systems is: `20160930`, `P0001234`,
//! `C00012345`, `EUR`, `0042`, `01234.56`. The checksum is of the key and the payload.

use crate::content::{Content, checksum, payload};
use crate::error::{Error, Result};
use crate::random::Random;

use super::dimensions::{CURRENCIES, CUSTOMERS, DAYS, PRODUCTS, customer_code, date_code, product_code};
use super::origin::ROW_BITS;

/// Eleven rows fill a page of PostgreSQL. Chosen so that seven of ten bytes are read, three written.
pub(super) const PAYLOAD_SIZE_BYTES: usize = 640;

/// Of the fields, in their order.
const SIZES: [usize; 9] = [8, 8, 8, 8, 9, 3, 4, 8, PAYLOAD_SIZE_BYTES];

/// Of a row in a file.
pub(super) const FILE_ROW_BYTES: usize = 2 + 4 * SIZES.len() + 56 + PAYLOAD_SIZE_BYTES;

/// How it begins: how many fields there are.
const COUNT: [u8; 2] = (SIZES.len() as i16).to_be_bytes();

/// A row as it was read or made. The payload is only looked at.
pub(super) struct SourceRow<'a> {
    pub(super) id: i64,
    pub(super) checksum: i64,
    pub(super) sold: &'a [u8],
    pub(super) product: &'a [u8],
    pub(super) customer: &'a [u8],
    pub(super) currency: &'a [u8],
    pub(super) quantity: &'a [u8],
    pub(super) price: &'a [u8],
}

/// Appends a row.
pub(super) fn write(content: &Content, id: i64, bytes: &mut Vec<u8>) {
    let mut random = Random::new(!content.seed, id as u64);
    bytes.extend_from_slice(&COUNT);
    let mut field = |text: &[u8]| {
        bytes.extend_from_slice(&(text.len() as i32).to_be_bytes());
        bytes.extend_from_slice(text);
        bytes.len()
    };
    field(&id.to_be_bytes());
    // Of what comes last.
    let sum_end = field(&[0; 8]);
    field(date_code(random.between(0, DAYS - 1)).as_bytes());
    field(product_code(random.between(0, PRODUCTS - 1)).as_bytes());
    field(customer_code(random.between(0, CUSTOMERS - 1)).as_bytes());
    field(CURRENCIES[random.between(0, CURRENCIES.len() as i32 - 1) as usize].as_bytes());
    field(format!("{:04}", random.between(1, 100)).as_bytes());
    let cents = random.between(1000, 999_999);
    field(format!("{:05}.{:02}", cents / 100, cents % 100).as_bytes());
    bytes.extend_from_slice(&(PAYLOAD_SIZE_BYTES as i32).to_be_bytes());
    let start = bytes.len();
    payload(content, id, bytes);
    let sum = checksum(id, &bytes[start..]);
    bytes[sum_end - 8..sum_end].copy_from_slice(&sum.to_be_bytes());
}

/// The row with this key, of what a file holds in its place.
pub(super) fn read(id: i64, bytes: &[u8]) -> Result<SourceRow<'_>> {
    let what = || format!("source {} row {}", id >> ROW_BITS, id & ((1 << ROW_BITS) - 1));
    let Some([key, sum, sold, product, customer, currency, quantity, price, payload]) = fields(bytes) else {
        return Err(Error::content(format!("{} is not a row", what())));
    };
    let [key, sum] = [key, sum].map(|field| field.iter().fold(0, |sum, byte| sum << 8 | i64::from(*byte)));
    let found = checksum(id, payload);
    if (key, sum) != (id, found) {
        let sums = format!("stored {sum:016x}, computed {found:016x}");
        return Err(Error::content(format!("{} checksum mismatch: {sums}, its key is {key}", what())));
    }
    Ok(SourceRow { id, checksum: sum, sold, product, customer, currency, quantity, price })
}

/// `None` of what does not have the form of a row.
fn fields(bytes: &[u8]) -> Option<[&[u8]; SIZES.len()]> {
    let mut rest = bytes.strip_prefix(&COUNT)?;
    let mut fields = [&[][..]; SIZES.len()];
    for (field, size) in fields.iter_mut().zip(SIZES) {
        rest = rest.strip_prefix(&(size as i32).to_be_bytes())?;
        (*field, rest) = rest.split_at_checked(size)?;
    }
    rest.is_empty().then_some(fields)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: i64 = (3 << ROW_BITS) + 7;

    fn row(id: i64) -> Vec<u8> {
        let sizes = (PAYLOAD_SIZE_BYTES, 105.0, 108.0);
        let (payload_size_bytes, row_bytes, left_bytes) = sizes;
        let content = Content { payload_size_bytes, compression: 2.0, seed: 5, row_bytes, left_bytes };
        let mut bytes = Vec::new();
        write(&content, id, &mut bytes);
        bytes
    }

    #[test]
    fn what_is_written_is_read_and_has_its_own_key() {
        let bytes = row(ID);
        assert_eq!(bytes.len(), FILE_ROW_BYTES);
        let read_back = read(ID, &bytes).unwrap();
        assert_eq!((read_back.id, read_back.sold.len(), read_back.product[0]), (ID, 8, b'P'));
        let wrong = read(ID + 1, &bytes).err().unwrap();
        assert!(wrong.context.starts_with("source 3 row 8 checksum mismatch"), "{wrong}");
        assert_ne!(row(ID + 1)[26..], bytes[26..]);
    }

    #[test]
    fn what_is_damaged_or_cut_is_no_row() {
        let bytes = row(ID);
        for at in [0, 4, 7, 20, 300, FILE_ROW_BYTES - 1] {
            let mut wrong = bytes.clone();
            wrong[at] ^= 4;
            assert!(read(ID, &wrong).is_err(), "byte {at}");
        }
        assert!(read(ID, &bytes[..100]).is_err());
        assert!(read(ID, &[]).is_err());
    }
}
