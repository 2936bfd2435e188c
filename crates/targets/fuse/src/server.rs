//! Mounts or takes over, chooses a transport, unmounts or leaves.

use std::cell::{Cell, RefCell};
use std::ffi::CString;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::rc::Rc;
use std::time::Duration;

use ashlar_block::Catalogue;
use ashlar_runtime::{Priority, Runtime, Task};
use ashlar_telemetry::Registry;

use crate::classic;
use crate::connection::Connection;
use crate::error::{Errno, Error, ErrorKind, Result};
use crate::legacy::{Legacy, Will};
use crate::session::{Negotiated, Session};
use crate::settings::{Settings, TransportChoice};
use crate::system::{self, UringSwitch};
use crate::uring;
use crate::wire::{self, InHeader, Request};

/// A refused registration completes within the turn that sends it; this leaves room for a few.
const REGISTRATION_WAIT: Duration = Duration::from_millis(5);
/// How often and how long open files are waited for: a program that just closed its file, or udev looking at
/// it, needs some milliseconds.
const UNMOUNT_ATTEMPTS_MAX: usize = 40;
const UNMOUNT_PAUSE: Duration = Duration::from_millis(25);

/// A mounted directory of volumes, served by tasks of the shard it was mounted on.
///
/// Dropping it leaves the mount served; [`FuseServer::unmount`] ends it. When the process dies, the kernel
/// answers every further request with an error, unless somebody else holds the descriptors of
/// [`FuseServer::descriptors`]: then requests wait for [`FuseServer::take_over`].
pub struct FuseServer {
    connection: Rc<Connection>,
    mount_point: CString,
    transport_line: String,
    is_over_io_uring: bool,
    can_resend: bool,
    tasks: RefCell<Vec<Task<()>>>,
}

/// What must stay open for a successor to take over a mount.
pub struct Descriptors {
    /// The kernel's connection.
    pub connection: OwnedFd,
    /// What is open.
    pub legacy: OwnedFd,
}

/// A mount of a server that is gone.
pub struct Left {
    connection: OwnedFd,
    legacy: Legacy,
    will: Will,
    can_resend: bool,
}

impl Left {
    /// By the descriptors that were kept. What the server had taken and not answered is handed out again; a
    /// kernel that cannot do that has lost it, unless the server answered everything before it ended.
    pub fn new(descriptors: Descriptors) -> Result<Left> {
        let (legacy, will) = Legacy::of_predecessor(descriptors.legacy).map_err(|error| {
            Error::system(ErrorKind::Protocol, "read what the last server of the volumes left", error)
        })?;
        let asked = system::reply(descriptors.connection.as_fd(), &wire::resend_notice(), &[]);
        match asked {
            Err(error) if !will.is_drained => Err(Error::system(
                ErrorKind::Unsupported,
                "have the kernel hand out again what the last server of the volumes did not answer (Linux 6.9)",
                error,
            )),
            asked => Ok(Left { connection: descriptors.connection, legacy, will, can_resend: asked.is_ok() }),
        }
    }
}

