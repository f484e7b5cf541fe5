//! The shared secret: 32 random bytes, written as 64 hexadecimal digits. It is no passphrase, since
//! a recorded first message would allow an offline attack on it.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::Path;

use data_encoding::HEXLOWER_PERMISSIVE;
use rustix::fs::{Mode, OFlags, fcntl_setfl, open, openat};
use serde::{Deserialize, Serialize};

use super::message::HexBytes;
use plimsoll_system::links::LinkError;

/// Length of a key, bytes.
pub const LENGTH: usize = 32;

/// A shared key, which its debug text does not show.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedKey(HexBytes<LENGTH>);

/// Reason why there is no key.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written.
    #[error(
        "the key file {0}: {1}; name a file that holds the key of both ends: plimsoll key new FILE makes one"
    )]
    File(String, #[source] io::Error),
    /// The new file cannot be written.
    #[error("cannot write a key to {0}: {1}; name a new file in a directory that exists")]
    NotWritten(String, #[source] io::Error),
    /// Other users can read the file.
    #[error(
        "other users can read the key file {0}: take their rights away (chmod 600), or use a new key at both ends (plimsoll key new FILE)"
    )]
    Exposed(String),
    /// The location of the file cannot be trusted: reason and remedy.
    #[error("the key file {0} is not written, for safety: {1}")]
    Refused(String, String),
    /// The text from this source is no key.
    #[error("{0} does not hold a key (64 hexadecimal digits); `plimsoll key new FILE` makes one")]
    Malformed(String),
}

impl SharedKey {
    /// Creates a random key. Fails if the system provides no random bytes.
    pub fn random() -> io::Result<Self> {
        HexBytes::random().map(SharedKey)
    }

    /// Returns the well-known key of servers without a secret, which protects nothing.
    pub const fn open() -> Self {
        SharedKey(HexBytes([0; LENGTH]))
    }

    /// Returns the key as bytes.
    pub const fn bytes(&self) -> &[u8; LENGTH] {
        &self.0.0
    }

    /// Returns the key as 64 hexadecimal digits.
    pub fn to_hex(&self) -> String {
        HEXLOWER_PERMISSIVE.encode(self.bytes())
    }

    /// Parses 64 hexadecimal digits. `place` names their source in the error, such as a path.
    pub fn from_hex(text: &str, place: &str) -> Result<Self, KeyError> {
        let bytes = unhex(text.trim()).ok_or_else(|| KeyError::Malformed(place.to_owned()))?;
        Ok(SharedKey(HexBytes(bytes)))
    }

    /// Reads 64 hexadecimal digits from a file or pipe. Fails if other users can access it.
    pub fn read(path: &Path) -> Result<Self, KeyError> {
        let is_key = path.to_str().is_some_and(|path| SharedKey::from_hex(path, "").is_ok());
        let shown =
            if is_key { "(a key, not a file)".to_owned() } else { plimsoll_units::text::shown_path(path) };
        let failed = |source| KeyError::File(shown.clone(), source);
        // A FIFO without a writer reads as empty, without waiting.
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
        let file = File::from(open(path, flags, Mode::empty()).map_err(|e| failed(e.into()))?);
        let about = file.metadata().map_err(failed)?;
        if !about.is_file() && !about.file_type().is_fifo() {
            return Err(failed(io::Error::other("not a regular file")));
        }
        fcntl_setfl(&file, OFlags::empty()).map_err(|e| failed(e.into()))?;
        if about.permissions().mode() & 0o077 != 0 {
            return Err(KeyError::Exposed(shown));
        }
        let mut text = String::new();
        file.take(4096).read_to_string(&mut text).map_err(failed)?;
        SharedKey::from_hex(&text, &shown)
    }

    /// Writes the key to a new file that only its owner can read. Fails if `path` exists.
    pub fn write_new(&self, path: &Path) -> Result<(), KeyError> {
        let shown = plimsoll_units::text::shown_path(path);
        let failed = |source| KeyError::NotWritten(shown.clone(), source);
        let place = plimsoll_system::links::locate(path).map_err(|e| match e {
            LinkError::Refused(why) => KeyError::Refused(shown.clone(), why),
            LinkError::Failed(e) => failed(e),
        })?;
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
        let made = openat(&place.directory, &place.name, flags, Mode::RUSR | Mode::WUSR);
        let mut file = File::from(made.map_err(|e| failed(e.into()))?);
        writeln!(file, "{}", self.to_hex()).and_then(|()| file.sync_all()).map_err(failed)
    }
}

pub(super) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    HEXLOWER_PERMISSIVE.decode(text.as_bytes()).ok()?.try_into().ok()
}

#[cfg(test)]
mod tests {
    use std::os::fd::AsRawFd;

    use super::*;

    #[test]
    fn keys_differ_round_trip_and_hide() {
        let (one, two) = (SharedKey::random().unwrap(), SharedKey::random().unwrap());
        assert_ne!(one, two);
        assert_ne!(one, SharedKey::open());
        assert_eq!(SharedKey::from_hex(&format!(" {}\n", one.to_hex()), "text").unwrap(), one);
        assert_eq!(format!("{one:?}"), "SharedKey(HexBytes(…))");
    }

    #[test]
    fn what_is_no_key_is_refused() {
        let (short, long) = ("0".repeat(63), "0".repeat(65));
        for wrong in ["", "secret", &short, &long, &"g".repeat(64), &"+1".repeat(32), &"é".repeat(32)] {
            let error = SharedKey::from_hex(wrong, "PLIMSOLL_KEY").unwrap_err();
            assert!(error.to_string().starts_with("PLIMSOLL_KEY does not hold a key"), "{error}");
        }
    }

    #[test]
    fn a_key_file_is_its_owners_alone() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("key");
        let key = SharedKey::random().unwrap();
        key.write_new(&path).unwrap();
        assert_eq!(SharedKey::read(&path).unwrap(), key);
        assert!(matches!(key.write_new(&path), Err(KeyError::NotWritten(..))), "an existing key is kept");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(SharedKey::read(&path), Err(KeyError::Exposed(..))));
        assert!(matches!(SharedKey::read(&dir.path().join("none")), Err(KeyError::File(..))));
        for none in [dir.path(), Path::new("/dev/null")] {
            let error = SharedKey::read(none).unwrap_err().to_string();
            assert!(error.contains("not a regular file") && !error.contains("chmod"), "{error}");
        }
    }

    /// A shell passes the output of a program as a pipe; a FIFO without a writer causes no wait.
    #[test]
    fn a_key_may_come_by_a_pipe() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        let owner = Mode::RUSR | Mode::WUSR;
        rustix::fs::mknodat(rustix::fs::CWD, &pipe, rustix::fs::FileType::Fifo, owner, 0).unwrap();
        assert!(matches!(SharedKey::read(&pipe), Err(KeyError::Malformed(..))));
        let key = SharedKey::random().unwrap();
        let (reader, mut writer) = io::pipe().unwrap();
        writeln!(writer, "{}", key.to_hex()).unwrap();
        drop(writer);
        let handed = format!("/dev/fd/{}", reader.as_raw_fd());
        assert_eq!(SharedKey::read(Path::new(&handed)).unwrap(), key);
    }
}
