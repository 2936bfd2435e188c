//! Proofs: a snapshot is cloned, its server recovers, everything in it is checked, and the clone goes again.

use std::time::Instant;

use ashlar_api as api;
use ashlar_database::{Limits, Origin, Outcome, Part, Proof, Record, Stage, Work, settings_of_clone};
use ashlar_engine::NOTE_VALUE_BYTES_MAX;

use super::super::Service;
use super::care::Asked;
use super::make::unix_seconds;
use super::records::PROOF;
use super::{Known, check_ready};
use crate::error::Result;

/// Proofs that are kept of a database, and of what they found.
const PROOFS_MAX: usize = 16;
const FINDINGS_KEPT: usize = 3;
const FINDING_CHARS_KEPT: usize = 150;

impl Service {
    /// Proves that a snapshot of a database recovers and is whole, or tells what is wrong.
    pub(crate) async fn database_verify(
        &self,
        name: &str,
        request: api::DatabaseVerify,
    ) -> Result<api::DatabaseProof> {
        let since = Instant::now();
        let source = self.database_record(name).await?;
        check_ready(&source.record)?;
        let clone = format!("{name}{PROOF}");
        let _alone = self.work_alone(&clone)?;
        let kept = source.record.kept_parts();
        let meant = self.snapshot_meant_if_any(request.snapshot, name, &kept).await?;
        if let Some(snapshot) = &meant {
            self.check_snapshot_of(snapshot, name, &kept)?;
        }
        let asked = Asked::nothing();
        let known = self.begin_clone(&source, &clone, meant.clone(), None, None, &asked).await?;
        let proven = self.prove_clone(&known, &source.record).await;
        self.undo(&known).await;
        let Outcome { start_millis, findings, notes, .. } = proven?;
        if !findings.is_empty() {
            // What programs say that could write nothing down is about the machine.
            self.check_state_room()?;
        }
        let snapshot = meant.clone().unwrap_or_else(|| format!("{name} as it is"));
        let took_millis = since.elapsed().as_millis() as u64;
        let proof = Proof { snapshot, unix_seconds: unix_seconds(), start_millis, took_millis, findings };
        self.tell_proof(name, &proof);
        if meant.is_some() {
            self.keep_proof(&source, &proof).await?;
        }
        Ok(api::DatabaseProof { notes, ..view(proof) })
    }

    /// What keeps the clone from being mounted or its server from starting is wrong with the snapshot.
    async fn prove_clone(&self, known: &Known, source: &Record) -> Result<Outcome> {
        let record = &known.record;
        let site = self.site(record);
        // Where they are missing nothing is wrong with the snapshot.
        self.work(&site, Work::Find).await?;
        self.copy_origin(record).await?;
        self.make_empty_parts(known, source).await?;
        let found = |what: String| Outcome { findings: vec![what], ..Outcome::default() };
        if let Err(error) = self.mount_copy(record).await {
            return Ok(found(format!("its file system does not mount: {error}")));
        }
        let from =
            self.site_directory(&record.origin.as_ref().map_or(String::new(), |one| one.database.clone()));
        if let Err(error) = self.work(&site, Work::Adopt { from }).await {
            return Ok(found(error.to_string()));
        }
        self.work(&site, Work::Prove).await
    }

    fn tell_proof(&self, name: &str, proof: &Proof) {
        let (object, snapshot) = (format!("database {name}"), &proof.snapshot);
        match proof.findings.first() {
            None => self.log.info(object, format!("{snapshot} is proven: it recovers and is whole")),
            Some(first) => {
                let more = proof.findings.len() - 1;
                let more = if more == 0 { String::new() } else { format!("; and {more} more") };
                self.log.error(object, format!("{snapshot} is not proven: {first}{more}"));
            }
        }
    }

    async fn keep_proof(&self, known: &Known, proof: &Proof) -> Result<()> {
        let cut = |what: &String| what.chars().take(FINDING_CHARS_KEPT).collect();
        let findings = proof.findings.iter().take(FINDINGS_KEPT).map(cut).collect();
        let mut proofs = vec![Proof { findings, ..proof.clone() }];
        let before = self.database_proofs(known).await?;
        proofs.extend(before.into_iter().filter(|other| other.snapshot != proof.snapshot));
        proofs.truncate(PROOFS_MAX);
        let mut value = serde_json::to_vec(&proofs).unwrap_or_default();
        while value.len() > NOTE_VALUE_BYTES_MAX && proofs.pop().is_some() {
            value = serde_json::to_vec(&proofs).unwrap_or_default();
        }
        self.array.database_proofs_put(&known.pool, known.number, value).await
    }

    /// The proofs of the database of this name.
    pub(in super::super) async fn proofs_of_database(&self, name: &str) -> Result<Vec<api::DatabaseProof>> {
        let known = self.database_record(name).await?;
        Ok(self.database_proofs(&known).await?.into_iter().map(view).collect())
    }

    /// The proofs of a database whose snapshots are there, the newest first.
    pub(super) async fn database_proofs(&self, known: &Known) -> Result<Vec<Proof>> {
        let value = self.array.database_proofs(&known.pool, known.number).await?;
        let proofs: Vec<Proof> =
            value.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        let index = &self.known().index;
        Ok(proofs.into_iter().filter(|proof| index.snapshot(&proof.snapshot).is_ok()).collect())
    }

    /// Writes down that a clone is made of a database, from a snapshot or from one that is taken for it.
    pub(super) async fn begin_clone(
        &self,
        source: &Known,
        name: &str,
        snapshot: Option<String>,
        port: Option<u16>,
        limits: Option<Limits>,
        asked: &Asked,
    ) -> Result<Known> {
        let _number_taken = self.new_databases.lock().await;
        let (number, port) = self.check_new(name, port).await?;
        let parts: Vec<Part> =
            source.record.parts.iter().map(|part| super::make::part(name, &part.role)).collect();
        self.check_parts_free(&parts)?;
        let is_own = snapshot.is_none();
        let snapshot = snapshot.unwrap_or_else(|| self.name_of_origin(name));
        let volumes = source.record.kept_parts();
        let origin = Origin { database: source.record.name.clone(), snapshot, is_own, volumes };
        let record = Record {
            name: name.to_string(),
            port: super::make::port_of(source.record.engine, port),
            parts,
            limits,
            settings: settings_of_clone(&source.record.settings),
            origin: Some(origin),
            stage: Stage::Making,
            is_wanted: true,
            created_unix_seconds: unix_seconds(),
            outdated: Vec::new(),
            follows: None,
            care: asked.kept.clone(),
            expiry: None,
            is_clone_of_class_normal: false,
            away: None,
            reason: None,
            auto_grow: source.record.auto_grow.clone().map(super::grow::of_clone),
            ..source.record.clone()
        };
        let known = Known { pool: source.pool.clone(), number, record };
        // In this order: a directory without a record would stay.
        self.keep_record(&known).await?;
        self.make_site(&known.record)?;
        Ok(known)
    }
}

pub(super) fn view(proof: Proof) -> api::DatabaseProof {
    let Proof { snapshot, unix_seconds, start_millis, took_millis, findings } = proof;
    api::DatabaseProof {
        snapshot,
        proven_unix_seconds: unix_seconds,
        start_millis,
        took_millis,
        findings,
        notes: Vec::new(),
    }
}
