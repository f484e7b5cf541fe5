//! What a case of a disk works on: a test file of some size, or a block device that the user names.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// The device to be measured, as typed on the command line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RawTarget {
    /// The device, or a link to it.
    #[serde(with = "plimsoll_units::text::path")]
    pub device: PathBuf,
    /// Leave to destroy what is on it.
    pub consent: Option<Consent>,
}

/// `DEVICE:SERIAL`, typed by somebody who has looked up which device that is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Consent {
    /// The device once more.
    #[serde(with = "plimsoll_units::text::path")]
    pub device: PathBuf,
    /// Its serial number, or its size in bytes where it has none.
    pub serial: String,
}

impl Consent {
    /// Reads `DEVICE:SERIAL`. Device paths may hold colons, serial numbers do not.
    ///
    /// # Errors
    /// What it should look like.
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

/// How large the test file is to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestedSize {
    /// This many bytes and no fewer: the user said so.
    Exactly(u64),
    /// As many as there is room for, within these bounds.
    Between {
        /// With fewer there is nothing worth measuring.
        least: u64,
        /// More gain nothing.
        most: u64,
    },
}
