//! Hosts that may come in over iSCSI: each is remembered by one pool, and sees volumes of that pool.

use ashlar_api as api;
use ashlar_api::ChapLogin;
use ashlar_engine::NoteKind;
use ashlar_iscsi::chap::Credential;

use super::Service;
use super::scrubs::unix_seconds;
use crate::error::{Error, Result};
use crate::iscsi::{ExportRecord, HostRecord, NotedHost};
use crate::names;
use crate::tag::Seen;

/// "iSCSI names MUST NOT be longer than 223 bytes" (RFC 7143 4.2.7.1).
const INITIATOR_BYTES_MAX: usize = 223;

impl Service {
    /// All hosts, by name.
    pub(crate) async fn hosts(&self) -> Result<Vec<api::Host>> {
        self.array.hosts().await
    }

    /// One host.
    pub(crate) async fn host(&self, name: &str) -> Result<api::Host> {
        let found = self.hosts().await?.into_iter().find(|host| host.name == name);
        found.ok_or_else(|| self.not_there("host", name))
    }

    /// Lets a host in.
    pub(crate) async fn host_create(&self, request: api::HostCreate) -> Result<api::Host> {
        let record = checked(&request)?;
        let name = record.name.clone();
        let turn = self.change().await?;
        let pool = self.pool_for(request.pool.as_deref())?;
        let all = self.array.noted_hosts().await?;
        if let Some(other) = all.iter().find(|host| host.record.name == name) {
            return Err(Error::exists("host", &name, &other.pool));
        }
        let is_same = |host: &&NotedHost| host.pool == pool && host.record.initiator == record.initiator;
        if let Some(other) = all.iter().find(is_same) {
            let (host, initiator) = (&other.record.name, &record.initiator);
            return Err(Error::new(
                api::ErrorKind::Exists,
                format!("`{initiator}` is host `{host}` of pool `{pool}` already"),
                format!("use that, or `ashlar host delete {host}` first"),
            )
            .about(api::ObjectKind::Host, host));
        }
        self.check_proof(&record)?;
        let number = all.iter().map(|host| host.number).max().unwrap_or(0) + 1;
        self.array.record_note_put(NoteKind::Chap, &pool, number, value_of(&record), true).await?;
        self.hosts_changed().await?;
        drop(turn);
        self.log
            .info(format!("host {name}"), format!("may come in as {}, {}", record.initiator, proof(&record)));
        self.host(&name).await
    }

    /// Changes what a host proves. Its sessions stay, as with other arrays: a secret that is changed on both
    /// sides, one after the other, must not take a disk away. Who logs in from now on proves the new one.
    pub(crate) async fn host_change(
        &self,
        name: &str,
        change: api::HostChange,
        seen: &Seen,
    ) -> Result<api::Host> {
        let turn = self.change().await?;
        let host = self.host(name).await?;
        seen.check(&host)?;
        // Pools from different arrays may each remember one of the name: a secret that is known opens none.
        let mut all = self.array.noted_hosts().await?;
        all.retain(|noted| noted.record.name == name);
        let mut changes = Vec::new();
        for NotedHost { pool, number, record } in all {
            let after = changed(&record, change.clone())?;
            self.check_proof(&after)?;
            changes.extend((after != record).then_some((pool, number, after)));
        }
        let mut put = Ok(());
        for (pool, number, after) in &changes {
            let done =
                self.array.record_note_put(NoteKind::Chap, pool, *number, value_of(after), false).await;
            put = put.and(done);
        }
        if let Some((_, _, after)) = changes.first() {
            // Also where one pool could not: what the others have counts.
            self.hosts_changed().await?;
            put?;
            let stay = match host.sessions.len() {
                0 => String::new(),
                count => format!("; {count} of its sessions began before and go on"),
            };
            let what = format!("comes in {} from its next login on{stay}", proof(after));
            self.log.info(format!("host {name}"), what);
        }
        drop(turn);
        self.host(name).await
    }

