//! Decoders of everything that is on a drive.
//!
//! Each is fed twice: the bytes as they are, and with the checksum put right. What it accepts must
//! encode to the same thing again: a value that decodes but does not encode would stop a checkpoint.

use ashlar_format::bytes::{Reader, Writer};
use ashlar_format::catalogue::{
    CARRIED_BYTES, Compression, Profile, VOLUME_ENTRY_BYTES, VolumeEntry, VolumeKind,
};
use ashlar_format::chunk::{ChunkHeader, Codec};
use ashlar_format::group::{GROUP_HEADER_BYTES, GroupHeader, Record};
use ashlar_format::layout::{Band, BandDrive, Layout, StandIn};
use ashlar_format::notes::{self, Note, NoteChange, NoteKey};
use ashlar_format::overrides::{self, Override};
use ashlar_format::page::{
    PAGE_BYTES, PAGE_POINTERS, PageContent, PageHeader, PageIdentity, pointers_from_bytes, pointers_to_bytes,
};
use ashlar_format::relocation::{self, Relocation, RelocationPage};
use ashlar_format::segment::{
    FooterEntry, Place, Protection, SegmentEntry, SegmentHeader, SegmentKind, decode_footer, encode_footer,
};
use ashlar_format::superblock::{
    Carried, DriveEntry, DriveState, Feature, FeatureClass, FrontierEntry, JournalPosition, Opener,
    ROOT_BYTES, SUPERBLOCK_BYTES, Superblock,
};
use ashlar_format::{Kind, MediaKey, Pointer, PointerKind};
use ashlar_units::{BLOCK_BYTES_USIZE, DriveIndex, Lsn, PoolId, SegmentId, VolumeId};

use super::Target;
use crate::seal;

/// The decoders of the media format.
pub const TARGETS: [Target; 11] = [
    Target { name: "superblock", run: superblock, seeds: superblock_seeds },
    Target { name: "group", run: group, seeds: group_seeds },
    Target { name: "volume-entry", run: volume_entry, seeds: volume_entry_seeds },
    Target { name: "chunk", run: chunk, seeds: chunk_seeds },
    Target { name: "page", run: page, seeds: page_seeds },
    Target { name: "segment-header", run: segment_header, seeds: segment_header_seeds },
    Target { name: "segment-footer", run: segment_footer, seeds: segment_footer_seeds },
    Target { name: "relocations", run: relocations, seeds: relocation_seeds },
    Target { name: "segment-entry", run: segment_entry, seeds: segment_entry_seeds },
    Target { name: "note-page", run: note_page, seeds: note_page_seeds },
    Target { name: "note-changes", run: note_changes, seeds: note_changes_seeds },
];

/// Of the root block what is of interest stands in its first bytes: an input is those, and the body.
const ROOT_INPUT_BYTES: usize = 512;

fn superblock(data: &[u8]) {
    let _ = Superblock::decode(data);
    let (root, body) = data.split_at(data.len().min(ROOT_INPUT_BYTES));
    let mut bytes = root.to_vec();
    bytes.resize(ROOT_BYTES, 0);
    bytes.extend_from_slice(body);
    bytes.truncate(SUPERBLOCK_BYTES);
    let length = (bytes.len() - ROOT_BYTES) as u32;
    bytes[12..16].copy_from_slice(&length.to_le_bytes());
    seal::superblock(&mut bytes);
    if let Ok(superblock) = Superblock::decode(&bytes) {
        assert_eq!(Superblock::decode(&superblock.encode()), Ok(superblock));
    }
}

/// The input that makes a slot.
fn superblock_input(slot: &[u8]) -> Vec<u8> {
    let body = slot[12..16].try_into().map_or(0, u32::from_le_bytes) as usize;
    [&slot[..ROOT_INPUT_BYTES], &slot[ROOT_BYTES..ROOT_BYTES + body]].concat()
}

