//! Load of a job: operation, pattern, blocks, engine, cache, sync, rate and latency target.

use std::collections::BTreeMap;
use std::time::Duration;

use super::super::mistake::Mistake;
use super::super::syntax::GivenOption;
use super::super::value::{self, Base};
use super::{FIO_BLOCK_BYTES, JobReader};
use plimsoll_model::case::Value;
use plimsoll_model::job::disk::BlockOrder;
use plimsoll_units::quantity::{BlockSizes, Mix, MixPart, common_divisor, format_duration};

pub(super) const ENGINES: &[&str] = &["io_uring", "libaio", "psync", "sync", "pvsync", "pvsync2", "mmap"];

impl<'a> JobReader<'a> {
    pub(super) fn operation(&mut self) {
        let given = self.get("rw");
        let text = given.map_or("read", |given| given.value.as_str());
        let (kind, step) = text.split_once(':').map_or((text, None), |(kind, step)| (kind, Some(step)));
        let (kind, random) = kind.strip_prefix("rand").map_or((kind, false), |kind| (kind, true));
        let op = match (kind, random, given) {
            ("read", ..) | (_, _, None) => "read",
            ("write", ..) => "write",
            ("trim", ..) => "trim",
            ("rw", ..) | ("readwrite", false, _) => "mixed",
            ("trimwrite", _, Some(given)) => {
                return self.refuse_job(given, "trims and writes are loads of their own");
            }
            (_, _, Some(given)) => return self.record_invalid(given, "a kind of load such as randread"),
        };
        (self.op, self.is_random) = (op, random);
        self.word("op", op, "rw");
        if op == "mixed" {
            self.read_share();
        }
        let pattern = match (given, step) {
            (Some(given), Some(step)) => self.stepped_pattern(given, step),
            _ if random => self.distribution(),
            _ if op == "mixed" => "sequential-each".to_owned(),
            _ => "sequential".to_owned(),
        };
        self.word("pattern", &pattern, "rw");
    }

    fn read_share(&mut self) {
        let share = match self.last_of("rwmixread", "rwmixwrite") {
            Some(given) => match value::count(&given.value).filter(|share| *share <= 100) {
                Some(share) if given.row.name == "rwmixwrite" => 100 - share,
                Some(share) => share,
                None => return self.record_invalid(given, "between 0 and 100"),
            },
            None => 50,
        };
        self.set("read-share", Value::Count(share), "rwmixread");
    }