    /// Off loopback nobody comes in without a proof.
    fn check_proof(&self, record: &HostRecord) -> Result<()> {
        let HostRecord { name, chap, .. } = record;
        match self.doors.open_addresses().next().filter(|_| chap.is_none()) {
            None => Ok(()),
            Some(address) => Err(Error::unfit(
                format!("host `{name}` has no CHAP secret, and {address} is off loopback"),
                "give it one with --chap-user and --chap-secret-file",
            )),
        }
    }

    /// Lets a host in no more.
    pub(crate) async fn host_delete(&self, name: &str, is_forced: bool, seen: &Seen) -> Result<()> {
        let _turn = self.change().await?;
        let host = self.host(name).await?;
        seen.check(&host)?;
        let of_name: Vec<api::Host> =
            self.hosts().await?.into_iter().filter(|host| host.name == name).collect();
        let exports = self.exports().await?;
        if let Some(export) = exports.iter().find(|export| export.hosts.iter().any(|one| one == name)) {
            let volume = &export.volume;
            return Err(Error::new(
                api::ErrorKind::Busy,
                format!("the export of volume `{volume}` names host `{name}`"),
                format!("`ashlar export delete {volume}` first"),
            )
            .about(api::ObjectKind::Host, name)
            .because(api::Reason::InUse));
        }
        if let Some(session) = of_name.iter().find_map(|host| host.sessions.first()).filter(|_| !is_forced) {
            return Err(Error::new(
                api::ErrorKind::Busy,
                format!("host `{name}` is logged in from {}", session.address),
                "log it out there, or end its sessions with --force",
            )
            .about(api::ObjectKind::Host, name)
            .because(api::Reason::InUse));
        }
        self.forget_in_exports(name).await?;
        let all = self.array.noted_hosts().await?;
        for noted in all.into_iter().filter(|noted| noted.record.name == name) {
            self.array.record_note_delete(NoteKind::Chap, &noted.pool, noted.number).await?;
        }
        self.hosts_changed().await?;
        self.log.info(format!("host {name}"), "may come in no more");
        Ok(())
    }

    /// Exports of deleted volumes name a host no more: another one of its name is not to have them when they
    /// come back. One that named it alone ends.
    async fn forget_in_exports(&self, name: &str) -> Result<()> {
        for note in self.array.record_notes(NoteKind::Export).await? {
            let Ok(mut record) = serde_json::from_slice::<ExportRecord>(&note.value) else { continue };
            let before = record.hosts.len();
            record.hosts.retain(|host| host != name);
            if record.hosts.len() == before {
                continue;
            }
            if record.hosts.is_empty() {
                self.array.record_note_delete(NoteKind::Export, &note.pool, note.number).await?;
                self.array.record_note_delete(NoteKind::Reservation, &note.pool, note.number).await?;
                continue;
            }
            let value = serde_json::to_vec(&record).expect("records are plain data");
            self.array.record_note_put(NoteKind::Export, &note.pool, note.number, value, false).await?;
        }
        Ok(())
    }

    /// Serves what the notebooks say now, also at addresses that hosts kept shut until now.
    async fn hosts_changed(&self) -> Result<()> {
        self.array.refresh_exports().await?;
        self.open_iscsi().await;
        Ok(())
    }

    /// Opens the addresses of iSCSI that may be open.
    pub(crate) async fn open_iscsi(&self) {
        self.doors.open_iscsi(&self.array, self.closed_pools(), &self.log).await;
    }
}

