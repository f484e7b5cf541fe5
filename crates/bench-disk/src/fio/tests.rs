use super::*;

const SECRET: &str = "s3cret";

struct Made;

impl JobEnvironment for Made {
    fn variable(&self, name: &str) -> Option<String> {
        let all = [("SIZE", "64m"), ("KEY", SECRET)];
        all.iter().find(|(known, _)| *known == name).map(|(_, text)| (*text).to_owned())
    }

    fn included(&self, name: &str) -> Result<String, String> {
        match name {
            "more.fio" => Ok("iodepth=4\nthinktime=2\n".to_owned()),
            "self.fio" => Ok("include self.fio".to_owned()),
            _ => Err("no such file".to_owned()),
        }
    }

    fn keyword(&self, name: &str) -> Option<u64> {
        (name == "pagesize").then_some(4096)
    }

    fn device(&self, path: &str) -> Option<u64> {
        (path == "/dev/nvme0n1").then_some(1 << 40)
    }
}

fn read(text: &str) -> Result<JobFile, Vec<String>> {
    parse("job.fio", text, &Made, Unsupported::Refused)
}

fn ignoring(text: &str) -> JobFile {
    parse("job.fio", text, &Made, Unsupported::Ignored).unwrap()
}

fn stated(group: &Group) -> String {
    let lists: Vec<String> = group.lists.iter().map(|(key, values)| format!("{key}={}", values[0])).collect();
    let how = &group.how;
    let samples = how.samples.map(|n| format!(" {n} samples")).unwrap_or_default();
    let time = how.sample_time.map(|time| format!(" of {}", plimsoll_units::quantity::format_duration(time)));
    let warm = how.warm_up.map(|time| format!(" after {}", plimsoll_units::quantity::format_duration(time)));
    lists.join(" ") + &samples + &time.unwrap_or_default() + &warm.unwrap_or_default()
}

fn one(lines: &str) -> String {
    let file = read(&format!("[a]\n{lines}\n")).unwrap();
    assert_eq!(file.plan.groups.len(), 1);
    stated(&file.plan.groups[0])
}

fn refusals(text: &str) -> Vec<String> {
    read(text).unwrap_err()
}

#[test]
fn a_job_of_a_cloud_provider_is_a_case() {
    let tail = "direct=1\nsize=1g\ntime_based";
    let reads = "rw=randread\nbs=4k\niodepth=32\nioengine=libaio\nnumjobs=4\nruntime=60\nramp_time=5";
    let case = "block=4K cache=direct depth=32 engine=libaio op=read pattern=random size=4G threads=4 30 \
                samples of 2s after 5s";
    assert_eq!(one(&format!("{reads}\ngroup_reporting\n{tail}")), case);
    let mix = "rw=randrw\nrwmixread=70\nbs=16k\nioengine=io_uring\nnumjobs=2\nruntime=10";
    let case = "block=16K cache=direct depth=1 engine=io_uring layout=shared op=mixed pattern=random \
                read-share=70 size=1G threads=2 30 samples of 333333us";
    assert_eq!(one(&format!("{mix}\nfilename=/mnt/x/test\n{tail}")), case);
}

#[test]
fn an_amount_is_done_in_samples_that_add_up_to_it() {
    assert_eq!(
        one("rw=write\nbs=1m\ndirect=1\nsize=${SIZE}\nfsync=8"),
        "block=1M cache=direct depth=1 engine=psync op=write pattern=sequential size=64M sync=fsync:8 threads=1 volume=64M 1 samples"
    );
    assert!(one("rw=write\nbs=1m\ndirect=1\nsize=100g\nio_size=10g").ends_with("volume=1G 10 samples"));
    assert!(one("rw=write\nbs=1m\ndirect=1\nsize=100g\nend_fsync=1").ends_with("volume=100G 1 samples"));
    assert!(one("rw=randread\ndirect=1\nsize=1g\nnumber_ios=1000").ends_with("volume=4000K 1 samples"));
}

