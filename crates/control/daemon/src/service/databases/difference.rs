//! What differs between two databases: both are cloned, their servers recover, files are compared where the
//! volumes' maps say so, and the clones go again.
//!
//! The clones are databases that are being made, like those of proofs: whatever is left of them after a kill
//! is removed at the next start.

use std::ops::Range;
use std::time::{Duration, Instant};

use ashlar_api as api;
use ashlar_database::{
    FilesChanged, Outcome, Pieces, RelationChanged, Role, Side, State, Work, by_relation, stems,
};
use ashlar_units::BLOCK_BYTES;

use super::super::Service;
use super::super::difference::apart;
use super::care::Asked;
use super::{Known, check_ready};
use crate::error::{Error, Result};

/// PostgreSQL's pages.
const PAGE_BYTES: u64 = 8192;
/// Runs of blocks that are asked for at once: 4 MB.
const RUNS_AT_ONCE: usize = 1 << 18;
/// Pieces of a volume that are kept. Beyond it those that lie close together are taken for one: more pages
/// are read then, and none is missed.
const PIECES_MAX: usize = 1 << 18;
/// How long the maps of two volumes may take to compare. Arbitrary: a terabyte that differs takes a minute.
const MAPS_WITHIN: Duration = Duration::from_secs(1800);

/// One of the two.
struct Compared {
    source: Known,
    snapshot: Option<String>,
    clone: String,
}

impl Service {
    /// What differs, by relation.
    pub(crate) async fn database_diff(
        &self,
        name: &str,
        request: api::DatabaseDiffRequest,
    ) -> Result<api::DatabaseDiff> {
        let since = Instant::now();
        let [behind_a, behind_b] = api::DIFF_COPIES;
        let a = self.compared(name, request.snapshot, behind_a).await?;
        let b = self.compared(&request.with, request.with_snapshot, behind_b).await?;
        check_comparable(&a, &b)?;
        let (_alone, _alone_too) = (self.work_alone(&a.clone)?, self.work_alone(&b.clone)?);
        let copy_a = self.begin_copy(&a).await?;
        let copy_b = match self.begin_copy(&b).await {
            Ok(copy) => copy,
            Err(error) => {
                self.undo(&copy_a).await;
                return Err(error);
            }
        };
        let compared = self.compare_copies((&copy_a, &a), (&copy_b, &b)).await;
        self.undo(&copy_a).await;
        self.undo(&copy_b).await;
        let took_millis = since.elapsed().as_millis() as u64;
        let (told_a, told_b) = (a.told(), b.told());
        Ok(api::DatabaseDiff { a: told_a, b: told_b, took_millis, ..compared? })
    }

    async fn compared(&self, name: &str, snapshot: Option<String>, behind: &str) -> Result<Compared> {
        let source = self.database_record(name).await?;
        check_ready(&source.record)?;
        let kept = source.record.kept_parts();
        let snapshot = self.snapshot_meant_if_any(snapshot, name, &kept).await?;
        if let Some(snapshot) = &snapshot {
            self.check_snapshot_of(snapshot, name, &kept)?;
        }
        Ok(Compared { source, snapshot, clone: format!("{name}{behind}") })
    }

    async fn begin_copy(&self, of: &Compared) -> Result<Known> {
        self.begin_clone(&of.source, &of.clone, of.snapshot.clone(), None, None, &Asked::nothing()).await
    }

    async fn compare_copies(
        &self,
        a: (&Known, &Compared),
        b: (&Known, &Compared),
    ) -> Result<api::DatabaseDiff> {
        // Both to their end: what is cut short here would go on beside its removal.
        let (recovered_a, recovered_b) =
            tokio::join!(self.recover_copy(a.0, a.1), self.recover_copy(b.0, b.1));
        recovered_a.and(recovered_b)?;
        self.check_wanted(&a.0.record)?;
        let (site_a, site_b) = (self.site(&a.0.record), self.site(&b.0.record));
        let (changed, volumes) = self.pieces_of(a.0, b.0).await?;
        self.check_wanted(&a.0.record)?;
        let compare = Work::Compare { other: Box::new(site_b.clone()), changed };
        let files = self.work(&site_a, compare).await?.files;
        let stems = stems(&files);
        let (named_a, named_b) = tokio::join!(
            self.work(&site_a, Work::NameFiles(stems.clone())),
            self.work(&site_b, Work::NameFiles(stems))
        );
        let named = |outcome: Result<Outcome>| outcome.map(|outcome| outcome.named);
        let (relations, others) = by_relation(&files, &named(named_a)?, &named(named_b)?);
        Ok(api::DatabaseDiff {
            a: String::new(),
            b: String::new(),
            page_bytes: PAGE_BYTES,
            volumes,
            relations: relations.into_iter().map(relation).collect(),
            files: others.into_iter().map(other_files).collect(),
            took_millis: 0,
        })
    }

    /// Makes the copy, and has its server replay its log: until then tables are not what they will be.
    async fn recover_copy(&self, known: &Known, of: &Compared) -> Result<()> {
        let record = &known.record;
        self.copy_origin(record).await?;
        self.make_empty_parts(known, &of.source.record).await?;
        self.mount_copy(record).await?;
        let site = self.site(record);
        let from = self.site_directory(&of.source.record.name);
        self.work(&site, Work::Adopt { from }).await?;
        self.work(&site, Work::Recover).await.map(drop)
    }

