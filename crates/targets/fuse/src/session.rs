//! The file system's state: which files the kernel knows and holds open. Request in, answer out.
//!
//! No I/O and no waiting here: what needs the volume comes out as [`Answer::Volume`], to be carried
//! out by [`crate::volume_work`]. Both transports and the simulator drive the same session.
//!
//! Invariants:
//! 1. A node number is never given to a second name, so a reply can not be taken for another file.
//! 2. An open handle keeps its device, even when the name now means another volume or none.
//! 3. Both hold over the death of a server: what is open is in its [`Will`] before the kernel learns a
//!    number, and a successor ([`Session::restored`]) gives out numbers that none before it gave.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use ashlar_block::{BlockDevice, Catalogue, Identity};
use ashlar_telemetry::{Counters, Registry};
use ashlar_units::{Fault, planted};

use crate::error::Errno;
use crate::legacy::{OpenHandle, Will};
use crate::settings::Settings;
use crate::volume_work::{Operation, VolumeWork};
use crate::wire::{self, Attributes, DirectoryEntry, InHeader, InitRequest, Request, SmallReply};

/// By this flag of `open` who has taken a device for himself is told from anybody else. Nobody else sets it
/// to write: it says that a read leaves the file's time alone.
pub const TAKER_FLAG: i32 = libc::O_NOATIME;

/// A volume opened by the kernel.
pub struct OpenFile {
    /// Its name when it was opened.
    pub name: Rc<str>,
    /// It was opened for writing.
    pub is_writable: bool,
    /// Which volume that is.
    pub identity: Option<Identity>,
    /// The device as it was when the file was opened.
    pub device: Rc<dyn BlockDevice>,
    /// Requests of this volume through this door.
    pub counters: Rc<Counters>,
}

/// What to do with a request.
pub enum Answer {
    /// Send nothing: the kernel expects no reply.
    Silent,
    /// Reply with this error.
    Failed(Errno),
    /// Reply with these bytes.
    Small(SmallReply),
    /// Reply with directory entries from index `first`, at most `size` bytes of them.
    Directory { entries: Rc<[DirectoryEntry]>, first: u64, size: u32 },
    /// Do this on the volume, then reply.
    Volume(VolumeWork),
}

/// What INIT settled, for the transports.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Negotiated {
    /// Protocol minor version in use.
    pub minor: u32,
    /// Requests will travel over io_uring once every queue is registered.
    pub is_over_io_uring: bool,
    /// The kernel hands out again what a server that died had read and not answered.
    pub can_resend: bool,
}

/// Node numbers of one server of a connection: more than any kernel asks for in one's life.
const NODES_BITS: u32 = 32;

struct Node {
    name: Rc<str>,
    lookups: u64,
}

enum Handle {
    File(Rc<OpenFile>),
    Directory(Rc<[DirectoryEntry]>),
}

/// A handle, by what it was opened.
struct Opened {
    handle: Handle,
    node: u64,
    /// The number of that request.
    request: u64,
}

/// One mount's state.
pub struct Session {
    catalogue: Rc<dyn Catalogue>,
    registry: Rc<Registry>,
    settings: Settings,
    /// Shown as the time of every file: when the array began to serve them.
    started_unix_seconds: u64,
    nodes: BTreeMap<u64, Node>,
    node_by_name: BTreeMap<Rc<str>, u64>,
    node_next: u64,
    handles: BTreeMap<u64, Opened>,
    /// Never given twice: a release that is handed out again closes nothing else.
    handle_next: u64,
    /// What INIT settled.
    minor: u32,
    generation: u32,
    /// The will says something else than it did.
    is_will_changed: bool,
}

impl Session {
    /// A session without open files.
    #[must_use]
    pub fn new(
        catalogue: Rc<dyn Catalogue>,
        registry: Rc<Registry>,
        settings: Settings,
        started_unix_seconds: u64,
    ) -> Session {
        Session {
            catalogue,
            registry,
            settings,
            started_unix_seconds,
            nodes: BTreeMap::new(),
            node_by_name: BTreeMap::new(),
            node_next: wire::ROOT_NODE + 1,
            handles: BTreeMap::new(),
            handle_next: 0,
            minor: 0,
            generation: 0,
            is_will_changed: true,
        }
    }

