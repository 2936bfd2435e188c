//! Workloads on a real PostgreSQL 15: one server for most tests, each test with a database of its own.

mod broker;
mod database;
mod factload;
mod ledger;
mod orders;
mod pgbench;
mod points;
mod rows;
mod server;
