//! The owner block: who has a pool open, and that the owner is alive.
//!
//! Behind the ring of superblocks, on up to three drives. The array that has the pool open writes it again
//! and again with a higher beat; whoever would open the pool watches it.
//!
//! ```text
//!  0 u64 magic      8 u16 version   10 u16 zero   12 u32 session   16 u128 pool   32 u128 copy
//! 48 u128 machine  64 u128 boot     80 u64 beat   88 u64 unix seconds of the beat
//! 96 u32 milliseconds between beats               100 u32 process
//! 104 u8 state (0 closed, 1 open)  105 7 zero     112 name of the machine (1 + 63)
//! 176 u64 when the process started, in its machine's terms
//! 184 zero                                       4088 u64 keyed checksum of all before
//! ```

use ashlar_units::PoolId;

use crate::bytes::{Reader, Writer};
use crate::{Damage, DamageKind, FORMAT_VERSION, Kind, MediaKey};

/// Bytes of the block.
pub const OWNER_BYTES: usize = 4096;
/// Bytes of a machine's name at most.
pub const MACHINE_NAME_BYTES_MAX: usize = 63;

const MAGIC: u64 = 0x4153_484c_4f57_4e32;
const STARTED_AT: usize = 176;
const CHECKSUM_AT: usize = OWNER_BYTES - 8;

/// Who has a pool open.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Owner {
    /// The pool.
    pub pool: PoolId,
    /// Which copy of it.
    pub copy: u128,
    /// The machine.
    pub machine: u128,
    /// Its boot.
    pub boot: u128,
    /// The opening of the pool.
    pub session: u32,
    /// Counts the writes of this block in an opening.
    pub beat: u64,
    /// When it was written, by the owner's clock: for people.
    pub beat_unix_seconds: u64,
    /// Milliseconds from one beat to the next.
    pub interval_millis: u32,
    /// The owner's process.
    pub process: u32,
    /// When it started, in its machine's terms: numbers of processes are used again.
    pub process_started: u64,
    /// False when the owner has closed the pool.
    pub is_open: bool,
    /// The machine's name.
    pub machine_name: String,
}

impl Owner {
    /// The block.
    #[must_use]
    pub fn encode(&self, key: &MediaKey) -> Vec<u8> {
        assert!(self.machine_name.len() <= MACHINE_NAME_BYTES_MAX, "name `{}`", self.machine_name);
        let mut writer = Writer::new();
        writer.u64(MAGIC).u16(FORMAT_VERSION).u16(0).u32(self.session);
        writer.u128(self.pool.0).u128(self.copy).u128(self.machine).u128(self.boot);
        writer.u64(self.beat).u64(self.beat_unix_seconds).u32(self.interval_millis).u32(self.process);
        writer.u64(u64::from(self.is_open)).name(&self.machine_name).pad_to(STARTED_AT);
        writer.u64(self.process_started).pad_to(CHECKSUM_AT);
        let sum = key.checksum(Kind::Owner, writer.as_bytes());
        writer.u64(sum);
        writer.into_bytes()
    }

    /// Reads the block.
    pub fn decode(key: &MediaKey, bytes: &[u8]) -> Result<Owner, Damage> {
        let mut reader = Reader::new(bytes);
        if reader.u64()? != MAGIC {
            return Err(Damage::new(DamageKind::Absent, "no owner block here"));
        }
        if bytes.len() != OWNER_BYTES {
            return Err(Damage::new(DamageKind::Truncated, "owner block ends early"));
        }
        let stored = Reader::new(&bytes[CHECKSUM_AT..]).u64()?;
        if stored != key.checksum(Kind::Owner, &bytes[..CHECKSUM_AT]) {
            return Err(Damage::new(DamageKind::Checksum, "owner block checksum mismatch"));
        }
        if reader.u16()? != FORMAT_VERSION {
            return Err(Damage::new(DamageKind::Version, "owner block version is unknown"));
        }
        reader.u16()?;
        let session = reader.u32()?;
        let (pool, copy) = (PoolId(reader.u128()?), reader.u128()?);
        let (machine, boot) = (reader.u128()?, reader.u128()?);
        let (beat, beat_unix_seconds) = (reader.u64()?, reader.u64()?);
        let (interval_millis, process) = (reader.u32()?, reader.u32()?);
        let is_open = reader.u8()? != 0;
        reader.take(7)?;
        let machine_name = reader.name()?;
        let process_started = Reader::new(&bytes[STARTED_AT..]).u64()?;
        Ok(Owner {
            pool,
            copy,
            machine,
            boot,
            session,
            beat,
            beat_unix_seconds,
            interval_millis,
            process,
            process_started,
            is_open,
            machine_name,
        })
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn an_owner_survives_the_trip_and_damage_is_noticed() {
        let key = MediaKey::new(77);
        let owner = Owner {
            pool: PoolId(1 << 90),
            copy: 3,
            machine: 4 << 80,
            boot: 5,
            session: 6,
            beat: 7,
            beat_unix_seconds: 8,
            interval_millis: 1000,
            process: 9,
            process_started: 10,
            is_open: true,
            machine_name: "m".repeat(MACHINE_NAME_BYTES_MAX),
        };
        let bytes = owner.encode(&key);
        assert_eq!(bytes.len(), OWNER_BYTES);
        assert_eq!(Owner::decode(&key, &bytes).unwrap(), owner);
        assert!(Owner::decode(&MediaKey::new(78), &bytes).is_err());
        for index in (0..OWNER_BYTES).step_by(5) {
            let mut damaged = bytes.clone();
            damaged[index] ^= 2;
            assert!(Owner::decode(&key, &damaged).is_err(), "byte {index}");
        }
    }
}
