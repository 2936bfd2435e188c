//! What differs between two images, against the bytes they hold.
#![allow(clippy::unwrap_used)]

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ashlar_engine::{Difference, Engine, ErrorKind, Settings};
use ashlar_runtime::Runtime;

use crate::support::{bytes_of, create_small_pool, on_drive, volume};

const BLOCK: u64 = 4096;
const VOLUME_BLOCKS: u64 = 3000;
const PATIENCE: Duration = Duration::from_secs(600);

/// For each image what every block was last written with; a missing one is zeroes.
type Model = BTreeMap<String, BTreeMap<u64, u64>>;

struct Site {
    runtime: Runtime,
    path: String,
    /// Not while it is closed.
    engine: Option<Engine>,
    model: Model,
    state: u64,
    names: u64,
}

impl Site {
    async fn new(runtime: Runtime, path: String, seed: u64) -> Site {
        create_small_pool(&runtime, &path).await;
        let engine = Engine::open(&runtime, std::slice::from_ref(&path), Settings::default()).await.unwrap();
        engine.volume_create(volume("v", VOLUME_BLOCKS * BLOCK)).await.unwrap();
        let model = Model::from([("v".to_string(), BTreeMap::new())]);
        Site { runtime, path, engine: Some(engine), model, state: seed, names: 0 }
    }

    fn engine(&self) -> &Engine {
        self.engine.as_ref().unwrap()
    }

    fn below(&mut self, limit: u64) -> u64 {
        self.state =
            self.state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.state >> 33) % limit
    }

    fn pick(&mut self, is_volume: Option<bool>) -> Option<String> {
        let fits = |name: &&String| is_volume.is_none_or(|is_volume| is_volume != name.contains('@'));
        let names: Vec<String> = self.model.keys().filter(fits).cloned().collect();
        (!names.is_empty()).then(|| names[self.below(names.len() as u64) as usize].clone())
    }

    async fn step(&mut self) {
        let name = self.pick(Some(true)).unwrap();
        let (first, count) = (self.below(VOLUME_BLOCKS - 64), 1 + self.below(40));
        let device = self.engine().device(&name).unwrap();
        self.names += 1;
        let fresh = self.names;
        match self.below(12) {
            0..=4 => {
                let bytes: Vec<u8> = (first..first + count)
                    .flat_map(|at| bytes_of(fresh << 20 | at, BLOCK as usize))
                    .collect();
                device.write(first * BLOCK, &bytes, false).await.unwrap();
                let blocks = (first..first + count).map(|at| (at, fresh << 20 | at));
                self.model.get_mut(&name).unwrap().extend(blocks);
            }
            5 => {
                device.unmap(first * BLOCK, count * BLOCK).await.unwrap();
                self.model.get_mut(&name).unwrap().retain(|at, _| !(first..first + count).contains(at));
            }
            6 => {
                device.write(first * BLOCK, &vec![0; (count * BLOCK) as usize], false).await.unwrap();
                self.model.get_mut(&name).unwrap().retain(|at, _| !(first..first + count).contains(at));
            }
            7 | 8 => {
                self.engine()
                    .snapshot_create(&format!("s{fresh}"), std::slice::from_ref(&name))
                    .await
                    .unwrap();
                let content = self.model[&name].clone();
                self.model.insert(format!("{name}@s{fresh}"), content);
            }
            9 if self.model.len() < 12 => {
                let from = self.pick(None).unwrap();
                self.engine().clone_create(&format!("c{fresh}"), &from).await.unwrap();
                self.model.insert(format!("c{fresh}"), self.model[&from].clone());
            }
            10 => {
                let Some(image) = self.pick(Some(false)) else { return };
                let (of, snapshot) = image.split_once('@').unwrap();
                self.engine().snapshot_restore(snapshot).await.unwrap();
                self.model.insert(of.to_string(), self.model[&image].clone());
            }
            _ => {
                drop(device);
                self.engine.take().unwrap().close().await.unwrap();
                let drives = [self.path.clone()];
                self.engine = Some(Engine::open(&self.runtime, &drives, Settings::default()).await.unwrap());
            }
        }
    }

    /// All pages of the answer, a few runs each.
    async fn told(&self, one: &str, other: &str) -> BTreeSet<u64> {
        let whole = self.diff(one, other, 0, 1).await;
        let (mut told, mut from) = (BTreeSet::new(), Some(0));
        while let Some(block) = from {
            let page = self.diff(one, other, block, 7).await;
            assert!(page.runs.len() <= 7 && page.runs.is_sorted_by(|a, b| a.end < b.start), "{page:?}");
            told.extend(page.runs.into_iter().flatten());
            from = page.next_block;
        }
        assert_eq!(whole.blocks, told.len() as u64, "{one} and {other}");
        told
    }

    async fn diff(&self, one: &str, other: &str, from: u64, runs_max: usize) -> Difference {
        self.engine().difference(one, other, from, runs_max, PATIENCE).await.unwrap()
    }

    async fn check(&mut self) {
        let (one, other) = (self.pick(None).unwrap(), self.pick(None).unwrap());
        let (a, b) = (&self.model[&one], &self.model[&other]);
        let differs = |at: &u64| a.get(at) != b.get(at);
        let expected: BTreeSet<u64> = (0..VOLUME_BLOCKS).filter(differs).collect();
        // No content is ever written twice, so nothing is told that is equal.
        assert_eq!(self.told(&one, &other).await, expected, "{one} and {other}");
    }
}

#[test]
fn what_is_told_is_what_differs_whatever_was_done_to_the_images() {
    for seed in 0..4 {
        on_drive(move |runtime, path| {
            Box::pin(async move {
                let mut site = Site::new(runtime, path, seed).await;
                for step in 0..160 {
                    site.step().await;
                    if step % 4 == 0 {
                        site.check().await;
                    }
                }
                site.engine().close().await.unwrap();
            })
        });
    }
}

#[test]
fn the_cost_goes_with_the_difference_and_what_is_not_there_is_told() {
    on_drive(|runtime, path| {
        Box::pin(async move {
            let site = Site::new(runtime, path, 1).await;
            let device = site.engine().device("v").unwrap();
            let size = 4 << 40;
            site.engine().volume_resize("v", size).await.unwrap();
            for place in (0..size).step_by(1 << 36) {
                device.write(place, &bytes_of(place, 4096), false).await.unwrap();
            }
            site.engine().clone_create("c", "v").await.unwrap();
            let equal = site.diff("v", "c", 0, 9).await;
            assert_eq!((equal.blocks, equal.pages, equal.one_bytes), (0, 0, size));
            let copy = site.engine().device("c").unwrap();
            copy.write(1 << 36, &bytes_of(7, 4096), false).await.unwrap();
            let found = site.diff("v", "c", 0, 9).await;
            assert_eq!((found.runs, found.pages), (vec![1 << 24..(1 << 24) + 1], 8));
            site.engine().volume_resize("c", size / 2).await.unwrap();
            assert_eq!(site.diff("v", "c", 0, 9).await.other_bytes, size / 2);

            let refused = site.engine().difference("v", "nobody", 0, 9, PATIENCE).await.unwrap_err();
            assert_eq!(refused.kind, ErrorKind::NotFound);
            let late = site.engine().difference("v", "c", 0, 9, Duration::ZERO).await.unwrap_err();
            assert_eq!(late.kind, ErrorKind::Busy);
            site.engine().close().await.unwrap();
        })
    });
}