    /// The session of a server that died, by its will. `Err` has the names of open files whose volumes the
    /// catalogue does not have, or has others for.
    pub fn restored(
        catalogue: Rc<dyn Catalogue>,
        registry: Rc<Registry>,
        settings: Settings,
        started_unix_seconds: u64,
        will: &Will,
    ) -> Result<Session, Vec<String>> {
        let mut session = Session::new(catalogue, registry, settings, started_unix_seconds);
        session.minor = will.minor;
        session.generation = will.generation + 1;
        session.node_next = (u64::from(session.generation) << NODES_BITS) + wire::ROOT_NODE + 1;
        session.handle_next = will.handle_next;
        let mut missing = BTreeSet::new();
        for open in &will.handles {
            let Some(handle) = session.reopened(open) else {
                missing.insert(open.name.clone());
                continue;
            };
            let OpenHandle { handle: number, node, request, .. } = *open;
            session.handles.insert(number, Opened { handle, node, request });
            if !open.is_directory {
                let name: Rc<str> = open.name.as_str().into();
                session.node_by_name.insert(name.clone(), node);
                // How often the kernel looked it up is not known: it stays.
                session.nodes.insert(node, Node { name, lookups: u64::MAX });
            }
        }
        if missing.is_empty() { Ok(session) } else { Err(missing.into_iter().collect()) }
    }

    /// What a predecessor had open; `None` when its volume is not there.
    fn reopened(&self, open: &OpenHandle) -> Option<Handle> {
        if open.is_directory {
            return Some(Handle::Directory(self.directory()));
        }
        let device = self.catalogue.device(&open.name)?;
        let identity = self.catalogue.identity(&open.name);
        (identity == open.identity).then_some(())?;
        let name: Rc<str> = open.name.as_str().into();
        let counters = self.registry.counters("fuse", &open.name);
        Some(Handle::File(Rc::new(OpenFile {
            name,
            is_writable: open.is_writable,
            identity,
            device,
            counters,
        })))
    }

    /// Takes back what this request opened; false when it opened nothing.
    pub fn undo_open(&mut self, header: &InHeader) -> bool {
        let number = header.unique & !wire::RESENT;
        let before = self.handles.len();
        self.handles.retain(|_, opened| opened.request != number);
        // What was not written down is tried again with the next change.
        self.is_will_changed = true;
        self.handles.len() < before
    }

    /// What a successor must know, if that changed since it was asked for last. It must be written down
    /// before the next answer goes out.
    pub fn take_will(&mut self) -> Option<Will> {
        std::mem::take(&mut self.is_will_changed).then(|| self.will(false))
    }

    /// The same, whether it changed or not. `is_drained` says that every request is answered.
    #[must_use]
    pub fn will(&self, is_drained: bool) -> Will {
        Will {
            minor: self.minor,
            generation: self.generation,
            handle_next: self.handle_next,
            is_drained,
            handles: self.handles.iter().map(|(handle, opened)| opened.to_will(*handle)).collect(),
        }
    }

    /// Answers INIT. `may_use_uring` says whether this side can and may use io_uring.
    pub fn init(
        &mut self,
        init: &InitRequest,
        may_use_uring: bool,
    ) -> Result<(Negotiated, SmallReply), Errno> {
        use wire::init_flags as flag;
        if init.major != wire::KERNEL_MAJOR || init.minor < wire::KERNEL_MINOR_MIN {
            return Err(Errno(libc::EPROTO));
        }
        // Left out on purpose: O_TRUNC within OPEN (an open that we let pass would leave the kernel with
        // a file that it takes for empty; as a request of its own it is refused like any other change
        // of the size, and the open fails with it), the write-back cache
        // (acknowledged data would live in the kernel), and shared mappings of direct files (the
        // kernel writes them back through us while it reclaims memory).
        let mut wanted = flag::ASYNC_READ
            | flag::BIG_WRITES
            | flag::ASYNC_DIO
            | flag::PARALLEL_DIROPS
            | flag::MAX_PAGES
            | flag::INIT_EXT;
        // What is under way over io_uring is not handed out again.
        wanted |= if may_use_uring { flag::OVER_IO_URING } else { flag::HAS_RESEND };
        let flags = wanted & init.flags;
        let minor = init.minor.min(wire::KERNEL_MINOR);
        (self.minor, self.is_will_changed) = (minor, true);
        let reply = wire::init_reply(&wire::InitReply {
            minor,
            readahead_bytes_max: init.readahead_bytes_max,
            flags,
            background_requests_max: self.settings.background_requests_max,
            congestion_threshold: self.settings.congestion_threshold,
            write_bytes_max: self.settings.payload_bytes,
        });
        let (is_over_io_uring, can_resend) =
            (flags & flag::OVER_IO_URING != 0, flags & flag::HAS_RESEND != 0);
        Ok((Negotiated { minor, is_over_io_uring, can_resend }, reply))
    }

