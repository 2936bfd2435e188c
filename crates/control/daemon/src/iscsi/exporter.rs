//! What is served over iSCSI at this moment: units, and the views of hosts.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::rc::Rc;

use ashlar_api as api;
use ashlar_iscsi::{Client, Server};
use ashlar_runtime::Peer;
use ashlar_scsi::{Port, Target, Unit, UnitAddress, world_wide_name};

use super::records::{HostRecord, NotedExport, NotedHost, NotedTarget};

/// A pool and the address of a unit at its target.
type Place = (String, u16);
/// A pool and the host that looks at it: none for whoever is no host of it.
type Viewer = (String, Option<String>);

/// An export that is served.
struct Exported {
    noted: NotedExport,
    unit: Rc<Unit>,
}

/// An export and who is logged in where it is seen.
pub(crate) struct ExportUse {
    pub(crate) volume: String,
    /// As people call it: its number and its target.
    pub(crate) place: String,
    /// Name of each initiator, and where it comes from.
    pub(crate) initiators: Vec<(String, String)>,
}

/// Everything the data shard knows of hosts and exports.
#[derive(Default)]
pub(crate) struct Exporter {
    targets: RefCell<Vec<NotedTarget>>,
    hosts: RefCell<Vec<NotedHost>>,
    exported: RefCell<BTreeMap<Place, Exported>>,
    views: RefCell<BTreeMap<Viewer, Rc<Target>>>,
    /// Units that are served no more, while commands may be at work on them.
    retired: RefCell<Vec<Exported>>,
    pub(super) server: RefCell<Option<Server>>,
    addresses: RefCell<Vec<SocketAddr>>,
}

impl Exporter {
    /// Serves this from now on. `unit` makes the unit of an export that had none.
    pub(super) fn serve(
        &self,
        targets: Vec<NotedTarget>,
        hosts: Vec<NotedHost>,
        exports: Vec<NotedExport>,
        unit: impl Fn(&NotedExport) -> Option<Unit>,
    ) {
        self.targets.replace(targets);
        self.hosts.replace(hosts);
        let mut before = self.exported.take();
        let served = exports.into_iter().filter_map(|noted| {
            let place = (noted.pool.clone(), noted.record.unit);
            let is_same = before.get(&place).is_some_and(|one| one.noted.is_same_unit(&noted));
            let kept = if is_same { before.remove(&place) } else { None };
            let unit = match kept {
                Some(one) => one.unit,
                None => Rc::new(unit(&noted)?),
            };
            Some((place, Exported { noted, unit }))
        });
        let served = served.collect();
        self.exported.replace(served);
        let mut retired = self.retired.borrow_mut();
        retired.retain(|one| Rc::strong_count(&one.unit) > 1);
        retired.extend(before.into_values().inspect(|one| one.unit.retire()));
        drop(retired);
        let viewers: Vec<Viewer> = self.views.borrow().keys().cloned().collect();
        for viewer in viewers {
            match self.is_viewer(&viewer) {
                true => drop(self.view(viewer)),
                false => self.end_view(&viewer),
            }
        }
        // Its own borrow ends before sessions ask for their views.
        let server = self.server.borrow().clone();
        server.iter().for_each(Server::revise);
    }

    /// Returns when nothing is written any more of what hosts sent to a volume's units that are served no
    /// more.
    pub(crate) async fn wait_for_retired(&self, pool: &str, volume: u64) {
        let is_its = |one: &&Exported| one.noted.pool == pool && one.noted.identity.image == volume;
        let units: Vec<Rc<Unit>> =
            self.retired.borrow().iter().filter(is_its).map(|one| one.unit.clone()).collect();
        for unit in units {
            unit.wait_for_writes().await;
        }
    }

    /// Nobody is to see anything by it any more.
    fn end_view(&self, viewer: &Viewer) {
        let target = self.views.borrow_mut().remove(viewer);
        for target in target.iter() {
            target.units().into_iter().for_each(|(address, _)| drop(target.remove(address)));
        }
    }

    fn is_viewer(&self, (pool, host): &Viewer) -> bool {
        let hosts = self.hosts.borrow();
        let is_host = |host: &String| hosts.iter().any(|one| one.pool == *pool && one.record.name == *host);
        self.target_of(pool).is_some() && host.as_ref().is_none_or(is_host)
    }

    /// The name of the target that a pool is.
    fn target_of(&self, pool: &str) -> Option<String> {
        let targets = self.targets.borrow();
        targets.iter().find(|target| target.pool == pool).map(|target| target.name.clone())
    }