fn superblock_seeds() -> Vec<Vec<u8>> {
    let place = Place { drive: DriveIndex(1), cell: 7 };
    let superblock = Superblock {
        compatible: 1,
        read_only: 0,
        incompatible: 0,
        allowed: 0,
        features: vec![Feature { class: FeatureClass::Compatible, bit: 0, name: "first".into() }],
        copy: 7,
        key: MediaKey::new(1 << 90),
        writer: "ashlar".into(),
        opener: Opener { machine: 1, boot: 2, opened_unix_seconds: 3 },
        notebook: Pointer::HOLE,
        carried: Carried::default(),
        pool: PoolId(0xdead_beef << 64),
        name: "pool".into(),
        generation: 12,
        session: 4,
        protection: Protection::None,
        is_clean: true,
        segment_bytes: 64 << 20,
        cell_bytes: 64 << 20,
        fingerprint_key: 9,
        created_unix_seconds: 10,
        checkpoint: Lsn(11),
        journal: JournalPosition { segment: SegmentId(1), offset_bytes: 4096, sequence: 3, previous_hash: 4 },
        volume_table: Pointer::page(SegmentId(2), 4096, 300),
        segment_table: Pointer::page(SegmentId(2), 8192, 300),
        segment_table_place: place,
        relocation_table: Pointer::page(SegmentId(2), 12288, 300),
        segment_next: 90,
        volume_next: 91,
        previous_hash: 92,
        drive: DriveIndex(1),
        drives: vec![DriveEntry::new(1 << 100, 160, DriveState::InService); 2],
        frontier: vec![FrontierEntry { segment: SegmentId(3), place }; 3],
        layout: None,
    };
    let drives = (0..4).map(|drive| BandDrive { drive: DriveIndex(drive), first_cell: 0 }).collect();
    let band = Band { first_row: 0, slices: 40, spares: 1, drives, carried: [0; 12] };
    let with_parity = Superblock {
        protection: Protection::Dual,
        drives: vec![superblock.drives[0]; 4],
        layout: Some(Layout {
            width: 3,
            bands: vec![band],
            settled_below: 3,
            stale_from: vec![1; 4],
            stand_ins: vec![StandIn { drive: DriveIndex(2), spare: 0 }],
        }),
        ..superblock.clone()
    };
    [superblock, with_parity].map(|superblock| superblock_input(&superblock.encode())).to_vec()
}

/// Page, directory and root of the relocation table; the page record round them has the checksum.
fn relocations(data: &[u8]) {
    let mut bytes = data.to_vec();
    bytes.resize(PAGE_BYTES, 0);
    if let Ok((segment, entries)) = relocation::decode_page(&bytes) {
        let again = relocation::encode_page(segment, &entries);
        assert_eq!(relocation::decode_page(&again), Ok((segment, entries)));
    }
    if let Ok(pages) = relocation::decode_directory(&bytes) {
        assert_eq!(relocation::decode_directory(&relocation::encode_directory(&pages)), Ok(pages));
    }
    if let Ok(directories) = relocation::decode_root(&bytes) {
        assert_eq!(relocation::decode_root(&relocation::encode_root(&directories)), Ok(directories));
    }
}

fn relocation_seeds() -> Vec<Vec<u8>> {
    let entry = |old_units| Relocation {
        old_units,
        container: SegmentId(9),
        offset_bytes: 8192,
        length_bytes_max: 4352,
    };
    let pointer = Pointer::page(SegmentId(2), 8192, 300);
    let page = RelocationPage { pointer, segment: SegmentId(4), first_units: 65 };
    let seeds = [
        relocation::encode_page(SegmentId(4), &[entry(65), entry(130)]),
        relocation::encode_directory(&[page, RelocationPage::NONE, page]),
        relocation::encode_root(&[pointer, pointer]),
    ];
    seeds.into_iter().map(|bytes| bytes[..128].to_vec()).collect()
}