/// The record that a request asks for.
fn checked(request: &api::HostCreate) -> Result<HostRecord> {
    let api::HostCreate { name, initiator, chap, mutual_chap, .. } = request;
    names::check("host", name)?;
    if !is_initiator(initiator) {
        return Err(Error::invalid(
            format!("host `{name}`: `{}` is no iSCSI name", initiator.escape_debug()),
            "give the one in /etc/iscsi/initiatorname.iscsi of the host: it begins with `iqn.`",
        ));
    }
    check_logins(name, chap.as_ref(), mutual_chap.as_ref())?;
    Ok(HostRecord {
        name: name.clone(),
        initiator: initiator.to_ascii_lowercase(),
        chap: chap.clone(),
        mutual_chap: mutual_chap.clone(),
        created_unix_seconds: unix_seconds(),
    })
}

/// The record that a change makes of another.
fn changed(before: &HostRecord, change: api::HostChange) -> Result<HostRecord> {
    let name = &before.name;
    let unfit = |what: &str, action: &str| Error::unfit(format!("host `{name}`: {what}"), action);
    let api::HostChange { chap, without_chap, mutual_chap, without_mutual_chap } = change;
    if without_chap && (chap.is_some() || mutual_chap.is_some()) {
        return Err(unfit("it cannot prove itself and prove nothing", "leave --no-chap away, or the rest"));
    }
    if without_mutual_chap && mutual_chap.is_some() {
        return Err(unfit(
            "the array cannot prove itself and prove nothing",
            "leave --no-mutual away, or --mutual-user and --mutual-secret-file",
        ));
    }
    let is_kept = |goes: bool| move |_: &ChapLogin| !goes;
    let chap = chap.or_else(|| before.chap.clone().filter(is_kept(without_chap)));
    let own = before.mutual_chap.clone().filter(is_kept(without_chap || without_mutual_chap));
    let mutual_chap = mutual_chap.or(own);
    check_logins(name, chap.as_ref(), mutual_chap.as_ref())?;
    Ok(HostRecord { chap, mutual_chap, ..before.clone() })
}

fn value_of(record: &HostRecord) -> Vec<u8> {
    serde_json::to_vec(record).expect("records are plain data")
}

/// How a host comes in, for people.
fn proof(record: &HostRecord) -> &'static str {
    match (&record.chap, &record.mutual_chap) {
        (None, _) => "without CHAP",
        (Some(_), None) => "with CHAP",
        (Some(_), Some(_)) => "with CHAP in both directions",
    }
}

/// Whether names and secrets are such that initiators take them, and fit each other.
fn check_logins(name: &str, chap: Option<&ChapLogin>, mutual_chap: Option<&ChapLogin>) -> Result<()> {
    let wrong = |what: String, action: &str| Error::invalid(format!("host `{name}`: {what}"), action);
    for login in [chap, mutual_chap].into_iter().flatten() {
        Credential::new(&login.user, login.secret.as_bytes()).map_err(|why| wrong(why, "mend that"))?;
        // Others are typed in one way here and in another there.
        let is_plain = |text: &str| text.bytes().all(|byte| (b' '..=b'~').contains(&byte));
        if !is_plain(&login.user) || !is_plain(&login.secret) {
            return Err(wrong(
                "names and secrets of CHAP have letters, digits and marks of ASCII".to_string(),
                "choose others",
            ));
        }
    }
    let unfit = |what: String, action: &str| Error::unfit(format!("host `{name}`: {what}"), action);
    match (chap, mutual_chap) {
        (None, Some(_)) => {
            return Err(unfit(
                "the array proves itself only to who proves himself".to_string(),
                "give --chap-user and --chap-secret-file, too",
            ));
        }
        (Some(one), Some(other)) if one.secret == other.secret => {
            return Err(unfit("both secrets are the same".to_string(), "make up another for the array"));
        }
        _ => {}
    }
    Ok(())
}

