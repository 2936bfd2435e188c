//! Drives of files: bytes come back, sizes and locks hold, nothing is freed under the kernel.

use std::io;
use std::os::unix::fs::MetadataExt;

use super::{Scratch, drivers, on_each_driver, settings};
use crate::{Buf, DriveFile, DriverChoice, Durability, OpenDrive, Priority, Runtime, start_shard};

const MIB: u64 = 1 << 20;

async fn create(runtime: &Runtime, path: &str, bytes: u64) -> DriveFile {
    let options = OpenDrive { create_size_bytes: Some(bytes), is_read_only: false };
    runtime.open_drive(path, options).await.unwrap()
}

fn pattern(runtime: &Runtime, length: usize, seed: u64) -> Buf {
    let mut buf = runtime.buffer(length);
    for (index, word) in buf.chunks_exact_mut(8).enumerate() {
        word.copy_from_slice(&(seed.wrapping_mul(0x9E37_79B9) + index as u64).to_le_bytes());
    }
    buf
}

#[test]
fn what_is_written_is_read_back_at_every_size_and_depth() {
    on_each_driver(|runtime| async move {
        let scratch = Scratch::new();
        let drive = create(&runtime, &scratch.file("drive"), 64 * MIB).await;
        assert_eq!(drive.size_bytes(), 64 * MIB);
        for round in 0..3u64 {
            let mut tasks = Vec::new();
            let mut offset = 0;
            // Sizes past 4 MiB and a sum past the 8 MiB pool bring heap buffers in too.
            for (index, length) in [4096, 8192, 65536, 1 << 20, 5 << 20].repeat(4).into_iter().enumerate() {
                let (drive, inside) = (drive.clone(), runtime.clone());
                let seed = round * 1000 + index as u64;
                let durability = if index % 2 == 0 { Durability::Durable } else { Durability::Cached };
                tasks.push(runtime.spawn(Priority::Host, async move {
                    let (result, _) = drive.write(offset, pattern(&inside, length, seed), durability).await;
                    result.unwrap();
                    let (result, buf) = drive.read(offset, inside.buffer(length)).await;
                    result.unwrap();
                    assert!(buf[..] == pattern(&inside, length, seed)[..], "bytes differ at {offset}");
                }));
                offset += length as u64;
            }
            for task in tasks {
                task.await;
            }
        }
        drive.sync().await.unwrap();
    });
}

#[test]
fn a_drive_grows_keeps_its_bytes_and_never_shrinks() {
    on_each_driver(|runtime| async move {
        let scratch = Scratch::new();
        let path = scratch.file("drive");
        let drive = create(&runtime, &path, MIB).await;
        drive.write(0, pattern(&runtime, 4096, 5), Durability::Durable).await.0.unwrap();
        drop(drive);
        let drive = create(&runtime, &path, 2 * MIB).await;
        assert_eq!(drive.size_bytes(), 2 * MIB);
        let (result, buf) = drive.read(0, runtime.buffer(4096)).await;
        result.unwrap();
        assert!(buf[..] == pattern(&runtime, 4096, 5)[..]);
        drop(drive);
        assert_eq!(create(&runtime, &path, MIB).await.size_bytes(), 2 * MIB);
    });
}

#[test]
fn a_drive_has_one_writer_and_readers_do_not_write() {
    on_each_driver(|runtime| async move {
        let scratch = Scratch::new();
        let path = scratch.file("drive");
        let drive = create(&runtime, &path, MIB).await;
        let error = runtime.open_drive(&path, OpenDrive::default()).await.err().unwrap();
        assert_eq!(error.to_string(), format!("drive {path} is in use by another process"));
        drop(drive);
        let reading = OpenDrive { create_size_bytes: None, is_read_only: true };
        let first = runtime.open_drive(&path, reading.clone()).await.unwrap();
        let _second = runtime.open_drive(&path, reading).await.unwrap();
        let refused = first.write(0, runtime.buffer(4096), Durability::Cached).await.0.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::PermissionDenied);
        assert!(runtime.open_drive(&path, OpenDrive::default()).await.is_err());
        let missing = runtime.open_drive(&scratch.file("none"), OpenDrive::default()).await.err().unwrap();
        assert_eq!(missing.kind(), io::ErrorKind::NotFound);
    });
}

