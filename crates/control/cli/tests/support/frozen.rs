//! A drive that takes no more writes.

use std::fs::File;
use std::path::Path;

use rustix::fs::{IFlags, ioctl_getflags, ioctl_setflags};

/// A file that no process can write to, not even one that has it open, until this is dropped.
pub struct Frozen(File);

impl Frozen {
    /// None, with a word, where only root could.
    pub fn new(path: &Path) -> Option<Frozen> {
        let file = File::open(path).unwrap();
        match set_frozen(&file, true) {
            Err(rustix::io::Errno::PERM) => {
                println!("skipped: only root makes a file immutable");
                None
            }
            done => done.map(|()| Some(Frozen(file))).unwrap(),
        }
    }
}

impl Drop for Frozen {
    fn drop(&mut self) {
        set_frozen(&self.0, false).unwrap();
    }
}

fn set_frozen(file: &File, is_frozen: bool) -> rustix::io::Result<()> {
    let mut flags = ioctl_getflags(file)?;
    flags.set(IFlags::IMMUTABLE, is_frozen);
    ioctl_setflags(file, flags)
}
