//! The lists of every kind of object: which of them, in which order, and a page.

use ashlar_api as api;
use ashlar_api::{
    AttachmentSort, ClientSort, DatabaseSort, DeletedVolumeSort, EventSort, PoolSort, ScheduleSort,
    SnapshotSort, VolumeSort,
};
use axum::extract::State;
use axum::http::Uri;

use super::extract::Question;
use super::handlers::Array;
use super::page::{Key, Page, page};
use crate::error::Result;
use crate::service::Service;

pub(super) type List<T> = Result<Page<T>>;

pub(super) async fn pools(
    State(array): Array,
    uri: Uri,
    Question(query): Question<api::PoolsQuery>,
) -> List<api::Pool> {
    let mut pools = array.pools().await?;
    pools.retain(|pool| begins(&pool.name, &query.name_prefix));
    page(&uri, &query.page(), PoolSort::Name, pools, |pool, sort| {
        let key = match sort {
            PoolSort::Name => Key::Nothing,
            PoolSort::Free => pool.space.as_ref().map(|space| space.free_bytes).into(),
            PoolSort::Full => u64::from(pool.full_percent).into(),
        };
        (key, (&pool.name).into())
    })
}

pub(super) async fn volumes(
    State(array): Array,
    uri: Uri,
    Question(query): Question<api::VolumesQuery>,
) -> List<api::Volume> {
    let of_database = volumes_of(&array, &query.database).await?;
    let mut volumes = array.volumes().await?;
    volumes.retain(|volume| {
        is(&volume.pool, &query.pool)
            && begins(&volume.name, &query.name_prefix)
            && query.origin.as_ref().is_none_or(|origin| is_from(volume.origin.as_deref(), origin))
            && of_database.as_ref().is_none_or(|all| all.contains(&volume.name))
    });
    page(&uri, &query.page(), VolumeSort::Name, volumes, |volume, sort| {
        let key = match sort {
            VolumeSort::Name => Key::Nothing,
            VolumeSort::Created => volume.created_unix_seconds.into(),
            VolumeSort::Size => volume.size_bytes.into(),
            VolumeSort::Written => volume.written_bytes.into(),
            VolumeSort::Own => volume.own_bytes.into(),
        };
        (key, (&volume.name).into())
    })
}

pub(super) async fn snapshots(
    State(array): Array,
    uri: Uri,
    Question(query): Question<api::SnapshotsQuery>,
) -> List<api::Snapshot> {
    let of_database = volumes_of(&array, &query.database).await?;
    let mut snapshots = array.snapshots().await?;
    snapshots.retain(|snapshot| {
        let holds = |volume: &String| snapshot.volumes.contains(volume);
        is(&snapshot.pool, &query.pool)
            && begins(&snapshot.name, &query.name_prefix)
            && query.volume.as_ref().is_none_or(holds)
            && of_database.as_ref().is_none_or(|all| all.iter().any(holds))
            && query.is_held.is_none_or(|is_held| is_held == snapshot.hold.is_some())
    });
    page(&uri, &query.page(), SnapshotSort::Created, snapshots, |snapshot, sort| {
        let key = match sort {
            SnapshotSort::Name => Key::Nothing,
            SnapshotSort::Created => snapshot.created_unix_seconds.into(),
            SnapshotSort::Size => snapshot.size_bytes.into(),
        };
        (key, (&snapshot.name).into())
    })
}

pub(super) async fn deleted_volumes(
    State(array): Array,
    uri: Uri,
    Question(query): Question<api::DeletedVolumesQuery>,
) -> List<api::DeletedVolume> {
    let mut deleted = array.deleted_volumes().await?;
    deleted.retain(|one| is(&one.pool, &query.pool) && begins(&one.name, &query.name_prefix));
    page(&uri, &query.page(), DeletedVolumeSort::Deleted, deleted, |one, sort| {
        let key = match sort {
            DeletedVolumeSort::Name => (&one.name).into(),
            DeletedVolumeSort::Deleted => one.deleted_unix_seconds.into(),
            DeletedVolumeSort::Size => one.size_bytes.into(),
        };
        // Several may have had one name, and pools count their volumes each for itself.
        (key, Key::Text(format!("{:020} {}", one.id, one.pool)))
    })
}

pub(super) async fn databases(
    State(array): Array,
    uri: Uri,
    Question(query): Question<api::DatabasesQuery>,
) -> List<api::Database> {
    let mut databases = array.databases().await?;
    databases.retain(|database| {
        let is_clone_of =
            |origin: &String| database.origin.as_ref().is_some_and(|from| from.database == *origin);
        is(&database.pool, &query.pool)
            && begins(&database.name, &query.name_prefix)
            && query.origin.as_ref().is_none_or(is_clone_of)
    });
    page(&uri, &query.page(), DatabaseSort::Name, databases, |database, sort| {
        let key = match sort {
            DatabaseSort::Name => Key::Nothing,
            DatabaseSort::Created => database.created_unix_seconds.into(),
            DatabaseSort::Expires => or_last(database.expires_unix_seconds),
        };
        (key, (&database.name).into())
    })
}

