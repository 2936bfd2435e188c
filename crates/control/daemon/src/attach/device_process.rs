//! A [process of its own](crate::subprocess) that takes the steps of one attachment, and ends.

use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitStatus;

use serde::{Deserialize, Serialize};

use super::error::{Error, ErrorKind};
use super::loop_device::find_devices;
use super::steps::{Done, Steps, Undone, take};
use crate::subprocess;

/// The hidden verb that runs [`run_device_process`].
const VERB: &str = "device";
/// By this name it is found among processes.
pub(super) const NAME: &str = "ashlar-device";

/// An [`Undone`] on its way.
#[derive(Serialize, Deserialize)]
struct Refusal {
    kind: ErrorKind,
    what: String,
    left: Option<PathBuf>,
}

/// Has a device process take the steps. Blocks until it has ended.
pub fn take_steps(state: &Path, steps: &Steps) -> Result<Done, Undone> {
    let asked = subprocess::ask::<_, Result<Done, Refusal>>(VERB, state, steps);
    let asked = asked.map_err(|error| Error::system("have another process work on a device", error))?;
    let answer = asked.unwrap_or_else(|status| Err(ended(status, steps)));
    answer.map_err(|Refusal { kind, what, left }| Undone { error: Error::new(kind, what), left })
}

/// It was killed, and did not say how far it came.
fn ended(status: ExitStatus, steps: &Steps) -> Refusal {
    let left = match steps {
        Steps::Attach(attachment) => {
            find_devices(&attachment.file).ok().and_then(|found| found.first().cloned())
        }
        _ => None,
    };
    let what = format!("the process that worked on the device ({NAME}) ended with {status}");
    Refusal { kind: ErrorKind::System, what, left }
}

/// The life of a device process.
pub fn run_device_process(state: &Path) -> io::Result<()> {
    subprocess::answer(NAME, state, |steps: Steps| {
        take(&steps).map_err(|Undone { error, left }| Refusal {
            kind: error.kind,
            what: error.to_string(),
            left,
        })
    })
}
