use crate::check::{CheckProgress, CheckedQuantity};

/// Data about a gate that its checks do not contain.
#[derive(Clone, Copy, Debug)]
pub struct GateAbout<'a> {
    /// Version of this program.
    pub version: &'a str,
    /// Start, RFC 3339.
    pub started: &'a str,
    /// Duration in seconds.
    pub elapsed_s: f64,
    /// Host name.
    pub host: Option<&'a str>,
    /// Fingerprint of the machine.
    pub machine: &'a str,
    /// Level of the gate, 1 to 3.
    pub level: u8,
}

impl CheckedQuantity {
    /// Returns the identifier of the quantity in the document, such as `share-of-limit`.
    pub fn code(self) -> &'static str {
        match self {
            Self::Figure => "figure",
            Self::OfLimit => "share-of-limit",
            Self::CpuTime => "cpu-time-share",
        }
    }
}

impl CheckProgress {
    /// Returns the identifier of the state in the document, and the reason if the state has one.
    pub fn words(&self) -> (&'static str, Option<&str>) {
        match self {
            Self::Waiting => ("not measured", None),
            Self::Passed => ("usual", None),
            Self::Suspect => ("not decided", None),
            Self::Low => ("low", None),
            Self::GivenUp => ("others", None),
            Self::NotReported(why) => ("not judged", Some(why)),
            Self::Failed(why) => ("not measured", Some(why)),
        }
    }
}
