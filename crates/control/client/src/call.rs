//! One method an operation.

use ashlar_api::{
    AttachRequest, Attachment, CheckReport, CloneCreate, ConsoleTicket, Database, DatabaseClone,
    DatabaseCreate, DatabaseDeletion, DatabaseExpiry, DatabaseFollow, DatabaseHandover, DatabaseHooks,
    DatabaseImport, DatabasePromotion, DatabaseProof, DatabaseReady, DatabaseReset, DatabaseResize,
    DatabaseRestore, DatabaseSettings, DatabaseSettingsChange, DatabaseSnapshot, DatabaseStart, DatabaseUrl,
    DatabaseVerify, DatabaseWaits, Dedupe, DedupeRequest, DeletedVolume, Disconnected, DoorClient, DoorIo,
    DriveChange, DriveOnline, DriveSpec, DrivesAdd, ErrorKind, Event, HoldRequest, Holders, Job, Pool,
    PoolCreate, PoolImport, PoolSpace, Program, Reclaim, ReclaimRequest, Restored, Schedule, ScheduleChange,
    ScheduleCreate, ScheduleDeletion, ScrubAction, ScrubChange, ScrubReport, Session, SlowRequest, Snapshot,
    SnapshotCreate, SnapshotsDelete, Status, StopRequest, UpgradeRequest, Volume, VolumeCreate,
    VolumeDeletion, VolumePolicy, VolumeResize, VolumeUndelete, VolumeUser,
};
use hyper::Method;
use hyper::body::Bytes;
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::error::{Error, Result};
use crate::transport::{Address, Answered, PATIENCE, exchange, exchange_within};

/// A client of one array.
pub struct Client {
    address: Address,
    token: Option<String>,
    runtime: tokio::runtime::Runtime,
}

impl Client {
    /// A client of the array at `address`. Connects only when asked something.
    pub fn new(address: Address) -> Result<Client> {
        let runtime =
            tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(|error| {
                Error::new(
                    ErrorKind::Medium,
                    format!("this process gets no event queue ({error})"),
                    "raise the limit of open files",
                )
            })?;
        Ok(Client { address, token: None, runtime })
    }

    /// The same client, showing a token with every request.
    #[must_use]
    pub fn with_token(self, token: String) -> Client {
        Client { token: Some(token), ..self }
    }

    /// Where this client looks for its array.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// The array as a whole.
    pub fn status(&self) -> Result<Status> {
        self.get("/v1/status")
    }

    /// What this client may do.
    pub fn session(&self) -> Result<Session> {
        self.get("/v1/session")
    }

    /// What hosts did, per volume and door.
    pub fn io(&self) -> Result<Vec<DoorIo>> {
        self.get("/v1/io")
    }

    /// Events with a sequence number above `after`, oldest first.
    pub fn events(&self, after: u64) -> Result<Vec<Event>> {
        self.get(&format!("/v1/events?after={after}"))
    }