    /// Returns the last occurrence in the job of either of two options; `None` if neither is given.
    fn last_of(&self, one: &str, other: &str) -> Option<&'a GivenOption> {
        self.section.options.iter().rev().find(|given| given.row.name == one || given.row.name == other)
    }

    /// Returns the pattern (`backward`, `random` …) for the suffix `step` of `rw`: bytes to skip
    /// (`read:-8k`) or transfers per random offset (`randread:8`). Records an error if unsupported.
    fn stepped_pattern(&mut self, given: &GivenOption, step: &str) -> String {
        if self.is_random {
            if value::count(step) != Some(1) {
                self.refuse(given, "each random transfer has a place of its own");
            }
            return self.distribution();
        }
        let back = step.strip_prefix('-').and_then(|step| value::size(step, self.base));
        let block = self.get("bs").map_or(Some(FIO_BLOCK_BYTES), |bs| value::size(&bs.value, self.base));
        if back.is_some() && back == block.and_then(|block| block.checked_mul(2)) && self.op != "mixed" {
            return "backward".to_owned();
        }
        let why =
            "a sequential load leaves nothing out; only backwards, block by block (rw=read:-8k with bs=4k)";
        self.refuse(given, why);
        "sequential".to_owned()
    }

    /// Returns the pattern (`random`, `zipf:1.2`, `zoned:50-5:50-95`, `sequential`) of a random
    /// load, from `random_distribution` and `percentage_random`; records what is unsupported.
    fn distribution(&mut self) -> String {
        if let Some(given) = self.get("percentage_random") {
            let shares = self.values_per_direction(given);
            match shares.iter().map(|share| share.and_then(value::count)).collect::<Option<Vec<u64>>>() {
                Some(shares) if shares.iter().all(|share| *share == 100) => {}
                Some(shares) if shares.iter().all(|share| *share == 0) && self.op != "mixed" => {
                    return "sequential".to_owned();
                }
                Some(_) => self.refuse(given, "a load is random or sequential"),
                None => self.record_invalid(given, "a percentage"),
            }
        }
        let given = self.get("random_distribution");
        let word = given.map_or("random", |given| given.value.as_str());
        if let (Some(given), Some(rest)) = (given, word.strip_prefix("zoned:")) {
            match zones(rest) {
                Some(pattern) => return pattern,
                None => self.refuse(
                    given,
                    "zones must be at most 8 shares of transfers and of the file, each adding up to 100",
                ),
            }
        } else if let (Some(given), true) = (given, word != "random") {
            let theta = word.strip_prefix("zipf").map(|theta| theta.strip_prefix(':').unwrap_or("1.2"));
            match theta.map(|theta| format!("zipf:{theta}")) {
                Some(pattern) if BlockOrder::parse(&pattern).is_ok() => return pattern,
                Some(_) => self.refuse(given, "zipf has one exponent, above 0 and at most 5"),
                None => self.refuse(given, "places are random, zipf:EXPONENT or zoned"),
            }
        }
        if let Some(given) = self.get("norandommap").filter(|_| self.is_on("norandommap")) {
            self.remark(given, "plimsoll visits each block once in a random order, then again in another");
        }
        "random".to_owned()
    }

    pub(super) fn blocks(&mut self) {
        // fio prefers a split to a range and a range to a size, in any order.
        let given = ["bssplit", "bsrange", "bs"].iter().find_map(|name| self.get(name));
        let Some(given) = given else { return self.set("block", Value::Size(FIO_BLOCK_BYTES), "bs") };
        let value = |text: Option<&str>| match (given.row.name, text) {
            (_, None) => Some(Value::Size(FIO_BLOCK_BYTES)),
            ("bssplit", Some(text)) => split(text, self.base),
            ("bsrange", Some(text)) => range(text, self.base),
            (_, Some(text)) => value::size(text, self.base).filter(|size| *size > 0).map(Value::Size),
        };
        let all: Vec<Option<Value>> = self.values_per_direction(given).into_iter().map(value).collect();
        match all.as_slice() {
            [Some(one), rest @ ..] if rest.iter().all(|other| other.as_ref() == Some(one)) => {
                self.set("block", one.clone(), given.row.name);
            }
            [Some(_), Some(_)] => self.refuse_job(given, "reads and writes of a mix have the same blocks"),
            _ if given.row.name == "bs" => self.record_invalid(given, "a number of bytes such as 4k"),
            _ => self.refuse_job(
                given,
                "blocks must be at most 16 sizes with whole percentages that add up to 100, or a range of at most 16 sizes",
            ),
        }
        self.alignment();
    }

    /// Records an error if blocks have several sizes, which fio's map of random blocks would cut.
    pub(super) fn check_block_map(&mut self) {
        let is_mix = matches!(self.job.lists.get("block"), Some(Value::Mix(_)));
        let is_mapped = self.job.lists.get("pattern") == Some(&Value::Word("random".to_owned()))
            && !self.is_on("norandommap")
            && self.get("random_generator").is_none_or(|given| given.value != "lfsr");
        let given = ["bssplit", "bsrange"].iter().find_map(|name| self.get(name));
        if let Some(given) = given.filter(|_| is_mix && is_mapped) {
            let why = "fio cuts large random blocks at those that it has already done, so that most of them are smaller; write norandommap=1 to have them whole";
            self.refuse(given, why);
        }
    }

    /// Sets `align` from `ba`; without it, random blocks start at multiples of the smallest block.
    fn alignment(&mut self) {
        let blocks = match self.job.lists.get("block") {
            Some(Value::Size(bytes)) => BlockSizes::One(*bytes),
            Some(Value::Mix(mix)) => BlockSizes::Mixed(mix.clone()),
            _ => return,
        };
        let (least, unit) = (blocks.smallest(), blocks.unit());
        let Some(given) = self.get("ba") else {
            if self.is_random && least != unit {
                self.set("align", Value::Size(least), "ba");
            }
            return;
        };
        let read = |text: Option<&str>| text.map_or(Some(least), |text| value::size(text, self.base));
        let all: Option<Vec<u64>> = self.values_per_direction(given).into_iter().map(read).collect();
        match all.as_deref() {
            Some([asked, rest @ ..]) if rest.iter().all(|other| other == asked) => {
                let asked = (*asked).max(1);
                if self.is_random && asked != unit {
                    self.set("align", Value::Size(asked), "ba");
                } else if !self.is_random && asked != least {
                    self.refuse(given, "blocks of a sequential load lie side by side");
                }
            }
            Some(_) => self.refuse(given, "reads and writes of a mix begin at multiples of the same"),
            None => self.record_invalid(given, "a number of bytes such as 4k"),
        }
    }

    pub(super) fn engine(&mut self) {
        let asked = self.get("ioengine");
        let word = asked.map_or("psync", |given| given.value.as_str());
        let mut engine =
            if ["io_uring", "libaio", "mmap"].contains(&word) { word } else { "psync" }.to_owned();
        for (name, suffix) in [("sqthread_poll", "+sqpoll"), ("hipri", "+iopoll")] {
            match self.get(name).filter(|_| self.is_on(name)) {
                Some(_) if word == "io_uring" => engine += suffix,
                Some(given) => self.refuse(given, "only io_uring polls"),
                None => {}
            }
        }
        if let (Some(given), "sync") = (asked, word) {
            self.remark(given, "psync, which gives each call its offset; fio's sync calls lseek(2) where the next transfer is elsewhere");
        }
        self.word("engine", &engine, "ioengine");
        let depth = self.positive("iodepth").unwrap_or(1);
        let one_at_a_time = matches!(engine.as_str(), "psync" | "mmap");
        self.set("depth", Value::Count(if one_at_a_time { 1 } else { depth }), "iodepth");
        if let Some(given) = self.get("iodepth").filter(|_| one_at_a_time && depth > 1) {
            self.remark(given, "the engine does one transfer at a time, in fio as here");
        }
    }

    pub(super) fn cache(&mut self) {
        let direct =
            |given: &GivenOption| Some(value::switch(&given.value, false)? == (given.row.name == "direct"));
        let Some(direct) = self.last_of("direct", "buffered").map_or(Some(false), direct) else { return };
        let warm = self.switch("invalidate") == Some(false) || self.is_on("pre_read");
        let mapped = self.job.lists.get("engine") == Some(&Value::Word("mmap".to_owned()));
        if let Some(given) = self.get("direct").filter(|_| direct && mapped) {
            self.remark(given, "a mapping goes through the page cache, in fio as here");
        }
        let direct = direct && !mapped;
        let cache = match (direct, warm) {
            (true, _) => "direct",
            (false, true) => "buffered",
            (false, false) => "cold",
        };
        let engine = self.job.lists.get("engine").map(Value::to_string).unwrap_or_default();
        if let Some(given) = self.get("hipri").filter(|_| engine.ends_with("+iopoll") && !direct) {
            let why = "hipri=1 polls the device, not the page cache: write direct=1, too";
            self.wrong.push(Mistake::wrong(&given.line, why));
        }
        self.word("cache", cache, if direct { "direct" } else { "buffered" });
    }

    pub(super) fn sync(&mut self) {
        if !["write", "mixed"].contains(&self.op) {
            return;
        }
        let mut all: Vec<(&'a GivenOption, String)> = Vec::new();
        for (name, word) in [("fsync", "fsync"), ("fdatasync", "every")] {
            if let (Some(writes), Some(given)) = (self.number(name).filter(|n| *n > 0), self.get(name)) {
                all.push((given, format!("{word}:{writes}")));
            }
        }
        for name in ["end_fsync", "fsync_on_close"] {
            if let Some(given) = self.get(name).filter(|_| self.is_on(name)) {
                all.push((given, "fsync-end".to_owned()));
            }
        }
        if let Some(given) = self.get("sync") {
            match given.value.as_str() {
                "0" | "none" => {}
                "1" | "sync" => all.push((given, "o_sync".to_owned())),
                "dsync" => all.push((given, "each".to_owned())),
                _ => self.record_invalid(given, "none, sync or dsync"),
            }
        }
        all.dedup_by(|one, other| one.1 == other.1);
        if let Some((given, word)) = all.first() {
            self.word("sync", word, given.row.name);
        }
        for (given, _) in all.iter().skip(1) {
            self.refuse(given, "writes become durable in one way");
        }
    }

    pub(super) fn checks(&mut self) {
        let Some(given) = self.get("verify") else { return };
        if matches!(given.value.as_str(), "0" | "none") || self.op == "trim" {
            return;
        }
        self.word("verify", "on", "verify");
        let how = "checked by plimsoll's own marks and checksum; what fio reads back after a load of writes is not measured";
        self.remark(given, how);
    }

    /// Sets the target rate, in transfers per second of all threads, from `rate_iops` or `rate`
    /// (bytes per second), which fio counts per job and direction; also even or Poisson arrivals.
    pub(super) fn rate(&mut self) {
        let Some(given) = self.get("rate_iops").or(self.get("rate")) else { return };
        if let (Some(other), "rate_iops") = (self.get("rate"), given.row.name) {
            self.refuse(other, "there is one rate, that of rate_iops");
        }
        let read = |text: Option<&str>| text.map_or(Some(0), |text| value::size(text, self.base));
        let all: Option<Vec<u64>> = self.values_per_direction(given).into_iter().map(read).collect();
        let Some(all) = all else { return self.record_invalid(given, "a number per second") };
        let sum: u64 = all.iter().fold(0, |sum, one| sum.saturating_add(*one));
        if sum == 0 {
            return;
        }
        if let ([reads, _], Some(Value::Count(share))) = (all.as_slice(), self.job.lists.get("read-share"))
            && (*reads as f64 / sum as f64 - *share as f64 / 100.0).abs() > 1e-9
        {
            return self.refuse(given, "a mix has one rate, of which reads have the share rwmixread");
        }
        let per_second = match (given.row.name, self.job.lists.get("block")) {
            ("rate_iops", _) => sum as f64,
            (_, Some(Value::Size(block))) => sum as f64 / *block as f64,
            _ => return self.refuse(given, "a rate in bytes needs blocks of one size"),
        };
        if per_second < 1.0 {
            return self.refuse(given, "a rate must be at least 1 transfer a second for each job");
        }
        let threads = self.number("numjobs").unwrap_or(1).max(1);
        self.set("rate", Value::Rate(per_second * threads as f64), given.row.name);
        let arrivals = match self.get("rate_process") {
            Some(given) if given.value == "poisson" => "poisson",
            Some(given) if given.value != "linear" => return self.record_invalid(given, "linear or poisson"),
            _ => "even",
        };
        self.word("arrivals", arrivals, "rate_process");
        let how = "latencies count from the intended start, as an open loop; fio's from the submission";
        self.remark(given, how);
    }

    pub(super) fn latency_target(&mut self) {
        let Some(given) = self.get("latency_target") else { return };
        let Some(time) = self.time("latency_target", 1) else { return };
        let percentile = self.get("latency_percentile");
        let percent = percentile.map_or("100.0", |given| given.value.as_str());
        match percent.parse::<f64>() {
            Ok(number) if (1.0..=99.99).contains(&number) => {
                let word = format!("p{number}:{}", format_duration(time));
                self.word("latency-target", &word, "latency_target");
                if self.job.lists.get("depth") == Some(&Value::Count(1)) {
                    self.remark(given, "there is one depth to find: iodepth is 1");
                }
                self.job.how.sample_time =
                    self.time("latency_window", 1).map(|time| time.max(Duration::from_millis(50)));
            }
            Ok(_) => self
                .refuse(given, "it must hold for all transfers; write a latency_percentile from 1 to 99.99"),
            Err(_) => percentile.into_iter().for_each(|given| self.record_invalid(given, "a percentage")),
        }
    }
}