#[test]
fn an_amount_is_that_of_fio() {
    for (lines, moved) in [
        ("rw=read\nsize=4m\nloops=3\nio_size=6m", "12M"),
        ("rw=read\nsize=4m\nloops=3\nio_size=2m", "6M"),
        ("rw=read\nsize=4m\nloops=2\nio_size=10m", "12M"),
        ("rw=randread\nsize=4m\nio_size=6m", "6M"),
        ("rw=read\nfilesize=2m\nsize=4m", "2M"),
        ("rw=read\nfilesize=8m\nsize=4m", "4M"),
        ("rw=write\nsize=300k\nbs=64k", "256K"),
        ("rw=randread\nnorandommap\nsize=300k\nbs=64k", "300K"),
        ("rw=read\nsize=4m\nnumber_ios=100\nloops=3", "1200K"),
    ] {
        let case = one(&format!("direct=1\n{lines}"));
        assert!(case.ends_with(&format!(" volume={moved} 1 samples")), "{lines}: {case}");
    }
}

#[test]
fn a_reason_is_true_of_options_of_other_engines_and_of_ranges() {
    let refused = refusals("[a]\nrw=randread\nsize=16m\nioengine=libaio\ndonorname=x\n");
    assert!(refused[0].contains("e4defrag"), "{refused:?}");
    let refused = refusals("[a]\nrw=randread\nfilesize=4m-8m\nsize=64m\n");
    assert!(refused.len() == 1 && refused[0].contains("one size"), "{refused:?}");
}

#[test]
fn blocks_are_those_of_the_operation() {
    let block = |lines: &str| {
        let text = one(&format!("size=1g\ndirect=1\nruntime=1\ntime_based\n{lines}"));
        text.split(' ').next().unwrap().to_owned()
    };
    assert_eq!(block("rw=read"), "block=4K");
    assert_eq!(block("rw=read\nbs=4k,16k"), "block=4K");
    assert_eq!(block("rw=write\nbs=4k,16k"), "block=16K");
    assert_eq!(block("rw=write\nblocksize_range=4k-16k"), "block=4K@1+8K@1+12K@1+16K@1");
    assert_eq!(block("rw=read\nbsrange=4k-4k"), "block=4K");
    let random = "rw=randrw\nnorandommap\nbssplit=4k/10:64k/50:32k/40";
    assert_eq!(block(random), "block=4K@1+32K@4+64K@5");
    assert_eq!(block("rw=read\nbssplit=4k/50:1k/:32k/"), "block=1K@1+4K@2+32K@1");
    assert_eq!(block("rw=read\nbs=4k\nkb_base=1000"), "block=4000");
    assert_eq!(block("rw=read\nbs=$pagesize"), "block=4K");
    let why = "job.fio:3: refused: option bs=4k,16k has no counterpart: reads and writes of a mix have the same blocks";
    assert_eq!(refusals("[a]\nrw=randrw\nbs=4k,16k\nsize=1g\n"), [why]);
}

#[test]
fn what_has_no_counterpart_is_named_with_its_line() {
    let text = "; a comment\n[global]\nsize=1g ; and one more\ndirect=1\n\n[a]\nrw=randread\nthinktime=5\nexec_prerun=rm -rf /\n";
    let expected = [
        "job.fio:8: refused: option thinktime=5 has no counterpart: transfers follow each other without pauses, or at --rate",
        "job.fio:9: refused: option exec_prerun=rm -rf / has no counterpart: plimsoll starts no program that a file names",
    ];
    assert_eq!(refusals(text), expected);
    let file = ignoring(text);
    let note = file.plan.groups[0].note.clone().unwrap();
    assert!(note.starts_with("job.fio:8: ignored: option thinktime=5 has no counterpart"), "{note}");
    assert!(note.contains("job.fio:9: ignored: option exec_prerun"));
    let said = refusals("[a]\nrww=read\nsize=1g\n");
    assert_eq!(said, ["job.fio:2: fio and its engine psync have no option 'rww'; did you mean 'rw'?"]);
    assert!(refusals("[a]\nrw=sideways\nsize=1g")[0].starts_with("job.fio:2: rw must be a kind of load"));
    assert!(refusals("rw=read\n[a]\n")[0].starts_with("job.fio:1: an option must be in a section"));
    assert!(refusals("")[0].starts_with("job.fio:1: a job file requires a job"));
}