#[test]
fn a_discarded_range_gives_its_space_back_and_reads_as_zeroes() {
    on_each_driver(|runtime| async move {
        let scratch = Scratch::new();
        let path = scratch.file("drive");
        let drive = create(&runtime, &path, 8 * MIB).await;
        drive.write(0, pattern(&runtime, 4 << 20, 1), Durability::Durable).await.0.unwrap();
        let before = std::fs::metadata(&path).unwrap().blocks();
        drive.discard(0, 2 * MIB).await.unwrap();
        assert!(std::fs::metadata(&path).unwrap().blocks() < before);
        let (result, buf) = drive.read(MIB, runtime.buffer(2 << 20)).await;
        result.unwrap();
        assert!(buf[..1 << 20].iter().all(|&byte| byte == 0));
        assert!(buf[1 << 20..] == pattern(&runtime, 4 << 20, 1)[2 << 20..3 << 20]);
    });
}

#[test]
fn a_file_that_is_blanked_reads_as_zeroes_and_keeps_its_space() {
    on_each_driver(|runtime| async move {
        let scratch = Scratch::new();
        let path = scratch.file("drive");
        let drive = create(&runtime, &path, 8 * MIB).await;
        drive.write(0, pattern(&runtime, 4 << 20, 1), Durability::Durable).await.0.unwrap();
        let before = std::fs::metadata(&path).unwrap().blocks();
        drive.blank(4096, 2 * MIB).await.unwrap();
        assert!(std::fs::metadata(&path).unwrap().blocks() >= before);
        let (result, buf) = drive.read(0, runtime.buffer(4 << 20)).await;
        result.unwrap();
        let whole = pattern(&runtime, 4 << 20, 1);
        let end = 4096 + (2 << 20);
        assert!(buf[..4096] == whole[..4096] && buf[end..] == whole[end..]);
        assert!(buf[4096..end].iter().all(|&byte| byte == 0));
        let refused = drive.blank(7 * MIB, 2 * MIB).await.unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::UnexpectedEof);
    });
}

#[test]
fn bad_requests_are_refused() {
    on_each_driver(|runtime| async move {
        let scratch = Scratch::new();
        let drive = create(&runtime, &scratch.file("drive"), MIB).await;
        let cases = [
            (1, 4096, io::ErrorKind::InvalidInput),
            (0, 4095, io::ErrorKind::InvalidInput),
            (0, 0, io::ErrorKind::InvalidInput),
            (MIB, 4096, io::ErrorKind::UnexpectedEof),
            (MIB - 4096, 8192, io::ErrorKind::UnexpectedEof),
            (u64::MAX - 4095, 4096, io::ErrorKind::UnexpectedEof),
        ];
        for (offset, length, kind) in cases {
            assert_eq!(drive.read(offset, runtime.buffer(length)).await.0.unwrap_err().kind(), kind);
            let write = drive.write(offset, runtime.buffer(length), Durability::Cached).await;
            assert_eq!(write.0.unwrap_err().kind(), kind);
            assert_eq!(drive.discard(offset, length as u64).await.unwrap_err().kind(), kind);
        }
        let directory = runtime.open_drive(scratch.path.to_str().unwrap(), OpenDrive::default()).await;
        assert_eq!(directory.err().unwrap().kind(), io::ErrorKind::InvalidInput);
    });
}

