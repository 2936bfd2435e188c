//! Real servers: begun, crashed, copied, limited, checked.
//!
//! They run the newest PostgreSQL of this machine, or the one in the directory that ASHLAR_PG_BIN names. As
//! root they step down to its account.

#![allow(clippy::unwrap_used)]

mod clones;
mod figures;
mod life;
mod limits;
mod stage;