#[test]
fn a_job_that_is_of_another_engine_is_left_out_where_that_was_asked_for() {
    let text = "[a]\nioengine=rbd\nrbdname=x\nsize=1g\n[b]\nstonewall\nrw=read\ndirect=1\nsize=1g\n";
    let wrong = refusals(text);
    assert!(wrong.len() == 1 && wrong[0].starts_with("job.fio:2: refused: option ioengine=rbd"), "{wrong:?}");
    let file = ignoring(text);
    assert_eq!(file.plan.groups.len(), 1);
    assert!(file.plan.note.unwrap().contains("job.fio:2: job left out: option ioengine=rbd"));
    assert!(parse("job.fio", "[a]\nioengine=rbd\nsize=1g", &Made, Unsupported::Ignored).is_err());
}

#[test]
fn jobs_that_run_at_the_same_time_are_one_load_where_they_are_alike() {
    let global = "[global]\nrw=randread\ndirect=1\nsize=1g\nruntime=6\ntime_based\n";
    let alike = read(&format!("{global}[a]\n[b]\n[c]\n")).unwrap();
    assert_eq!(alike.plan.groups.len(), 1);
    assert!(stated(&alike.plan.groups[0]).contains("size=3G threads=3"));
    let different = refusals(&format!("{global}[a]\n[b]\niodepth=4\nioengine=libaio\n"));
    let why = "job.fio:8: refused: [b] runs at the same time as [a] (line 7), and plimsoll measures one load at a time: write stonewall into [b]";
    assert_eq!(different, [why]);
    let waits = read(&format!("{global}[a]\n[b]\nstonewall\nbs=8k\n[c]\nwait_for=b\nbs=16k\n")).unwrap();
    assert_eq!(waits.plan.groups.len(), 3);
    let after = ignoring(&format!("{global}[a]\n[b]\nbs=8k\n"));
    assert_eq!(after.plan.groups.len(), 2);
    assert!(after.plan.groups[1].note.clone().unwrap().ends_with("; measured after it"));
}

#[test]
fn a_path_is_a_directory_or_a_device_and_never_a_file_to_write_to() {
    let place = |lines: &str| read(&format!("[a]\nrw=write\nsize=1g\ndirect=1\n{lines}\n")).unwrap().place;
    assert_eq!(place(""), None);
    assert_eq!(place("directory=/mnt/x"), Some(JobTarget::Directory("/mnt/x".into())));
    assert_eq!(place("filename=/mnt/x/y"), Some(JobTarget::Directory("/mnt/x".into())));
    assert_eq!(place("filename=y"), None);
    assert_eq!(place("directory=/mnt\nfilename=y"), Some(JobTarget::Directory("/mnt".into())));
    assert_eq!(place("filename=/dev/nvme0n1"), Some(JobTarget::Device("/dev/nvme0n1".into())));
    for lines in [
        "directory=/dev\nfilename=nvme0n1",
        "directory=/dev/\nfilename=nvme0n1",
        "directory=/\nfilename=/dev/sdx",
    ] {
        assert!(matches!(place(lines), Some(JobTarget::Device(_))), "{lines}");
    }
    assert_eq!(place("directory=/mnt\nfilename=/dev/sdx"), Some(JobTarget::Directory("/mnt/dev".into())));
    assert_eq!(place("filename=/dev/shm/x"), Some(JobTarget::Directory("/dev/shm".into())));
    let two = refusals("[a]\nrw=read\nsize=1g\nfilename=/dev/sda:/dev/sdb\n");
    assert!(two[0].contains("there is one directory and one file"), "{two:?}");
    assert!(one("rw=randread\ndirect=1\nfilename=/dev/nvme0n1\nruntime=1\ntime_based").contains("size=1T"));
    let said = one("rw=randread\ndirect=1\nfilename=/dev/sdx\nruntime=1\ntime_based");
    assert!(said.contains("pattern=random threads=1"));
}

