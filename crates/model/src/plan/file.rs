//! Plan files: TOML with named groups of cases whose lists multiply. A plan cannot name programs,
//! files or servers, give consent, raise a server's limits or set the environment.

mod group;
mod value;

use std::ops::Range;
use std::path::Path;

use plimsoll_units::text::{LinePositions, read_small, shown, shown_path};
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use crate::case::nearest;
use crate::plan::{Group, PlanPositions, SamplingOptions};
use value::{bounded, count, text, texts};

pub use group::GROUP_KEYS;

const MAX_BYTES: u64 = 1 << 20;

const MAX_LIST: usize = 10_000;

/// Maximum number of repetitions of a plan.
pub const MOST_REPEATS: u32 = 10_000;

/// Range of a plan's scale.
pub const SCALES: std::ops::RangeInclusive<f64> = 1e-9..=1e3;

/// Contents of a plan file; missing keys are `None`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PlanFile {
    /// Name.
    pub name: Option<String>,
    /// Note about the whole plan.
    pub note: Option<String>,
    /// Default sampling of its groups; `series` is set only in groups.
    pub how: SamplingOptions,
    /// Share within which two figures count as equal.
    pub margin: Option<f64>,
    /// Number of repetitions of the whole plan.
    pub repeat: Option<u32>,
    /// Factor of volumes, work and file sizes.
    pub scale: Option<f64>,
    /// Seed of random choices.
    pub seed: Option<u64>,
    /// Names and globs; a case must match one.
    pub only: Vec<String>,
    /// Limits, as the text of a limits file.
    pub limits: Option<String>,
    /// Groups, in order.
    pub groups: Vec<Group>,
    /// Positions of its keys.
    pub places: PlanPositions,
}

impl PlanFile {
    /// Returns the servers of all groups; empty for a plan from a file, which cannot name servers.
    pub fn servers(&self) -> Vec<String> {
        self.groups.iter().flat_map(|group| group.words(SERVER, &[])).collect()
    }
}

/// Error in a plan file.
#[derive(Clone, Debug, thiserror::Error, PartialEq)]
#[error("plan {0}")]
pub struct FileError(String);

impl FileError {
    /// Creates an error with reason `why` at (line, column), both from 1, of `file` (sanitised).
    pub fn at(file: &str, (line, column): (usize, usize), why: &str) -> Self {
        Self(format!("{file}, line {line}, column {column}: {why}"))
    }
}

/// Top-level keys of a plan.
pub const TOP_KEYS: &str =
    "name note samples sample-time precision budget against margin repeat scale seed only limit group";

/// Names, with blanks between, that are refused with a reason.
const REFUSED: &[(&str, &str)] = &[
    (
        "reference-path reference-server references program command path exec shell",
        "a plan cannot name programs, only reference tools by name (against); type --reference-path on the command line",
    ),
    (
        "destroy-data-on target device yes consent allow-root",
        "a plan cannot give consent to destroy data or name a device; type it on the command line",
    ),
    (
        "max-rate max-duration max-streams max-sessions allow open port",
        "a plan cannot raise a server's caps; they are options of plimsoll serve",
    ),
    ("case cases groups test tests", "write [[group]]"),
    ("benchmark benchmarks bench id", "write benchmark in a [[group]]"),
    ("bs blocksize", "write block"),
    ("iodepth", "write depth"),
    ("numjobs", "write threads"),
    ("env environment", "a plan cannot set the environment"),
    ("dir store json html events limits key resume", "a plan cannot name files; type it on the command line"),
    ("server servers host hosts nodes hostfile url", NO_SERVER),
];

/// Parameter that only the command line may set.
pub const SERVER: &str = "server";

const NO_SERVER: &str = "a plan file cannot name a server; give --server on the command line";

