//! Marks of the time line: those that people made, kept in the state directory, and those of what is there.

use std::collections::BTreeMap;

use ashlar_api as api;
use ashlar_api::{DERIVED_MARKS_MAX, EventLevel, MARK_LETTERS_MAX, MARKS_MAX, MarkKind};

use super::Service;
use super::figures::unix_millis;
use crate::error::{Error, Result};
use crate::jobs::Job;
use crate::state::{KnownMark, KnownMarks};

/// How far the clock of whoever makes a mark may be ahead.
const AHEAD_MILLIS_MAX: u64 = 60_000;

/// Which volumes databases and snapshots have, by `database NAME` and `snapshot NAME`.
type Volumes = BTreeMap<String, Vec<String>>;

impl Service {
    /// The marks of a volume or a database, with those of the whole array and of pools, the oldest first;
    /// without either all there are.
    pub(crate) async fn marks_of(
        &self,
        volume: Option<&str>,
        database: Option<&str>,
    ) -> Result<Vec<api::Mark>> {
        let mut wanted = Vec::new();
        if let Some(volume) = volume {
            self.known().index.volume(volume)?;
            wanted.push(volume.to_string());
        }
        if let Some(database) = database {
            wanted.extend(self.database_volumes(database).await?);
        }
        let snapshots = self.snapshots().await?;
        let mut marks: Vec<api::Mark> = self.marks_by_hand()?.mark.iter().map(by_hand).collect();
        let events = self.log.after(0).into_iter().filter(|event| event.level >= EventLevel::Warning);
        marks.extend(newest(snapshots.iter().map(of_snapshot).collect()));
        marks.extend(newest(
            self.jobs.all().iter().map(|job| of_job(job, &self.job_id(job.number))).collect(),
        ));
        marks.extend(newest(events.map(of_event).collect()));
        marks.sort_by_key(|mark| mark.unix_millis);
        if volume.is_some() || database.is_some() {
            let known = self.volumes_by_object(&snapshots).await?;
            marks.retain(|mark| is_about(mark.object.as_deref(), &wanted, &known));
        }
        Ok(marks)
    }

    /// One mark.
    pub(crate) async fn mark(&self, id: &str) -> Result<api::Mark> {
        let all = self.marks_of(None, None).await?;
        all.into_iter().find(|mark| mark.id == id).ok_or_else(|| Error::not_found("mark", id))
    }

    /// Makes a mark. The one that was made first gives way where there are too many.
    pub(crate) async fn mark_create(&self, request: api::MarkCreate) -> Result<api::Mark> {
        let text = checked_text(&request.text)?;
        let now = unix_millis();
        let at = request.unix_millis.unwrap_or(now);
        if at > now + AHEAD_MILLIS_MAX {
            let what = format!("mark `{text}`: its time is still to come");
            return Err(Error::unfit(what, "name a time that was, or none"));
        }
        let object = match (&request.volume, &request.database) {
            (None, None) => None,
            (Some(volume), None) => {
                self.known().index.volume(volume)?;
                Some(format!("volume {volume}"))
            }
            (None, Some(database)) => {
                self.database_volumes(database).await?;
                Some(format!("database {database}"))
            }
            (Some(_), Some(_)) => {
                let what = format!("mark `{text}`: a volume and a database are named");
                return Err(Error::unfit(what, "name one of them, or make a mark for each"));
            }
        };
        let _turn = self.change().await?;
        let mut kept = self.marks_by_hand()?;
        let mark = add(&mut kept, at, text, object);
        self.state.store_marks(&kept)?;
        self.log.info(format!("mark {}", mark.id), format!("made: {}", mark.text));
        Ok(mark)
    }

    /// Deletes a mark that was made by hand.
    pub(crate) async fn mark_delete(&self, id: &str) -> Result<()> {
        let mark = self.mark(id).await?;
        if mark.kind != MarkKind::ByHand {
            let what = format!("mark `{id}` belongs to its {}, and goes with it", mark.kind.name());
            return Err(Error::unfit(what, "only marks that were made by hand are deleted"));
        }
        let _turn = self.change().await?;
        let mut kept = self.marks_by_hand()?;
        kept.mark.retain(|one| one.number.to_string() != id);
        self.state.store_marks(&kept)?;
        self.log.info(format!("mark {id}"), "deleted");
        Ok(())
    }

    /// Puts a damaged file of marks aside at the start.
    pub(super) fn look_at_marks(&self) {
        if let Err(error) = self.marks_by_hand() {
            self.log.warning("array", format!("marks that were made by hand: {error}"));
        }
    }

    /// Those that people made; none of a damaged file, which is put aside. The others go on.
    fn marks_by_hand(&self) -> Result<KnownMarks> {
        match self.state.load_marks() {
            Err(error) if error.kind == api::ErrorKind::Damaged => {
                self.log.warning("array", format!("marks that were made by hand are lost: {error}"));
                Ok(KnownMarks::default())
            }
            loaded => loaded,
        }
    }

    async fn volumes_by_object(&self, snapshots: &[api::Snapshot]) -> Result<Volumes> {
        let of_snapshots =
            snapshots.iter().map(|one| (format!("snapshot {}", one.name), one.volumes.clone()));
        let databases = self.database_places().await?.into_iter();
        let of_databases = databases.map(|place| (format!("database {}", place.name), place.volumes));
        Ok(of_snapshots.chain(of_databases).collect())
    }
}

