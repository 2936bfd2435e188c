//! A directory for servers, which goes with all of them.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use ashlar_postgres::{Installation, Places, Search, Server, Settings, Value};
use ashlar_programs::Launcher;

/// Where the servers of one test are.
pub struct Stage {
    pub installation: Installation,
    directory: tempfile::TempDir,
}

impl Stage {
    pub fn new() -> Stage {
        let directory = tempfile::tempdir().unwrap();
        // The account that the servers run under must reach them.
        std::fs::set_permissions(directory.path(), PermissionsExt::from_mode(0o755)).unwrap();
        let launcher = launcher(directory.path());
        let search = Search { directory: std::env::var_os("ASHLAR_PG_BIN").map(PathBuf::from), major: None };
        let installation = Installation::find(&launcher, &search).unwrap();
        Stage { installation, directory }
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Places below one directory, the write-ahead log apart.
    pub fn places(&self, name: &str) -> Places {
        let base = self.path(name);
        Places {
            data: base.join("data"),
            wal: Some(base.join("wal")),
            tablespaces: vec![],
            temporary: None,
            socket: base.join("run"),
            port: 5432,
        }
    }

    /// A server that was made and does not run yet.
    pub fn server(&self, name: &str) -> Server {
        let server = Server::new(&self.installation, self.places(name), settings());
        server.initialise().unwrap();
        server
    }

    /// A copy of a stopped server's directory, with owners and links as they are.
    pub fn copy(&self, from: &str, to: &str) {
        let mut command = Command::new("cp");
        command.arg("-a").arg(self.path(from)).arg(self.path(to));
        assert!(command.status().unwrap().success());
        std::fs::remove_dir_all(self.path(to).join("run")).unwrap();
    }
}

pub fn launcher(directory: &Path) -> Arc<Launcher> {
    Arc::new(Launcher::new(directory.into(), directory.into(), Arc::new(AtomicBool::new(false))))
}

/// Small, so that many fit a machine that builds.
pub fn settings() -> Settings {
    Settings::new()
        .with("listen_addresses", "")
        .with("shared_buffers", Value::Bytes(16 << 20))
        .with("max_connections", 20)
        .with("max_wal_senders", 0)
        .with("wal_level", "minimal")
        .with("autovacuum", false)
}

/// The only value that statements answered.
pub fn value(server: &Server, statements: &str) -> String {
    let rows = server.query(statements).unwrap();
    rows.into_iter().flatten().flatten().next().unwrap()
}
