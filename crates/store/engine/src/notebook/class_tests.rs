//! Notes of kinds that this program does not know: kept byte for byte, or reason to leave the pool alone.
// The drive is a real file.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use ashlar_format::group::Record;
use ashlar_format::notes::{Note, NoteChange, NoteKey};
use ashlar_format::segment::Protection;
use ashlar_journal::Draft;
use ashlar_pool::{DriveSpec, PoolSpec};
use ashlar_runtime::{Runtime, ShardSettings, start_shard};

use crate::write_path::outcome_of;
use crate::{Compression, Engine, ErrorKind, NoteBatch, NoteKind, Profile, Result, Settings, VolumeSpec};

/// A pool that was left without a clean close, with notes in the checkpoint and in the journal behind it.
/// Made by `ASHLAR_WRITE_GOLDEN=1 cargo test -p ashlar-engine notebook`; `inspect` is tested with it, too.
const GOLDEN: &str = "tests/golden/format-2-notes.pool.zst";
const GOLDEN_BYTES: usize = 4 << 20;

async fn open(runtime: &Runtime, path: &str) -> Result<Engine> {
    Engine::open(runtime, &[path.to_string()], Settings::default()).await
}

fn volume(name: &str) -> VolumeSpec {
    VolumeSpec {
        name: name.to_string(),
        size_bytes: 1 << 20,
        logical_block_bytes: 4096,
        profile: Profile::Oltp,
        compression: Compression::Off,
        dedupe: false,
    }
}

async fn create(runtime: &Runtime, path: &str) -> Engine {
    let spec = PoolSpec {
        name: "pool".into(),
        drives: vec![DriveSpec { path: path.to_string(), create_size_bytes: Some(GOLDEN_BYTES as u64) }],
        protection: Protection::None,
        segment_bytes: Some(128 << 10),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    open(runtime, path).await.unwrap()
}

fn key(kind: u16) -> NoteKey {
    NoteKey { kind, subject: 77, part: 3 }
}

/// As a later program would.
async fn put(engine: &Engine, kind: u16, value: Option<(u16, Vec<u8>)>) {
    let changes = vec![NoteChange { key: key(kind), value }];
    let drafts = vec![Draft::Record(Record::Notes { changes })];
    outcome_of(engine.inner.submit(drafts, None).await).unwrap();
}

fn get(engine: &Engine, kind: u16) -> Option<Note> {
    engine.inner.tree.borrow().notebook.get(key(kind)).cloned()
}

/// The bytes of a drive, in another file, too.
fn copied(path: &str, copy: &str) -> Vec<u8> {
    std::fs::copy(path, copy).unwrap();
    std::fs::read(copy).unwrap()
}

/// Runs a test on a shard of its own with the path of a drive that is not there yet.
fn on_drive(test: impl AsyncFnOnce(Runtime, String) + Send + 'static) {
    let directory = tempfile::tempdir().unwrap();
    let path = format!("{}/drive", directory.path().to_str().unwrap());
    let (done, finished) = std::sync::mpsc::channel();
    let shard = start_shard(ShardSettings::default(), move |runtime| {
        Box::pin(async move {
            test(runtime, path).await;
            done.send(()).unwrap();
        })
    });
    shard.unwrap().join();
    finished.recv().expect("the test ran to its end");
}

#[test]
fn unknown_notes_are_kept_byte_for_byte() {
    on_drive(async |runtime, path| {
        let mut engine = create(&runtime, &path).await;
        put(&engine, 0x0ffe, Some((9, vec![8; 2000]))).await;
        put(&engine, 0x2ffe, Some((1, b"swordfish".to_vec()))).await;
        let before = [get(&engine, 0x0ffe), get(&engine, 0x2ffe)];
        assert!(before.iter().all(Option::is_some));
        // Their page is written again in each life.
        for life in 0..3 {
            let batch = NoteBatch::new().put(NoteKind::Schedule, life, 0, 1, vec![1; 100]);
            engine.notes_put(batch).await.unwrap();
            engine.close().await.unwrap();
            drop(engine);
            engine = open(&runtime, &path).await.unwrap();
            assert_eq!([get(&engine, 0x0ffe), get(&engine, 0x2ffe)], before);
        }
        assert_eq!(engine.notes_of(NoteKind::Schedule).len(), 3);
        engine.close().await.unwrap();
    });
}

#[test]
fn a_pool_with_notes_that_must_not_be_ignored_is_refused_by_their_kind() {
    for (kind, why) in [(0x8ffe, "must not ignore"), (0xcffe, "must not ignore")] {
        on_drive(async move |runtime, path| {
            let engine = create(&runtime, &path).await;
            put(&engine, kind, Some((1, vec![1; 10]))).await;
            // In the journal alone, as after a crash.
            let copy = format!("{path}-copy");
            let whole = copied(&path, &copy);
            engine.close().await.unwrap();
            drop(engine);
            for drive in [&path, &copy] {
                let error = open(&runtime, drive).await.err().unwrap();
                assert_eq!(error.kind, ErrorKind::Invalid, "{error}");
                let text = error.to_string();
                assert!(text.contains(&format!("kind {kind:#06x}")) && text.contains(why), "{text}");
            }
            assert_eq!(std::fs::read(&copy).unwrap(), whole, "nothing was written");
        });
    }
}

#[test]
fn a_pool_with_notes_that_allow_reading_only_is_only_read() {
    on_drive(async move |runtime, path| {
        let engine = create(&runtime, &path).await;
        put(&engine, 0x4ffe, Some((1, vec![1; 10]))).await;
        engine.close().await.unwrap();
        drop(engine);
        let whole = std::fs::read(&path).unwrap();
        let engine = open(&runtime, &path).await.unwrap();
        let state = engine.status().state;
        assert!(state.starts_with("read-only") && state.contains("kind 0x4ffe"), "{state}");
        assert!(engine.volume_create(volume("data")).await.is_err());
        engine.close().await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), whole, "nothing was written");
    });
}