/// Printable, of one of the three types (RFC 7143 4.2.7.2).
fn is_initiator(name: &str) -> bool {
    let has_type = ["iqn.", "eui.", "naa."].iter().any(|kind| {
        name.len() > kind.len()
            && name.get(..kind.len()).is_some_and(|start| start.eq_ignore_ascii_case(kind))
    });
    let is_printable = |byte: u8| byte.is_ascii_graphic() && byte != b',';
    has_type && name.len() <= INITIATOR_BYTES_MAX && name.bytes().all(is_printable)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn login(secret: &str) -> Option<api::ChapLogin> {
        Some(api::ChapLogin { user: "u".to_string(), secret: secret.to_string() })
    }

    fn host(initiator: &str) -> api::HostCreate {
        api::HostCreate {
            name: "db1".to_string(),
            initiator: initiator.to_string(),
            pool: None,
            chap: None,
            mutual_chap: None,
        }
    }

    #[test]
    fn names_of_hosts_are_compared_in_small_letters_and_others_are_refused() {
        assert_eq!(
            checked(&host("IQN.1991-05.com.Microsoft:PC")).unwrap().initiator,
            "iqn.1991-05.com.microsoft:pc"
        );
        for wrong in ["", "iqn.", "db1", "iqn.x y", "iqn.x,y", &format!("iqn.{}", "x".repeat(220))] {
            assert!(checked(&host(wrong)).is_err(), "{wrong}");
        }
    }

    #[test]
    fn secrets_are_long_enough_and_two_that_differ() {
        let with = |chap, mutual_chap| checked(&api::HostCreate { chap, mutual_chap, ..host("iqn.x:y") });
        assert!(with(login("twelve bytes"), login("twelve other bytes")).is_ok());
        for (chap, mutual) in [
            (login("eleven byte"), None),
            (None, login("twelve bytes")),
            (login("twelve bytes"), login("twelve bytes")),
        ] {
            let error = with(chap, mutual).err().unwrap();
            assert!(!["eleven byte", "twelve bytes"].iter().any(|secret| error.to_string().contains(secret)));
        }
    }

    #[test]
    fn a_change_says_what_goes_and_the_rest_stays() {
        let both = checked(&api::HostCreate {
            chap: login("twelve bytes"),
            mutual_chap: login("twelve other bytes"),
            ..host("iqn.x:y")
        });
        let both = both.unwrap();
        let none = api::HostChange::default;
        let after = |change| changed(&both, change).unwrap();
        assert!(after(none()) == both, "nothing said, nothing changed");
        let new = after(api::HostChange { chap: login("another secret"), ..none() });
        assert!(new.chap == login("another secret") && new.mutual_chap == both.mutual_chap);
        let one_way = after(api::HostChange { without_mutual_chap: true, ..none() });
        assert!(one_way.chap == both.chap && one_way.mutual_chap.is_none());
        let open = after(api::HostChange { without_chap: true, ..none() });
        assert!(open.chap.is_none() && open.mutual_chap.is_none());
        assert_eq!(
            (open.initiator, open.created_unix_seconds),
            (both.initiator.clone(), both.created_unix_seconds)
        );
    }

    #[test]
    fn changes_that_contradict_themselves_or_the_rest_are_refused() {
        let one_way = checked(&api::HostCreate { chap: login("twelve bytes"), ..host("iqn.x:y") }).unwrap();
        let open = checked(&host("iqn.x:y")).unwrap();
        let none = api::HostChange::default;
        let (new, same) = (login("another secret"), login("twelve bytes"));
        for (before, change) in [
            (&one_way, api::HostChange { chap: new.clone(), without_chap: true, ..none() }),
            (&one_way, api::HostChange { mutual_chap: new.clone(), without_chap: true, ..none() }),
            (&one_way, api::HostChange { mutual_chap: new.clone(), without_mutual_chap: true, ..none() }),
            (&one_way, api::HostChange { mutual_chap: same, ..none() }),
            (&open, api::HostChange { mutual_chap: new, ..none() }),
        ] {
            let error = changed(before, change).err().unwrap();
            assert_eq!(error.reason, Some(api::Reason::DoesNotFit), "{error}");
        }
        assert!(changed(&open, api::HostChange { chap: login("eleven byte"), ..none() }).is_err());
    }
}