/// Header and records of a journal group.
fn group(data: &[u8]) {
    let _ = GroupHeader::open(&seal::key(), data);
    let mut bytes = data.to_vec();
    seal::group(&mut bytes);
    let Ok((header, records, hash)) = GroupHeader::open(&seal::key(), &bytes) else { return };
    let mut writer = Writer::new();
    for record in &records {
        record.encode(&mut writer);
    }
    // Bytes after the last record are covered by the hash but say nothing.
    let header = GroupHeader { header_bytes: (GROUP_HEADER_BYTES + writer.len()) as u32, ..header };
    let mut again = vec![0; header.group_bytes as usize];
    let hash_again = header.seal(&seal::key(), writer.as_bytes(), &mut again);
    assert_eq!(GroupHeader::open(&seal::key(), &again), Ok((header, records, hash_again)));
    // A record may hold flags other than 0 and 1, so equal hashes are not promised; equal meaning is.
    let _ = hash;
}

fn group_seeds() -> Vec<Vec<u8>> {
    let pointer = Pointer::data(SegmentId(4), 8192, 4128);
    let records = [
        Record::Write { volume: VolumeId(1), block: 77, blocks: 2, pointer },
        Record::Fill { volume: VolumeId(1), block: 0, blocks: 1 << 36, is_zero: true },
        Record::CreateVolume(Box::new(entry())),
        Record::ResizeVolume { volume: VolumeId(2), size_bytes: 4096 },
        Record::Delete { images: vec![VolumeId(1), VolumeId(2)] },
        Record::Snapshot {
            name: "monday".into(),
            created_unix_seconds: 5,
            members: vec![(VolumeId(1), VolumeId(7))],
        },
        Record::Clone { members: vec![(entry(), VolumeId(7))] },
        Record::Restore { members: vec![(VolumeId(1), VolumeId(7))] },
        Record::Share { volume: VolumeId(1), block: 77, blocks: 2, expected: pointer, pointer },
        Record::SetEntry {
            volume: VolumeId(1),
            name: "sales".into(),
            compression: Compression::Zstd,
            dedupe: true,
            carried: [0; CARRIED_BYTES],
        },
        Record::Notes { changes: changes() },
        Record::Skipped { kind: 77, bytes: vec![1, 2, 3] },
    ];
    let mut seeds: Vec<Vec<u8>> =
        records.iter().map(|record| one_group(std::slice::from_ref(record))).collect();
    seeds.push(one_group(&records));
    seeds
}

fn one_group(records: &[Record]) -> Vec<u8> {
    let mut writer = Writer::new();
    for record in records {
        record.encode(&mut writer);
    }
    let header = GroupHeader {
        session: 3,
        sequence: 10,
        previous_hash: 0xabc,
        first_lsn: Lsn(500),
        record_count: records.len() as u32,
        header_bytes: (GROUP_HEADER_BYTES + writer.len()) as u32,
        group_bytes: 4096,
        segment: SegmentId(4),
        offset_bytes: 4096,
    };
    let mut bytes = vec![0; 4096];
    header.seal(&seal::key(), writer.as_bytes(), &mut bytes);
    bytes.truncate(header.header_bytes as usize);
    bytes
}

/// Entries carry no checksum of their own: the page record they live in has it.
fn volume_entry(data: &[u8]) {
    let mut bytes = data.to_vec();
    bytes.resize(VOLUME_ENTRY_BYTES, 0);
    if let Ok(Some(entry)) = VolumeEntry::decode(&bytes) {
        let mut writer = Writer::new();
        entry.encode(&mut writer);
        assert_eq!(VolumeEntry::decode(writer.as_bytes()), Ok(Some(entry)));
    }
}

fn entry() -> VolumeEntry {
    VolumeEntry {
        id: VolumeId(9),
        kind: VolumeKind::Volume,
        profile: Profile::Oltp,
        compression: Compression::Zstd,
        dedupe: true,
        logical_block_shift: 12,
        created_unix_seconds: 1_700_000_000,
        size_bytes: 1 << 48,
        root: Pointer::ZERO,
        origin: VolumeId(3),
        group: VolumeId(8),
        birth: Lsn(99),
        newest_snapshot: Lsn(98),
        written_blocks: 12,
        own_bytes: 12,
        own_from: 12,
        name: "data".into(),
        origin_name: "monday".into(),
        carried: [0; CARRIED_BYTES],
    }
}