    /// The counters as Prometheus reads them.
    pub fn metrics(&self) -> Result<String> {
        let bytes = self.call(Method::GET, "/metrics", None)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// All pools.
    pub fn pools(&self) -> Result<Vec<Pool>> {
        self.get("/v1/pools")
    }

    /// One pool.
    pub fn pool(&self, name: &str) -> Result<Pool> {
        self.get(&format!("/v1/pools/{}", segment(name)))
    }

    /// Makes a pool.
    pub fn pool_create(&self, request: &PoolCreate) -> Result<Pool> {
        self.send(Method::POST, "/v1/pools", Some(request))
    }

    /// Destroys an empty pool.
    pub fn pool_delete(&self, name: &str, is_forced: bool) -> Result<()> {
        let path = format!("/v1/pools/{}?force={is_forced}", segment(name));
        self.call(Method::DELETE, &path, None).map(drop)
    }

    /// Verifies a pool, and all its parity if `is_deep`.
    pub fn pool_check(&self, name: &str, is_deep: bool) -> Result<CheckReport> {
        let path = format!("/v1/pools/{}/check?is_deep={is_deep}", segment(name));
        self.send(Method::POST, &path, None::<&()>)
    }

    /// Checks a pool and compares it with its parity.
    pub fn pool_scrub(&self, name: &str) -> Result<ScrubReport> {
        self.send(Method::POST, &format!("/v1/pools/{}/scrub", segment(name)), None::<&()>)
    }

    /// Holds the scrub of a pool, lets it go on, or ends it.
    pub fn pool_scrub_change(&self, name: &str, action: ScrubAction) -> Result<Pool> {
        let path = format!("/v1/pools/{}/scrub", segment(name));
        self.send(Method::PATCH, &path, Some(&ScrubChange { action }))
    }

    /// Closes and forgets a pool, also one in use if forced.
    pub fn pool_export(&self, name: &str, is_forced: bool) -> Result<()> {
        let path = format!("/v1/pools/{}/export?force={is_forced}", segment(name));
        self.call(Method::POST, &path, None).map(drop)
    }

    /// Opens and remembers a pool.
    pub fn pool_import(&self, name: &str, request: &PoolImport) -> Result<Pool> {
        self.send(Method::POST, &format!("/v1/pools/{}/import", segment(name)), Some(request))
    }

    /// Opens a pool again that stopped writing.
    pub fn pool_reopen(&self, name: &str) -> Result<Pool> {
        self.send(Method::POST, &format!("/v1/pools/{}/reopen", segment(name)), None::<&()>)
    }

    /// Adds drives to a pool.
    pub fn drives_add(&self, pool: &str, request: &DrivesAdd) -> Result<Pool> {
        self.send(Method::POST, &format!("/v1/pools/{}/drives", segment(pool)), Some(request))
    }

    /// Declares what may be written to a drive in its life.
    pub fn drive_set(&self, pool: &str, number: u32, change: &DriveChange) -> Result<Pool> {
        let path = format!("/v1/pools/{}/drives/{number}", segment(pool));
        self.send(Method::PATCH, &path, Some(change))
    }

    /// Puts a new drive in the place of one that is out of service.
    pub fn drive_replace(&self, pool: &str, number: u32, with: &DriveSpec) -> Result<Pool> {
        self.send(Method::POST, &drive_path(pool, number, "replace"), Some(with))
    }

    /// Takes a drive back into service.
    pub fn drive_online(&self, pool: &str, number: u32, request: &DriveOnline) -> Result<Pool> {
        self.send(Method::POST, &drive_path(pool, number, "online"), Some(request))
    }

    /// Takes a drive out of service.
    pub fn drive_offline(&self, pool: &str, number: u32) -> Result<Pool> {
        self.send(Method::POST, &drive_path(pool, number, "offline"), None::<&()>)
    }

    /// Lets a drive leave its pool.
    pub fn drive_remove(&self, pool: &str, number: u32) -> Result<Pool> {
        let path = format!("/v1/pools/{}/drives/{number}", segment(pool));
        self.send(Method::DELETE, &path, None::<&()>)
    }

    /// Where a pool's bytes are, walked within so long; by the last mark when `None`.
    pub fn pool_space(&self, name: &str, within_seconds: Option<u64>) -> Result<PoolSpace> {
        let query = match within_seconds {
            Some(seconds) => format!("within_seconds={seconds}"),
            None => "is_quick=true".to_string(),
        };
        self.get(&format!("/v1/pools/{}/space?{query}", segment(name)))
    }

    /// The fingerprint index of a pool.
    pub fn pool_dedupe(&self, name: &str) -> Result<Dedupe> {
        self.get(&format!("/v1/pools/{}/dedupe", segment(name)))
    }

    /// Does something with the fingerprint index of a pool.
    pub fn pool_dedupe_change(&self, name: &str, request: &DedupeRequest) -> Result<Dedupe> {
        self.send(Method::POST, &format!("/v1/pools/{}/dedupe", segment(name)), Some(request))
    }

    /// What deleting a set would give back.
    pub fn space_reclaim(&self, request: &ReclaimRequest) -> Result<Reclaim> {
        self.send(Method::POST, "/v1/space/reclaim", Some(request))
    }

    /// What keeps the space of a volume or snapshot.
    pub fn space_holders(&self, name: &str, within_seconds: u64) -> Result<Holders> {
        self.get(&format!("/v1/space/holders/{}?within_seconds={within_seconds}", segment(name)))
    }

    /// All volumes.
    pub fn volumes(&self) -> Result<Vec<Volume>> {
        self.get("/v1/volumes")
    }

    /// One volume.
    pub fn volume(&self, name: &str) -> Result<Volume> {
        self.get(&format!("/v1/volumes/{}", segment(name)))
    }

    /// Makes a volume.
    pub fn volume_create(&self, request: &VolumeCreate) -> Result<Volume> {
        self.send(Method::POST, "/v1/volumes", Some(request))
    }

    /// Changes a volume's size.
    pub fn volume_resize(&self, name: &str, request: &VolumeResize) -> Result<Volume> {
        self.send(Method::PATCH, &format!("/v1/volumes/{}", segment(name)), Some(request))
    }

    /// Changes how a volume's data are reduced.
    pub fn volume_set(&self, name: &str, request: &VolumePolicy) -> Result<Volume> {
        self.send(Method::PUT, &format!("/v1/volumes/{}/policy", segment(name)), Some(request))
    }

    /// Deletes a volume, also one in use if forced; for good if it is to go now.
    pub fn volume_delete(&self, name: &str, is_forced: bool, is_now: bool) -> Result<VolumeDeletion> {
        let path = format!("/v1/volumes/{}?force={is_forced}&now={is_now}", segment(name));
        self.send(Method::DELETE, &path, None::<&()>)
    }

    /// The deleted volumes that can come back.
    pub fn deleted_volumes(&self) -> Result<Vec<DeletedVolume>> {
        self.get("/v1/deleted-volumes")
    }

    /// Brings a deleted volume back.
    pub fn volume_undelete(&self, name: &str, request: &VolumeUndelete) -> Result<Volume> {
        self.send(Method::POST, &format!("/v1/deleted-volumes/{}/undelete", segment(name)), Some(request))
    }

    /// Gives up a deleted volume.
    pub fn deleted_volume_purge(&self, name: &str) -> Result<()> {
        self.call(Method::DELETE, &format!("/v1/deleted-volumes/{}", segment(name)), None).map(drop)
    }

    /// Everybody who uses a volume or an image of it.
    pub fn volume_users(&self, name: &str) -> Result<Vec<VolumeUser>> {
        self.get(&format!("/v1/volumes/{}/users", segment(name)))
    }

    /// Cuts off a volume's NBD clients.
    pub fn volume_disconnect(&self, name: &str) -> Result<Disconnected> {
        self.send(Method::POST, &format!("/v1/volumes/{}/disconnect", segment(name)), None::<&()>)
    }

    /// All snapshots.
    pub fn snapshots(&self) -> Result<Vec<Snapshot>> {
        self.get("/v1/snapshots")
    }

    /// One snapshot.
    pub fn snapshot(&self, name: &str) -> Result<Snapshot> {
        self.get(&format!("/v1/snapshots/{}", segment(name)))
    }

    /// Takes a snapshot of volumes at one instant.
    pub fn snapshot_create(&self, request: &SnapshotCreate) -> Result<Snapshot> {
        self.send(Method::POST, "/v1/snapshots", Some(request))
    }

    /// Deletes snapshots, or none where one cannot be deleted.
    pub fn snapshots_delete(&self, request: &SnapshotsDelete) -> Result<()> {
        self.call(Method::POST, "/v1/snapshot-deletions", Some(plain(request))).map(drop)
    }

    /// Sets a snapshot's volumes back to it, and keeps what they were if wanted; cuts off NBD clients if
    /// forced.
    pub fn snapshot_restore(&self, name: &str, is_forced: bool, is_kept: bool) -> Result<Restored> {
        let question = format!("force={is_forced}&no_backup={}", !is_kept);
        let path = format!("/v1/snapshots/{}/restore?{question}", segment(name));
        self.send(Method::POST, &path, None::<&()>)
    }

    /// Holds a snapshot.
    pub fn snapshot_hold(&self, name: &str, request: &HoldRequest) -> Result<Snapshot> {
        self.send(Method::PUT, &format!("/v1/snapshots/{}/hold", segment(name)), Some(request))
    }

    /// Ends the hold of a snapshot.
    pub fn snapshot_release(&self, name: &str) -> Result<Snapshot> {
        self.send(Method::DELETE, &format!("/v1/snapshots/{}/hold", segment(name)), None::<&()>)
    }

    /// Makes writable volumes from a snapshot or a volume.
    pub fn clone_create(&self, request: &CloneCreate) -> Result<Vec<Volume>> {
        self.send(Method::POST, "/v1/clones", Some(request))
    }

    /// All databases.
    pub fn databases(&self) -> Result<Vec<Database>> {
        self.get("/v1/databases")
    }

    /// One database.
    pub fn database(&self, name: &str) -> Result<Database> {
        self.get(&format!("/v1/databases/{}", segment(name)))
    }

    /// Where it is found.
    pub fn database_url(&self, name: &str) -> Result<DatabaseUrl> {
        self.get(&format!("/v1/databases/{}/url", segment(name)))
    }

    /// Makes an empty database.
    pub fn database_create(&self, request: &DatabaseCreate) -> Result<DatabaseReady> {
        self.send(Method::POST, "/v1/databases", Some(request))
    }

    /// Deletes a database with its volumes, and with its schedules if wanted.
    pub fn database_delete(&self, name: &str, with_schedules: bool) -> Result<DatabaseDeletion> {
        let path = format!("/v1/databases/{}?with_schedules={with_schedules}", segment(name));
        self.send(Method::DELETE, &path, None::<&()>)
    }

    /// Starts the server of a database.
    pub fn database_start(&self, name: &str, request: &DatabaseStart) -> Result<DatabaseReady> {
        self.send(Method::POST, &format!("/v1/databases/{}/start", segment(name)), Some(request))
    }

    /// Stops it.
    pub fn database_stop(&self, name: &str) -> Result<Database> {
        self.send(Method::POST, &format!("/v1/databases/{}/stop", segment(name)), None::<&()>)
    }

    /// What the machine needs that a clone is away at.
    pub fn database_handover(&self, name: &str) -> Result<DatabaseHandover> {
        self.get(&format!("/v1/databases/{}/handover", segment(name)))
    }

    /// Takes a clone back that is away.
    pub fn database_return(&self, name: &str) -> Result<DatabaseReady> {
        self.send(Method::POST, &format!("/v1/databases/{}/return", segment(name)), None::<&()>)
    }

    /// Makes a database of the content of another.
    pub fn database_clone(&self, name: &str, request: &DatabaseClone) -> Result<DatabaseReady> {
        self.send(Method::POST, &format!("/v1/databases/{}/clone", segment(name)), Some(request))
    }

    /// Gives a clone the content of its origin.
    pub fn database_reset(&self, name: &str, request: &DatabaseReset) -> Result<DatabaseReady> {
        self.send(Method::POST, &format!("/v1/databases/{}/reset", segment(name)), Some(request))
    }

    /// Sets a database back to a snapshot.
    pub fn database_restore(&self, name: &str, request: &DatabaseRestore) -> Result<DatabaseReady> {
        self.send(Method::POST, &format!("/v1/databases/{}/restore", segment(name)), Some(request))
    }

    /// Proves that a snapshot of a database recovers.
    pub fn database_verify(&self, name: &str, request: &DatabaseVerify) -> Result<DatabaseProof> {
        self.send(Method::POST, &format!("/v1/databases/{}/verify", segment(name)), Some(request))
    }

    /// The settings of a database's server that are kept.
    pub fn database_settings(&self, name: &str) -> Result<DatabaseSettings> {
        self.get(&format!("/v1/databases/{}/settings", segment(name)))
    }

    /// Changes them.
    pub fn database_settings_change(
        &self,
        name: &str,
        request: &DatabaseSettingsChange,
    ) -> Result<DatabaseSettings> {
        self.send(Method::PATCH, &format!("/v1/databases/{}/settings", segment(name)), Some(request))
    }

    /// Enlarges volumes of a database.
    pub fn database_resize(&self, name: &str, request: &DatabaseResize) -> Result<Database> {
        self.send(Method::POST, &format!("/v1/databases/{}/resize", segment(name)), Some(request))
    }

    /// Gives a database without a server these commands instead of those that it has.
    pub fn database_commands(&self, name: &str, request: &DatabaseHooks) -> Result<Database> {
        self.send(Method::PUT, &format!("/v1/databases/{}/commands", segment(name)), Some(request))
    }

    /// Looks for some seconds what the sessions of a database wait for.
    pub fn database_waits(&self, name: &str, seconds: u64) -> Result<DatabaseWaits> {
        let path = format!("/v1/databases/{}/waits?seconds={seconds}", segment(name));
        let token = self.token.as_deref();
        let asked = exchange_within(PATIENCE, &self.address, token, Method::GET, &path, None);
        let answered = self.runtime.block_on(asked)?;
        self.parse(&answered.body)
    }

    /// Brings a database in from elsewhere, however long that takes.
    pub fn database_import(&self, request: &DatabaseImport) -> Result<DatabaseReady> {
        self.send_patiently(Method::POST, "/v1/database-imports", request)
    }

    /// Makes a standby of a running server, however long that takes.
    pub fn database_follow(&self, request: &DatabaseFollow) -> Result<DatabaseReady> {
        self.send_patiently(Method::POST, "/v1/database-standbys", request)
    }

    /// Ends the following of a standby.
    pub fn database_promote(&self, name: &str) -> Result<DatabasePromotion> {
        self.send(Method::POST, &format!("/v1/databases/{}/promote", segment(name)), None::<&()>)
    }

    /// Takes a snapshot of databases at one instant.
    pub fn database_snapshot(&self, request: &DatabaseSnapshot) -> Result<Snapshot> {
        self.send(Method::POST, "/v1/database-snapshots", Some(request))
    }

    /// Sets when a clone is deleted, or that it is not.
    pub fn database_expire(&self, name: &str, request: &DatabaseExpiry) -> Result<Database> {
        self.send(Method::PUT, &format!("/v1/databases/{}/expiry", segment(name)), Some(request))
    }

    /// All schedules.
    pub fn schedules(&self) -> Result<Vec<Schedule>> {
        self.get("/v1/schedules")
    }

    /// One schedule.
    pub fn schedule(&self, name: &str) -> Result<Schedule> {
        self.get(&format!("/v1/schedules/{}", segment(name)))
    }

    /// Makes a schedule.
    pub fn schedule_create(&self, request: &ScheduleCreate) -> Result<Schedule> {
        self.send(Method::POST, "/v1/schedules", Some(request))
    }

    /// Changes a schedule in place.
    pub fn schedule_change(&self, name: &str, request: &ScheduleChange) -> Result<Schedule> {
        self.send(Method::PATCH, &format!("/v1/schedules/{}", segment(name)), Some(request))
    }

    /// Deletes a schedule, with its snapshots if wanted.
    pub fn schedule_delete(&self, name: &str, with_snapshots: bool) -> Result<ScheduleDeletion> {
        let path = format!("/v1/schedules/{}?with_snapshots={with_snapshots}", segment(name));
        self.send(Method::DELETE, &path, None::<&()>)
    }

    /// Has a schedule take a snapshot now.
    pub fn schedule_run(&self, name: &str) -> Result<Snapshot> {
        self.send(Method::POST, &format!("/v1/schedules/{}/run", segment(name)), None::<&()>)
    }

    /// Has it take none until it is let go on.
    pub fn schedule_pause(&self, name: &str) -> Result<Schedule> {
        self.send(Method::POST, &format!("/v1/schedules/{}/pause", segment(name)), None::<&()>)
    }

    /// Lets it go on.
    pub fn schedule_resume(&self, name: &str) -> Result<Schedule> {
        self.send(Method::POST, &format!("/v1/schedules/{}/resume", segment(name)), None::<&()>)
    }

    /// The attached volumes.
    pub fn attachments(&self) -> Result<Vec<Attachment>> {
        self.get("/v1/attachments")
    }

    /// One of them.
    pub fn attachment(&self, volume: &str) -> Result<Attachment> {
        self.get(&format!("/v1/attachments/{}", segment(volume)))
    }

    /// Attaches a volume.
    pub fn attach(&self, request: &AttachRequest) -> Result<Attachment> {
        self.send(Method::POST, "/v1/attachments", Some(request))
    }

    /// Detaches a volume; unmounts lazily if forced.
    pub fn detach(&self, volume: &str, is_forced: bool) -> Result<()> {
        let path = format!("/v1/attachments/{}?force={is_forced}", segment(volume));
        self.call(Method::DELETE, &path, None).map(drop)
    }

    /// Stops the array; returns before it has ended.
    pub fn stop(&self, request: StopRequest) -> Result<()> {
        self.call(Method::POST, "/v1/stop", Some(plain(&request))).map(drop)
    }

    /// Has the array go on with another program; returns before it does.
    pub fn upgrade(&self, request: &UpgradeRequest) -> Result<Program> {
        self.send(Method::POST, "/v1/upgrade", Some(request))
    }

    /// An address that opens the console once.
    pub fn console_ticket(&self) -> Result<ConsoleTicket> {
        self.send(Method::POST, "/v1/console-tickets", None::<&()>)
    }

    /// The jobs of the array's present start, the newest last.
    pub fn jobs(&self) -> Result<Vec<Job>> {
        self.get("/v1/jobs")
    }

    /// One job.
    pub fn job(&self, id: &str) -> Result<Job> {
        self.get(&format!("/v1/jobs/{}", segment(id)))
    }

    /// Ends a job that runs, where that is possible, or forgets one that has come to its end.
    pub fn job_cancel(&self, id: &str) -> Result<Job> {
        self.send(Method::DELETE, &format!("/v1/jobs/{}", segment(id)), None::<&()>)
    }

    /// Begins to verify a pool, without waiting for the end.
    pub fn pool_check_begin(&self, name: &str, is_deep: bool) -> Result<Job> {
        let path = format!("/v1/pools/{}/check?is_deep={is_deep}&wait=false", segment(name));
        self.send(Method::POST, &path, None::<&()>)
    }

    /// Begins to scrub a pool, without waiting for the end.
    pub fn pool_scrub_begin(&self, name: &str) -> Result<Job> {
        self.send(Method::POST, &format!("/v1/pools/{}/scrub?wait=false", segment(name)), None::<&()>)
    }

    /// The clients that are connected to NBD.
    pub fn clients(&self) -> Result<Vec<DoorClient>> {
        self.get("/v1/clients")
    }

    /// Cuts a client off.
    pub fn client_disconnect(&self, id: u64) -> Result<()> {
        self.call(Method::DELETE, &format!("/v1/clients/{id}"), None).map(drop)
    }

    /// The slowest requests of the last five minutes, the slowest first.
    pub fn slow_requests(&self) -> Result<Vec<SlowRequest>> {
        self.get("/v1/slow-requests")
    }

    pub(crate) fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    pub(crate) fn runtime(&self) -> &tokio::runtime::Runtime {
        &self.runtime
    }

    pub(crate) fn get<T: DeserializeOwned>(&self, path: &str) -> Result<T> {
        self.send(Method::GET, path, None::<&()>)
    }

    pub(crate) fn send<B: Serialize, T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: Option<&B>,
    ) -> Result<T> {
        let text = body.map(plain);
        let bytes = self.call(method, path, text)?;
        self.parse(&bytes)
    }

