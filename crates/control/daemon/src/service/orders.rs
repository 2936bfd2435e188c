//! What a person has the whole array do: stop, or go on with another program.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use ashlar_api as api;

use super::Service;
use crate::error::{Error, Result};

/// How long a program may take to say what it is. Arbitrary: it prints a line, on a starved machine late.
const CHECK_MAX: Duration = Duration::from_secs(60);

/// What to do after a stop in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Order {
    /// End the process.
    Stop,
    /// Go on with this program.
    Upgrade(PathBuf),
}

impl Service {
    /// Waits for an order.
    pub(crate) async fn ordered(&self) -> Order {
        let mut orders = self.orders.subscribe();
        loop {
            if let Some(order) = orders.borrow_and_update().clone() {
                return order;
            }
            if orders.changed().await.is_err() {
                return Order::Stop;
            }
        }
    }

    /// The first order counts: whoever gives a second one hears so.
    fn order(&self, order: Order) -> Result<()> {
        let is_first = self.orders.send_if_modified(|given| match given {
            Some(_) => false,
            None => {
                *given = Some(order);
                true
            }
        });
        is_first.then_some(()).ok_or_else(|| {
            Error::new(
                api::ErrorKind::Busy,
                "the array stops already, or goes on as another program",
                "ask again in a moment: `ashlar status`",
            )
        })
    }

    /// Has the array stop, after every volume is detached if that is wanted.
    pub(crate) async fn stop_when_detached(self: &Arc<Self>, request: api::StopRequest) -> Result<()> {
        if request.detach {
            self.may_tend_databases.store(false, Ordering::Release);
            self.finish_databases().await;
            self.stop_databases().await;
            if let Err(error) = self.detach_for_restart(request.force).await {
                self.may_tend_databases.store(true, Ordering::Release);
                return Err(error);
            }
        }
        self.order(Order::Stop)
    }

    /// Has the array go on with another program, if that can take over.
    pub(crate) async fn upgrade(&self, request: api::UpgradeRequest) -> Result<api::Program> {
        let path = PathBuf::from(&request.program);
        if !path.is_absolute() {
            return Err(Error::invalid(
                format!("`{}` is no absolute path", request.program),
                "name the program from the root, as in /usr/bin/ashlar",
            ));
        }
        let program = ask_program(&path).await?;
        check_program(&path, &program)?;
        let (version, own) = (&program.version, own_program().version);
        self.order(Order::Upgrade(path.clone()))?;
        self.log.info("array", format!("version {own} goes on as version {version}: {}", path.display()));
        Ok(program)
    }
}

/// What this program is.
pub fn own_program() -> api::Program {
    api::Program {
        version: env!("CARGO_PKG_VERSION").to_string(),
        media_version: ashlar_format::FORMAT_VERSION,
        handover_version: ashlar_fuse::HANDOVER_VERSION,
    }
}

async fn ask_program(path: &Path) -> Result<api::Program> {
    let cannot = |why: String| {
        Error::invalid(
            format!("{} cannot take over: {why}", path.display()),
            "name an ashlar program of this machine that has `ashlar upgrade`",
        )
        .over_rest("name in `program` an ashlar program of this machine that can take over")
    };
    let asked = tokio::process::Command::new(path)
        .args(["upgrade", "--check", "--json"])
        .stdin(Stdio::null())
        .kill_on_drop(true)
        .output();
    let said = tokio::time::timeout(CHECK_MAX, asked).await;
    let said = said.map_err(|_| cannot("it does not say what it is".to_string()))?;
    let said = said.map_err(|error| cannot(error.to_string()))?;
    if !said.status.success() {
        let words = String::from_utf8_lossy(&said.stderr);
        let first = words.lines().next().unwrap_or_default();
        return Err(cannot(format!("asked what it is, it ended with {}: {first}", said.status)));
    }
    serde_json::from_slice(&said.stdout).map_err(|error| cannot(format!("it says {error}")))
}

fn check_program(path: &Path, program: &api::Program) -> Result<()> {
    let own = own_program();
    let place = path.display();
    if program.media_version != own.media_version {
        return Err(Error::invalid(
            format!(
                "{place} writes format {} to drives, and these hold format {}",
                program.media_version, own.media_version
            ),
            "take a program of the same format",
        ));
    }
    if program.handover_version != own.handover_version {
        return Err(Error::invalid(
            format!("{place} does not know what this program leaves about attached volumes"),
            "`ashlar stop --detach`, then start the other program",
        ));
    }
    Ok(())
}