impl FuseServer {
    /// Mounts `catalogue` on an existing directory and serves it on this shard.
    pub async fn mount(
        runtime: &Runtime,
        mount_point: &str,
        catalogue: Rc<dyn Catalogue>,
        settings: Settings,
        counters: Rc<Registry>,
    ) -> Result<FuseServer> {
        let settings = settings.clamped();
        let path = CString::new(mount_point)
            .map_err(|_| Error::new(ErrorKind::MountPoint, "the mount point has a zero byte in it"))?;
        system::probe_directory(&path).map_err(|error| mount_point_error(mount_point, error))?;
        let device = system::open_device().map_err(|error| {
            Error::system(ErrorKind::Unsupported, "open /dev/fuse (serve the volumes by NBD instead)", error)
        })?;
        // The switch must be on while the kernel makes its offer and while it reads our answer.
        let switch = turn_on_uring(runtime, &settings);
        system::mount(device.as_fd(), &path, settings.payload_bytes).map_err(|error| {
            let kind = match error.raw_os_error() {
                Some(libc::EPERM) => ErrorKind::Unsupported,
                _ => ErrorKind::MountPoint,
            };
            Error::system(kind, format!("mount {mount_point}"), error)
        })?;
        let started_unix_seconds = runtime.unix_nanos() / 1_000_000_000;
        let session = Session::new(catalogue, counters, settings.clone(), started_unix_seconds);
        let legacy = Legacy::new()
            .map_err(|error| Error::system(ErrorKind::System, "make memory for a successor", error))?;
        let connection = Rc::new(Connection::new(runtime, device, session, settings, legacy));
        let negotiated = match answer_init(&connection, switch.is_ok()).await {
            Ok(negotiated) => negotiated,
            Err(error) => {
                // The directory must not stay dead; the first error is the one that counts.
                let _ = system::unmount(&path, system::Unmount::Lazy);
                return Err(error);
            }
        };
        let is_offered = switch.map(drop).and_then(|()| {
            let refused = "the kernel does not offer FUSE over io_uring".to_string();
            if negotiated.is_over_io_uring { Ok(()) } else { Err(refused) }
        });
        let mut server = FuseServer {
            connection: connection.clone(),
            mount_point: path,
            transport_line: String::new(),
            is_over_io_uring: false,
            can_resend: negotiated.can_resend,
            tasks: RefCell::default(),
        };
        let chosen = match is_offered {
            Ok(()) => server.start_queues().await,
            Err(why) => Err(why),
        };
        // Always there: over io_uring it serves what the kernel sends no other way.
        server.keep(runtime.spawn(Priority::Host, classic::serve(connection)));
        server.is_over_io_uring = chosen.is_ok();
        server.transport_line = match (chosen, server.connection.settings.transport) {
            (Ok(line), _) => line,
            (Err(_), TransportChoice::Classic) => classic_line(negotiated.minor),
            (Err(why), TransportChoice::Uring) => format!("{}: {why}", classic_line(negotiated.minor)),
        };
        Ok(server)
    }

    /// Serves a mount whose server is gone: first what the kernel had handed to it and got no answer for,
    /// then what waited since. `Ok(Err)` has what was left, and the names of volumes whose files are open and
    /// that the catalogue does not have, or has others for: the mount goes on waiting.
    pub fn take_over(
        runtime: &Runtime,
        mount_point: &str,
        left: Left,
        catalogue: Rc<dyn Catalogue>,
        settings: Settings,
        counters: Rc<Registry>,
    ) -> Result<std::result::Result<FuseServer, (Left, Vec<String>)>> {
        let settings = Settings { transport: TransportChoice::Classic, ..settings.clamped() };
        let path = CString::new(mount_point)
            .map_err(|_| Error::new(ErrorKind::MountPoint, "the mount point has a zero byte in it"))?;
        let started = runtime.unix_nanos() / 1_000_000_000;
        let session = match Session::restored(catalogue, counters, settings.clone(), started, &left.will) {
            Ok(session) => session,
            Err(missing) => return Ok(Err((left, missing))),
        };
        let Left { connection: device, legacy, will, can_resend } = left;
        let connection = Rc::new(Connection::new(runtime, device, session, settings, legacy));
        hand_down(&connection)?;
        let server = FuseServer {
            connection: connection.clone(),
            mount_point: path,
            transport_line: format!("{}, taken over", classic_line(will.minor)),
            is_over_io_uring: false,
            can_resend,
            tasks: RefCell::default(),
        };
        server.keep(runtime.spawn(Priority::Host, classic::serve(connection)));
        Ok(Ok(server))
    }

    /// What must stay open for a successor.
    pub fn descriptors(&self) -> Result<Descriptors> {
        let failed = |error| Error::system(ErrorKind::System, "duplicate a descriptor", error);
        Ok(Descriptors {
            connection: self.connection.device.try_clone().map_err(failed)?,
            legacy: self.connection.legacy().map_err(failed)?,
        })
    }