/// Parses `bssplit`, block sizes with percentages: `4k/10:64k/50:32k/40`; sizes without one share
/// the rest equally. `base`: bytes per `k`. `None` unless the percentages add up to 100.
fn split(text: &str, base: Base) -> Option<Value> {
    let part = |part: &str| {
        let (size, share) = part.split_once('/').unwrap_or((part, ""));
        let share = match share.trim() {
            "" => None,
            share => Some(value::count(share)?),
        };
        Some((value::size(size, base).filter(|size| *size > 0)?, share))
    };
    let parts: Vec<(u64, Option<u64>)> = text.split(':').map(part).collect::<Option<_>>()?;
    let open = parts.iter().filter(|(_, share)| share.is_none()).count() as u64;
    let left = parts.iter().filter_map(|(_, share)| *share).try_fold(100, u64::checked_sub)?;
    if (open == 0) != (left == 0) {
        return None;
    }
    // In units of 1/`open` %, so that the rest is divisible.
    let scale = open.max(1);
    let weighed: BTreeMap<u64, u64> = parts.iter().fold(BTreeMap::new(), |mut all, (size, share)| {
        *all.entry(*size).or_default() += share.map_or(left, |share| share * scale);
        all
    });
    let weighed: Vec<(u64, u64)> = weighed.into_iter().filter(|(_, weight)| *weight > 0).collect();
    if let [(only, _)] = weighed.as_slice() {
        return Some(Value::Size(*only));
    }
    let divisor = weighed.iter().fold(0, |divisor, (_, weight)| common_divisor(divisor, *weight)).max(1);
    let parts = weighed
        .into_iter()
        .map(|(bytes, weight)| Some(MixPart { bytes, weight: u32::try_from(weight / divisor).ok()? }));
    Mix::try_from(parts.collect::<Option<Vec<_>>>()?).ok().map(Value::Mix)
}

