//! What kind of target an address names, by what stands before its colon.

use ashlar_model::address::SCHEME;

use crate::disks::is_disk;
use crate::place::Refusal;

/// A kind of target.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// `DIR`.
    Directory,
    /// `block:/dev/NAME`.
    Device,
    /// `ashlar:POOL` or `ashlar:POOL/VOLUME`.
    Pool,
    /// `nbd://HOST/NAME`, in any form of the NBD project's URIs (doc/uri.md).
    Export,
    /// `sim-hdd:drives=2,model=10k-300g,raid=1`.
    Model,
    /// `sim-hdd:… over DIR`, `limit:… over DIR`, `liar:… over DIR`, `sim-flash:… over DIR`.
    Disk,
    /// `postgres://USER@HOST/DATABASE`: a server that is there already.
    Server,
}

/// What an address of each kind but a directory begins with.
const PREFIXES: [(&str, Kind); 9] = [
    ("block:", Kind::Device),
    ("ashlar:", Kind::Pool),
    ("nbd:", Kind::Export),
    ("nbds:", Kind::Export),
    ("nbd+unix:", Kind::Export),
    ("nbds+unix:", Kind::Export),
    (SCHEME, Kind::Model),
    ("postgres:", Kind::Server),
    ("postgresql:", Kind::Server),
];

impl Kind {
    /// Of an address. A path may hold a colon behind its first slash.
    ///
    /// # Errors
    /// When there is no such kind.
    pub fn of(address: &str) -> Result<Kind, Refusal> {
        if is_disk(address) {
            return Ok(Kind::Disk);
        }
        if let Some((_, kind)) = PREFIXES.iter().find(|(prefix, _)| address.starts_with(prefix)) {
            return Ok(*kind);
        }
        match address.split_once(':') {
            Some((word @ ("limit" | "liar" | "sim-flash"), _)) => {
                Err(Refusal(format!("{address}: name the directory for its bytes, as `{word}:… over DIR`")))
            }
            Some((word, _)) if !word.is_empty() && !word.contains('/') => Err(Refusal(format!(
                "{address}: there are no targets of the kind `{word}` yet: name a directory, a device as \
                 block:/dev/NAME, a pool as ashlar:POOL, an export as nbd://HOST/NAME, a database server as \
                 postgres://USER@HOST, or simulated drives as sim-hdd:drives=2,model=10k-300g,raid=1"
            ))),
            _ => Ok(Kind::Directory),
        }
    }

    /// The address without what tells its kind.
    #[must_use]
    pub fn rest(address: &str) -> &str {
        let prefix = PREFIXES.iter().find(|(prefix, _)| address.starts_with(prefix));
        prefix.map_or(address, |(prefix, _)| &address[prefix.len()..])
    }

    /// It has as many volumes as are asked for; the others are one.
    #[must_use]
    pub fn has_volumes(self) -> bool {
        self == Kind::Pool
    }

    /// It takes snapshots, and makes clones of them.
    #[must_use]
    pub fn has_snapshots(self) -> bool {
        self == Kind::Pool
    }

    /// It has a file system, or gets one.
    #[must_use]
    pub fn has_file_system(self) -> bool {
        matches!(self, Kind::Directory | Kind::Pool | Kind::Disk)
    }
}
