//! The notebook as a checkpoint wrote it, read back.

use ashlar_format::note_kind::{NoteClass, NoteKind};
use ashlar_format::superblock::Superblock;
use ashlar_runtime::Priority;

use super::Notebook;
use crate::media::Media;
use crate::tables::{Located, TableDirectory, Tables};
use crate::{Error, ErrorKind, Result};

/// Pages read at a time: one by one a full notebook would take the drive's latency eight thousand times.
const PAGES_AT_ONCE: usize = 32;

/// Reads the notebook that a superblock names.
pub(crate) async fn load(media: &Media, superblock: &Superblock, tables: &mut Tables) -> Result<Notebook> {
    let root = superblock.notebook;
    let mut notebook = Notebook::default();
    if !root.is_page() {
        return Ok(notebook);
    }
    let directory = &mut tables.notebook;
    let bytes = media.read_page_here(root, directory.directory_identity(2, 0)).await?;
    let directories = decode(directory, &bytes)?;
    let mut pages = Vec::new();
    for (index, located) in directories.iter().enumerate() {
        // Pages without notes are not there, nor is a directory of nothing else.
        pages.resize(index * directory.directory_fan_out(), Located::default());
        if located.pointer.is_page() {
            let identity = directory.directory_identity(1, index);
            let bytes = media.read_page_here(located.pointer, identity).await?;
            pages.extend(decode(directory, &bytes)?);
        }
    }
    directory.load(directories, pages);
    for (page, bytes) in read_pages(media, directory).await? {
        notebook
            .load_page(page, &bytes)
            .map_err(|damage| Error::new(ErrorKind::Damaged, format!("notebook page {page}: {damage}")))?;
    }
    tables.notebook_root = root;
    Ok(notebook)
}

/// Every page of the notebook that is on drives, verified.
pub(crate) async fn read_pages(media: &Media, directory: &TableDirectory) -> Result<Vec<(usize, Vec<u8>)>> {
    let there: Vec<(usize, Located)> =
        directory.pages().iter().copied().enumerate().filter(|(_, at)| at.pointer.is_page()).collect();
    let mut read = Vec::with_capacity(there.len());
    let runtime = media.pool.runtime().clone();
    for at_once in there.chunks(PAGES_AT_ONCE) {
        let start = |(page, located): &(usize, Located)| {
            let (media, pointer, identity) = (media.clone(), located.pointer, directory.page_identity(*page));
            let reading = async move { media.read_page_here(pointer, identity).await };
            (*page, runtime.spawn(Priority::Background, reading))
        };
        let started: Vec<_> = at_once.iter().map(start).collect();
        for (page, reading) in started {
            read.push((page, reading.await?));
        }
    }
    Ok(read)
}

fn decode(directory: &TableDirectory, bytes: &[u8]) -> Result<Vec<Located>> {
    let decoded = directory.decode(bytes);
    decoded.map_err(|damage| Error::new(ErrorKind::Damaged, format!("notebook directory: {damage}")))
}

/// Refuses a pool with notes that this program must not ignore; with notes for which it may only read the
/// pool, tells why.
pub(crate) fn refuse_unknown(notebook: &Notebook) -> Result<Option<String>> {
    let mut only_read = None;
    let unknown = notebook.kinds().map(|(kind, _)| kind).filter(|kind| NoteKind::from_code(*kind).is_none());
    for kind in unknown {
        let what = format!("the pool has notes of kind {kind:#06x}, which this program does not know");
        let what = match NoteClass::of(kind) {
            NoteClass::Keep => continue,
            NoteClass::ReadOnly => {
                only_read = Some(format!("{what}: it may only read the pool"));
                continue;
            }
            NoteClass::Refuse => format!("{what} and must not ignore"),
        };
        return Err(Error::new(ErrorKind::Invalid, what).and_do("open it with the program that wrote them"));
    }
    Ok(only_read)
}
