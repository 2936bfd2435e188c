//! Parsers of what hosts send, and decoders of what codecs wrote.

use super::Target;

/// The parsers of protocols and codecs.
pub const TARGETS: [Target; 3] = [
    Target { name: "nbd", run: ashlar_nbd::fuzz_session, seeds: nbd_seeds },
    Target { name: "fuse", run: ashlar_fuse::fuzz_requests, seeds: fuse_seeds },
    Target { name: "decompress", run: decompress, seeds: decompress_seeds },
];

/// An NBD option as a client sends it.
fn nbd_option(kind: u32, data: &[u8]) -> Vec<u8> {
    let mut bytes = b"IHAVEOPT".to_vec();
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&(data.len() as u32).to_be_bytes());
    bytes.extend_from_slice(data);
    bytes
}

/// An NBD request: compact, or with the extended header.
fn nbd_request(is_extended: bool, kind: u16, offset: u64, length: u32, payload: &[u8]) -> Vec<u8> {
    let magic: u32 = if is_extended { 0x21e4_1c71 } else { 0x2560_9513 };
    let mut bytes = magic.to_be_bytes().to_vec();
    // Flags: an extended write says that a payload follows.
    let flags: u16 = if is_extended && kind == 1 { 1 << 5 } else { 0 };
    bytes.extend_from_slice(&flags.to_be_bytes());
    bytes.extend_from_slice(&kind.to_be_bytes());
    bytes.extend_from_slice(&0x0102_0304_0506_0708_u64.to_be_bytes());
    bytes.extend_from_slice(&offset.to_be_bytes());
    if is_extended {
        bytes.extend_from_slice(&u64::from(length).to_be_bytes());
    } else {
        bytes.extend_from_slice(&length.to_be_bytes());
    }
    bytes.extend_from_slice(payload);
    bytes
}

/// A whole negotiation, and every command in both header styles. The first byte says what
/// `fuzz_session` negotiates by itself before the rest begins.
fn nbd_seeds() -> Vec<Vec<u8>> {
    const COMPACT: u8 = 0b1_0111;
    const EXTENDED: u8 = 0b1_1111;
    let options: Vec<Vec<u8>> =
        [(3, &[][..]), (8, &[]), (6, &[0; 6]), (10, &[0, 0, 0, 0, 0, 0, 0, 0]), (7, &[0; 6]), (2, &[])]
            .into_iter()
            .map(|(kind, data)| nbd_option(kind, data))
            .collect();
    let mut seeds = vec![[&[0, 0, 0, 0, 3][..], &options.concat()].concat()];
    for (choice, is_extended) in [(COMPACT, false), (EXTENDED, true)] {
        // READ, WRITE, FLUSH, TRIM, CACHE, WRITE_ZEROES, BLOCK_STATUS, DISC.
        let requests: Vec<Vec<u8>> = [0, 1, 3, 4, 5, 6, 7, 2]
            .into_iter()
            .map(|kind| {
                let payload = if kind == 1 { vec![0x5a; 1024] } else { Vec::new() };
                let length = if matches!(kind, 2 | 3) { 0 } else { 1024 };
                nbd_request(is_extended, kind, 512, length, &payload)
            })
            .collect();
        seeds.extend(requests.iter().map(|request| [&[choice][..], request].concat()));
        seeds.push([&[choice][..], &requests.concat()].concat());
    }
    seeds
}

/// One message as the kernel writes it, led by its 16-bit length: the row `fuzz_requests` takes.
fn fuse_message(opcode: u32, node: u64, body: &[u8]) -> Vec<u8> {
    let length = 40 + body.len();
    let mut message = (length as u16).to_le_bytes().to_vec();
    message.extend_from_slice(&(length as u32).to_le_bytes());
    message.extend_from_slice(&opcode.to_le_bytes());
    message.extend_from_slice(&7_u64.to_le_bytes());
    message.extend_from_slice(&node.to_le_bytes());
    // User, group, process and padding.
    message.extend_from_slice(&[0; 16]);
    message.extend_from_slice(body);
    message
}

/// A body of 64-bit words.
fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// The operations of linux/fuse.h a mounted directory sees, by their numbers there.
fn fuse_seeds() -> Vec<Vec<u8>> {
    let data = vec![0x5a; 4096];
    let write = [words(&[0, 4096, 4096, 0, 0]), data].concat();
    let messages = [
        // INIT: major 7, minor 41, readahead, flags; then flags2.
        fuse_message(26, 0, &words(&[7 | 41 << 32, 1 << 17, 0, 0, 0, 0, 0, 0])),
        // LOOKUP, GETATTR, OPEN, READ, WRITE, FLUSH, FSYNC, FALLOCATE (punch a hole), READDIR, STATFS.
        fuse_message(1, 1, b"v\0"),
        fuse_message(3, 2, &words(&[0, 0])),
        fuse_message(14, 2, &words(&[2])),
        fuse_message(15, 2, &words(&[0, 8192, 4096, 0, 0])),
        fuse_message(16, 2, &write),
        fuse_message(25, 2, &words(&[0, 0, 0])),
        fuse_message(20, 2, &words(&[0, 0])),
        fuse_message(43, 2, &words(&[0, 4096, 8192, 3])),
        fuse_message(27, 1, &words(&[0])),
        fuse_message(28, 1, &words(&[0, 0, 4096, 0, 0])),
        fuse_message(17, 1, &[]),
        fuse_message(46, 2, &words(&[0, 0, 3])),
        fuse_message(4, 2, &words(&[8, 0, 1 << 20, 0, 0, 0, 0, 0, 0, 0, 0])),
    ];
    let mut seeds = messages.to_vec();
    seeds.push(messages.concat());
    seeds
}

/// First byte the codec, second the number of blocks the header promises.
fn decompress(data: &[u8]) {
    let [codec, blocks, input @ ..] = data else { return };
    let Ok(codec) = ashlar_reduction::Codec::from_byte(codec % 3) else { return };
    let mut out = vec![0; (usize::from(blocks % 16) + 1) * 4096];
    let _ = ashlar_reduction::decompress(codec, input, &mut out);
}

fn decompress_seeds() -> Vec<Vec<u8>> {
    let text: Vec<u8> = (0..4096_u32).flat_map(|n| [(n / 100) as u8, 7, (n % 3) as u8, 0]).collect();
    let mut seeds = Vec::new();
    for (byte, codec) in [(1, ashlar_reduction::Codec::Lz4), (2, ashlar_reduction::Codec::Zstd)] {
        let mut out = vec![0; text.len()];
        if let Some(length) = ashlar_reduction::compress(codec, &text, &mut out) {
            let mut seed = vec![byte, 3];
            seed.extend_from_slice(&out[..length]);
            seeds.push(seed);
        }
    }
    seeds
}
