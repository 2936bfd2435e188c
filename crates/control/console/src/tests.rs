//! The files that are built in are those of the sources beside them.
#![allow(clippy::unwrap_used)]

use std::io::Read;
use std::path::{Path, PathBuf};

use flate2::read::GzDecoder;
use sha2::{Digest, Sha256};

use super::*;

/// What the console is built of, as its `scripts/digest.mjs` lists it.
const SOURCES: [&str; 7] =
    ["index.html", "package-lock.json", "package.json", "public", "src", "tsconfig.json", "vite.config.ts"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../console")
}

fn files_below(path: &Path, found: &mut Vec<PathBuf>) {
    if path.is_file() {
        found.push(path.to_path_buf());
        return;
    }
    for entry in std::fs::read_dir(path).unwrap() {
        files_below(&entry.unwrap().path(), found);
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Path, a zero, the file's digest and a line break of each file, in the order of their paths.
fn digest_of(files: impl Iterator<Item = (String, Vec<u8>)>) -> String {
    let mut whole = Sha256::new();
    for (path, bytes) in files {
        whole.update(format!("{path}\0{}\n", hex(&Sha256::digest(bytes))));
    }
    hex(&whole.finalize())
}

#[test]
fn what_is_built_in_was_built_of_these_sources() {
    let manifest = std::fs::read(root().join("dist/sources.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let mut paths = Vec::new();
    SOURCES.iter().for_each(|name| files_below(&root().join(name), &mut paths));
    let relative = |path: &PathBuf| path.strip_prefix(root()).unwrap().to_str().unwrap().to_string();
    let mut sources: Vec<_> =
        paths.iter().map(|path| (relative(path), std::fs::read(path).unwrap())).collect();
    sources.sort();
    let advice = "build it anew: `npm ci && npm run build` in console/";
    assert_eq!(manifest["sources_sha256"], digest_of(sources.into_iter()).as_str(), "{advice}");
    let mut built = BUILT.map(|(name, _, bytes)| (name.to_string(), bytes.to_vec()));
    built.sort();
    assert_eq!(manifest["built_sha256"], digest_of(built.into_iter()).as_str(), "{advice}");
}

#[test]
fn each_file_goes_out_packed_as_it_is_and_has_a_tag_of_its_own() {
    let mut tags = Vec::new();
    let mut packed_bytes = 0;
    for (name, _, bytes) in BUILT {
        let file = file(name).unwrap();
        let mut unpacked = Vec::new();
        GzDecoder::new(file.packed).read_to_end(&mut unpacked).unwrap();
        assert_eq!((unpacked.as_slice(), file.bytes), (bytes, bytes), "{name}");
        packed_bytes += file.packed.len();
        tags.push(file.tag);
    }
    tags.sort_unstable();
    tags.dedup();
    assert_eq!(tags.len(), BUILT.len());
    assert!(packed_bytes < 300 << 10, "the first load takes {packed_bytes} bytes");
    assert!(page().kind.starts_with("text/html") && file("nothing").is_none());
}
