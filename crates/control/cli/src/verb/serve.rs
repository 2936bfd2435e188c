//! `ashlar serve`: the array, in the foreground.

use std::path::PathBuf;

use crate::Context;
use crate::failure::Result;

/// Run the array in the foreground.
///
/// Opens every pool it knows, serves volumes over NBD, iSCSI and as local devices, and answers the other
/// commands. SIGTERM or Ctrl-C ends it in order; a second one ends it at once, which loses nothing
/// that was acknowledged.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  ashlar serve --state /srv/ashlar\n  \
        ashlar serve --iscsi-listen 127.0.0.1:3260")]
pub struct Serve {
    /// Settings file; docs/reference/settings.md lists what it may hold.
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Address of the API beside its socket: `127.0.0.1:9410`, `127.0.0.1:0` for any free port, or `off`
    /// [default: off]. Who asks there shows a token or logs in. Off loopback it speaks TLS, and opens when
    /// there is a user or a token.
    #[arg(long, value_name = "ADDR")]
    api: Option<String>,
    /// Address at which hosts reach exported volumes over iSCSI, as in 127.0.0.1:3260; may be given several
    /// times [default: none]. Off loopback only hosts with a CHAP secret come in.
    #[arg(long, value_name = "ADDRESS:PORT")]
    iscsi_listen: Vec<String>,
}

impl Serve {
    pub fn run(self, context: &Context) -> Result<()> {
        let options = ashlar_daemon::Options {
            state: context.state.clone(),
            config: self.config,
            api: self.api,
            iscsi_listen: self.iscsi_listen,
        };
        Ok(ashlar_daemon::serve(options)?)
    }
}
