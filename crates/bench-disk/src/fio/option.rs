//! Options of fio, grouped by support: supported, without effect on measurements, or unsupported.

use std::sync::LazyLock;

use OptionMeaning::{Near, Nothing, Refused, Taken};

use plimsoll_model::case::nearest;
use plimsoll_units::text::shown_within;

/// Support of an option.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum OptionMeaning {
    /// Supported: converted to this parameter of the case, for the documentation.
    Taken(&'static str),
    /// No effect on measurements; the reason.
    Nothing(&'static str),
    /// Supported with a difference, except for these values (words); the difference.
    Near(&'static str, &'static str),
    /// Not supported, except for these neutral values (words); the reason.
    Refused(&'static str, &'static str),
    /// Not an option of fio or of an engine for files and devices.
    Unknown,
}

/// An option.
#[derive(Clone, Debug, PartialEq)]
pub struct FioOption {
    /// Name.
    pub name: &'static str,
    /// Aliases in fio.
    pub aliases: Vec<&'static str>,
    /// Support.
    pub means: OptionMeaning,
}

impl FioOption {
    /// Whether the value of the option is a boolean.
    pub fn is_switch(&self) -> bool {
        SWITCHES.split(' ').any(|name| name == self.name) || self.takes_any_number()
    }

    /// Whether the option is a boolean with any number but 0 for true; other booleans are 0 or 1.
    pub fn takes_any_number(&self) -> bool {
        FLAGS.split(' ').any(|name| name == self.name)
    }
}

const SHOWN: &str = "it only chooses what fio reports";
const LOGS: &str = "it only writes logs: --events FILE has each sample";
const OWN_FILE: &str = "the test file is plimsoll's own, filled before it is measured";
const DATA: &str = "what is written cannot be compressed or recognised as a copy";
const BATCHES: &str = "plimsoll hands over as many transfers as came back, an eighth of the depth at a time";
const NO_PAUSES: &str = "transfers follow each other without pauses, or at --rate";
const NO_REPLAY: &str = "it replays a trace";
const NO_ZONES: &str = "there are no zones";
const NO_PRIORITY: &str = "all transfers have the same priority";
const NO_PLACE: &str = "threads and memory of disk cases are not bound to CPUs or nodes";
const NO_FLOW: &str = "jobs do not pace each other";
const NO_CHECKS: &str = "--verify checks each block that is read by plimsoll's own marks alone";
const NO_CONTENT: &str = "what is written is always incompressible and different";
const REQUIREMENT: &str = "a figure that must hold is --require on the command line";
const NO_COMMANDS: &str = "there are no passthrough commands";
const NEWER: &str = "it is newer than fio 3.33, whose options plimsoll knows";

/// Booleans for which fio 3.33 accepts any number (`thread=32` starts one thread).
const FLAGS: &str = "hipri sqthread_poll registerfiles fixedbufs time_based norandommap stonewall thread \
     group_reporting new_group refill_buffers exitall exitall_on_error";

/// Booleans that are 0 or 1 according to `fio --cmdhelp=NAME`, except unsupported ones.
const SWITCHES: &str = "direct buffered invalidate pre_read end_fsync fsync_on_close unique_filename stats \
     clat_percentiles lat_percentiles slat_percentiles disk_util block_error_percentiles error_dump \
     gtod_reduce disable_lat disable_clat disable_slat disable_bw_measurement per_job_logs log_max_value \
     log_offset log_prio log_store_compressed log_unix_epoch log_alternate_epoch randrepeat allrandrepeat \
     softrandommap overwrite create_serialize create_fsync allow_file_create unlink unlink_each_loop \
     allow_mounted_write scramble_buffers rate_ignore_thinktime latency_run do_verify verify_fatal \
     verify_dump verify_state_save";

/// Names of options by their support, with aliases: `rw=readwrite`.
const OPTION_GROUPS: &[(OptionMeaning, &str)] = &[
    (Taken("op, pattern"), "rw=readwrite"),
    (Taken("read-share"), "rwmixread rwmixwrite"),
    (Taken("block"), "bs=blocksize bsrange=blocksize_range bssplit"),
    (Taken("align"), "ba=blockalign"),
    (Taken("depth"), "iodepth"),
    (Taken("threads"), "numjobs"),
    (Taken("engine"), "ioengine hipri sqthread_poll"),
    (Taken("cache"), "direct buffered invalidate pre_read"),
    (Taken("size"), "size filesize nrfiles=nr_files"),
    (Taken("volume"), "io_size=io_limit loops"),
    (Taken("count"), "number_ios"),
    (Taken("samples, sample-time"), "runtime=timeout time_based"),
    (Taken("warm-up"), "ramp_time"),
    (Taken("--dir, --target, layout"), "filename"),
    (Taken("--dir"), "directory"),
    (Taken("layout"), "offset=fileoffset offset_increment"),
    (Taken("sync"), "fsync fdatasync end_fsync fsync_on_close sync"),
    (Taken("verify"), "verify"),
    (Taken("rate"), "rate rate_iops"),
    (Taken("arrivals"), "rate_process"),
    (Taken("latency-target"), "latency_target latency_percentile"),
    (Taken("sample-time"), "latency_window"),
    (Taken("pattern"), "random_distribution percentage_random norandommap"),
    (Taken("the order of groups"), "stonewall=wait_for_previous wait_for startdelay"),
    (Taken("sizes"), "kb_base"),
    (Nothing("fio has given it up, and ignores it"), "rwmixcycle percentage_sequential"),
    (Nothing("it only names things"), "name comm description filename_format unique_filename"),
    (Nothing("plimsoll's are threads; fio's processes do the same"), "thread=threads"),
    (Nothing("a case is reported over all its threads"), "group_reporting new_group"),
    (Nothing(SHOWN), "stats unified_rw_reporting clat_percentiles lat_percentiles slat_percentiles"),
    (Nothing(SHOWN), "percentile_list significant_figures disk_util block_error_percentiles unit_base"),
    (Nothing(SHOWN), "error_dump disable_lat disable_clat disable_slat disable_bw_measurement=disable_bw"),
    (Nothing("plimsoll's clock costs a few nanoseconds"), "gtod_reduce gtod_cpu clocksource"),
    (Nothing(LOGS), "per_job_logs write_bw_log write_lat_log write_iops_log write_hist_log bwavgtime"),
    (Nothing(LOGS), "iopsavgtime log_entries log_avg_msec log_hist_msec log_hist_coarseness log_max_value"),
    (Nothing(LOGS), "log_window_value log_issue_time job_start_clock_id log_offset log_prio log_compression"),
    (Nothing(LOGS), "log_compression_cpus log_store_compressed log_unix_epoch log_alternate_epoch"),
    (Nothing(LOGS), "log_alternate_epoch_clock_id"),
    (Nothing("--seed makes a run repeatable"), "randrepeat allrandrepeat randseed"),
    (Nothing("each block comes once in a random order, as with fio's map or lfsr"), "random_generator"),
    (Nothing("each block comes once in a random order, as with fio's map"), "softrandommap"),
    (Nothing(OWN_FILE), "fallocate overwrite create_serialize create_fsync allow_file_create"),
    (Nothing(OWN_FILE), "file_service_type openfiles unlink unlink_each_loop"),
    (Nothing("only a mapping advises the kernel of its order"), "fadvise_hint"),
    (Nothing("a device in use is never written to: see docs/src/safety.md"), "allow_mounted_write"),
    (Nothing(DATA), "refill_buffers scramble_buffers"),
    (Nothing("buffers are aligned to pages"), "iomem=mem iomem_align=mem_align hugepage-size"),
    (Nothing("io_uring has its files registered"), "registerfiles"),
    (Nothing("io_uring has its buffers registered"), "fixedbufs"),
    (Nothing("transfers have one buffer each"), "nonvectored libaio_vectored"),
    (Nothing("with --rate, starts do not wait for completions"), "io_submit_mode"),
    (Nothing("there is no thinktime"), "rate_ignore_thinktime"),
    (Nothing("intended starts are even, or a Poisson process"), "rate_cycle=ratecycle"),
    (Nothing("the samples are at the depth that was found"), "latency_run"),
    (Nothing("it only decides when fio ends"), "exitall exit_what exitall_on_error verify_state_save"),
    (Nothing("an error ends the case and is reported"), "ignore_error continue_on_error"),
    (Nothing("what was written last is always read back and checked"), "do_verify"),
    (Nothing("the first wrong block ends the case"), "verify_fatal"),
    (Nothing("the message shows the data that was read"), "verify_dump"),
    (Nothing("it only orders fio's reads after the load"), "verifysort verifysort_nr"),
    (Refused("sequential", "each transfer takes the next place of its pattern"), "rw_sequencer"),
    (Refused("0", "blocks begin at multiples of their size"), "bs_unaligned=blocksize_unaligned"),
    (Refused("0", "a case is sequential or random"), "bs_is_seq_rand"),
    (Refused("none", "there is one file, and no lock"), "lockfile"),
    (Refused("", "it opens every file of a directory"), "opendir"),
    (Refused("0", "it ends when the file system or device is full"), "fill_device=fill_fs"),
    (Refused("0", "it writes behind the end of a file that exists"), "file_append"),
    (Refused("0", "a test file has no offset"), "offset_align"),
    (Refused("0", OWN_FILE), "create_on_open"),
    (Refused("0", "it measures nothing"), "create_only"),
    (Refused("0", NO_ZONES), "read_beyond_wp zonesize zonecapacity zonerange zoneskip max_open_zones"),
    (Refused("0", NO_ZONES), "job_max_open_zones ignore_zone_limits recover_zbd_write_error"),
    (Refused("0", NO_ZONES), "write_zone_remainder"),
    (Near("1", BATCHES), "iodepth_batch=iodepth_batch_submit"),
    (
        Refused("0 1", "plimsoll waits for one transfer at a time"),
        "iodepth_batch_complete_min=iodepth_batch_complete",
    ),
    (Near("", "plimsoll takes all transfers that have come back"), "iodepth_batch_complete_max"),
    (Refused("", "the queue is kept full"), "iodepth_low"),
    (Refused("0", "transfers in flight may overlap"), "serialize_overlap"),
    (Refused("0", "writes are not atomic"), "atomic"),
    (Refused("0", "writes have no barriers"), "write_barrier"),
    (Refused("", "sync_file_range(2) is not called"), "sync_file_range"),
    (Refused("none", "writes have no lifetime hints"), "write_hint"),
    (Refused("0", "transfers may wait in the kernel"), "nowait"),
    (Refused("0", "the kernel decides which transfers need a thread"), "force_async"),
    (Refused("0", "RWF_UNCACHED is not used"), "uncached"),
    (Refused("100", "all transfers are polled for, or none"), "hipri_percentage"),
    (Refused("", "the kernel's thread is not bound to a CPU"), "sqthread_poll_cpu"),
    (Refused("", NO_COMMANDS), "cmd_type read_mode write_mode verify_mode verify_bytchk cdb_len pi_act"),
    (Refused("", NO_COMMANDS), "pi_chk apptag apptag_mask"),
    (Refused("0", NO_PAUSES), "thinktime thinktime_spin thinktime_iotime thinkcycles"),
    (Refused("", NO_PAUSES), "thinktime_blocks thinktime_blocks_type"),
    (Refused("0", REQUIREMENT), "rate_min=ratemin rate_iops_min max_latency"),
    (Refused("", "--steady of plimsoll disk has rounds and rules of its own (SNIA)"), "steadystate=ss"),
    (Refused("", "see steadystate"), "steadystate_duration=ss_dur steadystate_ramp_time=ss_ramp"),
    (Refused("", "see steadystate"), "steadystate_check_interval=ss_interval"),
    (Refused("0", NO_CHECKS), "verify_only verify_interval verify_offset verify_async verify_backlog"),
    (Refused("0", NO_CHECKS), "verify_backlog_batch verify_state_load experimental_verify"),
    (Refused("0", NO_CHECKS), "verify_write_sequence verify_header_seed"),
    (Refused("", NO_CHECKS), "verify_pattern verify_pattern_interval verify_async_cpus"),
    (Refused("0", "trims are a load of their own"), "trim_percentage trim_verify_zero trim_backlog"),
    (Refused("0", "trims are a load of their own"), "trim_backlog_batch"),
    (Refused("", NO_CONTENT), "buffer_pattern buffer_compress_chunk dedupe_mode"),
    (Refused("", NO_CONTENT), "dedupe_working_set_percentage"),
    (Refused("0", NO_CONTENT), "zero_buffers buffer_compress_percentage dedupe_percentage dedupe_global"),
    (Refused("", "it writes each transfer to a file"), "write_iolog"),
    (Refused("", NO_REPLAY), "read_iolog read_iolog_chunked replay_no_stall replay_redirect replay_scale"),
    (Refused("", NO_REPLAY), "replay_align replay_time_scale replay_skip merge_blktrace_file"),
    (Refused("", NO_REPLAY), "merge_blktrace_scalars merge_blktrace_iters"),
    (Refused("", "plimsoll starts no program that a file names"), "exec_prerun exec_postrun"),
    (Refused("", "plimsoll changes no setting of the system"), "ioscheduler"),
    (Refused("none", NO_ZONES), "zonemode"),
    (Refused("", NO_ZONES), "zone_reset_threshold zone_reset_frequency"),
    (Refused("0", "memory is not taken from the page cache"), "lockmem"),
    (Refused("0", NO_PRIORITY), "nice cmdprio_percentage priohint"),
    (Refused("", NO_PRIORITY), "prio prioclass cmdprio_class cmdprio cmdprio_bssplit"),
    (Refused("", NO_PLACE), "cpumask cpus_allowed cpus_allowed_policy numa_cpu_nodes numa_mem_policy"),
    (Refused("", "start plimsoll in the group"), "cgroup cgroup_weight cgroup_nodelete"),
    (Refused("", "start plimsoll as the user"), "uid gid"),
    (Refused("0", NO_FLOW), "flow"),
    (Refused("", NO_FLOW), "flow_id flow_watermark flow_sleep"),
    (Refused("", "fio's profiles are programs of its own"), "profile"),
    (Refused("1", "there is one file"), "num_files"),
    (Nothing("it only chooses how libaio collects completions"), "userspace_reap"),
    (Refused("0", "the kernel chooses the pages of a mapping"), "thp"),
    (Refused("0", NEWER), "end_syncfs sprandom random_sequence_stride ramp_size fdp"),
    (Refused("none", NEWER), "filetype dataplacement=data_placement"),
    (Refused("", NEWER), "num_range spr_num_regions spr_op spr_cs verify_policy plid_select=fdp_pli_select"),
    (Refused("", NEWER), "plids=fdp_pli dp_scheme"),
    (Refused("0", NO_COMMANDS), "deac md_per_io_size"),
    (Refused("", "the engine e4defrag has no counterpart"), "donorname inplace"),
];

/// Every option in the manual page of fio 3.33, and those added up to version 3.42.
pub static OPTIONS: LazyLock<Vec<FioOption>> = LazyLock::new(|| {
    let options = OPTION_GROUPS.iter().flat_map(|(means, names)| names.split(' ').map(|name| (*means, name)));
    let option = |(means, names): (OptionMeaning, &'static str)| {
        let mut names = names.split('=');
        FioOption { name: names.next().unwrap_or_default(), aliases: names.collect(), means }
    };
    options.map(option).collect()
});

static UNKNOWN_OPTION: FioOption =
    FioOption { name: "an unknown option", aliases: Vec::new(), means: OptionMeaning::Unknown };

/// Returns the option with this name or alias; if fio has none, a row with the meaning `Unknown`.
pub fn find(name: &str) -> &'static FioOption {
    OPTIONS.iter().find(|row| row.name == name || row.aliases.contains(&name)).unwrap_or(&UNKNOWN_OPTION)
}

/// Returns the error for option `name`, which fio and its engine lack, with the most similar name.
pub fn unknown(name: &str, engine: &str) -> String {
    let names = OPTIONS.iter().flat_map(|row| std::iter::once(&row.name).chain(&row.aliases)).copied();
    let near = nearest(name.trim_start_matches('-'), names);
    let near = near.map(|near| format!("; did you mean '{near}'?")).unwrap_or_default();
    let (name, engine) = (shown_within(name, 60), shown_within(engine, 60));
    format!("fio and its engine {engine} have no option '{name}'{near}")
}