    /// Takes one request; a failure inside becomes an answer.
    pub fn apply(&mut self, header: &InHeader, request: Request<'_>) -> Answer {
        self.answer(header.node, header.unique & !wire::RESENT, request).unwrap_or_else(Answer::Failed)
    }

    // tidy: long because it is one table of requests
    fn answer(&mut self, node: u64, number: u64, request: Request<'_>) -> Result<Answer, Errno> {
        Ok(match request {
            Request::Read { handle, offset, size } => {
                let short = if planted(Fault::FuseReadShort) { 512 } else { 0 };
                let size = size.min(self.settings.payload_bytes).saturating_sub(short);
                self.volume(handle, Operation::Read { offset, size })?
            }
            Request::Write { handle, offset, size, flags } => {
                let is_durable = flags & (libc::O_DSYNC | libc::O_SYNC) as u32 != 0;
                self.volume(handle, Operation::Write { offset, size, is_durable })?
            }
            Request::Fsync { .. } if self.settings.is_write_durable => return Err(Errno::NOT_IMPLEMENTED),
            Request::Fsync { handle } => self.volume(handle, Operation::Flush)?,
            Request::Fallocate { handle, offset, length, mode } => {
                self.volume(handle, fallocate_operation(offset, length, mode)?)?
            }
            Request::Lseek { handle, offset, whence } => {
                let is_hole_wanted = match i32::try_from(whence) {
                    Ok(libc::SEEK_DATA) => false,
                    Ok(libc::SEEK_HOLE) => true,
                    _ => return Err(Errno::INVALID),
                };
                self.volume(handle, Operation::Seek { offset, is_hole_wanted })?
            }
            Request::Lookup { name } => self.lookup(node, name)?,
            Request::Forget { lookups } => {
                self.forget(node, lookups);
                Answer::Silent
            }
            Request::BatchForget { entries } => {
                wire::batch_forget_entries(entries).for_each(|(node, lookups)| self.forget(node, lookups));
                Answer::Silent
            }
            Request::GetAttr { handle } => Answer::Small(self.attributes_of(node, handle)?),
            Request::SetAttr { is_of_access: true, .. } => return Err(Errno::PERM),
            Request::SetAttr { size, handle, .. } => self.set_attributes(node, size, handle)?,
            Request::Open { flags } => self.open(node, number, flags)?,
            Request::OpenDir if node != wire::ROOT_NODE => return Err(Errno::NOT_DIRECTORY),
            Request::OpenDir => {
                let entries = self.directory();
                let handle = self.insert(Handle::Directory(entries), node, number);
                Answer::Small(wire::open_directory_reply(handle))
            }
            Request::ReadDir { handle, offset, size } => match self.handle(handle) {
                Some(Handle::Directory(entries)) => {
                    Answer::Directory { entries: entries.clone(), first: offset, size }
                }
                Some(Handle::File(_)) => return Err(Errno::NOT_DIRECTORY),
                None => return Err(Errno::BAD_HANDLE),
            },
            Request::Release { handle } | Request::ReleaseDir { handle } => self.release(handle)?,
            Request::Statfs => Answer::Small(self.statfs()),
            // A volume has nothing buffered that closing could lose: durability is FSYNC's.
            Request::Flush | Request::FsyncDir | Request::Access | Request::Destroy => {
                Answer::Small(SmallReply::EMPTY)
            }
            Request::Interrupt => Answer::Silent,
            Request::ChangeDirectory => return Err(Errno::PERM),
            // INIT is answered by the transport before it takes anything else.
            Request::Init(_) => return Err(Errno::INVALID),
            Request::Unknown => return Err(Errno::NOT_IMPLEMENTED),
        })
    }

    fn volume(&self, handle: u64, operation: Operation) -> Result<Answer, Errno> {
        match self.handle(handle) {
            Some(Handle::File(file)) => Ok(Answer::Volume(VolumeWork { file: file.clone(), operation })),
            Some(Handle::Directory(_)) => Err(Errno::IS_DIRECTORY),
            None => Err(Errno::BAD_HANDLE),
        }
    }