    /// The pieces of the volumes of two copies that may differ. Nobody writes to them.
    async fn pieces_of(&self, a: &Known, b: &Known) -> Result<(Vec<Pieces>, Vec<api::DatabaseVolumeDiff>)> {
        let (mut all, mut volumes) = (Vec::new(), Vec::new());
        for own in a.record.kept_parts() {
            let parts = b.record.kept_parts();
            let Some(other) = parts.iter().find(|other| other.role == own.role) else { continue };
            let (pieces, different_bytes) =
                self.pieces_of_volumes(&a.pool, &own.role, [&own.volume, &other.volume]).await?;
            volumes.push(api::DatabaseVolumeDiff { role: own.role.name(), different_bytes });
            all.push(pieces);
        }
        Ok((all, volumes))
    }

    async fn pieces_of_volumes(&self, pool: &str, role: &Role, volumes: [&str; 2]) -> Result<(Pieces, u64)> {
        let mut pieces = Gathered::default();
        let (mut next, mut different_bytes) = (Some(0), None);
        while let Some(from) = next {
            let found = self.array.difference(pool, volumes, from, RUNS_AT_ONCE, MAPS_WITHIN).await?;
            different_bytes.get_or_insert(found.blocks * BLOCK_BYTES);
            found.runs.into_iter().for_each(|run| pieces.add(run.start * BLOCK_BYTES..run.end * BLOCK_BYTES));
            next = found.next_block;
        }
        Ok((Pieces { role: role.clone(), pieces: pieces.pieces }, different_bytes.unwrap_or(0)))
    }
}

impl Compared {
    /// `prod@before`.
    fn told(&self) -> String {
        let name = &self.source.record.name;
        self.snapshot.as_ref().map_or(name.clone(), |snapshot| format!("{name}@{snapshot}"))
    }
}

fn check_comparable(a: &Compared, b: &Compared) -> Result<()> {
    let (one, other) = (&a.source, &b.source);
    let (name, other_name) = (&one.record.name, &other.record.name);
    if one.pool != other.pool {
        let which = format!(
            "database `{name}` is in pool `{}` and `{other_name}` in pool `{}`",
            one.pool, other.pool
        );
        return Err(apart(&which));
    }
    if one.record.major != other.record.major {
        return Err(Error::invalid(
            format!(
                "database `{name}` is of PostgreSQL {} and `{other_name}` of {}: their pages cannot be compared",
                one.record.major, other.record.major
            ),
            "compare dumps of them",
        ));
    }
    Ok(())
}

/// Pieces in order, not more than may be kept.
#[derive(Default)]
struct Gathered {
    pieces: Vec<Range<u64>>,
    /// Pieces that lie so close together are one.
    gap_bytes: u64,
}

impl Gathered {
    fn add(&mut self, piece: Range<u64>) {
        self.join(piece);
        while self.pieces.len() > PIECES_MAX {
            self.gap_bytes = (self.gap_bytes * 2).max(PAGE_BYTES);
            std::mem::take(&mut self.pieces).into_iter().for_each(|piece| self.join(piece));
        }
    }

    fn join(&mut self, piece: Range<u64>) {
        match self.pieces.last_mut() {
            Some(last) if piece.start <= last.end + self.gap_bytes => last.end = piece.end,
            _ => self.pieces.push(piece),
        }
    }
}

fn relation(found: RelationChanged) -> api::RelationDiff {
    let change = match found.state {
        State::Changed => api::RelationChange::Changed,
        State::Rewritten => api::RelationChange::Rewritten,
        State::Only(Side::A) => api::RelationChange::OnlyInA,
        State::Only(Side::B) => api::RelationChange::OnlyInB,
    };
    let plain = api::RelationDiff {
        database: None,
        name: found.stem,
        kind: "unnamed".to_string(),
        of: None,
        is_system: false,
        change,
        different_pages_count: found.pages,
        different_bytes: found.pages * PAGE_BYTES,
    };
    match found.named {
        None => plain,
        Some(named) => api::RelationDiff {
            database: named.database,
            name: named.name,
            kind: named.kind,
            of: named.of,
            is_system: named.is_system,
            ..plain
        },
    }
}

fn other_files(found: FilesChanged) -> api::FilesDiff {
    api::FilesDiff {
        name: found.name,
        files_count: found.files,
        different_pages_count: found.pages,
        different_bytes: found.pages * PAGE_BYTES,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn more_pieces_than_are_kept_become_fewer_and_cover_the_same() {
        let mut gathered = Gathered::default();
        let pieces = PIECES_MAX as u64 * 5;
        (0..pieces).for_each(|at| gathered.add(at * 65_536..at * 65_536 + 4096));
        assert!(gathered.pieces.len() <= PIECES_MAX);
        let covers = |at: u64| {
            let next = gathered.pieces.partition_point(|piece| piece.end <= at);
            gathered.pieces.get(next).is_some_and(|piece| piece.start <= at)
        };
        assert!((0..pieces).all(|at| covers(at * 65_536) && covers(at * 65_536 + 4095)));
    }
}
