//! Lists in pages: which objects, in which order, so many at a time.

use std::marker::PhantomData;

use ashlar_api::{
    ApiToken, Attachment, AttachmentsQuery, AuditEntry, AuditQuery, ClientsQuery, Database, DatabasesQuery,
    DeletedVolume, DeletedVolumesQuery, DoorClient, ErrorKind, Event, EventsQuery, Export, ExportsQuery,
    Host, HostsQuery, Job, JobsQuery, Mark, MarksQuery, Objective, ObjectivesQuery, Pool, PoolsQuery,
    Schedule, SchedulesQuery, Snapshot, SnapshotsQuery, TokensQuery, User, UsersQuery, Volume, VolumesQuery,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::call::{Client, segment};
use crate::error::{Error, Result};

/// A page of a list.
#[derive(Clone, PartialEq, Debug)]
pub struct Page<T> {
    pub items: Vec<T>,
    /// Where the list goes on, while it does: for [`Client::next_page`].
    pub next: Option<Next<T>>,
}

/// The place behind a page.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Next<T> {
    path: String,
    of: PhantomData<T>,
}

impl Client {
    /// Pools, as asked for.
    pub fn pools_page(&self, query: &PoolsQuery) -> Result<Page<Pool>> {
        self.first_page("/v1/pools", query)
    }

    /// Volumes, as asked for.
    pub fn volumes_page(&self, query: &VolumesQuery) -> Result<Page<Volume>> {
        self.first_page("/v1/volumes", query)
    }

    /// Snapshots, as asked for.
    pub fn snapshots_page(&self, query: &SnapshotsQuery) -> Result<Page<Snapshot>> {
        self.first_page("/v1/snapshots", query)
    }

    /// Deleted volumes, as asked for.
    pub fn deleted_volumes_page(&self, query: &DeletedVolumesQuery) -> Result<Page<DeletedVolume>> {
        self.first_page("/v1/deleted-volumes", query)
    }

    /// Databases, as asked for.
    pub fn databases_page(&self, query: &DatabasesQuery) -> Result<Page<Database>> {
        self.first_page("/v1/databases", query)
    }

    /// Schedules, as asked for.
    pub fn schedules_page(&self, query: &SchedulesQuery) -> Result<Page<Schedule>> {
        self.first_page("/v1/schedules", query)
    }

    /// Objectives of latency, as asked for.
    pub fn objectives_page(&self, query: &ObjectivesQuery) -> Result<Page<Objective>> {
        self.first_page("/v1/objectives", query)
    }

    /// Marks of the time line, as asked for.
    pub fn marks_page(&self, query: &MarksQuery) -> Result<Page<Mark>> {
        self.first_page("/v1/marks", query)
    }

    /// Attachments, as asked for.
    pub fn attachments_page(&self, query: &AttachmentsQuery) -> Result<Page<Attachment>> {
        self.first_page("/v1/attachments", query)
    }

    /// Hosts, as asked for.
    pub fn hosts_page(&self, query: &HostsQuery) -> Result<Page<Host>> {
        self.first_page("/v1/hosts", query)
    }

    /// Exports, as asked for.
    pub fn exports_page(&self, query: &ExportsQuery) -> Result<Page<Export>> {
        self.first_page("/v1/exports", query)
    }

    /// Clients, as asked for.
    pub fn clients_page(&self, query: &ClientsQuery) -> Result<Page<DoorClient>> {
        self.first_page("/v1/clients", query)
    }

    /// Jobs, as asked for.
    pub fn jobs_page(&self, query: &JobsQuery) -> Result<Page<Job>> {
        self.first_page("/v1/jobs", query)
    }

    /// Events, as asked for.
    pub fn events_page(&self, query: &EventsQuery) -> Result<Page<Event>> {
        self.first_page("/v1/events", query)
    }

    /// Users, as asked for.
    pub fn users_page(&self, query: &UsersQuery) -> Result<Page<User>> {
        self.first_page("/v1/users", query)
    }

    /// Tokens, as asked for.
    pub fn tokens_page(&self, query: &TokensQuery) -> Result<Page<ApiToken>> {
        self.first_page("/v1/tokens", query)
    }

    /// Who changed what, as asked for.
    pub fn audit_page(&self, query: &AuditQuery) -> Result<Page<AuditEntry>> {
        self.first_page("/v1/audit", query)
    }

    /// The page behind another.
    pub fn next_page<T: DeserializeOwned>(&self, next: &Next<T>) -> Result<Page<T>> {
        self.page(&next.path)
    }

    fn first_page<Q: Serialize, T: DeserializeOwned>(&self, path: &str, query: &Q) -> Result<Page<T>> {
        self.page(&with_query(path, query))
    }

    fn page<T: DeserializeOwned>(&self, path: &str) -> Result<Page<T>> {
        let answered = self.get_answer(path)?;
        let items = self.parse(&answered.body)?;
        let link = answered.headers.get("link").map(|link| link.to_str().unwrap_or_default());
        let next = link.map(next_of).transpose()?;
        Ok(Page { items, next: next.map(|path| Next { path, of: PhantomData }) })
    }
}

/// The path of the next page in a `Link` (RFC 8288).
fn next_of(link: &str) -> Result<String> {
    let path = link.split_once('<').and_then(|(_, rest)| rest.split_once('>')).map(|(path, _)| path);
    let is_next = link.ends_with("rel=\"next\"");
    path.filter(|path| is_next && path.starts_with('/')).map(str::to_string).ok_or_else(|| {
        Error::new(
            ErrorKind::Invalid,
            format!("the array leads on in another version's words ({link})"),
            "use the command line of the version that serves",
        )
    })
}

/// A path with what is asked for behind the question mark.
fn with_query<Q: Serialize>(path: &str, query: &Q) -> String {
    let fields = serde_json::to_value(query).expect("questions are plain data");
    let mut pairs = Vec::new();
    for (name, value) in fields.as_object().into_iter().flatten() {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_string);
        pairs.push(format!("{name}={}", segment(&text)));
    }
    pairs.sort();
    match pairs.is_empty() {
        true => path.to_string(),
        false => format!("{path}?{}", pairs.join("&")),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use ashlar_api::{Order, VolumeSort};

    use super::*;

    #[test]
    fn questions_become_parameters() {
        assert_eq!(with_query("/v1/volumes", &VolumesQuery::default()), "/v1/volumes");
        let query = VolumesQuery {
            limit: Some(10),
            sort: Some(VolumeSort::Size),
            order: Some(Order::Descending),
            name_prefix: Some("a b&c".to_string()),
            ..VolumesQuery::default()
        };
        let asked = with_query("/v1/volumes", &query);
        assert_eq!(asked, "/v1/volumes?limit=10&name_prefix=a%20b%26c&order=descending&sort=size");
    }

    #[test]
    fn only_a_link_to_the_next_page_of_this_array_is_followed() {
        assert_eq!(
            next_of("</v1/volumes?limit=1&cursor=7b>; rel=\"next\"").unwrap(),
            "/v1/volumes?limit=1&cursor=7b"
        );
        for wrong in ["", "</v1/volumes>; rel=\"last\"", "<http://elsewhere/>; rel=\"next\"", "rel=\"next\""]
        {
            assert!(next_of(wrong).is_err(), "{wrong}");
        }
    }
}