pub(super) async fn schedules(
    State(array): Array,
    uri: Uri,
    Question(query): Question<api::SchedulesQuery>,
) -> List<api::Schedule> {
    let mut schedules = array.schedules().await?;
    schedules.retain(|schedule| {
        is(&schedule.pool, &query.pool)
            && begins(&schedule.name, &query.name_prefix)
            && query.database.as_ref().is_none_or(|database| schedule.databases.contains(database))
            && query.volume.as_ref().is_none_or(|volume| schedule.volumes.contains(volume))
    });
    page(&uri, &query.page(), ScheduleSort::Name, schedules, |schedule, sort| {
        let key = match sort {
            ScheduleSort::Name => Key::Nothing,
            ScheduleSort::Created => schedule.created_unix_seconds.into(),
            ScheduleSort::Next => or_last(schedule.next_unix_seconds),
        };
        (key, (&schedule.name).into())
    })
}

pub(super) async fn attachments(
    State(array): Array,
    uri: Uri,
    Question(query): Question<api::AttachmentsQuery>,
) -> List<api::Attachment> {
    let of_database = volumes_of(&array, &query.database).await?;
    let mut attachments = array.attachments();
    attachments.retain(|one| {
        begins(&one.volume, &query.name_prefix)
            && of_database.as_ref().is_none_or(|all| all.contains(&one.volume))
    });
    page(&uri, &query.page(), AttachmentSort::Volume, attachments, |one, sort| {
        let key = match sort {
            AttachmentSort::Volume => Key::Nothing,
            AttachmentSort::Device => (&one.device).into(),
        };
        (key, (&one.volume).into())
    })
}

pub(super) async fn clients(
    State(array): Array,
    uri: Uri,
    Question(query): Question<api::ClientsQuery>,
) -> List<api::DoorClient> {
    let mut clients = array.clients().await?;
    clients.retain(|client| query.volume.is_none() || client.volume == query.volume);
    page(&uri, &query.page(), ClientSort::Id, clients, |client, sort| {
        let key = match sort {
            ClientSort::Id => Key::Nothing,
            ClientSort::Volume => client.volume.as_ref().map_or(Key::Nothing, Key::from),
        };
        (key, client.id.into())
    })
}

pub(super) async fn events(
    State(array): Array,
    uri: Uri,
    Question(query): Question<api::EventsQuery>,
) -> List<api::Event> {
    // What was seen of another start says nothing of this one.
    let is_of_now = query.boot_id.as_ref().is_none_or(|boot| *boot == array.boot_id);
    let mut events = array.log.after(query.after.filter(|_| is_of_now).unwrap_or(0));
    events.retain(|event| {
        query.level.is_none_or(|level| event.level >= level)
            && query.object.as_ref().is_none_or(|object| is_about(&event.object, object))
            && query.since_unix_millis.is_none_or(|since| event.unix_millis >= since)
    });
    page(&uri, &query.page(), EventSort::Sequence, events, |event, sort| match sort {
        EventSort::Sequence => (event.sequence.into(), Key::Nothing),
    })
}

/// The volumes of a database, where one is named.
async fn volumes_of(array: &Service, database: &Option<String>) -> Result<Option<Vec<String>>> {
    match database {
        Some(database) => array.database_volumes(database).await.map(Some),
        None => Ok(None),
    }
}

pub(super) fn is(value: &str, wanted: &Option<String>) -> bool {
    wanted.as_ref().is_none_or(|wanted| value == wanted)
}

pub(super) fn begins(value: &str, wanted: &Option<String>) -> bool {
    wanted.as_ref().is_none_or(|wanted| value.starts_with(wanted.as_str()))
}

/// Whether something was cloned from a volume, a snapshot, or `VOLUME@SNAPSHOT`.
fn is_from(origin: Option<&str>, wanted: &str) -> bool {
    let Some(origin) = origin else { return false };
    origin == wanted || origin.split_once('@').is_some_and(|(volume, of)| [volume, of].contains(&wanted))
}

/// Whether an event is about an object, or about objects of a kind.
fn is_about(object: &str, wanted: &str) -> bool {
    object.strip_prefix(wanted).is_some_and(|rest| rest.is_empty() || rest.starts_with(' '))
}

/// What never comes is behind all that does.
fn or_last(time: Option<u64>) -> Key {
    Key::Number(time.unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_and_objects_are_found_by_their_parts() {
        assert!(is_from(Some("db@noon"), "db@noon"));
        assert!(is_from(Some("db@noon"), "db") && is_from(Some("db@noon"), "noon"));
        assert!(!is_from(Some("db@noon"), "d") && !is_from(Some("db@noon"), "on") && !is_from(None, "db"));
        assert!(is_about("volume db", "volume db") && is_about("volume db", "volume"));
        assert!(!is_about("volume db2", "volume db") && !is_about("volumes", "volume"));
    }
}
