//! Notes: durable when they were put, all of a batch or nothing, in full pools, over crashes and deletes.
// The drive is a real file.
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use std::time::Duration;

use crate::support::{in_directory, volume};
use ashlar_engine::{
    DriveSpec, Engine, Error, ErrorKind, Note, NoteBatch, NoteKind, PoolSpec, Protection, Settings,
};
use ashlar_runtime::{Priority, Runtime};

async fn create(runtime: &Runtime, path: &str, pool_bytes: u64) -> Engine {
    let spec = PoolSpec {
        name: "pool".into(),
        drives: vec![DriveSpec { path: path.to_string(), create_size_bytes: Some(pool_bytes) }],
        protection: Protection::None,
        segment_bytes: Some(256 << 10),
        width: None,
        spares: 0,
    };
    Engine::create_pool(runtime, spec).await.unwrap();
    open(runtime, path).await.unwrap()
}

async fn open(runtime: &Runtime, path: &str) -> Result<Engine, Error> {
    Engine::open(runtime, &[path.to_string()], Settings::default()).await
}

/// The pool as a crash at this moment would leave it.
async fn crashed(runtime: &Runtime, path: &str) -> Engine {
    let copy = format!("{path}-crashed");
    std::fs::copy(path, &copy).unwrap();
    open(runtime, &copy).await.unwrap()
}

async fn reopened(runtime: &Runtime, path: &str, engine: Engine) -> Engine {
    engine.close().await.unwrap();
    drop(engine);
    open(runtime, path).await.unwrap()
}

fn label(subject: u64, part: u16, value: &[u8]) -> NoteBatch {
    NoteBatch::new().put(NoteKind::Label, subject, part, 1, value.to_vec())
}

fn values(notes: &[Note]) -> Vec<&[u8]> {
    notes.iter().map(|note| &note.value[..]).collect()
}

async fn is_fine(engine: &Engine) {
    assert_eq!(engine.check().await.unwrap().errors, Vec::<String>::new());
}

#[test]
fn what_was_put_is_there_after_a_crash_and_after_a_close() {
    in_directory(async |runtime, directory| {
        let path = format!("{directory}/drive");
        let engine = create(&runtime, &path, 64 << 20).await;
        let id = engine.volume_create(volume("data", 1 << 20)).await.unwrap().id;
        let batch = label(id, 7, b"gold").put(NoteKind::Schedule, 12, 0, 3, vec![9; 4000]);
        let lsn = engine.notes_put(batch).await.unwrap();
        let later = engine.notes_put(label(id, 9, b"")).await.unwrap();
        assert!(later > lsn);

        let after = crashed(&runtime, &path).await;
        for engine in [&engine, &after] {
            let note = engine.notes_get(NoteKind::Label, id, 7).unwrap();
            assert_eq!((note.version, note.lsn, &note.value[..]), (1, lsn, &b"gold"[..]));
            assert_eq!(values(&engine.notes_range(NoteKind::Label, id)), [&b"gold"[..], b""]);
            assert_eq!(engine.notes_of(NoteKind::Schedule)[0].value, [9; 4000]);
            assert_eq!(engine.notes_get(NoteKind::Label, id + 1, 7), None);
            is_fine(engine).await;
        }
        after.close().await.unwrap();
        engine.notes_put(NoteBatch::new().delete(NoteKind::Label, id, 7)).await.unwrap();
        let engine = reopened(&runtime, &path, engine).await;
        assert_eq!(engine.status().recovery.records_replayed, 0);
        assert_eq!(values(&engine.notes_range(NoteKind::Label, id)), [b""]);
        // What is put again goes where it was, and all of it can go.
        engine.notes_put(label(id, 9, b"other")).await.unwrap();
        let gone = NoteBatch::new().delete(NoteKind::Label, id, 9).delete(NoteKind::Schedule, 12, 0);
        engine.notes_put(gone).await.unwrap();
        let engine = reopened(&runtime, &path, engine).await;
        assert_eq!(engine.notes_status().bytes, 0);
        is_fine(&engine).await;
        engine.close().await.unwrap();
    });
}

