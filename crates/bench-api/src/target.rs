//! Target of a disk case: a test file, or a block device named by the user.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// Block device given on the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawTarget {
    /// Path of the device, or a link to it.
    #[serde(with = "plimsoll_units::text::path")]
    pub device: PathBuf,
    /// Consent to destroy its content.
    pub consent: Option<Consent>,
}

/// `DEVICE:SERIAL`, typed by the user as consent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consent {
    /// Path of the device.
    #[serde(with = "plimsoll_units::text::path")]
    pub device: PathBuf,
    /// Serial number of the device, or its size in bytes without one.
    pub serial: String,
}

impl Consent {
    /// Parses `DEVICE:SERIAL` (`/dev/sdx:S4EWNX0N`), split at the last colon: device paths may
    /// contain colons, serial numbers do not. The error describes the format.
    pub fn parse(text: &str) -> Result<Self, String> {
        match text.rsplit_once(':') {
            Some((device, serial)) if !device.is_empty() && !serial.trim().is_empty() => {
                Ok(Self { device: device.into(), serial: serial.trim().to_owned() })
            }
            _ => Err(format!(
                "must be DEVICE:SERIAL as lsblk -o NAME,SERIAL shows it, such as /dev/sdx:S4EWNX0N (without a serial number: \
                 the size in bytes, lsblk -b): '{}' is not",
                plimsoll_units::text::shown_within(text, 60)
            )),
        }
    }
}

/// Size of the test file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedSize {
    /// Exactly this number of bytes, as given by the user.
    Exactly(u64),
    /// As many bytes as there is space for, within bounds.
    Between {
        /// Smallest useful size.
        least: u64,
        /// Largest useful size.
        most: u64,
    },
}