#[test]
fn the_first_job_that_writes_is_known_with_its_line() {
    let writes = |text: &str| read(text).unwrap().writes;
    let reads = "[r]\nrw=read\nsize=1g\n";
    assert_eq!(writes(reads), None);
    for op in ["write", "randrw", "trim\nfilename=/dev/nvme0n1"] {
        let reads = if op.contains("filename") { "[r]\nfilename=/dev/nvme0n1\nsize=1g\n" } else { reads };
        let both = format!("{reads}[w]\nstonewall\nrw={op}\nsize=1g\n");
        assert_eq!(writes(&both), Some("job.fio:4: [w]".to_owned()), "{op}");
    }
}

/// fio has no words for 0 and 1, and drops a job with one.
#[test]
fn values_that_fio_drops_a_job_for_are_refused() {
    for (lines, reported) in [
        ("size=0", "size must be at least 1 byte: '0' is not"),
        ("size=0k", "size must be at least 1 byte: '0k' is not"),
        ("direct=true", "direct must be 0 or 1 (fio knows no words for them): 'true' is not"),
        ("group_reporting=yes", "group_reporting must be a number, 0 for off: 'yes' is not"),
        ("invalidate=off", "invalidate must be 0 or 1 (fio knows no words for them): 'off' is not"),
        ("hipri=on", "hipri must be a number, 0 for off: 'on' is not"),
        ("direct=2", "direct must be 0 or 1 (fio knows no words for them): '2' is not"),
    ] {
        let size = if lines.starts_with("size") { "" } else { "size=1g\n" };
        let wrong = format!("job.fio:2: {reported}");
        assert_eq!(refusals(&format!("[a]\n{lines}\nrw=read\n{size}")), [wrong]);
    }
    assert!(one("rw=read\nsize=1g\ndirect=0x1\ngroup_reporting=0\nthread").contains("cache=direct"));
    // fio 3.33 accepts any number for a boolean without a maximum.
    assert!(one("rw=read\nsize=1g\nthread=32\nruntime=9\ntime_based=7").contains("30 samples"));
}

#[test]
fn parts_of_a_file_are_those_of_the_jobs() {
    let shared = "rw=read\nbs=1m\ndirect=1\nfilename=/mnt/x\nnumjobs=4\nruntime=1\ntime_based\nsize=1g\n";
    assert!(one(shared).contains("layout=shared op=read pattern=sequential size=1G threads=4"));
    let parted = one(&format!("{shared}offset_increment=1g"));
    assert!(parted.contains("size=4G") && !parted.contains("layout"), "{parted}");
    assert!(refusals(&format!("[a]\n{shared}offset_increment=512m"))[0].contains("overlap"));
    let device = shared.replace("/mnt/x", "/dev/nvme0n1").replace("size=1g\n", "");
    assert!(one(&format!("{device}offset_increment=256g")).contains("size=1T threads=4"));
}

