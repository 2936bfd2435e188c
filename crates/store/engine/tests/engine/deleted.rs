//! Deleted volumes that may come back, snapshots that are held, restores that keep what was there: over
//! crashes, with the cleaner at work, and without a way to change what is deleted.
// The drive is a real file.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::collections::BTreeMap;
use std::time::Duration;

use crate::support::{bytes_of, in_directory, volume};
use ashlar_engine::{Engine, ErrorKind, NoteBatch, NoteKind, Settings};
use ashlar_runtime::Runtime;

const PIECE: usize = 64 << 10;
const MANY: u64 = 160;

async fn create(runtime: &Runtime, path: &str) -> Engine {
    crate::support::create_small_pool(runtime, path).await;
    open(runtime, path).await
}

async fn open(runtime: &Runtime, path: &str) -> Engine {
    Engine::open(runtime, &[path.to_string()], Settings::default()).await.unwrap()
}

/// The pool as a crash at this moment would leave it.
async fn crashed(runtime: &Runtime, path: &str) -> Engine {
    let copy = format!("{path}-crashed");
    std::fs::copy(path, &copy).unwrap();
    open(runtime, &copy).await
}

async fn write(engine: &Engine, name: &str, piece: u64, seed: u64) {
    let device = engine.device(name).unwrap();
    device.write(piece * PIECE as u64, &bytes_of(seed, PIECE), false).await.unwrap();
}

async fn holds(engine: &Engine, name: &str, piece: u64, seed: u64) -> bool {
    let mut found = vec![0; PIECE];
    engine.device(name).unwrap().read(piece * PIECE as u64, &mut found).await.unwrap();
    found == bytes_of(seed, PIECE)
}

async fn is_fine(engine: &Engine) {
    assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
    let report = engine.space_report(Duration::from_secs(60)).await.unwrap();
    assert_eq!(report.parts.sum_bytes(), report.parts.physical_bytes);
    let written: u64 = report.images.iter().map(|image| image.written_bytes.unwrap()).sum();
    let walked = report.walked.unwrap();
    let saved = walked.sharing_saved_bytes.cast_signed() + walked.compression_saved_bytes;
    let alive = report.parts.data_alive_bytes + report.parts.recoverable_bytes.unwrap();
    assert_eq!(written.cast_signed() - saved, alive.cast_signed());
}

#[test]
fn a_deleted_volume_is_there_after_a_crash_and_nothing_changes_it() {
    in_directory(async |runtime, directory| {
        let path = format!("{directory}/drive");
        let engine = create(&runtime, &path).await;
        let id = engine.volume_create(volume("data", 4 << 20)).await.unwrap().id;
        write(&engine, "data", 0, 1).await;
        engine.snapshot_create("noon", &["data".into()]).await.unwrap();
        write(&engine, "data", 0, 2).await;
        let label = NoteBatch::new().put(NoteKind::Label, id, 0, 1, b"gold".to_vec());
        engine.notes_put(label).await.unwrap();
        let device = engine.device("data").unwrap();
        engine.volume_set_aside("data").await.unwrap();
        engine.deleted_seen(&BTreeMap::from([(id, 77), (id + 9, 5)])).await.unwrap();

        // A door that still has the device, and every verb that goes by the name.
        assert_eq!(device.geometry().size_bytes, 0);
        assert!(device.write(0, &bytes_of(3, PIECE), false).await.is_err());
        assert!(device.unmap(0, 4096).await.is_err());
        assert!(device.read(0, &mut vec![0; PIECE]).await.is_err());
        for refused in [
            engine.volume_resize("data", 8 << 20).await.err(),
            engine.snapshot_create("s", &["data".into()]).await.err(),
            engine.snapshot_restore("noon").await.err(),
            engine.clone_create("c", "data").await.err(),
            engine.volume_set_aside("data").await.err(),
            engine.volume_delete("data").await.err(),
        ] {
            assert_eq!(refused.unwrap().kind, ErrorKind::NotFound);
        }
        assert!(engine.device("data").is_none() && engine.device_names().is_empty());
        let other = engine.volume_create(volume("data", 1 << 20)).await.unwrap().id;
        assert_eq!(engine.volume_undelete(id, "data").await.unwrap_err().kind, ErrorKind::Exists);
        assert_eq!(engine.volume_undelete(other, "back").await.unwrap_err().kind, ErrorKind::NotFound);

        let after = crashed(&runtime, &path).await;
        for engine in [&engine, &after] {
            is_fine(engine).await;
            let deleted = engine.deleted_volumes();
            assert_eq!((deleted.len(), deleted[0].info.id, deleted[0].seen_seconds), (1, id, 77));
            assert_eq!(engine.notes_range(NoteKind::Label, id).len(), 1);
            assert!(holds(engine, "data@noon", 0, 1).await);
            engine.volume_undelete(id, "back").await.unwrap();
            assert!(holds(engine, "back", 0, 2).await && holds(engine, "back@noon", 0, 1).await);
            assert!(engine.deleted_volumes().is_empty());
            engine.snapshot_restore("noon").await.unwrap();
            assert!(holds(engine, "back", 0, 1).await);
            // Deleted anew it is as young as any.
            assert_eq!(engine.volume_set_aside("back").await.unwrap().seen_seconds, 0);
            engine.deleted_give_up(id).await.unwrap();
            assert_eq!(engine.deleted_give_up(id).await.unwrap_err().kind, ErrorKind::NotFound);
            assert_eq!(engine.volume_undelete(id, "late").await.unwrap_err().kind, ErrorKind::NotFound);
            assert_eq!(engine.notes_range(NoteKind::Label, id), []);
            assert!(holds(engine, "data@noon", 0, 1).await);
        }
        after.close().await.unwrap();
        engine.close().await.unwrap();
    });
}

