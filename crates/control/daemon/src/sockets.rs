//! Who may use the sockets in the state directory.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use crate::error::{Error, Result};
use crate::state::State;

/// The group that may use the sockets besides the array's own user.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Group(u32);

impl Group {
    /// The group that the setting names, by its name in /etc/group or by its number; `None` for no name.
    pub(crate) fn named(name: &str) -> Result<Option<Group>> {
        if name.is_empty() {
            return Ok(None);
        }
        if let Ok(number) = name.parse() {
            return Ok(Some(Group(number)));
        }
        let path = Path::new("/etc/group");
        let text = std::fs::read_to_string(path).map_err(|error| Error::file("read", path, &error))?;
        number_of(&text, name).map(|number| Some(Group(number))).ok_or_else(|| {
            Error::invalid(
                format!("socket_group: there is no group `{}` in /etc/group", name.escape_debug()),
                "make it with groupadd, or write its number",
            )
        })
    }
}

/// NAME:PASSWORD:NUMBER:MEMBERS, as group(5) has it.
fn number_of(text: &str, name: &str) -> Option<u32> {
    text.lines().map(|line| line.split(':')).find_map(|mut fields| {
        let is_it = fields.next() == Some(name);
        is_it.then(|| fields.nth(1)?.parse().ok())?
    })
}

/// Lets nobody but us make or change files of ours, whatever the shell that started us had set.
pub(crate) fn restrict_umask() {
    let others_write = rustix::fs::Mode::from_raw_mode(0o022);
    let before = rustix::process::umask(others_write);
    rustix::process::umask(before | others_write);
}

/// Gives a socket's file to its user alone, or to a group as well. Until then nobody else could connect: that
/// takes the right to write.
pub(crate) fn protect(socket: &Path, group: Option<Group>) -> Result<()> {
    let protect = || -> std::io::Result<()> {
        std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o600))?;
        let Some(Group(number)) = group else { return Ok(()) };
        std::os::unix::fs::chown(socket, None, Some(number))?;
        std::fs::set_permissions(socket, std::fs::Permissions::from_mode(0o660))
    };
    protect().map_err(|error| Error::file("protect", socket, &error))
}

/// Lets the group pass through the state directory to its sockets, and see nothing else there.
pub(crate) fn open_way(state: &State, group: Option<Group>) -> Result<()> {
    let Some(Group(number)) = group else { return Ok(()) };
    let directory = state.directory();
    let open = || -> std::io::Result<()> {
        let mode = std::fs::metadata(directory)?.permissions().mode() & 0o777;
        std::os::unix::fs::chown(directory, None, Some(number))?;
        std::fs::set_permissions(directory, std::fs::Permissions::from_mode(mode & 0o705 | 0o010))
    };
    open().map_err(|error| Error::file("open the way to", directory, &error))
}

#[cfg(test)]
mod tests {
    use super::number_of;

    #[test]
    fn a_group_is_found_by_its_whole_name() {
        let text = "root:x:0:\nash:x:7:a,b\nashlar:x:995:\nbroken:x\n";
        assert_eq!(number_of(text, "ashlar"), Some(995));
        assert_eq!(number_of(text, "ash"), Some(7));
        assert_eq!(number_of(text, "broken"), None);
        assert_eq!(number_of(text, ""), None);
    }
}