fn volume_entry_seeds() -> Vec<Vec<u8>> {
    let mut writer = Writer::new();
    entry().encode(&mut writer);
    vec![writer.into_bytes()]
}

fn chunk(data: &[u8]) {
    let _ = ChunkHeader::open_any(&seal::key(), data);
    let mut bytes = data.to_vec();
    if bytes.len() < 32 {
        return;
    }
    seal::chunk(&mut bytes);
    let Ok((header, payload)) = ChunkHeader::open_any(&seal::key(), &bytes) else { return };
    let mut again = vec![0; 32];
    again.extend_from_slice(payload);
    header.seal(&seal::key(), &mut again);
    assert_eq!(again, bytes[..again.len()], "an accepted chunk encodes to itself");
}

fn chunk_seeds() -> Vec<Vec<u8>> {
    [
        (Codec::None, 1, 1, 4096),
        (Codec::Lz4, 16, 0xffff, 900),
        (Codec::Zstd, 3, 0b111, 77),
        (Codec::Lz4, 8, 0x81, 99),
    ]
    .into_iter()
    .map(|(codec, blocks, kept, payload_bytes)| {
        let header = ChunkHeader {
            codec,
            blocks,
            kept,
            segment: SegmentId(77),
            offset_bytes: 64_000,
            payload_bytes,
            owner_volume: 5,
            owner_block: 123_456,
        };
        let mut bytes = vec![0x5a; header.total_bytes() as usize];
        header.seal(&seal::key(), &mut bytes);
        bytes
    })
    .collect()
}

fn page(data: &[u8]) {
    let _ = PageHeader::open_any(&seal::key(), data);
    let mut bytes = data.to_vec();
    if bytes.len() < 64 {
        return;
    }
    seal::page(&mut bytes);
    let Ok((header, payload)) = PageHeader::open_any(&seal::key(), &bytes) else { return };
    // The base is ignored when reading FULL, zero when writing.
    let same = if header.base.is_some() { 56 } else { 40 };
    let again = header.seal(&seal::key(), payload);
    assert_eq!(again[..same], bytes[..same], "an accepted page record encodes to itself");
    if header.base.is_some() {
        delta(payload);
        return;
    }
    if let Ok(pointers) = pointers_from_bytes(payload) {
        assert_eq!(pointers_to_bytes(&pointers), payload);
        for pointer in pointers.iter() {
            walk(*pointer);
        }
    }
}

fn delta(payload: &[u8]) {
    let Ok(found) = overrides::decode(payload) else { return };
    assert_eq!(overrides::encode(&found), payload, "accepted overrides encode to themselves");
    for entry in found {
        assert!(usize::from(entry.slot) < PAGE_POINTERS && entry.pointer.as_in_memory().is_none());
        walk(entry.pointer);
    }
}

/// A pointer from a drive may hold anything; its parts are always in range.
fn walk(pointer: Pointer) {
    match pointer.kind() {
        PointerKind::Hole | PointerKind::Zero => {}
        PointerKind::Data | PointerKind::Page => {
            assert!(pointer.block_index() < 16);
            assert!(pointer.length_bytes_max() <= ashlar_format::pointer::POINTED_BYTES_MAX);
            assert!(pointer.offset_bytes() < ashlar_format::pointer::SEGMENT_BYTES_MAX);
        }
    }
    let _ = format!("{pointer:?}");
}