#[test]
fn a_batch_of_64_kib_is_one_change() {
    in_directory(async |runtime, directory| {
        let path = format!("{directory}/drive");
        let engine = create(&runtime, &path, 64 << 20).await;
        let batch = (0..16).fold(NoteBatch::new(), |batch, part| {
            batch.put(NoteKind::Database, 1, part, 1, vec![part as u8; 4000])
        });
        let groups = engine.status().counters.journal_groups;
        engine.notes_put(batch.clone()).await.unwrap();
        assert_eq!(engine.status().counters.journal_groups, groups + 1);
        let after = crashed(&runtime, &path).await;
        assert_eq!(after.notes_range(NoteKind::Database, 1).len(), 16);
        after.close().await.unwrap();
        let larger = batch.put(NoteKind::Database, 1, 16, 1, vec![1; 4000]);
        assert_eq!(engine.notes_put(larger).await.unwrap_err().kind, ErrorKind::Invalid);
        engine.close().await.unwrap();
    });
}

#[test]
fn what_makes_no_sense_is_refused_and_changes_nothing() {
    in_directory(async |runtime, directory| {
        let engine = create(&runtime, &format!("{directory}/drive"), 64 << 20).await;
        let put = |kind, subject, bytes| NoteBatch::new().put(kind, subject, 0, 1, vec![1; bytes]);
        let refused = [
            (NoteBatch::new(), ErrorKind::Invalid),
            (put(NoteKind::Schedule, 1, 4001), ErrorKind::Invalid),
            (put(NoteKind::Restripe, 1, 10), ErrorKind::Invalid),
            (put(NoteKind::Event, 1, 10), ErrorKind::Invalid),
            (NoteBatch::new().event(1, vec![0; 257]), ErrorKind::Invalid),
            (put(NoteKind::Schedule, 1, 4).put(NoteKind::Label, 77, 0, 1, vec![1]), ErrorKind::NotFound),
        ];
        for (batch, kind) in refused {
            let error = engine.notes_put(batch.clone()).await.unwrap_err();
            assert_eq!(error.kind, kind, "{batch:?}: {error}");
        }
        assert_eq!(engine.notes_status().bytes, 0);
        engine.notes_put(put(NoteKind::Restripe, 0, 10)).await.unwrap();
        engine.close().await.unwrap();
    });
}

#[test]
fn a_full_kind_refuses_new_notes_and_takes_deletes() {
    in_directory(async |runtime, directory| {
        let path = format!("{directory}/drive");
        let engine = create(&runtime, &path, 64 << 20).await;
        let one = |subject| NoteBatch::new().put(NoteKind::Role, subject, 0, 1, vec![1; 4000]);
        let mut count = 0;
        let error = loop {
            match engine.notes_put(one(count)).await {
                Ok(_) => count += 1,
                Err(error) => break error,
            }
        };
        assert_eq!((error.kind, count), (ErrorKind::NoSpace, (256 << 10) / 4024));
        assert!(error.to_string().contains("notes of kind role take"), "{error}");
        assert!(error.to_string().contains("delete some of them"), "{error}");
        // Another kind has its own room; what gets no longer passes; what makes room for itself does.
        engine.notes_put(NoteBatch::new().put(NoteKind::Schedule, 1, 0, 1, vec![1; 4000])).await.unwrap();
        engine.notes_put(one(3)).await.unwrap();
        engine.notes_put(one(count).delete(NoteKind::Role, 4, 0)).await.unwrap();
        assert_eq!(engine.notes_put(one(4)).await.unwrap_err().kind, ErrorKind::NoSpace);
        engine.notes_put(NoteBatch::new().delete(NoteKind::Role, 5, 0)).await.unwrap();
        engine.notes_put(one(4)).await.unwrap();
        let engine = reopened(&runtime, &path, engine).await;
        assert_eq!(engine.notes_of(NoteKind::Role).len() as u64, count);
        is_fine(&engine).await;
        engine.close().await.unwrap();
    });
}

