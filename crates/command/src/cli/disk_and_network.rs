//! Optional measurements of `plimsoll gate` and `plimsoll watch`: a disk and a network.

use std::path::PathBuf;

use clap::Args;

/// A disk and a network.
#[derive(Args, Clone, Debug)]
pub struct DiskAndNetwork {
    /// Also measure the disk of this directory, with a test file that is removed at the end
    /// [default: no disk]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// Also measure the network to this host, where plimsoll serve runs [default: no network]
    #[arg(long, value_name = "HOST[:PORT]")]
    pub server: Option<String>,
    /// File with the key of --server [default: the key in the environment variable PLIMSOLL_KEY]
    #[arg(long, value_name = "FILE")]
    pub key: Option<PathBuf>,
}