    fn lookup(&mut self, parent: u64, name: &[u8]) -> Result<Answer, Errno> {
        if parent != wire::ROOT_NODE {
            return Err(Errno::NOT_DIRECTORY);
        }
        let name = std::str::from_utf8(name).map_err(|_| Errno::NOT_FOUND)?;
        let device = self.catalogue.device(name).ok_or(Errno::NOT_FOUND)?;
        let node = match self.node_by_name.get(name) {
            Some(node) => *node,
            None => self.insert_node(name),
        };
        let entry = self.nodes.get_mut(&node).expect("every name in node_by_name has a node");
        entry.lookups = entry.lookups.saturating_add(1);
        Ok(Answer::Small(wire::entry_reply(node, &self.file_attributes(name, device.as_ref()))))
    }

    fn insert_node(&mut self, name: &str) -> u64 {
        let node = self.node_next;
        self.node_next += 1;
        let name: Rc<str> = name.into();
        self.node_by_name.insert(name.clone(), node);
        self.nodes.insert(node, Node { name, lookups: 0 });
        node
    }

    fn forget(&mut self, node: u64, lookups: u64) {
        let Some(entry) = self.nodes.get_mut(&node) else { return };
        entry.lookups = entry.lookups.saturating_sub(lookups);
        if entry.lookups == 0
            && let Some(node) = self.nodes.remove(&node)
        {
            self.node_by_name.remove(&node.name);
        }
    }

    fn node(&self, node: u64) -> Result<&Node, Errno> {
        self.nodes.get(&node).ok_or(Errno::STALE)
    }

    fn attributes_of(&self, node: u64, handle: Option<u64>) -> Result<SmallReply, Errno> {
        if node == wire::ROOT_NODE {
            return Ok(wire::attributes_reply(&self.root_attributes()));
        }
        let name = &self.node(node)?.name;
        let opened = handle.and_then(|handle| match self.handle(handle) {
            Some(Handle::File(file)) => Some(file.device.clone()),
            Some(Handle::Directory(_)) | None => None,
        });
        let device = opened.or_else(|| self.catalogue.device(name)).ok_or(Errno::STALE)?;
        Ok(wire::attributes_reply(&self.file_attributes(name, device.as_ref())))
    }

    /// Times are accepted and forgotten. A size is refused unless it is the present one, also
    /// the 0 of an open with O_TRUNC: to keep the content would leave the old tail behind what `cp`
    /// writes, and to zero it would let one wrong name in a shell destroy a volume.
    fn set_attributes(&self, node: u64, size: Option<u64>, handle: Option<u64>) -> Result<Answer, Errno> {
        if let Some(size) = size {
            let name = &self.node(node)?.name;
            let present = self.catalogue.device(name).ok_or(Errno::STALE)?.geometry().size_bytes;
            if size != present {
                return Err(Errno::PERM);
            }
        }
        Ok(Answer::Small(self.attributes_of(node, handle)?))
    }

    fn open(&mut self, node: u64, number: u64, flags: u32) -> Result<Answer, Errno> {
        if node == wire::ROOT_NODE {
            return Err(Errno::IS_DIRECTORY);
        }
        // Opened by a server that died before the kernel heard of it.
        let by_this = |(_, opened): &(&u64, &Opened)| opened.request == number && opened.node == node;
        if let Some((handle, _)) = self.handles.iter().find(by_this) {
            return Ok(Answer::Small(wire::open_reply(*handle)));
        }
        let entry = self.node(node)?;
        let device = self.catalogue.device(&entry.name).ok_or(Errno::STALE)?;
        let is_writing = flags & libc::O_ACCMODE as u32 != libc::O_RDONLY as u32;
        if is_writing && device.geometry().is_read_only {
            return Err(Errno::READ_ONLY);
        }
        let is_taker = flags & TAKER_FLAG as u32 != 0;
        if is_writing && !is_taker && self.catalogue.is_taken(&entry.name) {
            return Err(Errno::BUSY);
        }
        let counters = self.registry.counters("fuse", &entry.name);
        let identity = self.catalogue.identity(&entry.name);
        let file = OpenFile { name: entry.name.clone(), is_writable: is_writing, identity, device, counters };
        let handle = self.insert(Handle::File(Rc::new(file)), node, number);
        Ok(Answer::Small(wire::open_reply(handle)))
    }

    fn release(&mut self, handle: u64) -> Result<Answer, Errno> {
        self.handles.remove(&handle).ok_or(Errno::BAD_HANDLE)?;
        self.is_will_changed = true;
        Ok(Answer::Small(SmallReply::EMPTY))
    }