    /// The pool behind a target. People type names in any letters.
    pub(super) fn pool_of(&self, target: &str) -> Option<String> {
        let targets = self.targets.borrow();
        let found = targets.iter().find(|one| one.name.eq_ignore_ascii_case(target));
        found.map(|one| one.pool.clone())
    }

    /// The records about an initiator, of one pool or of all.
    pub(super) fn hosts_of(&self, initiator: &str, pool: Option<&str>) -> Vec<HostRecord> {
        let hosts = self.hosts.borrow();
        let is_meant = |one: &&NotedHost| {
            one.record.initiator.eq_ignore_ascii_case(initiator) && pool.is_none_or(|pool| one.pool == pool)
        };
        hosts.iter().filter(is_meant).map(|one| one.record.clone()).collect()
    }

    /// The targets at which an initiator sees something.
    pub(super) fn targets_for(&self, initiator: &str) -> Vec<String> {
        let exported = self.exported.borrow();
        let sees = |target: &&NotedTarget| {
            let host = self.host_of(&target.pool, initiator);
            exported.values().any(|one| one.noted.pool == target.pool && one.noted.is_for(host.as_deref()))
        };
        self.targets.borrow().iter().filter(sees).map(|target| target.name.clone()).collect()
    }

    /// What an initiator is called as a host of a pool.
    fn host_of(&self, pool: &str, initiator: &str) -> Option<String> {
        self.hosts_of(initiator, Some(pool)).into_iter().next().map(|host| host.name)
    }

    /// What an initiator sees of a pool. `is_proven` where it showed a secret: then it is a host, or was one.
    pub(super) fn view_of(&self, target: &str, initiator: &str, is_proven: bool) -> Option<Rc<Target>> {
        let pool = self.pool_of(target)?;
        let host = self.host_of(&pool, initiator);
        if host.is_none() && is_proven {
            return None;
        }
        Some(self.view((pool, host)))
    }

    /// A view, with the units that are to be seen now.
    fn view(&self, viewer: Viewer) -> Rc<Target> {
        let (pool, host) = viewer.clone();
        let made = || {
            let name = self.target_of(&pool).unwrap_or_default();
            Target::new(Port {
                relative_id: 1,
                group: 1,
                name: format!("{name},t,0x0001"),
                device_name: name,
            })
        };
        let target = self.views.borrow_mut().entry(viewer).or_insert_with(made).clone();
        let exported = self.exported.borrow();
        let is_seen = |one: &&Exported| one.noted.pool == pool && one.noted.is_for(host.as_deref());
        let address = |one: &Exported| UnitAddress::new(one.noted.record.unit);
        let seen: BTreeMap<UnitAddress, &Rc<Unit>> =
            exported.values().filter(is_seen).filter_map(|one| Some((address(one)?, &one.unit))).collect();
        for (address, unit) in target.units() {
            if !seen.get(&address).is_some_and(|now| Rc::ptr_eq(now, &unit)) {
                target.remove(address);
            }
        }
        for (address, unit) in seen {
            // One that is there stays.
            let _ = target.add(address, unit.clone());
        }
        target
    }

    /// The volume at a unit of a target.
    pub(super) fn volume_at(&self, target: &str, address: UnitAddress) -> Option<String> {
        let place = (self.pool_of(target)?, address.number());
        self.exported.borrow().get(&place).map(|one| one.noted.volume.clone())
    }

    /// Where hosts come in.
    pub(crate) fn addresses(&self) -> Vec<SocketAddr> {
        self.addresses.borrow().clone()
    }

    pub(super) fn add_address(&self, address: SocketAddr) {
        self.addresses.borrow_mut().push(address);
    }

    /// A host of an open pool that has no secret.
    pub(crate) fn host_without_secret(&self) -> Option<String> {
        let hosts = self.hosts.borrow();
        hosts.iter().find(|host| host.record.chap.is_none()).map(|host| host.record.name.clone())
    }

    /// The initiators that are logged in.
    pub(crate) fn clients(&self) -> Vec<Client> {
        self.server.borrow().as_ref().map(Server::clients).unwrap_or_default()
    }

    /// Cuts a session off; false where there is none of this number.
    pub(crate) fn disconnect(&self, number: u64) -> bool {
        self.server.borrow().as_ref().is_some_and(|server| server.disconnect(number))
    }

    /// Sessions there are, logins under way included, connections that found no place, and those cut off.
    pub(crate) fn crowd(&self) -> (u64, u64, u64) {
        let server = self.server.borrow();
        let counts = |server: &Server| (server.sessions() as u64, server.refused(), server.cut());
        server.as_ref().map_or((0, 0, 0), counts)
    }