fn page_seeds() -> Vec<Vec<u8>> {
    let mut pointers = [Pointer::HOLE; 512];
    pointers[1] = Pointer::data(SegmentId(3), 4096, 5000).with_block_index(2);
    pointers[2] = Pointer::page(SegmentId(9), 64, 300);
    pointers[3] = Pointer::ZERO;
    let contents =
        [PageContent::Map, PageContent::VolumeTable, PageContent::SegmentTable, PageContent::Directory];
    let record = |content, base, payload: &[u8]| {
        let identity = PageIdentity { content, level: 1, tree: 9, index: 4 };
        let (codec, session, birth) = (Codec::None, 3, Lsn(1000));
        let (segment, offset_bytes) = (SegmentId(12), 4160);
        PageHeader { identity, base, codec, session, birth, segment, offset_bytes }
            .seal(&seal::key(), payload)
    };
    let whole = pointers_to_bytes(&pointers);
    let mut seeds: Vec<_> = contents.into_iter().map(|content| record(content, None, &whole)).collect();
    let found = (0..4).map(|slot| Override { slot: slot as u16, pointer: pointers[slot] });
    let payload = overrides::encode(&found.collect::<Vec<_>>());
    seeds.push(record(PageContent::Map, Some(Pointer::page(SegmentId(9), 128, 900)), &payload));
    seeds
}

/// A header fills its block; what is of interest stands at its start.
const SEGMENT_HEADER_INPUT_BYTES: usize = 80;

fn segment_header(data: &[u8]) {
    let _ = SegmentHeader::decode(&seal::key(), data);
    let mut bytes = data.to_vec();
    bytes.resize(BLOCK_BYTES_USIZE, 0);
    seal::prefix(Kind::SegmentHeader, BLOCK_BYTES_USIZE - 8, &mut bytes);
    if let Ok(header) = SegmentHeader::decode(&seal::key(), &bytes) {
        assert_eq!(SegmentHeader::decode(&seal::key(), &header.encode(&seal::key())), Ok(header));
    }
}

fn segment_header_seeds() -> Vec<Vec<u8>> {
    [SegmentKind::Journal, SegmentKind::Metadata]
        .into_iter()
        .map(|kind| {
            let place = Place { drive: DriveIndex(3), cell: 99 };
            let pool = PoolId(0x1234_5678_9abc);
            let header =
                SegmentHeader { pool, segment: SegmentId(42), kind, place, session: 7, first_group: 1 << 40 };
            header.encode(&seal::key())[..SEGMENT_HEADER_INPUT_BYTES].to_vec()
        })
        .collect()
}

fn segment_footer(data: &[u8]) {
    let segment = SegmentId(8);
    let _ = decode_footer(&seal::key(), segment, data);
    let mut bytes = data.to_vec();
    let at = bytes.len().saturating_sub(8);
    seal::prefix(Kind::Footer, at, &mut bytes);
    if let Ok(entries) = decode_footer(&seal::key(), segment, &bytes) {
        let is_moved = entries.first().is_some_and(|entry| entry.birth.is_some());
        let kind = if is_moved { SegmentKind::Moved } else { SegmentKind::Journal };
        let again = encode_footer(&seal::key(), segment, kind, &entries);
        assert_eq!(decode_footer(&seal::key(), segment, &again), Ok(entries));
    }
}

fn segment_footer_seeds() -> Vec<Vec<u8>> {
    [(0_u32, SegmentKind::Journal), (1, SegmentKind::Metadata), (7, SegmentKind::Moved)]
        .into_iter()
        .map(|(count, kind)| {
            let entry = |index| FooterEntry {
                offset_units: index * 65,
                length_bytes: 4128,
                owner: u64::from(index),
                blocks: 3,
                birth: (kind == SegmentKind::Moved).then_some((SegmentId(5), index)),
            };
            encode_footer(&seal::key(), SegmentId(8), kind, &(0..count).map(entry).collect::<Vec<_>>())
        })
        .collect()
}

fn segment_entry(data: &[u8]) {
    let mut reader = Reader::new(data);
    while let Ok(entry) = SegmentEntry::decode(&mut reader) {
        let mut writer = Writer::new();
        entry.encode(&mut writer);
        assert_eq!(SegmentEntry::decode(&mut Reader::new(writer.as_bytes())), Ok(entry));
    }
}