/// Parses `bsrange`, `4k-16k`: all multiples of 4k up to 16k, equally often; `None` above 16 sizes.
fn range(text: &str, base: Base) -> Option<Value> {
    let (least, most) = text.split_once('-')?;
    let (least, most) = (value::size(least, base)?, value::size(most, base)?);
    if least == 0 || most < least {
        return None;
    }
    match most / least {
        1 => Some(Value::Size(least)),
        n @ 2..=16 => {
            let parts = (1..=n).map(|i| MixPart { bytes: i * least, weight: 1 });
            Mix::try_from(parts.collect::<Vec<_>>()).ok().map(Value::Mix)
        }
        _ => None,
    }
}

/// Converts fio's zones `50/5:50/95` (50 % of the transfers to the first 5 % of the file) to
/// `zoned:50-5:50-95`. An empty share is the rest; `None` unless up to 8 zones add up to 100 each.
fn zones(text: &str) -> Option<String> {
    let (mut pattern, mut left) = ("zoned".to_owned(), 100_u64);
    // A ninth zone is refused below.
    for part in text.split(':').take(9) {
        let (transfers, of_file) = part.split_once('/')?;
        let of_file = if of_file.is_empty() { left } else { value::count(of_file)? };
        left = left.checked_sub(of_file)?;
        pattern = format!("{pattern}:{}-{of_file}", value::count(transfers)?);
    }
    BlockOrder::parse(&pattern).is_ok().then_some(pattern)
}