    /// Takes out what a person should hear of sessions, one line each.
    pub(crate) fn take_notices(&self) -> Vec<String> {
        self.server.borrow().as_ref().map(Server::take_notices).unwrap_or_default()
    }

    /// The initiators that are logged in, each with the pool it looks at and the host that it is there.
    fn logged_in(&self) -> Vec<(Viewer, Client)> {
        let viewed = self.clients().into_iter().filter_map(|client| {
            let pool = self.pool_of(&client.target)?;
            let host = self.host_of(&pool, &client.initiator);
            Some(((pool, host), client))
        });
        viewed.collect()
    }

    /// Every export, and who is logged in where it is seen.
    pub(crate) fn uses(&self) -> Vec<ExportUse> {
        let logged_in = self.logged_in();
        let exported = self.exported.borrow();
        let view = |one: &Exported| {
            let seen_by = clients_of(&one.noted, &logged_in);
            let target = self.target_of(&one.noted.pool).unwrap_or_default();
            ExportUse {
                volume: one.noted.volume.clone(),
                place: format!("LUN {} of {target}", one.noted.record.unit),
                initiators: seen_by.map(|client| (client.initiator.clone(), from(client))).collect(),
            }
        };
        exported.values().map(view).collect()
    }

    /// The exports as people see them.
    pub(crate) fn exports(&self) -> Vec<api::Export> {
        let logged_in = self.logged_in();
        let addresses: Vec<String> = self.addresses().iter().map(SocketAddr::to_string).collect();
        let exported = self.exported.borrow();
        let view = |one: &Exported| {
            let NotedExport { pool, volume, record, identity } = &one.noted;
            api::Export {
                volume: volume.clone(),
                pool: pool.clone(),
                target: self.target_of(pool).unwrap_or_default(),
                unit: record.unit,
                wwn: world_wide_name(*identity),
                block_bytes: record.block_bytes,
                hosts: record.hosts.clone(),
                addresses: addresses.clone(),
                session_count: clients_of(&one.noted, &logged_in).count() as u64,
                created_unix_seconds: record.created_unix_seconds,
            }
        };
        let mut exports: Vec<api::Export> = exported.values().map(view).collect();
        exports.sort_by(|a, b| a.volume.cmp(&b.volume));
        exports
    }

    /// The hosts as people see them: without their secrets.
    pub(crate) fn hosts(&self) -> Vec<api::Host> {
        let logged_in = self.logged_in();
        let exported = self.exported.borrow();
        let view = |host: &NotedHost| {
            let NotedHost { pool, record, .. } = host;
            let its = logged_in
                .iter()
                .filter(|((at, host), _)| at == pool && host.as_ref() == Some(&record.name))
                .map(|(_, client)| session(client));
            let sees = |one: &&Exported| one.noted.pool == *pool && one.noted.is_for(Some(&record.name));
            api::Host {
                name: record.name.clone(),
                pool: pool.clone(),
                initiator: record.initiator.clone(),
                chap_user: record.chap.as_ref().map(|login| login.user.clone()),
                mutual_chap_user: record.mutual_chap.as_ref().map(|login| login.user.clone()),
                volumes: exported.values().filter(sees).map(|one| one.noted.volume.clone()).collect(),
                sessions: its.collect(),
                created_unix_seconds: record.created_unix_seconds,
            }
        };
        let mut hosts: Vec<api::Host> = self.hosts.borrow().iter().map(view).collect();
        hosts.sort_by(|a, b| a.name.cmp(&b.name));
        hosts
    }

    /// Lets hosts log out, then ends what is left of their sessions.
    pub(crate) async fn stop(&self) {
        let server = self.server.take();
        if let Some(server) = server {
            server.shutdown().await;
        }
        self.addresses.take();
        self.views.take();
        self.exported.take();
    }
}

/// Those that see an export.
fn clients_of<'a>(
    noted: &NotedExport,
    logged_in: &'a [(Viewer, Client)],
) -> impl Iterator<Item = &'a Client> {
    let sees = |(pool, host): &Viewer| *pool == noted.pool && noted.is_for(host.as_deref());
    logged_in.iter().filter(move |(viewer, _)| sees(viewer)).map(|(_, client)| client)
}

fn session(client: &Client) -> api::HostSession {
    api::HostSession {
        address: from(client),
        connected_seconds: client.connected.as_secs(),
        in_flight_count: client.in_flight as u64,
    }
}

/// Where an initiator comes from.
fn from(client: &Client) -> String {
    match client.peer {
        Some(Peer::Tcp(address)) => address.to_string(),
        Some(Peer::Process { .. }) | None => "an address that the system does not tell".to_string(),
    }
}
