//! Two drives are destroyed under load, the array goes on without them, and new ones are rebuilt.

use crate::array::{Array, find_number};
use crate::database::{check_sums, load};
use crate::error::{Error, Result};
use crate::ledger::{Ledger, Mark};
use crate::progress::{Progress, bytes, count};
use crate::site::Site;
use crate::story::LOADS;
use ashlar_postgres::{Load, LoadLog, Server, Window};
use ashlar_programs::Launcher;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant, SystemTime};

/// Drives of the pool, two of them for parity.
pub(crate) const DRIVE_COUNT: u64 = 8;
/// Drives that the pool may lose.
pub(crate) const PARITY_COUNT: u64 = 2;
/// The drives that are destroyed. Any two will do.
const CUT: usize = 2;
const OVERWRITTEN: usize = 5;
/// Sessions of the load end within this time.
const END_LIMIT: Duration = Duration::from_secs(60);
/// Writing over a drive, rebuilding one and scrubbing take minutes on a slow machine, but not more.
const LONG: Duration = Duration::from_secs(600);
/// How often the rebuild is asked after.
const ASK_INTERVAL: Duration = Duration::from_millis(100);
/// How long the array has to call a destroyed drive out before an operator does.
const NOTICE_LIMIT: Duration = Duration::from_secs(5);

/// What was measured while drives were missing.
pub(crate) struct Losses {
    pub(crate) before: Load,
    pub(crate) degraded: Load,
    pub(crate) rebuilding: Load,
    pub(crate) after: Load,
    pub(crate) rebuild: Duration,
    pub(crate) rebuilt_bytes: u64,
    pub(crate) scrub: Duration,
    /// All that the run of pgbench was promised.
    pub(crate) transactions: u64,
}

/// Where the file of a drive is.
pub(crate) fn drive_path(site: &Site, number: usize) -> PathBuf {
    site.base().join(format!("drives/{number}.img"))
}

/// Who acts, and on what.
pub(crate) struct Act<'a> {
    pub(crate) array: &'a Array,
    pub(crate) site: &'a Site,
    pub(crate) server: &'a Server,
    pub(crate) progress: &'a Progress,
    /// How long each phase is measured.
    pub(crate) phase: Duration,
    pub(crate) drive_bytes: u64,
}