#[test]
fn a_full_pool_refuses_new_notes_and_takes_deletes() {
    in_directory(async |runtime, directory| {
        let path = format!("{directory}/drive");
        let engine = create(&runtime, &path, 16 << 20).await;
        let id = engine.volume_create(volume("data", 1 << 30)).await.unwrap().id;
        for part in 0..200 {
            engine.notes_put(label(id, part, &[7; 2000])).await.unwrap();
        }
        let data = engine.device("data").unwrap();
        let mut piece = 0;
        // A checkpoint that ends just behind the refusal makes room once more.
        let error = loop {
            while data.write(piece << 16, &crate::support::bytes_of(piece, 64 << 10), false).await.is_ok() {
                piece += 1;
            }
            match engine.notes_put(label(id, 999, b"more")).await {
                Ok(_) => engine.notes_put(NoteBatch::new().delete(NoteKind::Label, id, 999)).await.unwrap(),
                Err(error) => break error,
            };
            runtime.sleep(Duration::from_millis(100)).await;
        };
        assert_eq!(error.kind, ErrorKind::NoSpace, "{error}");
        assert!(error.to_string().contains("the pool is full"), "{error}");
        // What makes room begins with a note.
        for round in 0..20 {
            engine.notes_put(label(id, 0, &[round; 2000]).from_reserve()).await.unwrap();
        }
        assert_eq!(engine.notes_get(NoteKind::Label, id, 0).unwrap().value, vec![19; 2000]);
        let deletes = |parts: std::ops::Range<u16>| {
            parts.fold(NoteBatch::new(), |batch, part| batch.delete(NoteKind::Label, id, part))
        };
        for first in 0..99 {
            engine.notes_put(deletes(first..first + 2)).await.unwrap();
        }
        assert_eq!(engine.notes_range(NoteKind::Label, id).len(), 100);
        // Neither does a delete of the volume, with all its notes, need what is not there.
        engine.volume_delete("data").await.unwrap();
        assert_eq!(engine.notes_status().bytes, 0);
        let engine = reopened(&runtime, &path, engine).await;
        assert_eq!(engine.notes_status().bytes, 0);
        is_fine(&engine).await;
        engine.close().await.unwrap();
    });
}

#[test]
fn a_volume_and_its_notes_are_made_and_deleted_together() {
    in_directory(async |runtime, directory| {
        let path = format!("{directory}/drive");
        let engine = create(&runtime, &path, 64 << 20).await;
        let groups = engine.status().counters.journal_groups;
        let noted = engine.volume_create_noted(volume("data", 1 << 20), |id| {
            label(id.0, 0, b"made with it").put(NoteKind::Schedule, id.0, 0, 1, b"hourly".to_vec())
        });
        let id = noted.await.unwrap().id;
        assert_eq!(engine.status().counters.journal_groups, groups + 1);
        // A volume that is not made has no notes.
        let taken = engine.volume_create_noted(volume("data", 1 << 20), |id| label(id.0, 0, b"never"));
        assert_eq!(taken.await.unwrap_err().kind, ErrorKind::Exists);
        let stranger = engine.volume_create_noted(volume("other", 1 << 20), |id| label(id.0 + 5, 0, b"no"));
        assert_eq!(stranger.await.unwrap_err().kind, ErrorKind::NotFound);
        assert!(engine.device("other").is_none());

        let clone = {
            engine.snapshot_create("before", &["data".to_string()]).await.unwrap();
            engine.notes_put(label(id, 1, b"after the snapshot")).await.unwrap();
            engine.snapshot_restore("before").await.unwrap();
            engine.clone_create("copy", "before").await.unwrap()[0].id
        };
        // Neither snapshot nor restore nor clone know of notes.
        assert_eq!(engine.notes_range(NoteKind::Label, id).len(), 2);
        assert_eq!(engine.notes_range(NoteKind::Label, clone).len(), 0);
        let image = id + 1;
        engine
            .notes_put(NoteBatch::new().put(NoteKind::Export, image, 0, 1, b"until".to_vec()))
            .await
            .unwrap();

        let after = crashed(&runtime, &path).await;
        for engine in [&engine, &after] {
            engine.volume_delete("data").await.unwrap();
            assert_eq!(engine.notes_range(NoteKind::Label, id), []);
            // Schedules number themselves: that the number is a volume's too means nothing.
            assert_eq!(engine.notes_range(NoteKind::Schedule, id).len(), 1);
            assert_eq!(engine.notes_range(NoteKind::Export, image).len(), 1);
            engine.snapshot_delete("before").await.unwrap();
            assert_eq!(engine.notes_range(NoteKind::Export, image), []);
            let late = engine.notes_put(label(id, 0, b"late")).await.unwrap_err();
            assert_eq!(late.kind, ErrorKind::NotFound, "{late}");
        }
        after.close().await.unwrap();
        engine.close().await.unwrap();
    });
}

