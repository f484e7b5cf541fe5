//! What becomes of samples: measurements (`evaluate`), the document of a run (`document`), sentences that follow from it
//! (`finding`), runs of several machines as one (`fleet`), and what the run loop tells of them while it runs (`event`).
#![forbid(unsafe_code)]

pub mod document;
pub mod evaluate;
pub mod event;
pub mod finding;
#[cfg(any(test, feature = "testing"))]
pub mod fixture;
pub mod fleet;
