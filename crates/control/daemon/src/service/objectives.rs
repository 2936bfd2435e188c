//! Objectives of latency: how fast requests of a volume or a database should be, for how much of the time.
//!
//! An objective is a note about its volume, or beside the record of its database: it goes and comes back with
//! that. It is judged by the minutes that the array remembers, which are kept over a restart.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use ashlar_api as api;
use ashlar_api::ObjectiveKind;

use super::Service;
use crate::error::{Error, Result};
use crate::tag::Seen;

/// How often it is looked whether one is used up. Arbitrary: a minute is judged when it is over.
const INTERVAL: Duration = Duration::from_secs(10);
/// One that was used up is well again once so much of the permitted time is left. Arbitrary: without, every
/// minute that is forgotten or missed at the edge would be told.
const WELL_PERCENT: f64 = 10.0;
/// Databases first: where a volume is called so, too, the database is meant.
const KINDS: [ObjectiveKind; 2] = [ObjectiveKind::Database, ObjectiveKind::Volume];

/// What may have an objective.
struct Holder {
    kind: ObjectiveKind,
    pool: String,
    /// Of the database in its pool, or the identity of the volume.
    number: u64,
    name: String,
    volumes: Vec<String>,
}

/// An objective that a pool remembers.
struct Known {
    holder: Holder,
    set: api::ObjectiveSet,
}

impl Service {
    /// All objectives, by name.
    pub(crate) async fn objectives(&self) -> Result<Vec<api::Objective>> {
        let mut all: Vec<api::Objective> =
            self.objectives_known().await?.into_iter().map(|known| self.objective_view(known)).collect();
        all.sort_by(|a, b| (&a.name, a.kind).cmp(&(&b.name, b.kind)));
        Ok(all)
    }

    /// One objective.
    pub(crate) async fn objective(&self, name: &str) -> Result<api::Objective> {
        self.objective_known(name).await.map(|known| self.objective_view(known))
    }

    /// Gives a database or a volume an objective; also tells whether it had none.
    pub(crate) async fn objective_set(
        &self,
        name: &str,
        set: api::ObjectiveSet,
        seen: &Seen,
    ) -> Result<(api::Objective, bool)> {
        check(name, &set)?;
        let _turn = self.change().await?;
        if seen.is_said() {
            seen.check(&self.objective(name).await?)?;
        }
        let before = self.objectives_known().await?.into_iter().find(|known| known.holder.name == name);
        let is_new = before.is_none();
        let holder = match before {
            Some(known) => known.holder,
            None => self.objective_holder(name).await?,
        };
        let value = serde_json::to_vec(&set).map_err(|error| {
            let what = format!("objective of {} `{name}`: {error}", holder.kind.name());
            Error::new(api::ErrorKind::Invalid, what, "tell the authors")
        })?;
        self.array.objective_put(holder.kind, &holder.pool, holder.number, Some(value)).await?;
        self.log.info(format!("{} {name}", holder.kind.name()), format!("objective set: {}", said(&set)));
        Ok((self.objective_view(Known { holder, set }), is_new))
    }

    /// Deletes one.
    pub(crate) async fn objective_delete(&self, name: &str, seen: &Seen) -> Result<()> {
        let _turn = self.change().await?;
        let known = self.objective_known(name).await?;
        let Holder { kind, pool, number, .. } = &known.holder;
        let (kind, pool, number) = (*kind, pool.clone(), *number);
        seen.check(&self.objective_view(known))?;
        self.array.objective_put(kind, &pool, number, None).await?;
        self.log.info(format!("{} {name}", kind.name()), "objective deleted");
        Ok(())
    }

    /// Tells of objectives that are used up, and of those that are well again, until the array stops.
    pub(crate) async fn tend_objectives(self: Arc<Self>) {
        let mut told = BTreeSet::<(ObjectiveKind, String)>::new();
        while !self.is_stopping() {
            tokio::time::sleep(INTERVAL).await;
            let Ok(all) = self.objectives().await else { continue };
            told.retain(|(kind, name)| all.iter().any(|one| one.kind == *kind && one.name == *name));
            for one in &all {
                self.tell_objective(one, &mut told);
            }
        }
    }

    fn tell_objective(&self, one: &api::Objective, told: &mut BTreeSet<(ObjectiveKind, String)>) {
        let key = (one.kind, one.name.clone());
        let object = format!("{} {}", one.kind.name(), one.name);
        let minutes = |seconds: u64| format!("{:.1} minutes", seconds as f64 / 60.0);
        if one.is_used_up && told.insert(key.clone()) {
            let (missed, permitted) = (minutes(one.missed_seconds), minutes(one.permitted_seconds));
            let what = format!("its objective of latency is used up: missed for {missed} of {permitted}");
            self.log.warning(object, format!("{what}; `ashlar objective list` tells more"));
        } else if !one.is_used_up && one.left_percent >= WELL_PERCENT && told.remove(&key) {
            let left = minutes(one.left_seconds);
            self.log.info(object, format!("its objective of latency is well again: {left} are left"));
        }
    }

    async fn objective_known(&self, name: &str) -> Result<Known> {
        let all = self.objectives_known().await?;
        all.into_iter()
            .find(|known| known.holder.name == name)
            .ok_or_else(|| self.not_there("objective", name))
    }

