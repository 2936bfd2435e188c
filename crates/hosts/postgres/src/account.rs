//! The unprivileged account that PostgreSQL runs under: it refuses to run as root.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;

use crate::error::{Error, Result};

/// An account of this machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Account {
    /// Its user id.
    pub user: u32,
    /// Its group id.
    pub group: u32,
}

impl Account {
    /// The account that a caller who is root steps down to: `postgres`, else `nobody`. Any other caller stays
    /// who it is, which is `None`.
    ///
    /// # Errors
    /// When the caller is root and there is neither account.
    pub fn choose() -> Result<Option<Account>> {
        if !rustix::process::geteuid().is_root() {
            return Ok(None);
        }
        let accounts = fs::read_to_string("/etc/passwd").map_err(|e| Error::io("/etc/passwd", &e))?;
        let account = account_in(&accounts, "postgres").or_else(|| account_in(&accounts, "nobody"));
        let missing = "neither an account `postgres` nor `nobody`: PostgreSQL refuses to run as root";
        account.map(Some).ok_or_else(|| Error::environment(missing))
    }

    /// The account of this name.
    ///
    /// # Errors
    /// When there is none.
    pub fn named(name: &str) -> Result<Account> {
        let accounts = fs::read_to_string("/etc/passwd").map_err(|e| Error::io("/etc/passwd", &e))?;
        let account = account_in(&accounts, name);
        account.ok_or_else(|| Error::environment(format!("no account `{name}` is in /etc/passwd")))
    }

    /// What the account of this number is called, where that is known.
    #[must_use]
    pub fn name_of(user: u32) -> Option<String> {
        let accounts = fs::read_to_string("/etc/passwd").ok()?;
        let mut names = accounts.lines().filter_map(|line| line.split(':').next());
        names.find(|name| account_in(&accounts, name).is_some_and(|one| one.user == user)).map(str::to_string)
    }

    /// Has a program run under this account.
    pub fn apply(&self, command: &mut Command) {
        command.uid(self.user).gid(self.group);
    }

    /// Hands a file, a directory or a link over to this account.
    pub(crate) fn own(&self, path: &Path) -> Result<()> {
        std::os::unix::fs::lchown(path, Some(self.user), Some(self.group))
            .map_err(|e| Error::io(&format!("give {} to user {}", path.display(), self.user), &e))
    }
}

/// User and group of an account in the format of /etc/passwd.
pub(crate) fn account_in(passwd: &str, name: &str) -> Option<Account> {
    let line = passwd.lines().find(|line| line.split(':').next() == Some(name))?;
    let mut numbers = line.split(':').skip(2).take(2).map(str::parse::<u32>);
    let (Some(Ok(user)), Some(Ok(group))) = (numbers.next(), numbers.next()) else { return None };
    Some(Account { user, group })
}
