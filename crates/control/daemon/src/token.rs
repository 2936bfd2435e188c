//! Bearer tokens: whoever asks over TCP shows one. A token is a line in a file that only its owner reads.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;

use ashlar_api::ErrorKind;
use subtle::ConstantTimeEq;

use crate::at_once::open_at_once;
use crate::error::{Error, Result};

/// Bytes of chance in a token that we make: nobody tries 2^256.
const CHANCE_BYTES: usize = 32;
/// Shorter ones can be tried out.
const LENGTH_MIN: usize = 16;
/// A file that holds more is none of ours.
const FILE_BYTES_MAX: u64 = 4096;

/// Who may read a token's file besides its owner.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Readers {
    /// Nobody.
    Owner,
    /// Its group: a program that collects metrics runs as a user of its own.
    Group,
}

/// What opens a TCP address.
#[derive(Clone)]
pub(crate) struct Token(String);

impl Token {
    /// The token that a file holds; a file that is not there is made, with mode 0600.
    pub(crate) fn load_or_make(path: &Path, readers: Readers) -> Result<Token> {
        match open_at_once(path) {
            Ok(file) => Token::read(file, path, readers),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Token::make(path),
            Err(error) => Err(Error::file("read token", path, &error)),
        }
    }

    fn read(file: File, path: &Path, readers: Readers) -> Result<Token> {
        let refused = |why: &str, action: &str| {
            Err(Error::new(ErrorKind::Forbidden, format!("token file {} {why}", path.display()), action))
        };
        let metadata = file.metadata().map_err(|error| Error::file("read token", path, &error))?;
        if !metadata.is_file() {
            return refused("is no file", "remove it: the next start makes one");
        }
        let is_ours = [0, rustix::process::geteuid().as_raw()].contains(&metadata.uid());
        if !is_ours {
            return refused("belongs to another user", "give it to the user who runs the array");
        }
        let forbidden = match readers {
            Readers::Owner => 0o077,
            Readers::Group => 0o037,
        };
        if metadata.mode() & forbidden != 0 {
            return refused("can be read or changed by other users", "make it private: chmod 600");
        }
        let mut text = String::new();
        file.take(FILE_BYTES_MAX)
            .read_to_string(&mut text)
            .map_err(|error| Error::file("read token", path, &error))?;
        let token = text.trim();
        if token.len() < LENGTH_MIN || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            return refused(
                "holds no token: one line of at least 16 letters and digits",
                "delete it: the next start makes one",
            );
        }
        Ok(Token(token.to_string()))
    }

    /// A token that is in no file, and its text.
    pub(crate) fn by_chance() -> Result<(Token, String)> {
        let text = text_by_chance()?;
        Ok((Token(text.clone()), text))
    }

    /// Written aside and renamed, so that no reader meets half a token.
    fn make(path: &Path) -> Result<Token> {
        let aside = path.with_extension("new");
        let make = || -> io::Result<String> {
            let token = read_chance()?;
            // What a start that was killed left there may have been made by somebody else.
            match std::fs::remove_file(&aside) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&aside)?;
            file.write_all(format!("{token}\n").as_bytes())?;
            file.sync_all()?;
            std::fs::rename(&aside, path)?;
            Ok(token)
        };
        make().map(Token).map_err(|error| Error::file("make token", path, &error))
    }

    /// Whether this is the token. Takes as long whatever is shown, so that time tells nothing of it.
    pub(crate) fn is(&self, shown: &str) -> bool {
        self.0.as_bytes().ct_eq(shown.as_bytes()).into()
    }
}

/// 256 bits of chance in hexadecimal digits.
pub(crate) fn text_by_chance() -> Result<String> {
    let source = Path::new("/dev/urandom");
    read_chance().map_err(|error| Error::file("read", source, &error))
}

fn read_chance() -> io::Result<String> {
    let mut chance = [0; CHANCE_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut chance)?;
    Ok(chance.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_token_is_made_once_for_its_owner_alone() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("api.token");
        let Token(first) = Token::load_or_make(&path, Readers::Owner).unwrap();
        assert_eq!(first.len(), 64);
        assert_eq!(std::fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        let again = Token::load_or_make(&path, Readers::Owner).unwrap();
        assert!(again.is(&first));
        assert!(!again.is(&first[1..]) && !again.is("") && !again.is(&first.to_uppercase()));
        let other = Token::load_or_make(&scratch.path().join("other"), Readers::Owner).unwrap();
        assert!(!other.is(&first));
    }

    /// The harm: a start that hangs, with its pools open and no way to command it.
    #[test]
    fn a_token_file_that_is_no_file_is_refused_at_once() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("api.token");
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        let error = Token::load_or_make(&path, Readers::Owner).err().unwrap();
        assert!(error.to_string().contains("is no file"), "{error}");
    }

    #[test]
    fn a_token_that_others_could_know_is_refused() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("token");
        let good = "0123456789abcdef";
        for (text, mode, readers, is_good) in [
            (good, 0o600, Readers::Owner, true),
            (good, 0o400, Readers::Owner, true),
            (good, 0o640, Readers::Owner, false),
            (good, 0o644, Readers::Owner, false),
            (good, 0o640, Readers::Group, true),
            (good, 0o660, Readers::Group, false),
            (good, 0o604, Readers::Group, false),
            ("short", 0o600, Readers::Owner, false),
            ("", 0o600, Readers::Owner, false),
            ("two words of a line", 0o600, Readers::Owner, false),
        ] {
            std::fs::write(&path, format!("{text}\n")).unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            let read = Token::load_or_make(&path, readers);
            assert_eq!(read.is_ok(), is_good, "{text:?} {mode:o} {readers:?}");
        }
    }
}
