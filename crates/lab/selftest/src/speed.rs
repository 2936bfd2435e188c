//! Disks whose speed is known.

use std::time::Duration;

use ashlar_disk::{Disk, Kind, Spec};
use ashlar_fio::{Cell, Content, Job, Offered, Pattern, Sync};

use ashlar_model::array::Array;
use ashlar_model::array::spec::Spec as ArraySpec;
use ashlar_model::load::mix::Mix;
use ashlar_model::load::{Span, Users, closed_loop};

use crate::{Error, Result, Stage, Told, Unmade, disk};

const SIZE_BYTES: u64 = 256 << 20;
const LIMIT: f64 = 500.0;
/// Two drives as a mirror.
const DRIVES: &str = "sim-hdd:drives=2,model=10k-300g,raid=1";
const DEPTH: u32 = 16;
/// Above it the answers are not the model's.
const LATE_SHARE_MAX: f64 = 0.01;
const TIME: Duration = Duration::from_secs(4);

/// A limit that was made is a limit that is measured.
pub(crate) fn limit(stage: &Stage<'_>) -> std::result::Result<Told, Unmade> {
    let rate = rate(stage, &disk("limit:iops=500"))?;
    Ok((format!("{:.0} requests a second", rate.per_second), rate.is_near(LIMIT, 0.05)?))
}

/// Real requests on drives that are not there take as long as the model says.
pub(crate) fn drives(stage: &Stage<'_>) -> std::result::Result<Told, Unmade> {
    let Kind::Model(spec) = disk(DRIVES) else { unreachable!("it is an address of drives") };
    let alone = model(*spec.clone())?;
    let rate = rate(stage, &Kind::Model(spec))?;
    let told = format!("{:.0} requests a second, and the model alone {alone:.0}", rate.per_second);
    Ok((told, rate.is_near(alone, 0.15)?))
}

/// What the model says alone, in its own time.
fn model(spec: ArraySpec) -> Result<f64> {
    let unable = |error: ashlar_model::error::Error| Error::environment(error.to_string());
    let mut array = Array::new(spec, 1).map_err(unable)?;
    let span = Span { warmup: Duration::from_secs(2), measured: Duration::from_secs(100) };
    let users = Users { count: DEPTH, other_time: Duration::ZERO };
    let mix = Mix::random_reads(4096, SIZE_BYTES);
    Ok(closed_loop(&mut array, &mix, users, span, 7).map_err(unable)?.per_second())
}

/// Of random reads by fio.
fn rate(stage: &Stage<'_>, kind: &Kind) -> std::result::Result<Measured, Unmade> {
    let backing = stage.settings.directory.join("disk");
    let opened =
        Disk::open(Spec { backing: backing.clone(), size_bytes: SIZE_BYTES, kind: kind.clone(), seed: 7 })?;
    let job = Job {
        name: "reads".into(),
        on: opened.device().to_path_buf().into(),
        size_bytes: SIZE_BYTES,
        pattern: Pattern::Random,
        read_percent: 100,
        blocks: vec![(4096, 100.0)],
        sync: Sync::Direct,
        offered: Offered::Depth(DEPTH),
    };
    let cell = Cell {
        name: "speed".into(),
        jobs: vec![job],
        ramp: Duration::from_secs(1),
        time: Some(TIME),
        content: Content { compress: 1.0, duplicates: 1.0 },
        seed: 1,
    };
    let kept = stage.fio.run(&cell, &stage.settings.records);
    let late = opened.counters().late_share();
    opened.close()?;
    let _absent = std::fs::remove_file(&backing);
    let kept = kept?;
    let outcome = &kept.outcomes[0];
    Ok(Measured { per_second: outcome.both().per_second(outcome.time), late })
}

/// What fio found, and how many answers came after their time.
struct Measured {
    per_second: f64,
    late: f64,
}

impl Measured {
    /// Whether it is the rate that it must be; nobody knows where it is not, and many answers were late.
    fn is_near(&self, expected: f64, share: f64) -> std::result::Result<bool, Unmade> {
        let is_near = (self.per_second / expected - 1.0).abs() <= share;
        if !is_near && self.late > LATE_SHARE_MAX {
            return Err(Unmade::CannotTell(format!(
                "this machine is too busy: {:.0} requests a second, and {:.1} % of the answers were late",
                self.per_second,
                100.0 * self.late
            )));
        }
        Ok(is_near)
    }
}
