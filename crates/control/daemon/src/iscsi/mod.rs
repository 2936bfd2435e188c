//! Volumes over iSCSI: what notebooks say of hosts and exports, and what is served of it.
//!
//! ```text
//!   notebook: hosts, exports ─► Shard::refresh_exports ─► units, one for each export
//!                                                    └──► views, a target for each host ─► sessions
//! ```
//!
//! A pool is one target. Each host has a view of it: the units of the exports that name it, and of those that
//! name nobody. All of this lives on the data shard; a change of the notebook is followed by a refresh, which
//! serves what the notebooks say then, and nothing else.

mod entrance;
mod exporter;
mod records;
mod reservations;
mod served;

pub(crate) use exporter::{ExportUse, Exporter};
pub(crate) use records::{ExportRecord, HostRecord, NotedExport, NotedHost, NotedTarget, target_name};
pub(crate) use reservations::{as_notes, from_notes};