#[test]
fn a_read_whose_future_is_dropped_keeps_its_buffer_until_the_kernel_is_done() {
    on_each_driver(|runtime| async move {
        let scratch = Scratch::new();
        let drive = create(&runtime, &scratch.file("drive"), 8 * MIB).await;
        drive.write(0, pattern(&runtime, 1 << 20, 9), Durability::Durable).await.0.unwrap();
        for _ in 0..100 {
            let mut read = Box::pin(drive.read(0, runtime.buffer(1 << 20)));
            std::future::poll_fn(|context| {
                let _ = read.as_mut().poll(context);
                std::task::Poll::Ready(())
            })
            .await;
            drop(read);
            // Would be the same memory, were the buffer free already.
            let mut buf = runtime.buffer(1 << 20);
            buf.fill(0x77);
            runtime.sleep(std::time::Duration::from_micros(200)).await;
            assert!(buf.iter().all(|&byte| byte == 0x77), "the kernel wrote into another's buffer");
        }
        while runtime.shard.operations.in_flight() > 0 {
            runtime.yield_now().await;
        }
    });
}

#[test]
fn a_shard_that_ends_waits_for_its_requests() {
    for driver in drivers() {
        let scratch = Scratch::new();
        let path = scratch.file("drive");
        let written = path.clone();
        start_shard(settings(driver), move |runtime| {
            Box::pin(async move {
                let drive = create(&runtime, &path, 64 * MIB).await;
                for index in 0..32u64 {
                    let (drive, inside) = (drive.clone(), runtime.clone());
                    let _detached = runtime.spawn(Priority::Host, async move {
                        let buf = pattern(&inside, 1 << 20, index);
                        drive.write(index * MIB, buf, Durability::Cached).await.0.unwrap();
                    });
                }
                runtime.yield_now().await;
            })
        })
        .unwrap()
        .join();
        let bytes = std::fs::read(&written).unwrap();
        let first = u64::from_le_bytes(bytes[MIB as usize..MIB as usize + 8].try_into().unwrap());
        assert_eq!(first, 0x9E37_79B9, "a submitted write was lost");
    }
}

#[test]
fn a_pipe_carries_bytes_by_descriptor() {
    on_each_driver(|runtime| async move {
        let mut ends = [0; 2];
        // SAFETY: room for two descriptors.
        assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
        let inside = runtime.clone();
        let reader = runtime.spawn(Priority::Host, async move {
            let (result, buf) = inside.read_fd(ends[0], inside.buffer(4096)).await;
            assert_eq!(result.unwrap(), 5);
            assert_eq!(&buf[..5], b"hello");
            inside.read_fd_fully(ends[0], inside.buffer(10)).await.0.unwrap()
        });
        runtime.sleep(std::time::Duration::from_millis(5)).await;
        assert_eq!(runtime.write_fd(ends[1], runtime.buffer_from(b"hello")).await.0.unwrap(), 5);
        runtime.sleep(std::time::Duration::from_millis(5)).await;
        assert_eq!(runtime.write_fd(ends[1], runtime.buffer_from(b"abc")).await.0.unwrap(), 3);
        // SAFETY: nothing is in flight on the writing end.
        unsafe { libc::close(ends[1]) };
        assert_eq!(reader.await, 3);
        // SAFETY: nothing is in flight on the reading end.
        unsafe { libc::close(ends[0]) };
        let file = std::fs::File::open("/proc/self/status").unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        assert!(runtime.read_fd(fd, runtime.buffer(64)).await.0.unwrap() == 64);
    });
}

#[test]
fn the_driver_line_says_what_is_used() {
    let line = |driver| {
        let shard = start_shard(settings(driver), |_| Box::pin(async {})).unwrap();
        let line = shard.driver_line();
        shard.join();
        line
    };
    if drivers().contains(&DriverChoice::Uring) {
        assert!(line(DriverChoice::Uring).starts_with("io: io_uring ("));
        assert_eq!(line(DriverChoice::Auto), line(DriverChoice::Uring));
    } else {
        assert!(line(DriverChoice::Auto).starts_with("io: threads (io_uring denied: "));
    }
    assert_eq!(line(DriverChoice::Threads), "io: threads (as set)");
}

