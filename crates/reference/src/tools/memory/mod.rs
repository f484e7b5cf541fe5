pub(crate) mod bw_mem;
pub(crate) mod lat_mem_rd;
pub(crate) mod mbw;
pub(crate) mod pmbw;
pub(crate) mod stream;
