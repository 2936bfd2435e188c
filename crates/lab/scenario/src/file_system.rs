//! What lies between the files of a workload and the volume that is made for them: nothing, or a file system.

use ashlar_units::ByteCount;
use serde::Deserialize;

use crate::error::{Error, Result};
use crate::workload::{Layout, Map};

/// What a pool's volumes and ext4 have where nobody asks for something else.
const BLOCK: ByteCount = ByteCount(4096);

/// Asked for by name, so that the volume itself can be held against a file system on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum FileSystem {
    /// A file is a stretch of the volume.
    None,
    /// With blocks of 4096 bytes, and mounted as usual.
    Ext4,
}

impl Layout {
    /// With the blocks and clusters that a file system has which was asked for by its name alone.
    pub(crate) fn resolved(&self) -> Result<Layout> {
        let is_plain = (self.volumes, self.map) == (1, Map::Simple);
        let has_parts = self.block.is_some() || self.cluster.is_some();
        match self.file_system {
            None => Ok(self.clone()),
            Some(_) if !is_plain => {
                Err(Error::file("layout: `file_system` is of one volume, with files one by one"))
            }
            Some(FileSystem::None) if has_parts => {
                Err(Error::file("layout: `block` and `cluster` are of a file system, and it is \"none\""))
            }
            Some(FileSystem::None) => Ok(self.clone()),
            Some(FileSystem::Ext4) => Ok(Layout {
                block: self.block.or(Some(BLOCK)),
                cluster: self.cluster.or(Some(BLOCK)),
                ..self.clone()
            }),
        }
    }

    /// A volume has to be made for it, as only a pool can.
    #[must_use]
    pub fn needs_pool(&self) -> bool {
        self.volumes > 1 || self.map != Map::Simple || self.block.is_some() || self.file_system.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(text: &str) -> Result<Layout> {
        toml::from_str::<Layout>(text).map_err(|error| Error::file(error.message()))?.resolved()
    }

    #[test]
    fn ext4_by_its_name_is_one_with_usual_blocks_and_clusters() {
        let plain = layout("file_system = \"ext4\"").unwrap();
        assert_eq!((plain.block, plain.cluster), (Some(BLOCK), Some(BLOCK)));
        let large = layout("file_system = \"ext4\"\nblock = \"512B\"\ncluster = \"64k\"").unwrap();
        assert_eq!((large.block.unwrap().0, large.cluster.unwrap().0), (512, 64 << 10));
        assert!(plain.needs_pool() && large.needs_pool());
    }

    #[test]
    fn the_volume_itself_is_asked_for_by_name_and_is_not_what_any_target_has() {
        let raw = layout("file_system = \"none\"").unwrap();
        assert_eq!((raw.block, raw.cluster), (None, None));
        assert!(raw.needs_pool(), "a directory has a file system already");
        assert!(!layout("").unwrap().needs_pool());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |text: &str| layout(text).unwrap_err().to_string();
        let both = "file_system = \"none\"\nblock = \"512B\"\ncluster = \"4k\"";
        assert!(refused(both).contains("it is \"none\""));
        let striped = "file_system = \"ext4\"\nvolumes = 2\nmap = \"stripe\"\nunit = \"64k\"";
        assert!(refused(striped).contains("one volume"));
        assert!(refused("file_system = \"xfs\"").contains("ext4"));
    }
}
