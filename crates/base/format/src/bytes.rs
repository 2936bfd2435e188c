//! Little-endian reading and writing with bounds: the only way this crate touches bytes.

use crate::{Damage, DamageKind};

/// Reads fields one after the other; running off the end is damage, never a panic.
pub struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Reader<'a> {
    /// Reads `bytes` from the start.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader { bytes, at: 0 }
    }

    /// The next `count` bytes.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8], Damage> {
        let end = self.at.checked_add(count).filter(|end| *end <= self.bytes.len());
        let end = end.ok_or(Damage::new(DamageKind::Truncated, "structure ends early"))?;
        let taken = &self.bytes[self.at..end];
        self.at = end;
        Ok(taken)
    }

    /// A fixed-size run of bytes.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N], Damage> {
        let taken = self.take(N)?;
        Ok(std::array::from_fn(|index| taken[index]))
    }

    /// One byte.
    pub fn u8(&mut self) -> Result<u8, Damage> {
        Ok(self.array::<1>()?[0])
    }

    /// Two bytes.
    pub fn u16(&mut self) -> Result<u16, Damage> {
        Ok(u16::from_le_bytes(self.array()?))
    }

    /// Four bytes.
    pub fn u32(&mut self) -> Result<u32, Damage> {
        Ok(u32::from_le_bytes(self.array()?))
    }

    /// Eight bytes.
    pub fn u64(&mut self) -> Result<u64, Damage> {
        Ok(u64::from_le_bytes(self.array()?))
    }

    /// Sixteen bytes.
    pub fn u128(&mut self) -> Result<u128, Damage> {
        Ok(u128::from_le_bytes(self.array()?))
    }

    /// A name: one length byte, then that many bytes of UTF-8.
    pub fn name(&mut self) -> Result<String, Damage> {
        let length = usize::from(self.u8()?);
        let bytes = self.take(length)?;
        String::from_utf8(bytes.to_vec())
            .map_err(|_| Damage::new(DamageKind::Impossible, "name is not UTF-8"))
    }

    /// Bytes read so far.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }
}

/// Appends fields one after the other.
#[derive(Default)]
pub struct Writer {
    bytes: Vec<u8>,
}

impl Writer {
    /// An empty writer.
    #[must_use]
    pub fn new() -> Writer {
        Writer::default()
    }

    /// Appends raw bytes.
    pub fn put(&mut self, bytes: &[u8]) -> &mut Writer {
        self.bytes.extend_from_slice(bytes);
        self
    }

    /// Appends one byte.
    pub fn u8(&mut self, value: u8) -> &mut Writer {
        self.put(&[value])
    }

    /// Appends two bytes.
    pub fn u16(&mut self, value: u16) -> &mut Writer {
        self.put(&value.to_le_bytes())
    }

    /// Appends four bytes.
    pub fn u32(&mut self, value: u32) -> &mut Writer {
        self.put(&value.to_le_bytes())
    }

    /// Appends eight bytes.
    pub fn u64(&mut self, value: u64) -> &mut Writer {
        self.put(&value.to_le_bytes())
    }

    /// Appends sixteen bytes.
    pub fn u128(&mut self, value: u128) -> &mut Writer {
        self.put(&value.to_le_bytes())
    }

    /// Appends a name of at most 255 bytes.
    pub fn name(&mut self, name: &str) -> &mut Writer {
        let length = u8::try_from(name.len()).expect("names are checked to be short at the edge");
        self.u8(length).put(name.as_bytes())
    }

    /// Pads with zeroes up to `length`.
    pub fn pad_to(&mut self, length: usize) -> &mut Writer {
        assert!(self.bytes.len() <= length, "structure of {} bytes exceeds {length}", self.bytes.len());
        self.bytes.resize(length, 0);
        self
    }

    /// Bytes written so far.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// True when nothing was written.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// The bytes written so far.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The bytes.
    #[must_use]
    pub fn into_bytes(self) -> Vec<u8> {
        self.bytes
    }
}
