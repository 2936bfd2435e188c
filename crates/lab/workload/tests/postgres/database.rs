//! Databases of tests, and what most tests ask of them.

use std::sync::LazyLock;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use ashlar_postgres::{Address, Session};
use ashlar_workload::driver::{Length, Plan};
use ashlar_workload::orders::conditions::{Moment, check};
use ashlar_workload::orders::{Load, Loaded, Orders, Settings, Size, load};

use super::server::{LIMIT, Server};

pub const SIZE: Size = Size { items: 200, customers_per_district: 30, orders_per_district: 40 };

/// Stops with this process.
pub static SERVER: LazyLock<Server> =
    LazyLock::new(|| Server::new("-c fsync=off -c shared_buffers=64MB -c max_connections=50"));

pub struct Database {
    pub address: Address,
    pub name: String,
}

impl Database {
    pub fn new(name: &str) -> Database {
        SERVER.session().run(&format!("CREATE DATABASE {name}")).expect("a new database");
        let Address::Socket { directory, port, .. } = SERVER.address() else {
            unreachable!("the test's server has a socket")
        };
        Database { address: Address::Socket { directory, port, database: name.into() }, name: name.into() }
    }

    pub fn loaded(name: &str, warehouses: i32, seed: u64) -> (Database, Loaded) {
        let database = Database::new(name);
        let loaded = database.load(warehouses, seed);
        (database, loaded)
    }

    pub fn load(&self, warehouses: i32, seed: u64) -> Loaded {
        load_into(&self.address, warehouses, seed)
    }

    pub fn session(&self) -> Session {
        Session::open(&self.address, "test", LIMIT).expect("the server answers")
    }

    pub fn orders(&self, settings: Settings) -> Orders {
        Orders::open(&self.address, settings, None).expect("it is loaded")
    }

    pub fn number(&self, query: &str) -> i64 {
        let rows = self.session().run(query).expect(query);
        rows[0][0].as_deref().and_then(|text| text.parse().ok()).expect(query)
    }
}

pub fn load_into(address: &Address, warehouses: i32, seed: u64) -> Loaded {
    let what = Load { warehouses, size: SIZE, seed, sessions: 2, limit: LIMIT };
    load(address, &what, &AtomicBool::new(false)).expect("it loads")
}

pub fn assert_holds(session: &mut Session, moment: Moment) {
    for verdict in check(session, moment).expect("the conditions are asked for") {
        assert!(verdict.holds, "{verdict:?}");
    }
}

pub fn counted(clients: usize, transactions: u64) -> Plan {
    let measure = Length::TransactionsPerClient(transactions);
    Plan { measure, ..Plan::closed(clients, Duration::ZERO, Duration::ZERO, 5) }
}