/// The cleaner takes what is dead from all round it, again and again.
#[test]
fn the_cleaner_leaves_what_a_deleted_volume_holds_until_it_is_given_up() {
    in_directory(async |runtime, directory| {
        let path = format!("{directory}/drive");
        let engine = create(&runtime, &path).await;
        let id = engine.volume_create(volume("kept", 64 << 20)).await.unwrap().id;
        engine.volume_create(volume("busy", 64 << 20)).await.unwrap();
        for piece in 0..MANY {
            write(&engine, "kept", piece, piece + 1).await;
            write(&engine, "busy", piece, piece + 1000).await;
        }
        engine.volume_set_aside("kept").await.unwrap();
        for round in 0..6 {
            for piece in 0..MANY {
                write(&engine, "busy", piece, round * 7919 + piece + 5000).await;
            }
        }
        assert!(engine.status().counters.segments_freed > 0, "the cleaner had work");
        is_fine(&engine).await;
        engine.close().await.unwrap();
        drop(engine);
        let engine = open(&runtime, &path).await;
        let held = engine.recoverable_bytes().await.unwrap().unwrap();
        assert!(held > MANY * PIECE as u64 / 3, "{held}");
        engine.volume_undelete(id, "kept").await.unwrap();
        for piece in 0..MANY {
            assert!(holds(&engine, "kept", piece, piece + 1).await, "piece {piece}");
        }
        assert_eq!(engine.recoverable_bytes().await.unwrap(), Some(0));
        engine.close().await.unwrap();
    });
}

/// Two images of one snapshot would have gone by one name.
#[test]
fn a_name_that_another_image_of_its_snapshot_has_is_refused() {
    in_directory(async |runtime, directory| {
        let engine = create(&runtime, &format!("{directory}/drive")).await;
        let id = engine.volume_create(volume("a", 1 << 20)).await.unwrap().id;
        engine.volume_create(volume("b", 1 << 20)).await.unwrap();
        engine.snapshot_create("both", &["a".into(), "b".into()]).await.unwrap();
        engine.volume_set_aside("a").await.unwrap();
        engine.volume_set_aside("b").await.unwrap();
        assert_eq!(engine.volume_undelete(id, "b").await.unwrap_err().kind, ErrorKind::Exists);
        engine.volume_undelete(id, "c").await.unwrap();
        assert!(engine.device("c@both").is_some() && engine.device("b@both").is_some());
        engine.close().await.unwrap();
    });
}