#[test]
fn a_device_command_reaches_the_kernel_through_io_uring_only() {
    on_each_driver(|runtime| async move {
        let file = std::fs::File::open("/dev/zero").unwrap();
        let fd = std::os::fd::AsRawFd::as_raw_fd(&file);
        // SAFETY: the command names no memory.
        let command = unsafe { runtime.uring_command(fd, 1, [0; 80], 0, 0) };
        match runtime.driver_name() {
            "uring" => assert!(command.unwrap().await < 0),
            _ => assert!(command.is_none()),
        }
    });
}

#[test]
fn filling_with_zeroes_covers_the_range_and_nothing_else() {
    on_each_driver(|runtime| async move {
        let scratch = Scratch::new();
        let drive = create(&runtime, &scratch.file("drive"), 16 * MIB).await;
        for at in 0..16 {
            drive.write(at * MIB, pattern(&runtime, 1 << 20, at), Durability::Cached).await.0.unwrap();
        }
        drive.fill_with_zeroes(MIB, 9 * MIB + 4096).await.unwrap();
        let (result, buf) = drive.read(0, runtime.buffer(16 << 20)).await;
        result.unwrap();
        let end = (10 << 20) + 4096;
        assert!(buf[..1 << 20] == pattern(&runtime, 1 << 20, 0)[..]);
        assert!(buf[1 << 20..end].iter().all(|&byte| byte == 0));
        assert!(buf[end..11 << 20] == pattern(&runtime, 1 << 20, 10)[4096..]);
    });
}

/// A loop device over a file; none where the machine allows none.
struct LoopDevice(String);

impl LoopDevice {
    fn over(path: &str) -> Option<LoopDevice> {
        let output = std::process::Command::new("losetup").args(["--find", "--show", path]).output().ok()?;
        output
            .status
            .success()
            .then(|| LoopDevice(String::from_utf8(output.stdout).unwrap().trim().to_owned()))
    }
}

impl Drop for LoopDevice {
    fn drop(&mut self) {
        std::process::Command::new("losetup").args(["--detach", &self.0]).status().unwrap();
    }
}

#[test]
fn a_block_device_is_a_drive_with_one_user() {
    on_each_driver(|runtime| async move {
        let scratch = Scratch::new();
        let path = scratch.file("backing");
        drop(create(&runtime, &path, 16 * MIB).await);
        let Some(device) = LoopDevice::over(&path) else { return };
        let drive = runtime.open_drive(&device.0, OpenDrive::default()).await.unwrap();
        assert_eq!(drive.size_bytes(), 16 * MIB);
        let error = runtime.open_drive(&device.0, OpenDrive::default()).await.err().unwrap();
        assert_eq!(error.to_string(), format!("drive {} is in use by another process", device.0));
        drive.write(MIB, pattern(&runtime, 2 << 20, 3), Durability::Durable).await.0.unwrap();
        drive.discard(MIB, MIB).await.unwrap();
        drive.sync().await.unwrap();
        let (result, buf) = drive.read(MIB, runtime.buffer(2 << 20)).await;
        result.unwrap();
        assert!(buf[..1 << 20].iter().all(|&byte| byte == 0));
        assert!(buf[1 << 20..] == pattern(&runtime, 2 << 20, 3)[1 << 20..]);
    });
}

/// udev locks a device that was just closed by a writer, without O_EXCL, and looks at it. The loss: the first
/// `pool create` on a disk was refused, as in use by another process.
#[test]
fn a_block_device_that_udev_looks_at_is_waited_for() {
    on_each_driver(|runtime| async move {
        let scratch = Scratch::new();
        let path = scratch.file("backing");
        drop(create(&runtime, &path, 16 * MIB).await);
        let Some(device) = LoopDevice::over(&path) else { return };
        let looking = std::fs::File::open(&device.0).unwrap();
        looking.lock_shared().unwrap();
        let opener = runtime.clone();
        let path = device.0.clone();
        let opening = runtime.spawn(Priority::Host, async move {
            opener.open_drive(&path, OpenDrive::default()).await.map(|drive| drive.size_bytes())
        });
        runtime.sleep(std::time::Duration::from_millis(200)).await;
        drop(looking);
        assert_eq!(opening.await.unwrap(), 16 * MIB);
    });
}
