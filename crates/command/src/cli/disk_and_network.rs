//! Optional measurements of `plimsoll gate` and `plimsoll watch`: a disk and a network.

use std::path::PathBuf;

use clap::Args;

/// A disk and a network.
#[derive(Args, Clone, Debug)]
pub struct DiskAndNetwork {
    /// Also measure the disk of this directory, with a test file that is removed at the end
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Also measure the network to this host, where plimsoll serve runs
    #[arg(long, value_name = "HOST[:PORT]")]
    pub server: Option<String>,
    /// File with the key of --server [default: the key itself in PLIMSOLL_KEY, if it is set]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
}