fn checked_text(text: &str) -> Result<String> {
    let count = text.chars().count();
    let is_line = !text.trim().is_empty() && !text.chars().any(char::is_control);
    if !is_line || count > MARK_LETTERS_MAX {
        let what = format!("a text of {count} letters cannot be a mark's");
        let action = format!("write one line of 1 to {MARK_LETTERS_MAX} letters");
        return Err(Error::invalid(what, action));
    }
    Ok(text.trim().to_string())
}

fn add(kept: &mut KnownMarks, unix_millis: u64, text: String, object: Option<String>) -> api::Mark {
    kept.last += 1;
    let mark = KnownMark { number: kept.last, unix_millis, text, object };
    let view = by_hand(&mark);
    kept.mark.push(mark);
    let too_many = kept.mark.len().saturating_sub(MARKS_MAX);
    kept.mark.drain(..too_many);
    view
}

/// The newest of derived marks.
fn newest(mut marks: Vec<api::Mark>) -> Vec<api::Mark> {
    marks.sort_by_key(|mark| std::cmp::Reverse(mark.unix_millis));
    marks.truncate(DERIVED_MARKS_MAX);
    marks
}

/// Whether a mark is about one of these volumes. What is about a database or a snapshot that is gone is not;
/// what is about no volume at all is about each of them.
fn is_about(object: Option<&str>, wanted: &[String], known: &Volumes) -> bool {
    let Some((object, (kind, name))) = object.and_then(|object| Some((object, object.split_once(' ')?)))
    else {
        return true;
    };
    match kind {
        "volume" => wanted.iter().any(|volume| volume == name),
        "database" | "snapshot" => {
            known.get(object).is_some_and(|own| own.iter().any(|volume| wanted.contains(volume)))
        }
        _ => true,
    }
}

fn by_hand(mark: &KnownMark) -> api::Mark {
    api::Mark {
        id: mark.number.to_string(),
        kind: MarkKind::ByHand,
        unix_millis: mark.unix_millis,
        text: mark.text.clone(),
        object: mark.object.clone(),
        level: None,
    }
}

fn of_snapshot(snapshot: &api::Snapshot) -> api::Mark {
    api::Mark {
        id: format!("snapshot:{}", snapshot.name),
        kind: MarkKind::Snapshot,
        unix_millis: snapshot.created_unix_seconds * 1000,
        text: format!("snapshot {}", snapshot.name),
        object: Some(format!("snapshot {}", snapshot.name)),
        level: None,
    }
}

fn of_job(job: &Job, id: &str) -> api::Mark {
    let kind = serde_json::to_value(job.object.kind).expect("kinds are plain data");
    let object = format!("{} {}", kind.as_str().unwrap_or("object"), job.object.name);
    api::Mark {
        id: format!("job:{id}"),
        kind: MarkKind::Job,
        unix_millis: job.started_unix_millis,
        text: format!("{} of {object}: {}", job.kind.name(), job.state().name()),
        object: Some(object),
        level: None,
    }
}

fn of_event(event: api::Event) -> api::Mark {
    api::Mark {
        id: format!("event:{}", event.sequence),
        kind: MarkKind::Event,
        unix_millis: event.unix_millis,
        text: format!("{}: {}", event.object, event.message),
        object: Some(event.object),
        level: Some(event.level),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    #[test]
    fn the_mark_that_was_made_first_gives_way_and_no_number_is_given_twice() {
        let mut kept = KnownMarks::default();
        for number in 1..=MARKS_MAX as u64 + 2 {
            let mark = add(&mut kept, 1_000_000 - number, format!("mark {number}"), None);
            assert_eq!(mark.id, number.to_string());
        }
        assert_eq!((kept.mark.len(), kept.mark[0].number), (MARKS_MAX, 3));
        kept.mark.clear();
        assert_eq!(add(&mut kept, 1, "x".to_string(), None).id, (MARKS_MAX + 3).to_string());
    }

    #[test]
    fn marks_of_the_array_are_about_every_volume_and_those_of_others_are_not() {
        let known = Volumes::from([
            ("database prod".to_string(), vec!["prod-data".to_string(), "prod-log".to_string()]),
            ("snapshot noon".to_string(), vec!["docs".to_string()]),
        ]);
        let wanted = ["prod-log".to_string()];
        let is_about = |object| is_about(object, &wanted, &known);
        let about = [None, Some("pool main"), Some("array"), Some("volume prod-log"), Some("database prod")];
        assert!(about.into_iter().all(is_about));
        let others = ["volume docs", "database gone", "snapshot noon", "snapshot gone"];
        assert!(!others.into_iter().map(Some).any(is_about));
    }

    #[test]
    fn a_text_is_one_line() {
        assert_eq!(checked_text(" goes live ").unwrap(), "goes live");
        for wrong in ["", "  ", "two\nlines", &"x".repeat(MARK_LETTERS_MAX + 1)] {
            assert!(checked_text(wrong).is_err(), "{wrong:?}");
        }
        assert!(checked_text(&"ä".repeat(MARK_LETTERS_MAX)).is_ok());
    }
}