#[test]
fn jobs_at_offsets_of_one_file_have_their_own_parts() {
    let head = "[global]\nrw=read\ndirect=1\nioengine=libaio\nfilename=x\nsize=32m\nruntime=1\ntime_based\n";
    let both = |first: &str, second: &str| read(&format!("{head}[a]\n{first}\n[b]\n{second}\n"));
    let halves = both("offset=0", "offset=32m").unwrap();
    assert_eq!(halves.plan.groups.len(), 1);
    let parted = stated(&halves.plan.groups[0]);
    assert!(parted.contains("size=64M threads=2") && !parted.contains("layout"), "{parted}");
    assert!(stated(&both("offset=1g", "offset=0").unwrap().plan.groups[0]).contains("size=64M"));
    assert!(stated(&both("offset=8m", "offset=8m").unwrap().plan.groups[0]).contains("layout=shared"));
    let third = format!("{head}[a]\n[b]\noffset=32m\n[c]\noffset=64m\n");
    assert!(stated(&read(&third).unwrap().plan.groups[0]).contains("size=96M threads=3"));
    for (first, second) in [("", "offset=16m"), ("", "offset=50%"), ("numjobs=2", "offset=32m")] {
        let wrong = both(first, second).unwrap_err();
        assert!(wrong[0].contains("[b] runs at the same time as [a]"), "{wrong:?}");
    }
}

#[test]
fn a_job_that_begins_when_those_before_it_have_ended_waits_for_them() {
    let head = "[global]\ndirect=1\nsize=64m\n";
    let jobs = |first: &str, second: &str| {
        read(&format!("{head}[a]\nrw=randread\n{first}\n[b]\nrw=randwrite\n{second}\n"))
    };
    let timed = "runtime=5\ntime_based";
    let groups = |first: &str, second: &str| jobs(first, second).map(|file| file.plan.groups.len());
    assert_eq!(groups(timed, "startdelay=10"), Ok(2));
    assert_eq!(groups(timed, "startdelay=5000ms"), Ok(2));
    assert_eq!(groups("runtime=5", "startdelay=5"), Ok(2));
    for (first, second) in [(timed, "startdelay=3"), ("", "startdelay=10"), (timed, "startdelay=5-20")] {
        let wrong = jobs(first, second).unwrap_err();
        assert!(wrong[0].contains("[b] may run at the same time as [a]"), "{wrong:?}");
    }
    assert!(groups("runtime=5\nramp_time=2\ntime_based", "startdelay=6").is_err());
    // Jobs with equal delays start together.
    let all = "[global]\ndirect=1\nsize=64m\nstartdelay=2\n[a]\n[b]\n";
    assert!(stated(&read(all).unwrap().plan.groups[0]).contains("threads=2"));
    // fio counts a delay from its own start, not from that of the group.
    let later = format!("{head}{timed}\n[a]\n[b]\nstonewall\n[c]\nrw=write\nstartdelay=7\n");
    assert!(refusals(&later)[0].contains("[c] may run at the same time as [b]"));
}

/// fio's map cuts a block at finished ones; `lfsr` and distributions except `random` have no map.
#[test]
fn random_blocks_of_several_sizes_require_that_fio_cuts_none() {
    let job = |lines: &str| format!("[a]\nrw=randread\ndirect=1\nsize=1g\nruntime=1\ntime_based\n{lines}\n");
    for blocks in ["bssplit=4k/50:64k/50", "bsrange=4k-16k"] {
        let wrong = refusals(&job(blocks));
        assert!(wrong.len() == 1 && wrong[0].contains("norandommap=1"), "{wrong:?}");
        for open in
            ["norandommap", "random_generator=lfsr", "random_distribution=zipf:1.1", "percentage_random=0"]
        {
            assert!(read(&job(&format!("{blocks}\n{open}"))).is_ok(), "{open}");
        }
    }
    assert!(refusals(&job("bssplit=4k/50:64k/50\nsoftrandommap=1"))[0].contains("norandommap=1"));
    assert!(read(&job("rw=read\nbssplit=4k/50:64k/50")).is_ok());
}

