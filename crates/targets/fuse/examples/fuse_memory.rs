//! Serves one volume in memory as a FUSE file until stdin closes, to measure the door alone.
//!
//! `fuse_memory DIRECTORY SIZE_GIB [auto|classic] [uring|threads]`; the file is `DIRECTORY/v`.

use std::cell::RefCell;
use std::future::ready;
use std::process::ExitCode;
use std::rc::Rc;

use ashlar_block::{BlockDevice, Catalogue, Extent, ExtentKind, Geometry, LocalFuture, Result, check_range};
use ashlar_fuse::{FuseServer, Settings, TransportChoice};
use ashlar_runtime::{DriverChoice, Runtime, ShardSettings, start_shard};
use ashlar_telemetry::Registry;

/// One flat piece of memory. `MemoryDevice` keeps slabs in a tree, and half of its time here would be
/// the tree's and small pages' cache misses; this is as plain as the peer it is measured against.
struct Flat(RefCell<&'static mut [u8]>);

impl Flat {
    fn new(size_bytes: usize) -> Flat {
        let (protection, flags) = (
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE,
        );
        // SAFETY: a fresh mapping that is never unmapped, zeroed by the kernel, and known to this
        // slice only; the advice changes no content, and may fail without harm.
        let bytes = unsafe {
            let pointer = libc::mmap(std::ptr::null_mut(), size_bytes, protection, flags, -1, 0);
            assert!(pointer != libc::MAP_FAILED, "no room for {size_bytes} bytes");
            libc::madvise(pointer, size_bytes, libc::MADV_HUGEPAGE);
            std::slice::from_raw_parts_mut(pointer.cast::<u8>(), size_bytes)
        };
        Flat(RefCell::new(bytes))
    }

    /// The bytes from `offset` on, shown to `act` when the range is sound.
    fn with(&self, offset: u64, length: usize, act: impl FnOnce(&mut [u8])) -> LocalFuture<'_, Result<()>> {
        let checked = check_range(&self.geometry(), offset, length as u64);
        if checked.is_ok() {
            act(&mut self.0.borrow_mut()[offset as usize..offset as usize + length]);
        }
        Box::pin(ready(checked))
    }
}

impl BlockDevice for Flat {
    fn geometry(&self) -> Geometry {
        Geometry {
            size_bytes: self.0.borrow().len() as u64,
            logical_block_bytes: 512,
            optimal_block_bytes: 4096,
            is_read_only: false,
        }
    }

    fn read<'a>(&'a self, offset: u64, into: &'a mut [u8]) -> LocalFuture<'a, Result<()>> {
        self.with(offset, into.len(), |bytes| into.copy_from_slice(bytes))
    }

    fn write<'a>(&'a self, offset: u64, data: &'a [u8], _is_fua: bool) -> LocalFuture<'a, Result<()>> {
        self.with(offset, data.len(), |bytes| bytes.copy_from_slice(data))
    }

    fn flush(&self) -> LocalFuture<'_, Result<()>> {
        Box::pin(ready(Ok(())))
    }

    fn unmap(&self, offset: u64, length: u64) -> LocalFuture<'_, Result<()>> {
        self.with(offset, length as usize, |bytes| bytes.fill(0))
    }

    fn write_zeroes(&self, offset: u64, length: u64, _may_unmap: bool) -> LocalFuture<'_, Result<()>> {
        self.unmap(offset, length)
    }

    fn extents(&self, _: u64, length: u64, _: usize) -> LocalFuture<'_, Result<Vec<Extent>>> {
        Box::pin(ready(Ok(vec![Extent { length_bytes: length, kind: ExtentKind::Data }])))
    }
}

struct OneVolume(Rc<Flat>);

impl Catalogue for OneVolume {
    fn device(&self, name: &str) -> Option<Rc<dyn BlockDevice>> {
        (name == "v").then(|| self.0.clone() as Rc<dyn BlockDevice>)
    }

    fn names(&self) -> Vec<String> {
        vec!["v".to_string()]
    }
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [directory, size, rest @ ..] = arguments.as_slice() else { return usage() };
    let Ok(size_gib) = size.parse::<u64>() else { return usage() };
    let has = |word: &str| rest.iter().any(|argument| argument == word);
    let transport = if has("classic") { TransportChoice::Classic } else { TransportChoice::Uring };
    let driver = if has("threads") { DriverChoice::Threads } else { DriverChoice::Auto };
    let settings = ShardSettings { driver, ..ShardSettings::default() };
    let directory = directory.clone();
    let started = start_shard(settings, move |runtime| {
        Box::pin(async move {
            if let Err(error) = serve(&runtime, &directory, size_gib, transport).await {
                eprintln!("{error}");
            }
        })
    });
    match started {
        Ok(thread) => thread.join(),
        Err(error) => eprintln!("start a shard: {error}"),
    }
    ExitCode::SUCCESS
}

async fn serve(
    runtime: &Runtime,
    directory: &str,
    size_gib: u64,
    transport: TransportChoice,
) -> ashlar_fuse::Result<()> {
    let volume = Rc::new(OneVolume(Rc::new(Flat::new((size_gib << 30) as usize))));
    let settings = Settings { transport, ..Settings::default() };
    let server = FuseServer::mount(runtime, directory, volume, settings, Rc::new(Registry::new())).await?;
    eprintln!("{}", server.transport_line());
    runtime.run_blocking(|| std::io::stdin().lines().for_each(drop)).await;
    server.unmount().await
}

fn usage() -> ExitCode {
    eprintln!("usage: fuse_memory DIRECTORY SIZE_GIB [auto|classic] [uring|threads]");
    ExitCode::from(2)
}