/// One that the program which wrote it took back is no reason.
#[test]
fn a_note_that_is_gone_refuses_nothing() {
    on_drive(async |runtime, path| {
        let engine = create(&runtime, &path).await;
        put(&engine, 0x8ffe, Some((1, vec![1; 10]))).await;
        put(&engine, 0x8ffe, None).await;
        engine.close().await.unwrap();
        drop(engine);
        open(&runtime, &path).await.unwrap().close().await.unwrap();
    });
}

fn golden_path() -> std::path::PathBuf {
    std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(GOLDEN)
}

/// Makes the golden pool.
async fn make_golden(runtime: &Runtime, path: &str) {
    let engine = create(runtime, path).await;
    let data = engine.volume_create(volume("data")).await.unwrap().id;
    let gone = engine.volume_create(volume("gone")).await.unwrap().id;
    let put = |batch: NoteBatch, kind, subject, part: u16, value: &[u8]| {
        batch.put(kind, subject, part, part + 1, value.to_vec())
    };
    let mut batch = put(NoteBatch::new(), NoteKind::Label, data, 0, b"gold");
    batch = put(batch, NoteKind::Label, data, 1, b"replaced");
    batch = put(batch, NoteKind::Label, gone, 0, b"goes");
    batch = put(batch, NoteKind::Chap, 5, 0, b"swordfish");
    engine.notes_put(put(batch, NoteKind::Schedule, 1, 0, &[7; 4000])).await.unwrap();
    put_unknown(&engine).await;
    engine.close().await.unwrap();
    drop(engine);
    let engine = open(runtime, path).await.unwrap();
    // Behind the checkpoint.
    let batch = put(NoteBatch::new().event(1, b"first".to_vec()), NoteKind::Label, data, 1, b"silver");
    engine.notes_put(put(batch, NoteKind::Label, gone, 1, b"goes, too")).await.unwrap();
    engine.volume_delete("gone").await.unwrap();
    engine
        .notes_put(NoteBatch::new().delete(NoteKind::Schedule, 1, 0).event(2, b"second".to_vec()))
        .await
        .unwrap();
    let bytes = std::fs::read(path).unwrap();
    let mut packed = vec![0; zstd_safe::compress_bound(bytes.len())];
    let length = zstd_safe::compress(&mut packed[..], &bytes, 19).unwrap();
    std::fs::write(golden_path(), &packed[..length]).unwrap();
    engine.close().await.unwrap();
}

async fn put_unknown(engine: &Engine) {
    put(engine, 0x0ffe, Some((9, vec![8; 2000]))).await;
    put(engine, 0x2ffe, Some((1, b"unknown secret".to_vec()))).await;
}

#[test]
fn the_golden_pool_with_notes_tells_what_was_noted() {
    if std::env::var_os("ASHLAR_WRITE_GOLDEN").is_some() {
        on_drive(async |runtime, path| make_golden(&runtime, &path).await);
    }
    on_drive(async |runtime, path| {
        let packed = std::fs::read(golden_path()).unwrap();
        let mut bytes = vec![0; GOLDEN_BYTES];
        zstd_safe::decompress(&mut bytes[..], &packed).unwrap();
        std::fs::write(&path, bytes).unwrap();
        let engine = open(&runtime, &path).await.unwrap();
        assert!(engine.status().recovery.records_replayed >= 1);
        let data = engine.volumes()[0].id;
        let labels = engine.notes_of(NoteKind::Label);
        let told: Vec<_> =
            labels.iter().map(|note| (note.key.subject, note.key.part, &note.value[..])).collect();
        assert_eq!(told, [(data, 0, &b"gold"[..]), (data, 1, b"silver")]);
        assert_eq!(engine.notes_get(NoteKind::Chap, 5, 0).unwrap().value, b"swordfish");
        assert_eq!(engine.notes_of(NoteKind::Schedule), []);
        let events: Vec<_> = engine.notes_of(NoteKind::Event).into_iter().map(|note| note.value).collect();
        assert_eq!(events, [&b"first"[..], b"second"]);
        assert_eq!(get(&engine, 0x0ffe).unwrap().value, [8; 2000]);
        assert_eq!(get(&engine, 0x2ffe).unwrap().value, b"unknown secret");
        assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
        engine.close().await.unwrap();
    });
}