#[test]
fn a_mapping_begins_with_an_empty_cache_and_a_file_is_not_trimmed() {
    let mapped =
        |lines: &str| one(&format!("ioengine=mmap\nrw=randread\nsize=64m\nruntime=1\ntime_based\n{lines}"));
    assert!(mapped("").contains("cache=cold"));
    assert!(mapped("direct=1").contains("cache=cold"));
    assert!(mapped("invalidate=0").contains("cache=buffered"));
    let trim = "[a]\nrw=randtrim\nsize=8m\ndirect=1\n";
    let wrong = refusals(trim);
    assert!(wrong.len() == 1 && wrong[0].contains("fio trims block devices alone"), "{wrong:?}");
    assert!(read(&format!("{trim}filename=/dev/nvme0n1\n")).is_ok());
}

#[test]
fn an_option_of_another_engine_or_version_has_a_true_reason() {
    let wrong = refusals(
        "[global]\nioengine=spdk_bdev\nspdk_json_conf=./bdev.json\nthread=1\n[a]\nfilename=Nvme0n1\nrw=randread\nsize=1g\n",
    );
    assert!(wrong.len() == 1 && wrong[0].contains("ioengine=spdk_bdev"), "{wrong:?}");
    let logs = "write_lat_log=x\nlog_avg_msec=100\nlog_window_value=both\nlog_issue_time=1";
    assert!(one(&format!("rw=randread\nsize=64m\ndirect=1\n{logs}")).contains("op=read"));
    let newer = refusals("[a]\nrw=randread\nsize=64m\nsprandom=1\n");
    assert!(newer[0].contains("sprandom=1 has no counterpart: it is newer than fio 3.33"), "{newer:?}");
}

#[test]
fn what_the_environment_holds_is_in_no_text() {
    let job = |line: &str| {
        let text = format!("[a]\nrw=randread\ndirect=1\nsize=1g\n{line}\n");
        parse("job.fio", &text, &Made, Unsupported::Ignored)
    };
    for option in "description comm thinktime verify_pattern write_bw_log iodepth_batch".split(' ') {
        let plan = job(&format!("{option}=${{KEY}}")).unwrap().plan;
        assert!(!format!("{plan:?}").contains(SECRET), "{option}: {plan:?}");
    }
    let wrong = "bs=${KEY} ${KEY}=1 ioengine=${KEY} rw=${KEY} numjobs=${KEY} direct=${KEY} wait_for=${KEY}";
    for line in wrong.split(' ') {
        let wrong = job(line).unwrap_err();
        assert!(wrong.iter().all(|why| !why.contains(SECRET)), "{line}: {wrong:?}");
    }
    let why = "job.fio:5: iodepth must be a whole number: '${NONE}' needs the environment variable NONE, which is not set";
    assert_eq!(job("iodepth=${NONE}").unwrap_err(), [why]);
    assert!(job("filename=/mnt/${NONE}").unwrap_err()[0].contains("environment variable NONE"));
}

/// As in fio 3.33: `rw= randread` drops the job, `size= 1m` is one byte, `iodepth= 2` is read.
#[test]
fn a_value_behind_a_blank_is_refused_where_fio_misreads_it() {
    let job = |line: &str| read(&format!("[a]\nrw=randread\nbs=4k\nsize=1g\n{line}\n"));
    for line in ["rw= randread", "rw = randread", "bs= 8k,4k", "size= 50%", "ioengine=\tpsync"] {
        let wrong = job(line).unwrap_err();
        assert!(wrong.len() == 1 && wrong[0].starts_with("job.fio:5: "), "{line}: {wrong:?}");
    }
    for line in ["iodepth= 2", "rw =randread", "filename= x", "description= some words", "size= 1048576"] {
        assert!(job(line).is_ok(), "{line}");
    }
}