/// The put is checked while the volume is there, and is applied behind its delete.
#[test]
fn notes_of_a_volume_that_is_deleted_meanwhile_do_not_stay() {
    in_directory(async |runtime, directory| {
        let path = format!("{directory}/drive");
        let engine = create(&runtime, &path, 64 << 20).await;
        for round in 0..20 {
            let name = format!("data-{round}");
            let id = engine.volume_create(volume(&name, 1 << 20)).await.unwrap().id;
            let deleting = {
                let engine = engine.clone();
                runtime.spawn(Priority::Host, async move { engine.volume_delete(&name).await.unwrap() })
            };
            let batch = label(id, 0, b"late").put(NoteKind::Schedule, round, 0, 1, vec![1]);
            let put = engine.notes_put(batch).await;
            deleting.await;
            assert_eq!(engine.notes_range(NoteKind::Label, id), []);
            let schedule = engine.notes_range(NoteKind::Schedule, round);
            match put {
                Ok(_) => assert_eq!(schedule.len(), 1),
                Err(error) => {
                    assert_eq!((error.kind, schedule.len()), (ErrorKind::NotFound, 0), "{error}");
                }
            }
        }
        engine.close().await.unwrap();
    });
}

#[test]
fn events_are_a_ring_and_few_in_a_second() {
    in_directory(async |runtime, directory| {
        let path = format!("{directory}/drive");
        let engine = create(&runtime, &path, 64 << 20).await;
        // As fast as they come: in the second that has begun no more than ten are taken, or twenty if
        // another begins meanwhile.
        for event in 0..40_u8 {
            engine.notes_put(NoteBatch::new().event(1, vec![event])).await.unwrap();
        }
        let events = engine.notes_of(NoteKind::Event);
        assert!(events.len() >= 10 && events.len() < 40, "{} events", events.len());
        assert_eq!(engine.notes_status().events_left_out, 40 - events.len() as u64);
        assert_eq!(values(&events)[..3], [[0], [1], [2]]);
        assert!(events.windows(2).all(|pair| pair[0].key.subject + 1 == pair[1].key.subject));
        // What comes with them happens all the same.
        let batch = NoteBatch::new().event(1, vec![1]).put(NoteKind::Schedule, 1, 0, 1, vec![2]);
        engine.notes_put(batch).await.unwrap();
        assert!(engine.notes_get(NoteKind::Schedule, 1, 0).is_some());
        engine.close().await.unwrap();
    });
}

#[test]
fn the_cleaner_takes_the_notebook_along() {
    in_directory(async |runtime, directory| {
        let path = format!("{directory}/drive");
        let engine = create(&runtime, &path, 16 << 20).await;
        let id = engine.volume_create(volume("data", 1 << 30)).await.unwrap().id;
        for part in 0..40 {
            engine.notes_put(label(id, part, &[part as u8; 3000])).await.unwrap();
        }
        let data = engine.device("data").unwrap();
        // Several times the pool, over the same 4 MiB.
        for piece in 0..1000 {
            data.write((piece % 64) << 16, &crate::support::bytes_of(piece, 64 << 10), false).await.unwrap();
            if piece % 100 == 0 {
                engine.notes_put(label(id, 50, &piece.to_le_bytes())).await.unwrap();
            }
        }
        assert!(engine.status().counters.segments_freed > 50);
        is_fine(&engine).await;
        let after = crashed(&runtime, &path).await;
        for engine in [&engine, &after] {
            let notes = engine.notes_range(NoteKind::Label, id);
            assert_eq!(notes.len(), 41);
            assert!(notes[..40].iter().enumerate().all(|(part, note)| note.value == [part as u8; 3000]));
            assert_eq!(notes[40].value, 900_u64.to_le_bytes());
            is_fine(engine).await;
        }
        after.close().await.unwrap();
        engine.close().await.unwrap();
    });
}
