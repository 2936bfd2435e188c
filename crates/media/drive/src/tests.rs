//! One drive, a real file.
#![allow(clippy::unwrap_used, clippy::disallowed_methods, clippy::disallowed_types)]

use ashlar_runtime::{Durability, ShardSettings, start_shard};

use super::*;

const SIZE_BYTES: u64 = 1 << 20;

/// Where things are is told by drives. Before, a write behind the end of a file made the file longer.
#[test]
fn ranges_behind_the_end_are_errors_and_a_file_does_not_grow() {
    let directory = std::env::temp_dir().join(format!("ashlar-drive-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let path = directory.join("drive").to_str().unwrap().to_string();
    let shard = start_shard(ShardSettings::default(), move |runtime| {
        Box::pin(async move {
            let drive = Drive::open(&runtime, &path, Some(SIZE_BYTES)).await.unwrap();
            let block = BLOCK_BYTES as usize;
            for offset in [SIZE_BYTES, SIZE_BYTES - BLOCK_BYTES, u64::MAX / BLOCK_BYTES * BLOCK_BYTES] {
                let mut buffer = runtime.buffer(2 * block);
                buffer.fill(7);
                let written = drive.write(offset, buffer, Durability::Cached).await.unwrap_err();
                assert_eq!(written.kind, ErrorKind::Damaged, "{written}");
                let read = drive.read(offset, 2 * block).await.unwrap_err();
                assert_eq!(read.kind, ErrorKind::Damaged, "{read}");
            }
            assert_eq!(drive.size_bytes_now().unwrap(), SIZE_BYTES);
            let mut buffer = runtime.buffer(block);
            buffer.fill(9);
            drive.write(SIZE_BYTES - BLOCK_BYTES, buffer, Durability::Cached).await.unwrap();
            assert!(drive.read(SIZE_BYTES - BLOCK_BYTES, block).await.unwrap().iter().all(|byte| *byte == 9));
        })
    });
    shard.unwrap().join();
    std::fs::remove_dir_all(directory).unwrap();
}