#[test]
fn a_job_file_is_known_by_its_content() {
    for text in [
        "[global]\nioengine=libaio\n",
        "; a comment\n# and another\n\n[randread]\nrw = randread\n",
        "\u{feff}[a]\nstonewall\n",
        "include x.fio\n[a]\nbs=4k\n",
    ] {
        assert!(is_job_text(text), "{text}");
    }
    for text in [
        "",
        "name = \"x\"\n[[group]]\nbenchmark = \"cpu.peak\"\n",
        "[[group]]\nsize = \"1G\"\n",
        "[limit]\nsize = 1\n",
        "[section]\ncolour = red\n",
        "just text",
    ] {
        assert!(!is_job_text(text), "{text}");
    }
}

#[test]
fn rates_targets_and_distributions() {
    let job = "rw=randread\nbs=4k\ndirect=1\nioengine=libaio\niodepth=64\nsize=1g\nruntime=6\ntime_based";
    let of = |lines: &str| one(&format!("{job}\n{lines}"));
    assert!(of("rate_iops=1000\nnumjobs=2").contains("arrivals=even"));
    assert!(of("rate_iops=1000\nnumjobs=2").contains("rate=2000"));
    assert!(of("rate=4m\nrate_process=poisson").contains("arrivals=poisson"));
    assert!(of("rate=4m").contains("rate=1024"));
    let said = of("latency_target=500000\nlatency_window=5000000\nlatency_percentile=99.9");
    assert!(said.contains("latency-target=p99.9:500ms"));
    let said = refusals("[a]\nrw=randread\nsize=1g\nlatency_target=10ms").remove(0);
    assert!(said.contains("latency_percentile from 1 to 99.99"));
    assert!(of("random_distribution=zipf:0.8").contains("pattern=zipf:0.8"));
    assert!(of("random_distribution=zoned:50/5:30/15:20/").contains("pattern=zoned:50-5:30-15:20-80"));
    assert!(of("percentage_random=100").contains("pattern=random"));
    assert!(of("percentage_random=0").contains("pattern=sequential"));
    let said = refusals("[a]\nrw=randread\nsize=1g\npercentage_random=50").remove(0);
    assert!(said.contains("a load is random or sequential"));
    assert!(refusals("[a]\nrw=randread\nsize=1g\nrandom_distribution=pareto:0.9")[0].contains("pareto"));
    assert!(one("rw=read:-8k\nsize=1g\ndirect=1").contains("pattern=backward"));
    assert!(refusals("[a]\nrw=write:112k\nbs=16k\nsize=1g")[0].contains("leaves nothing out"));
}

#[test]
fn files_are_included_and_what_is_in_them_has_its_own_lines() {
    let wrong = refusals("[a]\nrw=randread\nioengine=libaio\nsize=1g\ninclude more.fio\n");
    assert_eq!(wrong.len(), 1);
    assert!(wrong[0].starts_with("more.fio:2: refused: option thinktime=2"), "{wrong:?}");
    let file = ignoring("[a]\nrw=randread\nioengine=libaio\ndirect=1\nsize=1g\ninclude more.fio\n");
    assert!(stated(&file.plan.groups[0]).contains("depth=4"));
    assert!(refusals("[a]\nsize=1g\ninclude self.fio\n")[0].contains("8 deep"));
    assert!(refusals("[a]\nsize=1g\ninclude ../x.fio\n")[0].contains("include ../x.fio: no such file"));
    let here = Here { folder: "/etc".into() };
    assert!(here.included("../etc/passwd").is_err() && here.included("/etc/passwd").is_err());
}