    /// True when requests outlive a server that dies, while somebody holds the descriptors.
    #[must_use]
    pub fn can_resend(&self) -> bool {
        self.can_resend
    }

    /// Takes no further request and answers those that were taken: what comes then waits for a successor.
    pub async fn leave(&self) {
        self.connection.leave();
        // The reader waits for a message: here is one. Where it took another one before, this one waits for a
        // successor, or for the end of this process.
        let path = self.mount_point.clone();
        let message = self.connection.runtime.run_blocking(move || system::look_at(&path));
        self.wait_until_ended().await;
        self.connection.hand_down_drained();
        drop(message);
    }

    /// One line for people: which transport carries the requests, and why.
    #[must_use]
    pub fn transport_line(&self) -> &str {
        &self.transport_line
    }

    /// True when requests travel over io_uring.
    #[must_use]
    pub fn is_over_io_uring(&self) -> bool {
        self.is_over_io_uring
    }

    /// Files that are open now, loop devices among them.
    #[must_use]
    pub fn open_files(&self) -> usize {
        self.connection.session.borrow().open_files()
    }

    /// The name of each open file, and whether it was opened for writing; once for each open.
    #[must_use]
    pub fn open_names(&self) -> Vec<(Rc<str>, bool)> {
        self.connection.session.borrow().open_names()
    }

    fn keep(&self, task: Task<()>) {
        self.tasks.borrow_mut().push(task);
    }

    /// Registers every entry of every queue. An error says why io_uring is not used; the kernel then
    /// falls back by itself.
    async fn start_queues(&self) -> std::result::Result<String, String> {
        let connection = &self.connection;
        let queues = system::cpus_possible().map_err(|error| format!("count the CPUs: {error}"))?;
        let queues_u16 = u16::try_from(queues).map_err(|_| format!("{queues} possible CPUs are too many"))?;
        let depth = connection.settings.depth_for(queues);
        let refused = Rc::new(Cell::new(None));
        // One entry for every queue before a second for any: the ring is ready the sooner.
        for queue in (0..depth).flat_map(|_| 0..queues_u16) {
            let (connection, refused) = (connection.clone(), refused.clone());
            self.keep(connection.runtime.clone().spawn(Priority::Host, async move {
                let last = uring::serve_entry(connection, queue).await;
                if last.0 != libc::ENOTCONN {
                    refused.set(Some(last));
                }
            }));
        }
        connection.runtime.sleep(REGISTRATION_WAIT).await;
        match refused.get() {
            None => Ok(format!(
                "FUSE over io_uring: {queues} queues of {depth} requests of {} KiB",
                connection.settings.payload_bytes >> 10
            )),
            Some(errno) => {
                let error = io::Error::from_raw_os_error(errno.0);
                Err(format!("the kernel refused to register its queues: {error}"))
            }
        }
    }

    /// Unmounts and waits until every task has ended. While files are open it fails, and the mount
    /// goes on being served: detach loop devices first.
    ///
    /// The connection is cut, not only unmounted: another mount namespace may hold a copy of the mount (any
    /// container or service that was started meanwhile does), and the kernel would keep the connection for
    /// it.
    pub async fn unmount(&self) -> Result<()> {
        let mut attempt = 0;
        while self.open_files() > 0 {
            if attempt == UNMOUNT_ATTEMPTS_MAX {
                let open = self.open_files();
                let why = format!("unmount {} ({open} files open)", self.mount_point.to_string_lossy());
                let busy = io::Error::from_raw_os_error(libc::EBUSY);
                return Err(Error::system(ErrorKind::MountPoint, why, busy));
            }
            attempt += 1;
            self.connection.runtime.sleep(UNMOUNT_PAUSE).await;
        }
        self.abort().await
    }