impl Act<'_> {
    /// The whole act. Returns the ledger's list and the figures.
    pub(crate) fn play(&self, before: Mark) -> Result<(Mark, Losses)> {
        let prefix = self.server.places().socket.join(LOADS[1]);
        self.progress.step("load again, then two of the eight drives are destroyed in the middle of it");
        let running = self.server.start_load(&load(LONG.as_secs() as u32, &prefix))?;
        let ledger = Ledger::start(&self.server.address(), Some(before));
        self.launcher().sleep(self.phase / 4)?;
        let calm = self.measure()?;

        self.progress.mark("two of eight drives destroyed");
        self.destroy()?;
        self.take_out()?;
        let degraded = self.measure()?;
        self.server.forget_pages()?;
        check_sums(self.server)?;
        self.progress.result("every balance read with two drives missing: they agree");

        self.server.forget_pages()?;
        let start = (SystemTime::now(), Instant::now());
        self.progress.mark("new drives, rebuild");
        let rebuilt_bytes = self.replace()?;
        self.progress.mark("both rebuilt");
        let (rebuilding, rebuild) = (Window::new(start.0, SystemTime::now()), start.1.elapsed());
        let pace = rebuilt_bytes as f64 / rebuild.as_secs_f64().max(1e-3);
        self.progress.result(&format!(
            "both drives rebuilt under load in {:.0} s, {} a second",
            rebuild.as_secs_f64(),
            bytes(pace as u64)
        ));
        let after = self.measure()?;
        self.server.end_load(running, END_LIMIT)?;
        let list = ledger.stop();
        let scrub = self.scrub()?;

        let all = Window::new(SystemTime::UNIX_EPOCH, SystemTime::now());
        let log = LoadLog::read(&prefix)?;
        let [before, degraded, rebuilding, after, all] =
            [calm, degraded, rebuilding, after, all].map(|window| log.within(window));
        let transactions = all.transactions;
        Ok((
            list,
            Losses { before, degraded, rebuilding, after, rebuild, rebuilt_bytes, scrub, transactions },
        ))
    }

    fn launcher(&self) -> &Launcher {
        self.site.launcher()
    }

    /// Lets the load run for one phase, which begins with nothing of the database in the page cache:
    /// otherwise the drives would hardly be read.
    fn measure(&self) -> Result<Window> {
        self.server.forget_pages()?;
        let start = SystemTime::now();
        self.launcher().sleep(self.phase)?;
        Ok(Window::new(start, SystemTime::now()))
    }

    /// What a drive loses when it dies: one has nothing left, the other holds rubbish. A file that is
    /// merely deleted would go on to work for the process that has it open.
    fn destroy(&self) -> Result<()> {
        let mut cut = Command::new("truncate");
        cut.args(["--size", "0"]).arg(self.path(CUT));
        self.launcher().run(cut, LONG)?;
        self.progress.result(&format!("drive {CUT}: `truncate --size 0` of its file, while it is in use"));
        let mut overwrite = Command::new("dd");
        // Past the page cache, as the array writes: a mixture of both is refused by the kernel.
        overwrite
            .args(["if=/dev/urandom", "bs=1M", "conv=notrunc", "oflag=direct", "status=none"])
            .arg(format!("count={}", self.drive_bytes >> 20))
            .arg(format!("of={}", self.path(OVERWRITTEN).display()));
        self.launcher().run(overwrite, LONG)?;
        self.progress.result(&format!(
            "drive {OVERWRITTEN}: its file overwritten from /dev/urandom, while it is in use"
        ));
        Ok(())
    }

    /// Both leave service: called out by the array, or by an operator.
    fn take_out(&self) -> Result<()> {
        self.server.forget_pages()?;
        let start = Instant::now();
        let mut pool = self.pool()?;
        while start.elapsed() < NOTICE_LIMIT && out_count(&pool) < PARITY_COUNT as usize {
            self.launcher().sleep(ASK_INTERVAL)?;
            pool = self.pool()?;
        }
        let mended = find_number(&pool, "mended_blocks").unwrap_or(0);
        self.progress.result(&format!(
            "pgbench goes on; {} blocks were found wrong, computed from the other drives and written anew",
            count(mended)
        ));
        for number in [CUT, OVERWRITTEN] {
            if let Some(reason) = out_reason(&pool, number) {
                let reason = reason.replace(&format!("{}/", self.site.base().display()), "");
                self.progress.result(&format!("the array took drive {number} out of service: {reason}"));
                continue;
            }
            self.array.run(&["pool", "offline-drive", "demo", &number.to_string(), "--yes"])?;
            self.progress.result(&format!("`ashlar pool offline-drive demo {number}`"));
        }
        let pool = self.pool()?;
        if out_count(&pool) != PARITY_COUNT as usize {
            return Err(Error::proof(format!("two drives should be out of service: {}", pool["drives"])));
        }
        let reason = pool["reason"].as_str().unwrap_or("");
        self.progress.result(&format!("the pool serves degraded: {reason}"));
        Ok(())
    }

    /// New drives take their places; shows the rebuild until both are in service. Returns what was
    /// written to them.
    fn replace(&self) -> Result<u64> {
        for number in [CUT, OVERWRITTEN] {
            let spare = self.site.base().join(format!("drives/{number}-new.img"));
            let with = format!("{},size={}MiB", spare.display(), self.drive_bytes >> 20);
            self.array.run(&["pool", "replace-drive", "demo", &number.to_string(), "--with", &with])?;
            remove(&self.path(number))?;
            self.progress.result(&format!(
                "`ashlar pool replace-drive demo {number} --with drives/{number}-new.img,size=...`"
            ));
        }
        self.until_rebuilt()
    }

    fn until_rebuilt(&self) -> Result<u64> {
        let start = Instant::now();
        let (mut now, mut rebuilt_bytes) = (None, 0);
        loop {
            let pool = self.pool()?;
            let next = rebuild_of(&pool);
            if let Some((drive, total)) = now.filter(|(drive, _)| next.is_none_or(|next| next.0 != *drive)) {
                self.progress.bar(&bar_name(drive), total, total);
                self.progress.end_bar();
                (now, rebuilt_bytes) = (None, rebuilt_bytes + total);
            }
            if let Some((drive, done, total)) = next {
                self.progress.bar(&bar_name(drive), done, total);
                now = Some((drive, total));
            }
            if next.is_none() && is_whole(&pool) {
                return Ok(rebuilt_bytes);
            }
            if out_count(&pool) > 0 || start.elapsed() > LONG {
                return Err(Error::proof(format!("the rebuild does not end: {}", pool["drives"])));
            }
            self.launcher().sleep(ASK_INTERVAL)?;
        }
    }

    /// Everything in use is verified and compared with parity: after the rebuild nothing may be wrong.
    fn scrub(&self) -> Result<Duration> {
        let start = Instant::now();
        let report = self.array.json_within(&["pool", "scrub", "demo"], LONG)?;
        let number = |key: &str| find_number(&report, key).unwrap_or(u64::MAX);
        let wrong = number("data_block_count")
            .saturating_add(number("parity_block_count"))
            .saturating_add(number("unproven_stripe_count"));
        let errors = report["check"]["errors"].as_array().map_or(1, Vec::len);
        if wrong != 0 || errors != 0 {
            return Err(Error::proof(format!("the scrub after the rebuild is not clean: {report}")));
        }
        self.progress.result(&format!(
            "`ashlar pool scrub demo`: {} chunks and {} stripes verified, nothing wrong ({:.0} s)",
            count(number("chunk_count")),
            count(number("stripe_count")),
            start.elapsed().as_secs_f64()
        ));
        Ok(start.elapsed())
    }

    fn pool(&self) -> Result<Value> {
        self.array.json(&["pool", "show", "demo"])
    }

    fn path(&self, number: usize) -> PathBuf {
        drive_path(self.site, number)
    }
}

