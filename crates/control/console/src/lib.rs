//! The console's files, as `console/` of this repository builds them.
//!
//! They are kept built, so that nobody needs Node to build the array. A test tells when they are older than
//! their sources.

use std::io::Write;
use std::sync::LazyLock;

use flate2::Compression;
use flate2::write::GzEncoder;

/// One file of the page.
#[derive(Clone, Copy, Debug)]
pub struct File {
    /// Its content type.
    pub kind: &'static str,
    /// What it holds.
    pub bytes: &'static [u8],
    /// The same, compressed by gzip.
    pub packed: &'static [u8],
    /// Changes with what it holds, for `ETag`.
    pub tag: &'static str,
}

/// The page itself.
const PAGE: &str = "index.html";

macro_rules! built {
    ($name:literal, $kind:literal) => {
        ($name, $kind, include_bytes!(concat!("../../../../console/dist/", $name)).as_slice())
    };
}

const BUILT: [(&str, &str, &[u8]); 4] = [
    built!("index.html", "text/html; charset=utf-8"),
    built!("app.js", "text/javascript; charset=utf-8"),
    built!("app.css", "text/css; charset=utf-8"),
    built!("favicon.svg", "image/svg+xml"),
];

/// Packed when somebody first opens the console, and kept.
static FILES: LazyLock<Vec<(&str, File)>> = LazyLock::new(|| {
    let file = |(name, kind, bytes): (&'static str, &'static str, &'static [u8])| {
        let packed: &'static [u8] = pack(bytes).leak();
        // The length and the check sum of what gzip packed (RFC 1952, section 2.3.1) are its last bytes.
        let sum: String = packed[packed.len() - 8..].iter().map(|byte| format!("{byte:02x}")).collect();
        (name, File { kind, bytes, packed, tag: format!("\"{sum}\"").leak() })
    };
    BUILT.into_iter().map(file).collect()
});

/// The file of this name.
#[must_use]
pub fn file(name: &str) -> Option<File> {
    FILES.iter().find(|(known, _)| *known == name).map(|(_, file)| *file)
}

/// The page that shows all others.
#[must_use]
pub fn page() -> File {
    file(PAGE).expect("the page is built in")
}

fn pack(bytes: &[u8]) -> Vec<u8> {
    let mut packer = GzEncoder::new(Vec::new(), Compression::best());
    let packed = packer.write_all(bytes).and_then(|()| packer.finish());
    packed.expect("memory takes all that is written")
}

#[cfg(test)]
mod tests;