    /// Ends the connection at once: whoever still has a file open gets I/O errors.
    pub async fn abort(&self) -> Result<()> {
        // The forced call cuts the connection even when it then finds the mount busy.
        let _ = self.run_unmount(system::Unmount::Abort).await;
        match self.run_unmount(system::Unmount::Lazy).await {
            Ok(()) => {}
            // The forced call did all of it.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {}
            Err(error) => {
                let why = format!("abort {}", self.mount_point.to_string_lossy());
                return Err(Error::system(ErrorKind::System, why, error));
            }
        }
        self.wait_until_ended().await;
        Ok(())
    }

    /// On another thread: the kernel may ask this shard something meanwhile.
    async fn run_unmount(&self, how: system::Unmount) -> io::Result<()> {
        let path = self.mount_point.clone();
        self.connection.runtime.run_blocking(move || system::unmount(&path, how)).await
    }

    async fn wait_until_ended(&self) {
        let tasks = std::mem::take(&mut *self.tasks.borrow_mut());
        for task in tasks {
            task.await;
        }
        self.connection.wait_until_idle().await;
    }
}

fn mount_point_error(mount_point: &str, error: io::Error) -> Error {
    let why = match error.raw_os_error() {
        Some(libc::ENOTCONN) => format!("{mount_point} is a mount whose server died: unmount it first"),
        _ => format!("use {mount_point} as mount point"),
    };
    Error::system(ErrorKind::MountPoint, why, error)
}

fn classic_line(minor: u32) -> String {
    format!("classic /dev/fuse, protocol 7.{minor}")
}

/// Turns the kernel's switch on, or says why io_uring is out of the question.
fn turn_on_uring(runtime: &Runtime, settings: &Settings) -> std::result::Result<UringSwitch, String> {
    match settings.transport {
        TransportChoice::Classic => Err("asked for".to_string()),
        TransportChoice::Uring if runtime.driver_name() != "uring" => {
            Err(format!("the shard's driver is {}", runtime.driver_name()))
        }
        TransportChoice::Uring => UringSwitch::turn_on()
            .map_err(|error| format!("turn on /sys/module/fuse/parameters/enable_uring: {error}")),
    }
}

/// Writes down what a successor must know, before anybody is served.
fn hand_down(connection: &Connection) -> Result<()> {
    connection.hand_down().map_err(|Errno(number)| {
        Error::system(ErrorKind::System, "write down what is open", io::Error::from_raw_os_error(number))
    })
}

/// Waits for INIT, which the kernel sends at once, and answers it.
async fn answer_init(connection: &Connection, may_use_uring: bool) -> Result<Negotiated> {
    let protocol = |context: &str| Error::new(ErrorKind::Protocol, context);
    let buf = connection.runtime.buffer(classic::message_bytes_max(connection));
    let (result, buf) = connection.runtime.read_fd(connection.device.as_raw_fd(), buf).await;
    let length =
        result.map_err(|error| Error::system(ErrorKind::System, "read INIT from /dev/fuse", error))?;
    let message = &buf[..length];
    let header =
        InHeader::decode(message).ok_or_else(|| protocol("the kernel's first message is too short"))?;
    let request = wire::split_classic(header.opcode, &message[wire::IN_HEADER_BYTES..])
        .and_then(|(fixed, data)| wire::decode(header.opcode, fixed, data));
    let Ok(Request::Init(init)) = request else {
        return Err(protocol("the kernel's first message is not INIT"));
    };
    let answer = connection.session.borrow_mut().init(&init, may_use_uring);
    let (negotiated, reply) = answer.map_err(|_| {
        let (major, minor) = (init.major, init.minor);
        let ours = format!("{}.{}", wire::KERNEL_MAJOR, wire::KERNEL_MINOR_MIN);
        protocol(&format!("the kernel speaks FUSE {major}.{minor}, we need {ours} or later"))
    })?;
    hand_down(connection)?;
    let bytes = reply.as_bytes();
    let out = wire::out_header(header.unique, Ok(bytes.len()));
    system::reply(connection.device(), &out, bytes)
        .map_err(|error| Error::system(ErrorKind::Protocol, "answer INIT", error))?;
    Ok(negotiated)
}