    fn insert(&mut self, handle: Handle, node: u64, request: u64) -> u64 {
        let number = self.handle_next;
        self.handle_next += 1;
        self.handles.insert(number, Opened { handle, node, request });
        self.is_will_changed = true;
        number
    }

    fn handle(&self, handle: u64) -> Option<&Handle> {
        Some(&self.handles.get(&handle)?.handle)
    }

    /// Name of each file the kernel holds open now, and whether it was opened for writing; once for each
    /// open.
    #[must_use]
    pub fn open_names(&self) -> Vec<(Rc<str>, bool)> {
        let file_of = |opened: &Opened| match &opened.handle {
            Handle::File(file) => Some((file.name.clone(), file.is_writable)),
            Handle::Directory(_) => None,
        };
        self.handles.values().filter_map(file_of).collect()
    }

    /// Files the kernel holds open now.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.handles.values().filter(|opened| matches!(opened.handle, Handle::File(_))).count()
    }

    fn root_attributes(&self) -> Attributes {
        Attributes {
            inode: wire::ROOT_NODE,
            size_bytes: 0,
            mode: libc::S_IFDIR | 0o700,
            links: 2,
            seconds: self.started_unix_seconds,
        }
    }

    fn file_attributes(&self, name: &str, device: &dyn BlockDevice) -> Attributes {
        let geometry = device.geometry();
        let access = if geometry.is_read_only { 0o400 } else { 0o600 };
        Attributes {
            inode: inode_of(name),
            size_bytes: geometry.size_bytes,
            mode: libc::S_IFREG | access,
            links: 1,
            seconds: self.started_unix_seconds,
        }
    }

    fn directory(&self) -> Rc<[DirectoryEntry]> {
        let dots = [".", ".."].map(|name| DirectoryEntry {
            inode: wire::ROOT_NODE,
            is_directory: true,
            name: name.to_string(),
        });
        // A name the kernel can not take would make the whole listing fail.
        let is_fit =
            |name: &String| (1..=wire::NAME_BYTES_MAX).contains(&name.len()) && !name.contains(['/', '\0']);
        let names = self.catalogue.names().into_iter().filter(is_fit);
        let files = names.map(|name| DirectoryEntry { inode: inode_of(&name), is_directory: false, name });
        dots.into_iter().chain(files).collect()
    }

    fn statfs(&self) -> SmallReply {
        let names = self.catalogue.names();
        let sizes = names.iter().filter_map(|name| self.catalogue.device(name));
        let provisioned =
            sizes.map(|device| device.geometry().size_bytes).fold(0u64, |sum, size| sum.saturating_add(size));
        wire::statfs_reply(provisioned, names.len() as u64)
    }
}

impl Opened {
    fn to_will(&self, handle: u64) -> OpenHandle {
        let (name, identity, is_writable, is_directory) = match &self.handle {
            Handle::File(file) => (file.name.to_string(), file.identity, file.is_writable, false),
            Handle::Directory(_) => (String::new(), None, false, true),
        };
        OpenHandle {
            handle,
            node: self.node,
            request: self.request,
            name,
            identity,
            is_writable,
            is_directory,
        }
    }
}

/// The inode number shown to people: the same for a name in every listing and every mount. The
/// kernel itself tells files apart by node number, so two names with one inode number do no harm.
fn inode_of(name: &str) -> u64 {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
    });
    // Zero is no inode and one is the directory.
    hash | 2
}

fn fallocate_operation(offset: u64, length: u64, mode: u32) -> Result<Operation, Errno> {
    const KEEP_SIZE: u32 = libc::FALLOC_FL_KEEP_SIZE as u32;
    const PUNCH_HOLE: u32 = libc::FALLOC_FL_PUNCH_HOLE as u32;
    const ZERO_RANGE: u32 = libc::FALLOC_FL_ZERO_RANGE as u32;
    match mode & !KEEP_SIZE {
        PUNCH_HOLE => Ok(Operation::Zero { offset, length, may_unmap: true }),
        ZERO_RANGE => {
            let length =
                if planted(Fault::FuseZeroesRounded) { length.next_multiple_of(4096) } else { length };
            Ok(Operation::Zero { offset, length, may_unmap: false })
        }
        // Mode 0 promises that later writes find space; a thin volume can not promise that.
        _ => Err(Errno::NOT_SUPPORTED),
    }
}