#[test]
fn nothing_outside_the_folder_is_included_through_a_link() {
    use std::os::unix::fs::symlink;

    let (inside, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    std::fs::write(outside.path().join("secret"), "iodepth=4\n").unwrap();
    std::fs::write(inside.path().join("own.fio"), "iodepth=4\n").unwrap();
    symlink(outside.path().join("secret"), inside.path().join("file.fio")).unwrap();
    symlink(outside.path(), inside.path().join("folder")).unwrap();
    symlink("own.fio", inside.path().join("near.fio")).unwrap();
    let here = Here { folder: inside.path().to_owned() };
    for name in ["file.fio", "folder/secret", "folder", "none.fio"] {
        assert!(here.included(name).is_err(), "{name}");
    }
    for name in ["own.fio", "./own.fio", "near.fio"] {
        assert_eq!(here.included(name).unwrap(), "iodepth=4\n", "{name}");
    }
}

#[test]
fn jobs_and_transfers_in_flight_are_at_least_one() {
    for option in ["iodepth", "numjobs"] {
        let wrong = refusals(&format!("[a]\nrw=randread\nioengine=libaio\ndirect=1\nsize=1g\n{option}=0\n"));
        assert!(wrong.iter().any(|line| line.contains(option) && line.contains("at least 1")), "{wrong:?}");
    }
}

#[test]
fn a_plan_of_a_job_file_is_read_back_as_the_same() {
    let job = "[a/b: \"c\"]\nrw=randread\nthinktime=5\nramp_time=2\nruntime=9\ntime_based\n";
    let file = ignoring(&format!("[global]\nsize=1g\ndirect=1\n{job}"));
    let text = plan::write::text(&file.plan);
    let again = plan::file::parse("p", &text).unwrap();
    let plain = |group: &Group| Group { places: PlanPositions::default(), ..group.clone() };
    let said = again.groups.iter().map(plain).collect::<Vec<_>>();
    assert_eq!(said, file.plan.groups.iter().map(plain).collect::<Vec<_>>());
    assert_eq!(again.note, file.plan.note);
}

/// Hostile texts are refused within bounds, or are plans that can be written.
#[test]
fn numbers_too_large_to_add_up_are_refused() {
    let most = u64::MAX;
    for (option, value) in [
        ("random_distribution", format!("zoned:50/{most}:25/{most}:25/1")),
        ("random_distribution", format!("zoned:{most}/50:{most}/25:2/25")),
        ("bssplit", format!("4k/{most}:8k/{most}")),
        ("size", format!("{most}g")),
        ("numjobs", most.to_string()),
        ("rate_iops", most.to_string()),
        ("offset_increment", format!("{most}k")),
        ("loops", most.to_string()),
        ("runtime", format!("{most}d")),
    ] {
        let text = format!("[a]\nrw=randread\nfilename=x\nsize=1g\nnumjobs=2\n{option}={value}\n");
        // It is refused with a line or bounded later, and never panics.
        let refused = read(&text).err().unwrap_or_default();
        assert!(refused.iter().all(|line| !line.contains('\n')), "{refused:?}");
    }
    let text = format!("[a]\nrw=randread\nsize=1g\nrandom_distribution=zoned:50/{most}:25/{most}:25/1\n");
    assert!(refusals(&text)[0].contains("random_distribution"), "{:?}", refusals(&text));
}

#[test]
fn a_hostile_text_is_refused_in_bounds() {
    let long = format!("[a]\nsize={}\n", "9".repeat(100_000));
    let many = "[a]\nsize=1g\n".repeat(2000);
    let grows = format!("[a]\nsize={}\n", "${SIZE}".repeat(4000));
    let deep = format!("[global]\n{}[a]\n", "bs=4k\n".repeat(30_000));
    let short = ["[", "[]", "=", "[a]\n=\n", "[a]\nbssplit=4k/100:8k/0:/\n", "include x"];
    for text in [long.as_str(), &many, &grows, &deep].into_iter().chain(short) {
        for unsupported in [Unsupported::Refused, Unsupported::Ignored] {
            if let Err(all) = parse("job.fio", text, &Made, unsupported) {
                assert!(!all.is_empty() && all.iter().all(|why| why.len() < 2000 && !why.contains('\u{1b}')));
            }
        }
    }
    let escaped = refusals("[a\u{1b}[2J]\nrw=\u{1b}[31mx\nsize=1g\n");
    assert!(escaped.iter().all(|why| !why.contains('\u{1b}')), "{escaped:?}");
}