/// Reads a plan file; fails if it cannot be read, or like [`parse`].
pub fn read(path: &Path) -> Result<PlanFile, Vec<FileError>> {
    let file = shown_path(path);
    let unreadable = |why: String| vec![FileError(format!("{file}: {why}"))];
    let text = read_small(path, MAX_BYTES).map_err(unreadable)?;
    parse(&file, &text)
}

/// Parses the text of a plan file, called `file` in errors. Fails with all mistakes in text order.
pub fn parse(file: &str, text: &str) -> Result<PlanFile, Vec<FileError>> {
    parsed(file, text, false)
}

/// Parses a plan that plimsoll stored for a command line; unlike a file, it may name a server.
pub fn parse_kept(file: &str, text: &str) -> Result<PlanFile, Vec<FileError>> {
    parsed(file, text, true)
}

fn parsed(file: &str, text: &str, is_own: bool) -> Result<PlanFile, Vec<FileError>> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    let lines = LinePositions::new(text);
    let at = |start: usize, why: &str| FileError::at(file, lines.position(start), &why.replace('\n', " "));
    let table = DeTable::parse(text).map_err(|e| {
        let start = e.span().unwrap_or_default().start;
        let rest = text.get(start..).unwrap_or_default();
        let advice = match text.trim_start().starts_with('{') {
            true => "a plan is a TOML file; plimsoll report prints the JSON of a run",
            false if rest.starts_with(['“', '”', '„', '‘', '’', '«', '»']) => {
                "this quote is typographic: write \""
            }
            false => "a plan is a TOML file: write text in quotes and lists in brackets",
        };
        vec![at(start, &format!("{}; {advice}", shown(e.message())))]
    })?;
    let mut plan = PlanFile::default();
    file.clone_into(&mut plan.places.file);
    let source = PlanText { file, lines: &lines, is_own };
    let mut wrong = Vec::new();
    for (key, value) in table.get_ref() {
        plan.places.keys.insert(spelled(key.get_ref()), source.place(key.span(), value));
        if let Err(own) = top(&mut plan, key.get_ref(), value, source, &mut wrong) {
            wrong.push(own.at(key.span(), value.span()));
        }
    }
    if plan.groups.is_empty() && wrong.is_empty() {
        let why = "a plan requires at least one [[group]] with benchmark = [\"cpu.peak\"]";
        wrong.push(PlanMistake::value(why));
    }
    if !wrong.is_empty() {
        wrong.sort_by_key(PlanMistake::start);
        return Err(wrong.iter().map(|wrong| at(wrong.start(), &wrong.why)).collect());
    }
    if table.get_ref().get("limit").is_some() {
        plan.limits = limits(text);
    }
    Ok(plan)
}

fn limits(text: &str) -> Option<String> {
    let mut table: toml::Table = toml::from_str(text).ok()?;
    let limits = table.remove("limit")?;
    toml::to_string(&toml::Table::from_iter([("limit".to_owned(), limits)])).ok()
}

#[derive(Clone, Copy)]
struct PlanText<'t> {
    file: &'t str,
    lines: &'t LinePositions<'t>,
    /// Whether it is from this user's command line, stored by plimsoll; otherwise it is untrusted.
    is_own: bool,
}

/// A mistake with its position; `None` is the position of the current key or value.
struct PlanMistake {
    span: Option<Range<usize>>,
    in_key: bool,
    why: String,
}

impl PlanMistake {
    fn value(why: impl Into<String>) -> Self {
        Self { span: None, in_key: false, why: why.into() }
    }