fn remove(path: &Path) -> Result<()> {
    std::fs::remove_file(path).map_err(|e| Error::io(&format!("remove {}", path.display()), e))
}

fn bar_name(drive: u64) -> String {
    format!("rebuild of drive {drive}")
}

/// Every drive is in service.
fn is_whole(pool: &Value) -> bool {
    pool["drives"].as_array().is_some_and(|drives| drives.iter().all(|drive| drive["state"] == "online"))
}

/// Drives that are out of service.
pub(crate) fn out_count(pool: &Value) -> usize {
    let drives = pool["drives"].as_array();
    drives.map_or(0, |drives| drives.iter().filter(|drive| drive["state"] == "out").count())
}

/// Why a drive is out of service, if it is.
pub(crate) fn out_reason(pool: &Value, number: usize) -> Option<String> {
    let drive = &pool["drives"][number];
    let reason = drive["reason"].as_str().unwrap_or("it is not known why");
    (drive["state"] == "out").then(|| reason.to_string())
}

/// The drive that is being rebuilt, bytes done and bytes to do.
pub(crate) fn rebuild_of(pool: &Value) -> Option<(u64, u64, u64)> {
    let rebuild = pool.get("rebuild").filter(|rebuild| rebuild.is_object())?;
    let number = |key: &str| rebuild[key].as_u64();
    Some((number("drive_number")?, number("done_bytes")?, number("total_bytes")?))
}