#[test]
fn a_restore_that_keeps_what_was_there_does_both_or_nothing() {
    in_directory(async |runtime, directory| {
        let path = format!("{directory}/drive");
        let engine = create(&runtime, &path).await;
        let names = ["a".to_string(), "b".to_string()];
        for name in &names {
            engine.volume_create(volume(name, 4 << 20)).await.unwrap();
            write(&engine, name, 0, 1).await;
        }
        engine.snapshot_create("noon", &names).await.unwrap();
        for name in &names {
            write(&engine, name, 0, 2).await;
        }
        engine.volume_resize("b", 8 << 20).await.unwrap();
        assert_eq!(
            engine.snapshot_restore_keeping("noon", "noon").await.unwrap_err().kind,
            ErrorKind::Exists
        );
        assert!(holds(&engine, "a", 0, 2).await);
        engine.snapshot_restore_keeping("noon", "before").await.unwrap();
        let after = crashed(&runtime, &path).await;
        for engine in [&engine, &after] {
            for name in &names {
                assert!(
                    holds(engine, name, 0, 1).await && holds(engine, &format!("{name}@before"), 0, 2).await
                );
            }
            let sizes = |name: &str| engine.device(name).unwrap().geometry().size_bytes;
            assert_eq!((sizes("b"), sizes("b@before")), (4 << 20, 8 << 20));
            is_fine(engine).await;
        }
        after.close().await.unwrap();
        engine.close().await.unwrap();
    });
}

#[test]
fn a_held_snapshot_is_deleted_by_nobody() {
    in_directory(async |runtime, directory| {
        let path = format!("{directory}/drive");
        let engine = create(&runtime, &path).await;
        for name in ["a", "b"] {
            engine.volume_create(volume(name, 1 << 20)).await.unwrap();
        }
        engine.snapshot_create("noon", &["a".into(), "b".into()]).await.unwrap();
        engine.snapshot_create("late", &["a".into()]).await.unwrap();
        engine.snapshot_hold("noon", "first").await.unwrap();
        let held = engine.snapshot_hold("noon", "audit").await.unwrap();
        assert_eq!(held.hold.unwrap().reason, "audit");
        assert_eq!(engine.snapshot_hold("nope", "").await.unwrap_err().kind, ErrorKind::NotFound);
        assert_eq!(
            engine.snapshot_hold("late", &"x".repeat(201)).await.unwrap_err().kind,
            ErrorKind::Invalid
        );
        let after = crashed(&runtime, &path).await;
        for engine in [&engine, &after] {
            let refused = engine.snapshots_delete(&["late".into(), "noon".into()]).await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::Busy);
            assert!(refused.to_string().contains("audit"), "{refused}");
            assert_eq!(engine.snapshots().len(), 2);
            // Whoever deletes the volumes leaves the snapshot.
            engine.volume_delete("a").await.unwrap();
            assert!(engine.snapshot_delete("noon").await.is_err());
            assert_eq!(engine.snapshot_release("noon").await.unwrap().hold, None);
            engine.snapshots_delete(&["late".into(), "noon".into()]).await.unwrap();
            assert_eq!(engine.notes_of(NoteKind::Hold), []);
        }
        after.close().await.unwrap();
        engine.close().await.unwrap();
    });
}

/// A door that kept a device over a delete and an undelete served the volume under its old name beside the
/// one that serves it under its new one: two hosts wrote to it, and each took it for its own.
#[test]
fn a_device_from_before_the_delete_does_not_lead_to_what_comes_back() {
    in_directory(async |runtime, directory| {
        let path = format!("{directory}/drive");
        let engine = create(&runtime, &path).await;
        engine.volume_create(volume("db", 1 << 20)).await.unwrap();
        write(&engine, "db", 0, 1).await;
        let before = engine.device("db").unwrap();
        let id = engine.volume_set_aside("db").await.unwrap().info.id;
        engine.volume_undelete(id, "db").await.unwrap();
        assert_eq!(before.geometry().size_bytes, 0);
        assert!(before.write(0, &bytes_of(2, PIECE), false).await.is_err());
        let mut found = vec![0; PIECE];
        assert!(before.read(0, &mut found).await.is_err());
        assert!(holds(&engine, "db", 0, 1).await, "a device made since leads to it");
        engine.close().await.unwrap();
    });
}
