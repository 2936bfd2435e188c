//! One file (or folder) per verb: its arguments, its help with an example, what it does and prints.

pub mod attach;
pub mod client;
pub mod clone;
pub mod console;
pub mod database;
pub mod database_work;
pub mod demo;
pub mod detach;
pub mod device;
pub mod doctor;
pub mod events;
pub mod inspect;
pub mod job;
pub mod keep;
pub mod lab;
pub mod pool;
pub mod schedule;
pub mod serve;
pub mod sim;
pub mod snapshot;
pub mod space;
pub mod status;
pub mod stop;
pub mod top;
pub mod upgrade;
pub mod volume;