    /// The same for what copies a database, which may take days.
    fn send_patiently<B: Serialize, T: DeserializeOwned>(
        &self,
        method: Method,
        path: &str,
        body: &B,
    ) -> Result<T> {
        let text = Some(plain(body));
        let sent = exchange_within(PATIENCE, &self.address, self.token.as_deref(), method, path, text);
        let answered = self.runtime.block_on(sent)?;
        self.parse(&answered.body)
    }

    pub(crate) fn parse<T: DeserializeOwned>(&self, bytes: &[u8]) -> Result<T> {
        serde_json::from_slice(bytes).map_err(|error| {
            Error::new(
                ErrorKind::Invalid,
                format!("the array at {} answered in another version's words ({error})", self.address),
                "use the command line of the version that serves",
            )
        })
    }

    pub(crate) fn call(&self, method: Method, path: &str, body: Option<String>) -> Result<Bytes> {
        let answered = exchange(&self.address, self.token.as_deref(), method, path, body);
        self.runtime.block_on(answered).map(|answered| answered.body)
    }

    /// The whole answer to a GET.
    pub(crate) fn get_answer(&self, path: &str) -> Result<Answered> {
        self.runtime.block_on(exchange(&self.address, self.token.as_deref(), Method::GET, path, None))
    }
}

fn plain<B: Serialize>(request: &B) -> String {
    serde_json::to_string(request).expect("requests are plain data")
}

fn drive_path(pool: &str, number: u32, what: &str) -> String {
    format!("/v1/pools/{}/drives/{number}/{what}", segment(pool))
}

/// A name as one segment of a path: what is not plain in a URL is percent-encoded, so that a wrong
/// name reaches the array, which says what is wrong with it.
pub(crate) fn segment(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for byte in name.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~@".contains(&byte) {
            text.push(char::from(byte));
        } else {
            text.push_str(&format!("%{byte:02X}"));
        }
    }
    text
}

#[cfg(test)]
mod segment_tests {
    use super::segment;

    #[test]
    fn names_with_slashes_and_blanks_stay_one_segment() {
        assert_eq!(segment("db@before"), "db@before");
        assert_eq!(segment("a/b c?"), "a%2Fb%20c%3F");
    }
}
