//! The engine on real files and in the simulated runtime, by what it promises. One program: linking one for
//! each file took longer than the tests.

mod support;

mod accounting;
mod allowance;
mod checking;
mod cleaning;
mod copying;
mod damage;
mod dead_space;
mod dedupe;
mod deleted;
mod deleting;
mod deltas;
mod difference;
mod doors;
mod files;
mod full;
mod golden;
mod hostile;
mod notebook;
mod numbers;
mod opening;
mod protection;
mod removal;
mod spares;
mod trimming;
mod unmaps;