    /// Creates the mistake that key `name` (section, without `candidates`) is unknown, with a hint.
    fn key(name: &str, candidates: &[&'static str]) -> Self {
        let known = spelled(name);
        let refused = REFUSED.iter().find(|(names, _)| names.split(' ').any(|name| name == known));
        let name = shown(name);
        let hint = match (refused, nearest(&name, candidates.iter().copied())) {
            (Some((_, why)), _) => (*why).to_owned(),
            (None, Some(near)) => format!("did you mean '{near}'?"),
            (None, None) if candidates.is_empty() => {
                "keys of the plan stand at its top, keys of cases in [[group]]".to_owned()
            }
            (None, None) => format!("valid keys are {}", candidates.join(", ")),
        };
        Self { span: None, in_key: true, why: format!("unknown key '{name}'; {hint}") }
    }

    fn at(mut self, key: Range<usize>, value: Range<usize>) -> Self {
        self.span = self.span.or(Some(if self.in_key { key } else { value }));
        self
    }

    fn start(&self) -> usize {
        self.span.as_ref().map_or(0, |span| span.start)
    }
}

type PlanValue<'i> = Spanned<DeValue<'i>>;

/// Returns a key as spelled in flags: `sample_time` becomes `sample-time`.
fn spelled(key: &str) -> String {
    key.replace('_', "-")
}

/// Stores `value` of top-level key `key` in `plan`, or fails; adds mistakes in groups to `wrong`.
fn top(
    plan: &mut PlanFile,
    key: &str,
    value: &PlanValue<'_>,
    source: PlanText<'_>,
    wrong: &mut Vec<PlanMistake>,
) -> Result<(), PlanMistake> {
    match spelled(key).as_str() {
        "name" => plan.name = Some(value::name(value)?),
        "note" => plan.note = Some(value::note(value)?),
        "margin" => plan.margin = Some(value::share("margin", value)?),
        "repeat" => plan.repeat = Some(bounded("repeat", value, MOST_REPEATS)?),
        "scale" => {
            let scale = text(value)?.parse().ok().filter(|scale| SCALES.contains(scale));
            let wrong = || PlanMistake::value("scale must be between 1e-9 and 1000, such as 0.01");
            plan.scale = Some(scale.ok_or_else(wrong)?);
        }
        "seed" => plan.seed = Some(count("seed", value)?),
        "only" => plan.only = texts(value)?,
        "limit" => {
            let why = "limit must be written as [[limit]], with double brackets";
            value.get_ref().as_array().ok_or_else(|| PlanMistake::value(why))?;
        }
        "group" => {
            let groups = value.get_ref().as_array().ok_or_else(group::not_a_group)?;
            if groups.len() > MAX_LIST {
                return Err(PlanMistake::value("a plan must have at most 10000 groups"));
            }
            for node in groups.iter() {
                match group::group(node, source, wrong) {
                    Ok(group) => plan.groups.push(group),
                    Err(own) => wrong.push(own.at(node.span(), node.span())),
                }
            }
        }
        other if value::how(&mut plan.how, other, value)? => {}
        _ => {
            let keys: Vec<&str> = match value.get_ref() {
                DeValue::Table(_) => Vec::new(),
                _ => TOP_KEYS.split(' ').collect(),
            };
            return Err(PlanMistake::key(key, &keys));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn error(text: &str) -> String {
        parse("p.toml", text).unwrap_err()[0].to_string()
    }

    #[test]
    fn a_whole_plan_is_read() {
        let text = "name = \"mine\"\nsamples = 5\nsample-time = \"50ms\"\nprecision = \"2%\"\n\n\
            [[group]]\nbenchmark = \"disk.io\"\nblock = [\"4K\", 1048576]\ndepth = 1\n";
        let plan = parse("p", text).unwrap();
        assert_eq!(plan.name.as_deref(), Some("mine"));
        assert_eq!((plan.how.samples, plan.how.precision), (Some(5), Some(0.02)));
        assert_eq!(plan.how.sample_time, Some(std::time::Duration::from_millis(50)));
        let group = &plan.groups[0];
        assert_eq!(group.benchmarks, ["disk.io"]);
        assert_eq!(group.numbers("block", &[]), [4096, 1 << 20]);
        assert_eq!(group.numbers("depth", &[]), [1]);
    }

    #[test]
    fn an_unknown_key_is_told_with_its_place_and_the_nearest() {
        let of_group = error("samples = 3\n[[group]]\nbenchmark = \"cpu.peak\"\n  thread = 2\n");
        assert_eq!(of_group, "plan p.toml, line 4, column 3: unknown key 'thread'; did you mean 'threads'?");
        let of_plan = error("sampels = 3\n");
        assert_eq!(of_plan, "plan p.toml, line 1, column 1: unknown key 'sampels'; did you mean 'samples'?");
    }

    #[test]
    fn all_mistakes_are_told_in_the_order_of_the_text() {
        let text = "samples = 3\nsmaples = 3\nbudgt = \"3s\"\n[[group]]\nbenchmark = \"cpu.peak\"\nthread = 2\nn = \"x\"\n\
                    [[group]]\nseries = 0\n[[group]]\nname = \"no benchmark\"\n";
        let reported: Vec<String> = parse("p", text).unwrap_err().iter().map(ToString::to_string).collect();
        let begins = [
            "plan p, line 2, column 1: unknown key 'smaples'; did you mean 'samples'?",
            "plan p, line 3, column 1: unknown key 'budgt'; did you mean 'budget'?",
            "plan p, line 6, column 1: unknown key 'thread'; did you mean 'threads'?",
            "plan p, line 7, column 5: n must be ",
            "plan p, line 9, column 10: series must be between",
            "plan p, line 10, column 1: a group requires benchmark",
        ];
        assert_eq!(reported.len(), begins.len(), "{reported:?}");
        for (reported, begin) in reported.iter().zip(begins) {
            assert!(reported.starts_with(begin), "{reported}");
        }
    }

    #[test]
    fn bad_values_are_told_with_their_place() {
        let block = error("[[group]]\nbenchmark = \"disk.io\"\nblock = [\"4K\", \"1e999\"]\n");
        assert!(block.starts_with("plan p.toml, line 3, column 16: block must be "), "{block}");
        assert!(error("samples = 0\n").starts_with("plan p.toml, line 1, column 11: "));
        assert!(error("samples = -1\n").starts_with("plan p.toml, line 1, column 11: "));
        assert!(error("[[group]\n").starts_with("plan p.toml, line 1, "));
        assert!(error("").contains("requires at least one [[group]]"));
    }

    #[test]
    fn a_byte_order_mark_and_crlf_are_no_trouble() {
        let plan = parse("p", "\u{feff}samples = 2\r\n[[group]]\r\nbenchmark = \"null\"\r\n").unwrap();
        assert_eq!(plan.how.samples, Some(2));
    }

    #[test]
    fn groups_have_names_notes_excludes_and_their_own_sampling() {
        let text = "margin = \"5%\"\nrepeat = 3\nscale = 0.01\nagainst = \"installed\"\nonly = \"memory\"\n\
            [[limit]]\nmatch = \"*\"\nmetric = \"bandwidth\"\nunit = \"B/s\"\nvalue = 1e9\nkind = \"ceiling\"\nsource = \"me\"\n\
            [[group]]\nname = \"blocks\"\nnote = \"counted once\"\nbenchmark = \"memory.block\"\nblock = [\"8\", \"8M\"]\n\
            exclude = [\"*/op=read/*\", { block = \"8M\", threads = [4, 8] }]\nsample_time = \"1s\"\nseries = 600\nagainst = []\n";
        let plan = parse("p", text).unwrap();
        let group = &plan.groups[0];
        assert_eq!((plan.margin, plan.repeat, plan.scale), (Some(0.05), Some(3), Some(0.01)));
        assert_eq!(plan.only, ["memory"]);
        assert_eq!(plan.how.against.as_deref(), Some(&["installed".to_owned()][..]));
        assert_eq!((group.name.as_deref(), group.note.as_deref()), (Some("blocks"), Some("counted once")));
        assert_eq!((group.how.series, group.how.against.as_deref()), (Some(600), Some(&[][..])));
        assert_eq!(group.how.sample_time, Some(std::time::Duration::from_secs(1)));
        assert_eq!((group.exclude.len(), plan.limits.is_some()), (2, true));
        let again = parse("p", &crate::plan::write::text(&plan)).unwrap();
        assert_eq!((again.groups[0].exclude.clone(), again.limits), (group.exclude.clone(), plan.limits));
    }

    #[test]
    fn no_plan_names_programs_gives_consent_raises_caps_or_sets_the_environment() {
        let keys = [
            ("programs", "reference-path program command exec reference-server"),
            ("consent", "destroy-data-on destroy_data_on target allow-root"),
            ("caps", "max-rate max-sessions open"),
            ("environment", "env environment"),
            ("files", "key dir store limits json resume"),
            ("cannot name a server", "hosts"),
        ];
        for (says, key) in keys.iter().flat_map(|(says, keys)| keys.split(' ').map(|key| (*says, key))) {
            for text in [
                format!("{key} = \"x\"\n[[group]]\nbenchmark = \"null\"\n"),
                format!("[[group]]\nbenchmark = \"null\"\n{key} = \"x\"\n"),
                format!("[[group]]\nbenchmark = \"null\"\nexclude = [{{ {key} = \"x\" }}]\n"),
                format!("[{key}]\nPATH = \"/tmp\"\n"),
            ] {
                let reported = error(&text);
                assert!(reported.contains("unknown key") && reported.contains(says), "{text}: {reported}");
            }
        }
        let program = error("[[group]]\nbenchmark = \"null\"\nagainst = { fio = \"/tmp/fio\" }\n");
        assert!(program.contains("line 3, column 11: a value must be a string"), "{program}");
    }

    #[test]
    fn no_plan_file_names_a_server_and_a_kept_command_line_does() {
        let text = "[[group]]\nbenchmark = \"network.tcp\"\n  server = [\"host:7000\", \"iperf3://host\"]\n";
        let refused = "plan p.toml, line 3, column 3: a plan file cannot name a server; ";
        assert!(error(text).starts_with(refused), "{}", error(text));
        assert!(error(text).ends_with("give --server on the command line"), "{}", error(text));
        assert!(error("server = \"host\"\n").contains("cannot name a server"));
        let kept = parse_kept("p", text).unwrap();
        assert_eq!(kept.groups[0].words(SERVER, &[]), ["host:7000", "iperf3://host"]);
    }

    #[test]
    fn values_out_of_range_are_refused() {
        let group = |line: &str| error(&format!("[[group]]\nbenchmark = \"null\"\n{line}\n"));
        assert!(error("scale = 0\n").contains("line 1, column 9: scale must be between"));
        assert!(error("repeat = 0\n").contains("repeat must be between 1 and 10000"));
        assert!(error("margin = \"0%\"\n").contains("above 0"));
        assert!(error("name = \"a\\u001bb\"\n").contains("a name must have"));
        assert!(group("series = 5\nsamples = 5").contains("mutually exclusive"));
        assert!(group("exclude = [{}]").contains("line 3, column 12: an exclude must name"));
        assert!(group("exclude = [{ threat = 1 }]").contains("did you mean 'threads'?"));
        assert!(group("exclude = [\"[\"]").contains("line 3, column 12"));
        assert!(group("exclude = [{ samples = 1 }]").contains("unknown key 'samples'"));
        assert!(group("note = 5").contains("a note must be a string"));
    }

    proptest! {
        #[test]
        fn any_text_gives_a_plan_or_one_line(text in "([a-z]{1,8}|\\[\\[group\\]\\]|=|\"|\\n|[0-9\\[\\]{},.]|\\PC){0,30}") {
            if let Err(all) = parse("p", &text) {
                prop_assert!(!all.is_empty() && all.iter().all(|e| !e.to_string().contains('\n')));
            }
        }
    }
}
