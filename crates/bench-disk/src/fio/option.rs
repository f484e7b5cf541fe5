//! Options of fio, a row each: supported, without effect on measurements, or unsupported.

use plimsoll_model::case::nearest;
use plimsoll_units::text::shown_within;

/// Support of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionMeaning {
    /// Supported: converted to a parameter.
    Taken,
    /// No effect on measurements; the reason.
    Nothing(&'static str),
    /// Supported with a difference, except for these values; the difference.
    Near(&'static [&'static str], &'static str),
    /// Not supported, except for these neutral values; the reason.
    Refused(&'static [&'static str], &'static str),
    /// Not an option of fio or of an engine for files and devices.
    Unknown,
}

/// An option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FioOption {
    /// Name.
    pub name: &'static str,
    /// Aliases in fio.
    pub aliases: &'static [&'static str],
    /// Support.
    pub means: OptionMeaning,
    /// Parameter of the case that it sets, for the documentation.
    pub here: &'static str,
}

const fn row(
    name: &'static str,
    aliases: &'static [&'static str],
    means: OptionMeaning,
    here: &'static str,
) -> FioOption {
    FioOption { name, aliases, means, here }
}

const fn taken(name: &'static str, aliases: &'static [&'static str], here: &'static str) -> FioOption {
    row(name, aliases, OptionMeaning::Taken, here)
}

const fn nothing(name: &'static str, why: &'static str) -> FioOption {
    row(name, &[], OptionMeaning::Nothing(why), "")
}

const fn near(name: &'static str, off: &'static [&'static str], how: &'static str) -> FioOption {
    row(name, &[], OptionMeaning::Near(off, how), "")
}

const fn refused(name: &'static str, off: &'static [&'static str], why: &'static str) -> FioOption {
    row(name, &[], OptionMeaning::Refused(off, why), "")
}

impl FioOption {
    /// Whether the value of the option is a boolean.
    pub fn is_switch(&self) -> bool {
        SWITCHES.contains(&self.name) || self.takes_any_number()
    }

    /// Whether the option is a boolean for which any number but 0 means true; the rest take 0 or 1.
    pub fn takes_any_number(&self) -> bool {
        FLAGS.contains(&self.name)
    }

    const fn or(self, aliases: &'static [&'static str]) -> Self {
        Self { aliases, ..self }
    }
}

const NAMES: &str = "it only names things";
const SHOWN: &str = "it only chooses what fio reports";
const LOGS: &str = "it only writes logs: --events FILE has each sample";
const OWN_FILE: &str = "the test file is plimsoll's own, filled before it is measured";
const DATA: &str = "what is written cannot be compressed or recognised as a copy";
const RANDOM: &str = "--seed makes a run repeatable";
const MEMORY: &str = "buffers are aligned to pages";
const ENDS: &str = "it only decides when fio ends";
const DEPRECATED: &str = "fio has given it up, and ignores it";
const ERRORS: &str = "an error ends the case and is reported";

const BATCHES: &str = "plimsoll hands over as many transfers as came back, an eighth of the depth at a time";

const PROGRAMS: &str = "plimsoll starts no program that a file names";
const NO_PAUSES: &str = "transfers follow each other without pauses, or at --rate";
const NO_REPLAY: &str = "it replays a trace";
const NO_ZONES: &str = "there are no zones";
const NO_PRIORITY: &str = "all transfers have the same priority";
const NO_PLACE: &str = "threads and memory of disk cases are not bound to CPUs or nodes";
const NO_FLOW: &str = "jobs do not pace each other";
const NO_CHECKS: &str = "--verify checks each block that is read by plimsoll's own marks alone";
const NO_CONTENT: &str = "what is written is always incompressible and different";
const REQUIREMENT: &str = "a figure that must hold is --require on the command line";
const NO_FILES: &str = "there is one file";
const NO_COMMANDS: &str = "there are no passthrough commands";
const NEWER: &str = "it is newer than fio 3.33, whose options plimsoll knows";

/// Booleans for which fio 3.33 accepts any number (`thread=32` starts one thread).
const FLAGS: &[&str] = &[
    "hipri",
    "sqthread_poll",
    "registerfiles",
    "fixedbufs",
    "time_based",
    "norandommap",
    "stonewall",
    "thread",
    "group_reporting",
    "new_group",
    "refill_buffers",
    "exitall",
    "exitall_on_error",
];

/// Booleans that are 0 or 1 according to `fio --cmdhelp=NAME`, except unsupported ones.
const SWITCHES: &[&str] = &[
    "direct",
    "buffered",
    "invalidate",
    "pre_read",
    "end_fsync",
    "fsync_on_close",
    "unique_filename",
    "stats",
    "clat_percentiles",
    "lat_percentiles",
    "slat_percentiles",
    "disk_util",
    "block_error_percentiles",
    "error_dump",
    "gtod_reduce",
    "disable_lat",
    "disable_clat",
    "disable_slat",
    "disable_bw_measurement",
    "per_job_logs",
    "log_max_value",
    "log_offset",
    "log_prio",
    "log_store_compressed",
    "log_unix_epoch",
    "log_alternate_epoch",
    "randrepeat",
    "allrandrepeat",
    "softrandommap",
    "overwrite",
    "create_serialize",
    "create_fsync",
    "allow_file_create",
    "unlink",
    "unlink_each_loop",
    "allow_mounted_write",
    "scramble_buffers",
    "rate_ignore_thinktime",
    "latency_run",
    "do_verify",
    "verify_fatal",
    "verify_dump",
    "verify_state_save",
];

/// Every option in the manual page of fio 3.33, and those added up to version 3.42.
pub const OPTIONS: &[FioOption] = &[
    taken("rw", &["readwrite"], "op, pattern"),
    taken("rwmixread", &[], "read-share"),
    taken("rwmixwrite", &[], "read-share"),
    taken("bs", &["blocksize"], "block"),
    taken("bsrange", &["blocksize_range"], "block"),
    taken("bssplit", &[], "block"),
    taken("ba", &["blockalign"], "align"),
    taken("iodepth", &[], "depth"),
    taken("numjobs", &[], "threads"),
    taken("ioengine", &[], "engine"),
    taken("hipri", &[], "engine"),
    taken("sqthread_poll", &[], "engine"),
    taken("direct", &[], "cache"),
    taken("buffered", &[], "cache"),
    taken("invalidate", &[], "cache"),
    taken("pre_read", &[], "cache"),
    taken("size", &[], "size"),
    taken("filesize", &[], "size"),
    taken("io_size", &["io_limit"], "volume"),
    taken("number_ios", &[], "count"),
    taken("loops", &[], "volume"),
    taken("runtime", &["timeout"], "samples, sample-time"),
    taken("time_based", &[], "samples, sample-time"),
    taken("ramp_time", &[], "warm-up"),
    taken("filename", &[], "--dir, --target, layout"),
    taken("directory", &[], "--dir"),
    taken("offset", &["fileoffset"], "layout"),
    taken("offset_increment", &[], "layout"),
    taken("nrfiles", &["nr_files"], "size"),
    taken("fsync", &[], "sync"),
    taken("fdatasync", &[], "sync"),
    taken("end_fsync", &[], "sync"),
    taken("fsync_on_close", &[], "sync"),
    taken("sync", &[], "sync"),
    taken("verify", &[], "verify"),
    taken("rate", &[], "rate"),
    taken("rate_iops", &[], "rate"),
    taken("rate_process", &[], "arrivals"),
    taken("latency_target", &[], "latency-target"),
    taken("latency_percentile", &[], "latency-target"),
    taken("latency_window", &[], "sample-time"),
    taken("random_distribution", &[], "pattern"),
    taken("percentage_random", &[], "pattern"),
    taken("norandommap", &[], "pattern"),
    taken("stonewall", &["wait_for_previous"], "the order of groups"),
    taken("wait_for", &[], "the order of groups"),
    taken("startdelay", &[], "the order of groups"),
    taken("kb_base", &[], "sizes"),
    nothing("rwmixcycle", DEPRECATED),
    nothing("percentage_sequential", DEPRECATED),
    nothing("name", NAMES),
    nothing("comm", NAMES),
    nothing("description", NAMES),
    nothing("thread", "plimsoll's are threads; fio's processes do the same").or(&["threads"]),
    nothing("group_reporting", "a case is reported over all its threads"),
    nothing("new_group", "a case is reported over all its threads"),
    nothing("filename_format", NAMES),
    nothing("unique_filename", NAMES),
    nothing("stats", SHOWN),
    nothing("unified_rw_reporting", SHOWN),
    nothing("clat_percentiles", SHOWN),
    nothing("lat_percentiles", SHOWN),
    nothing("slat_percentiles", SHOWN),
    nothing("percentile_list", SHOWN),
    nothing("significant_figures", SHOWN),
    nothing("disk_util", SHOWN),
    nothing("block_error_percentiles", SHOWN),
    nothing("unit_base", SHOWN),
    nothing("error_dump", SHOWN),
    nothing("gtod_reduce", "plimsoll's clock costs a few nanoseconds"),
    nothing("gtod_cpu", "plimsoll's clock costs a few nanoseconds"),
    nothing("clocksource", "plimsoll's clock costs a few nanoseconds"),
    nothing("disable_lat", SHOWN),
    nothing("disable_clat", SHOWN),
    nothing("disable_slat", SHOWN),
    nothing("disable_bw_measurement", SHOWN).or(&["disable_bw"]),
    nothing("per_job_logs", LOGS),
    nothing("write_bw_log", LOGS),
    nothing("write_lat_log", LOGS),
    nothing("write_iops_log", LOGS),
    nothing("write_hist_log", LOGS),
    nothing("bwavgtime", LOGS),
    nothing("iopsavgtime", LOGS),
    nothing("log_entries", LOGS),
    nothing("log_avg_msec", LOGS),
    nothing("log_hist_msec", LOGS),
    nothing("log_hist_coarseness", LOGS),
    nothing("log_max_value", LOGS),
    nothing("log_window_value", LOGS),
    nothing("log_issue_time", LOGS),
    nothing("job_start_clock_id", LOGS),
    nothing("log_offset", LOGS),
    nothing("log_prio", LOGS),
    nothing("log_compression", LOGS),
    nothing("log_compression_cpus", LOGS),
    nothing("log_store_compressed", LOGS),
    nothing("log_unix_epoch", LOGS),
    nothing("log_alternate_epoch", LOGS),
    nothing("log_alternate_epoch_clock_id", LOGS),
    nothing("randrepeat", RANDOM),
    nothing("allrandrepeat", RANDOM),
    nothing("randseed", RANDOM),
    nothing("random_generator", "each block comes once in a random order, as with fio's map or lfsr"),
    nothing("softrandommap", "each block comes once in a random order, as with fio's map"),
    nothing("fallocate", OWN_FILE),
    nothing("overwrite", OWN_FILE),
    nothing("create_serialize", OWN_FILE),
    nothing("create_fsync", OWN_FILE),
    nothing("allow_file_create", OWN_FILE),
    nothing("file_service_type", OWN_FILE),
    nothing("openfiles", OWN_FILE),
    nothing("unlink", OWN_FILE),
    nothing("unlink_each_loop", OWN_FILE),
    nothing("fadvise_hint", "only a mapping advises the kernel of its order"),
    nothing("allow_mounted_write", "a device in use is never written to: see docs/src/safety.md"),
    nothing("refill_buffers", DATA),
    nothing("scramble_buffers", DATA),
    nothing("iomem", MEMORY).or(&["mem"]),
    nothing("iomem_align", MEMORY).or(&["mem_align"]),
    nothing("hugepage-size", MEMORY),
    nothing("registerfiles", "io_uring has its files registered"),
    nothing("fixedbufs", "io_uring has its buffers registered"),
    nothing("nonvectored", "transfers have one buffer each"),
    nothing("io_submit_mode", "with --rate, starts do not wait for completions"),
    nothing("rate_ignore_thinktime", "there is no thinktime"),
    nothing("rate_cycle", "intended starts are even, or a Poisson process").or(&["ratecycle"]),
    nothing("latency_run", "the samples are at the depth that was found"),
    nothing("exitall", ENDS),
    nothing("exit_what", ENDS),
    nothing("exitall_on_error", ENDS),
    nothing("ignore_error", ERRORS),
    nothing("continue_on_error", ERRORS),
    nothing("do_verify", "what was written last is always read back and checked"),
    nothing("verify_fatal", "the first wrong block ends the case"),
    nothing("verify_dump", "the message shows the data that was read"),
    nothing("verifysort", "it only orders fio's reads after the load"),
    nothing("verifysort_nr", "it only orders fio's reads after the load"),
    nothing("verify_state_save", ENDS),
    refused("rw_sequencer", &["sequential"], "each transfer takes the next place of its pattern"),
    refused("bs_unaligned", &["0"], "blocks begin at multiples of their size").or(&["blocksize_unaligned"]),
    refused("bs_is_seq_rand", &["0"], "a case is sequential or random"),
    refused("lockfile", &["none"], "there is one file, and no lock"),
    refused("opendir", &[], "it opens every file of a directory"),
    refused("fill_device", &["0"], "it ends when the file system or device is full").or(&["fill_fs"]),
    refused("file_append", &["0"], "it writes behind the end of a file that exists"),
    refused("offset_align", &["0"], "a test file has no offset"),
    refused("create_on_open", &["0"], OWN_FILE),
    refused("create_only", &["0"], "it measures nothing"),
    refused("read_beyond_wp", &["0"], NO_ZONES),
    near("iodepth_batch", &["1"], BATCHES).or(&["iodepth_batch_submit"]),
    refused("iodepth_batch_complete_min", &["0", "1"], "plimsoll waits for one transfer at a time")
        .or(&["iodepth_batch_complete"]),
    near("iodepth_batch_complete_max", &[], "plimsoll takes all transfers that have come back"),
    refused("iodepth_low", &[], "the queue is kept full"),
    refused("serialize_overlap", &["0"], "transfers in flight may overlap"),
    refused("atomic", &["0"], "writes are not atomic"),
    refused("write_barrier", &["0"], "writes have no barriers"),
    refused("sync_file_range", &[], "sync_file_range(2) is not called"),
    refused("write_hint", &["none"], "writes have no lifetime hints"),
    refused("nowait", &["0"], "transfers may wait in the kernel"),
    refused("force_async", &["0"], "the kernel decides which transfers need a thread"),
    refused("uncached", &["0"], "RWF_UNCACHED is not used"),
    refused("hipri_percentage", &["100"], "all transfers are polled for, or none"),
    refused("sqthread_poll_cpu", &[], "the kernel's thread is not bound to a CPU"),
    refused("cmd_type", &[], NO_COMMANDS),
    refused("thinktime", &["0"], NO_PAUSES),
    refused("thinktime_spin", &["0"], NO_PAUSES),
    refused("thinktime_blocks", &[], NO_PAUSES),
    refused("thinktime_blocks_type", &[], NO_PAUSES),
    refused("thinktime_iotime", &["0"], NO_PAUSES),
    refused("rate_min", &["0"], REQUIREMENT).or(&["ratemin"]),
    refused("rate_iops_min", &["0"], REQUIREMENT),
    refused("max_latency", &["0"], REQUIREMENT),
    refused("steadystate", &[], "--steady of plimsoll disk has rounds and rules of its own (SNIA)")
        .or(&["ss"]),
    refused("steadystate_duration", &[], "see steadystate").or(&["ss_dur"]),
    refused("steadystate_ramp_time", &[], "see steadystate").or(&["ss_ramp"]),
    refused("verify_only", &["0"], NO_CHECKS),
    refused("verify_interval", &["0"], NO_CHECKS),
    refused("verify_offset", &["0"], NO_CHECKS),
    refused("verify_pattern", &[], NO_CHECKS),
    refused("verify_pattern_interval", &[], NO_CHECKS),
    refused("verify_async", &["0"], NO_CHECKS),
    refused("verify_async_cpus", &[], NO_CHECKS),
    refused("verify_backlog", &["0"], NO_CHECKS),
    refused("verify_backlog_batch", &["0"], NO_CHECKS),
    refused("verify_state_load", &["0"], NO_CHECKS),
    refused("experimental_verify", &["0"], NO_CHECKS),
    refused("trim_percentage", &["0"], "trims are a load of their own"),
    refused("trim_verify_zero", &["0"], "trims are a load of their own"),
    refused("trim_backlog", &["0"], "trims are a load of their own"),
    refused("trim_backlog_batch", &["0"], "trims are a load of their own"),
    refused("buffer_pattern", &[], NO_CONTENT),
    refused("zero_buffers", &["0"], NO_CONTENT),
    refused("buffer_compress_percentage", &["0"], NO_CONTENT),
    refused("buffer_compress_chunk", &[], NO_CONTENT),
    refused("dedupe_percentage", &["0"], NO_CONTENT),
    refused("dedupe_mode", &[], NO_CONTENT),
    refused("dedupe_working_set_percentage", &[], NO_CONTENT),
    refused("dedupe_global", &["0"], NO_CONTENT),
    refused("write_iolog", &[], "it writes each transfer to a file"),
    refused("read_iolog", &[], NO_REPLAY),
    refused("read_iolog_chunked", &[], NO_REPLAY),
    refused("replay_no_stall", &[], NO_REPLAY),
    refused("replay_redirect", &[], NO_REPLAY),
    refused("replay_scale", &[], NO_REPLAY),
    refused("replay_align", &[], NO_REPLAY),
    refused("replay_time_scale", &[], NO_REPLAY),
    refused("replay_skip", &[], NO_REPLAY),
    refused("merge_blktrace_file", &[], NO_REPLAY),
    refused("merge_blktrace_scalars", &[], NO_REPLAY),
    refused("merge_blktrace_iters", &[], NO_REPLAY),
    refused("exec_prerun", &[], PROGRAMS),
    refused("exec_postrun", &[], PROGRAMS),
    refused("ioscheduler", &[], "plimsoll changes no setting of the system"),
    refused("zonemode", &["none"], NO_ZONES),
    refused("zonesize", &["0"], NO_ZONES),
    refused("zonecapacity", &["0"], NO_ZONES),
    refused("zonerange", &["0"], NO_ZONES),
    refused("zoneskip", &["0"], NO_ZONES),
    refused("max_open_zones", &["0"], NO_ZONES),
    refused("job_max_open_zones", &["0"], NO_ZONES),
    refused("ignore_zone_limits", &["0"], NO_ZONES),
    refused("zone_reset_threshold", &[], NO_ZONES),
    refused("zone_reset_frequency", &[], NO_ZONES),
    refused("lockmem", &["0"], "memory is not taken from the page cache"),
    refused("nice", &["0"], NO_PRIORITY),
    refused("prio", &[], NO_PRIORITY),
    refused("prioclass", &[], NO_PRIORITY),
    refused("cmdprio_percentage", &["0"], NO_PRIORITY),
    refused("cmdprio_class", &[], NO_PRIORITY),
    refused("cmdprio", &[], NO_PRIORITY),
    refused("cmdprio_bssplit", &[], NO_PRIORITY),
    refused("cpumask", &[], NO_PLACE),
    refused("cpus_allowed", &[], NO_PLACE),
    refused("cpus_allowed_policy", &[], NO_PLACE),
    refused("numa_cpu_nodes", &[], NO_PLACE),
    refused("numa_mem_policy", &[], NO_PLACE),
    refused("cgroup", &[], "start plimsoll in the group"),
    refused("cgroup_weight", &[], "start plimsoll in the group"),
    refused("cgroup_nodelete", &[], "start plimsoll in the group"),
    refused("uid", &[], "start plimsoll as the user"),
    refused("gid", &[], "start plimsoll as the user"),
    refused("flow", &["0"], NO_FLOW),
    refused("flow_id", &[], NO_FLOW),
    refused("flow_watermark", &[], NO_FLOW),
    refused("flow_sleep", &[], NO_FLOW),
    refused("profile", &[], "fio's profiles are programs of its own"),
    refused("num_files", &["1"], NO_FILES),
    nothing("userspace_reap", "it only chooses how libaio collects completions"),
    nothing("libaio_vectored", "transfers have one buffer each"),
    refused("thp", &["0"], "the kernel chooses the pages of a mapping"),
    refused("thinkcycles", &["0"], NO_PAUSES),
    refused("end_syncfs", &["0"], NEWER),
    refused("filetype", &["none"], NEWER),
    refused("num_range", &[], NEWER),
    refused("sprandom", &["0"], NEWER),
    refused("spr_num_regions", &[], NEWER),
    refused("spr_op", &[], NEWER),
    refused("spr_cs", &[], NEWER),
    refused("random_sequence_stride", &["0"], NEWER),
    refused("ramp_size", &["0"], NEWER),
    refused("verify_policy", &[], NEWER),
    refused("verify_write_sequence", &["0"], NO_CHECKS),
    refused("verify_header_seed", &["0"], NO_CHECKS),
    refused("recover_zbd_write_error", &["0"], NO_ZONES),
    refused("write_zone_remainder", &["0"], NO_ZONES),
    refused("fdp", &["0"], NEWER),
    refused("dataplacement", &["none"], NEWER).or(&["data_placement"]),
    refused("plid_select", &[], NEWER).or(&["fdp_pli_select"]),
    refused("plids", &[], NEWER).or(&["fdp_pli"]),
    refused("dp_scheme", &[], NEWER),
    refused("priohint", &["0"], NO_PRIORITY),
    refused("steadystate_check_interval", &[], "see steadystate").or(&["ss_interval"]),
    refused("read_mode", &[], NO_COMMANDS),
    refused("write_mode", &[], NO_COMMANDS),
    refused("verify_mode", &[], NO_COMMANDS),
    refused("verify_bytchk", &[], NO_COMMANDS),
    refused("cdb_len", &[], NO_COMMANDS),
    refused("deac", &["0"], NO_COMMANDS),
    refused("donorname", &[], "the engine e4defrag has no counterpart"),
    refused("inplace", &[], "the engine e4defrag has no counterpart"),
    refused("md_per_io_size", &["0"], NO_COMMANDS),
    refused("pi_act", &[], NO_COMMANDS),
    refused("pi_chk", &[], NO_COMMANDS),
    refused("apptag", &[], NO_COMMANDS),
    refused("apptag_mask", &[], NO_COMMANDS),
];

static UNKNOWN_OPTION: FioOption = row("an unknown option", &[], OptionMeaning::Unknown, "");

/// Returns the option with this name or alias; one with the meaning `Unknown` if fio has none.
pub fn find(name: &str) -> &'static FioOption {
    OPTIONS.iter().find(|row| row.name == name || row.aliases.contains(&name)).unwrap_or(&UNKNOWN_OPTION)
}

/// Returns the error for option `name`, unknown to fio and `engine`, with the nearest known name.
pub fn unknown(name: &str, engine: &str) -> String {
    let names = OPTIONS.iter().flat_map(|row| std::iter::once(&row.name).chain(row.aliases)).copied();
    let near = nearest(name, names).map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
    let (name, engine) = (shown_within(name, 60), shown_within(engine, 60));
    format!("fio and its engine {engine} have no option '{name}'{near}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_there_once() {
        let mut names: Vec<&str> =
            OPTIONS.iter().flat_map(|row| std::iter::once(&row.name).chain(row.aliases)).copied().collect();
        let all = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), all);
        assert_eq!(find("bss").means, OptionMeaning::Unknown);
        assert!(unknown("bss", "libaio").ends_with("did you mean 'bs'?"));
        assert_eq!(find("readwrite").name, "rw");
    }
}
