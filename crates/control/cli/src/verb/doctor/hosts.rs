//! What to set on hosts that come in over iSCSI, and why.

use ashlar_api::DoorState;

use super::{Finding, Verdict};
use crate::Context;

/// A setting of a host and its reason.
struct Setting {
    host: &'static str,
    setting: &'static str,
    reason: &'static str,
}

const fn setting(host: &'static str, setting: &'static str, reason: &'static str) -> Setting {
    Setting { host, setting, reason }
}

const LINUX: &str = "host: Linux";
const WINDOWS: &str = "host: Windows";
const VMWARE: &str = "host: VMware";

const SETTINGS: [Setting; 10] = [
    setting(
        LINUX,
        "iscsid.conf: node.session.queue_depth = 64, node.session.cmds_max = 128",
        "a session has at most 128 commands under way",
    ),
    setting(
        LINUX,
        "iscsid.conf: node.session.timeo.replacement_timeout = 120 (5 with multipath)",
        "so long requests wait for an array that restarts, or until another path is tried",
    ),
    setting(
        LINUX,
        "multipath.conf: find_multipaths yes",
        "Debian's default, strict, makes no map of a disk that it has not met before",
    ),
    setting(
        LINUX,
        "multipath.conf: path_grouping_policy multibus, path_selector \"round-robin 0\", rr_min_io_rq 1",
        "all paths are equally good: change the path with every request",
    ),
    setting(LINUX, "multipath.conf: no_path_retry 24", "two minutes, in which an array restarts many times"),
    setting(
        WINDOWS,
        "MPIO for iSCSI devices, policy Round Robin",
        "all paths are equally good, and the loss of one is no error",
    ),
    setting(
        WINDOWS,
        "HKLM\\SYSTEM\\CurrentControlSet\\Services\\Disk: TimeOutValue = 60 or more",
        "a request outlasts a restart of the array",
    ),
    setting(
        VMWARE,
        "esxcli storage nmp psp roundrobin deviceconfig set --type iops --iops 1",
        "the default changes the path only after 1,000 requests",
    ),
    setting(VMWARE, "export with --block-size 512", "VMFS wants blocks of 512 bytes"),
    setting(
        VMWARE,
        "esxcli iscsi adapter param set --key RecoveryTimeout --value 60",
        "a request outlasts a restart of the array",
    ),
];

/// Nothing where the array serves no iSCSI.
pub(super) fn findings(context: &Context) -> Vec<Finding> {
    let Ok(status) = context.client().and_then(|client| Ok(client.status()?)) else { return Vec::new() };
    if !status.doors.iter().any(|door| door.name == "iscsi" && door.state == DoorState::Serving) {
        return Vec::new();
    }
    let advice = |one: &Setting| Finding {
        check: one.host,
        verdict: Verdict::Advice,
        found: one.setting.to_string(),
        action: one.reason.to_string(),
    };
    SETTINGS.iter().map(advice).collect()
}
