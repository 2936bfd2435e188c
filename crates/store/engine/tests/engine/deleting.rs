//! Many snapshots deleted at once: all of them, for good, in few durable writes; or none.
#![allow(clippy::unwrap_used)]

use crate::support::on_drive;
use ashlar_engine::{Engine, ErrorKind, Settings};
use ashlar_runtime::Runtime;

/// Together more images than one record holds.
const SNAPSHOTS: usize = 40;
const VOLUMES: usize = 64;

async fn create(runtime: &Runtime, path: &str) -> Engine {
    crate::support::create_small_pool(runtime, path).await;
    let engine = Engine::open(runtime, &[path.to_string()], Settings::default()).await.unwrap();
    for volume in volumes() {
        engine.volume_create(crate::support::volume(&volume, 1 << 20)).await.unwrap();
    }
    engine
}

fn volumes() -> Vec<String> {
    (0..VOLUMES).map(|index| format!("v{index}")).collect()
}

fn left(engine: &Engine) -> Vec<String> {
    engine.snapshots().into_iter().map(|snapshot| snapshot.name).collect()
}

#[test]
fn many_snapshots_go_at_once_or_not_at_all() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let engine = create(&runtime, &path).await;
            let mut names: Vec<String> = (0..SNAPSHOTS).map(|index| format!("s{index:02}")).collect();
            for name in &names {
                engine.snapshot_create(name, &volumes()).await.unwrap();
            }
            engine.snapshot_create("stays", &volumes()).await.unwrap();
            let missing = [names.clone(), vec!["nope".to_string()]].concat();
            assert_eq!(engine.snapshots_delete(&missing).await.unwrap_err().kind, ErrorKind::NotFound);
            assert_eq!(left(&engine).len(), SNAPSHOTS + 1);

            names.push("s00".to_string());
            let before = engine.status().counters.journal_groups;
            engine.snapshots_delete(&names).await.unwrap();
            let groups = engine.status().counters.journal_groups - before;
            assert!(groups <= 3, "{groups} groups for {} images", SNAPSHOTS * VOLUMES);
            assert_eq!(left(&engine), ["stays"]);
            engine.close().await.unwrap();
            drop(engine);
            let engine = Engine::open(&runtime, &[path], Settings::default()).await.unwrap();
            assert_eq!(left(&engine), ["stays"]);
            assert!(engine.check().await.unwrap().errors.is_empty());
            engine.close().await.unwrap();
        })
    });
}