fn segment_entry_seeds() -> Vec<Vec<u8>> {
    let mut writer = Writer::new();
    SegmentEntry::free(Place { drive: DriveIndex(2), cell: 11 }).encode(&mut writer);
    vec![writer.into_bytes()]
}

/// The page record round it has the checksum.
fn note_page(data: &[u8]) {
    let _ = notes::decode_page(data);
    let mut bytes = data.to_vec();
    bytes.resize(PAGE_BYTES, 0);
    if let Ok(found) = notes::decode_page(&bytes) {
        assert_eq!(notes::decode_page(&notes::encode_page(found.iter())), Ok(found));
    }
}

fn note_page_seeds() -> Vec<Vec<u8>> {
    let key = |kind, part| NoteKey { kind, subject: 9, part };
    let note = |key, value: &[u8]| Note { key, version: 1, lsn: Lsn(77), value: value.to_vec() };
    let notes = [note(key(4, 0), b"gold"), note(key(4, 1), b""), note(key(0x2ffe, 0), &[7; 60])];
    let page = |count: usize| notes::encode_page(notes[..count].iter())[..160].to_vec();
    vec![page(0), page(1), page(3)]
}

/// What a record of notes carries; its group has the checksum.
fn note_changes(data: &[u8]) {
    let data = &data[..data.len().min(notes::NOTES_RECORD_BYTES_MAX)];
    if let Ok(changes) = notes::decode_changes(data) {
        assert_eq!(notes::encode_changes(&changes), data, "accepted changes encode to themselves");
    }
}

fn changes() -> Vec<NoteChange> {
    let key = NoteKey { kind: 4, subject: 9, part: 1 };
    vec![
        NoteChange { key, value: Some((1, b"gold".to_vec())) },
        NoteChange { key: NoteKey { part: 2, ..key }, value: None },
    ]
}

fn note_changes_seeds() -> Vec<Vec<u8>> {
    vec![notes::encode_changes(&changes()), notes::encode_changes(&changes()[1..])]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// If the format's recipe changes and `seal` does not, fuzzing would stop at the checksum unnoticed.
    #[test]
    fn the_seals_know_the_formats_checksums() {
        for mut seed in chunk_seeds() {
            seed[24] ^= 1;
            assert!(ChunkHeader::open_any(&seal::key(), &seed).is_err());
            seal::chunk(&mut seed);
            assert!(ChunkHeader::open_any(&seal::key(), &seed).is_ok());
        }
        for mut seed in page_seeds() {
            seed[56] ^= 1;
            seal::page(&mut seed);
            assert!(PageHeader::open_any(&seal::key(), &seed).is_ok());
        }
        for mut seed in segment_header_seeds() {
            seed.resize(BLOCK_BYTES_USIZE, 0);
            seal::prefix(Kind::SegmentHeader, BLOCK_BYTES_USIZE - 8, &mut seed);
            assert!(SegmentHeader::decode(&seal::key(), &seed).is_ok());
        }
        for mut seed in segment_footer_seeds() {
            let at = seed.len() - 8;
            seed[at] ^= 1;
            seal::prefix(Kind::Footer, at, &mut seed);
            assert!(decode_footer(&seal::key(), SegmentId(8), &seed).is_ok());
        }
        for mut seed in group_seeds() {
            seed[56] ^= 1;
            seal::group(&mut seed);
            assert!(GroupHeader::open(&seal::key(), &seed).is_ok());
        }
        for mut seed in superblock_seeds() {
            let body = seed.split_off(ROOT_INPUT_BYTES);
            seed.resize(ROOT_BYTES, 0);
            seed.extend_from_slice(&body);
            assert!(Superblock::decode(&seed).is_err());
            seal::superblock(&mut seed);
            assert!(Superblock::decode(&seed).is_ok());
        }
    }
}