    /// What the open pools remember. Those of deleted volumes, which may come back, are left out.
    async fn objectives_known(&self) -> Result<Vec<Known>> {
        let mut all = Vec::new();
        for kind in KINDS {
            let notes = self.array.objective_notes(kind).await?;
            if notes.is_empty() {
                continue;
            }
            for holder in self.objective_holders(kind).await? {
                let note = notes.iter().find(|one| one.pool == holder.pool && one.number == holder.number);
                let set = note.and_then(|note| serde_json::from_slice(&note.value).ok());
                all.extend(set.map(|set| Known { holder, set }));
            }
        }
        Ok(all)
    }

    async fn objective_holder(&self, name: &str) -> Result<Holder> {
        for kind in KINDS {
            let holders = self.objective_holders(kind).await?;
            if let Some(found) = holders.into_iter().find(|holder| holder.name == name) {
                return Ok(found);
            }
        }
        Err(Error::new(
            api::ErrorKind::NotFound,
            format!("no database and no volume is called `{}`", name.escape_debug()),
            "`ashlar database list` and `ashlar volume list` show those there are",
        ))
    }

    async fn objective_holders(&self, kind: ObjectiveKind) -> Result<Vec<Holder>> {
        match kind {
            ObjectiveKind::Database => {
                let places = self.database_places().await?.into_iter();
                Ok(places
                    .map(|place| Holder {
                        kind,
                        pool: place.pool,
                        number: place.number,
                        name: place.name,
                        volumes: place.volumes,
                    })
                    .collect())
            }
            ObjectiveKind::Volume => {
                let volumes = self.array.volumes().await?.into_iter();
                Ok(volumes
                    .map(|volume| Holder {
                        kind,
                        pool: volume.pool,
                        number: volume.id,
                        volumes: vec![volume.name.clone()],
                        name: volume.name,
                    })
                    .collect())
            }
        }
    }

    fn objective_view(&self, Known { holder, set }: Known) -> api::Objective {
        let (judged, present_p99_micros) = self.figures.judge(&set, &holder.volumes);
        api::Objective {
            name: holder.name,
            kind: holder.kind,
            pool: holder.pool,
            volumes: holder.volumes,
            p99_micros: set.p99_micros,
            for_percent: set.for_percent,
            requests: set.requests,
            over_seconds: set.over_seconds,
            present_p99_micros,
            is_met_now: present_p99_micros.is_none_or(|p99| p99 <= set.p99_micros),
            met_percent: judged.met_percent(),
            covered_seconds: judged.covered_minutes * 60,
            missed_seconds: judged.missed_minutes * 60,
            permitted_seconds: seconds(judged.permitted_minutes),
            left_seconds: seconds(judged.left_minutes()),
            left_percent: judged.left_percent(),
            is_used_up: judged.is_used_up(),
        }
    }
}

fn seconds(minutes: f64) -> u64 {
    (minutes * 60.0).round() as u64
}

/// Refuses an objective that makes no sense.
fn check(name: &str, set: &api::ObjectiveSet) -> Result<()> {
    let wrong = |what: String, action: &str| {
        Err(Error::invalid(format!("objective of `{}`: {what}", name.escape_debug()), action))
    };
    if !(1..=api::OBJECTIVE_MICROS_MAX).contains(&set.p99_micros) {
        return wrong(
            format!("a latency of {} us is not possible", set.p99_micros),
            "name one of 1 us to 60 s, as in 2ms",
        );
    }
    let is_share = set.for_percent > 0.0 && set.for_percent <= 100.0;
    if !is_share {
        return wrong(
            format!("{} % of the time is not possible", set.for_percent),
            "name a share above 0 and at most 100, as in 99.9",
        );
    }
    if !(api::OBJECTIVE_SECONDS_MIN..=api::OBJECTIVE_SECONDS_MAX).contains(&set.over_seconds) {
        return wrong(
            format!("{} s to look back are not possible", set.over_seconds),
            "look back for an hour to seven days",
        );
    }
    Ok(())
}

fn said(set: &api::ObjectiveSet) -> String {
    let limit = Duration::from_micros(set.p99_micros);
    format!("p99 of {} below {limit:?} for {} % of the time", set.requests.name(), set.for_percent)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_makes_no_sense_is_refused() {
        let good = api::ObjectiveSet {
            p99_micros: 2000,
            for_percent: 99.9,
            requests: api::ObjectiveRequests::All,
            over_seconds: api::OBJECTIVE_SECONDS_MAX,
        };
        assert!(check("db", &good).is_ok());
        assert_eq!(said(&good), "p99 of reads and writes below 2ms for 99.9 % of the time");
        let wrong = [
            api::ObjectiveSet { p99_micros: 0, ..good },
            api::ObjectiveSet { p99_micros: 60_000_001, ..good },
            api::ObjectiveSet { for_percent: 0.0, ..good },
            api::ObjectiveSet { for_percent: 100.1, ..good },
            api::ObjectiveSet { for_percent: f64::NAN, ..good },
            api::ObjectiveSet { over_seconds: 3599, ..good },
            api::ObjectiveSet { over_seconds: 604_801, ..good },
        ];
        for set in wrong {
            let told = check("db", &set).expect_err("no sense");
            assert!(told.message.contains("`db`") && !told.action.is_empty(), "{told}");
        }
    }
}
