//! Parser of job files: sections, options, comments, includes and variables, as in fio's HOWTO. The
//! text is untrusted: sizes, lines, options, expansions and includes are bounded.

use super::mistake::{FileLine, Mistake};
use super::option::{self, FioOption, OptionMeaning};
use plimsoll_units::text::shown_within;

/// Longest line, in bytes.
const MAX_LINE: usize = 8192;
/// Most options of a file, including those of each included file.
const MAX_OPTIONS: usize = 20_000;
const MAX_SECTIONS: usize = 1000;
/// Longest expanded value, in bytes.
const MAX_VALUE: usize = 16_384;
const MAX_NESTED: usize = 8;

/// Environment of a job file on the machine that reads it.
pub trait JobEnvironment {
    /// Returns the value of environment variable `name`; `None` if it is not set.
    fn variable(&self, name: &str) -> Option<String>;

    /// Returns the text of the file named in an `include` line, or why the file cannot be read.
    fn included(&self, name: &str) -> Result<String, String>;

    /// Returns the value of `pagesize` (bytes), `mb_memory` (MiB) or `ncpus`; else `None`.
    fn keyword(&self, name: &str) -> Option<u64>;

    /// Returns the size of the block device at `path` in bytes; `None` if it is no block device.
    fn device(&self, path: &str) -> Option<u64>;
}

#[derive(Clone, Debug, PartialEq)]
pub(super) struct GivenOption {
    pub(super) row: &'static FioOption,
    pub(super) name: String,
    /// Value as written, for messages; `1` if it is omitted.
    pub(super) written: String,
    /// Expanded value, if needed. Not used in messages, which must not reveal the environment.
    pub(super) value: String,
    pub(super) unset: Option<String>,
    pub(super) line: FileLine,
}

impl GivenOption {
    /// Returns the option as written in the file, shortened: `bs=4k`.
    pub(super) fn shown(&self) -> String {
        format!("{}={}", self.name, shown_within(&self.written, 60))
    }

    pub(super) fn describe(&self) -> String {
        let FileLine { file, number } = &self.line;
        format!("{file}:{number}: {}", self.shown())
    }
}

#[derive(Clone, Debug)]
pub(super) struct JobSection {
    pub(super) name: String,
    pub(super) line: FileLine,
    pub(super) options: Vec<GivenOption>,
}

/// Parses the sections of a text and of files it includes; returns the jobs, each with the options
/// of the global sections above it. `file` names the text in errors, which are added to `wrong`.
pub(super) fn sections(
    file: &str,
    text: &str,
    around: &dyn JobEnvironment,
    wrong: &mut Vec<Mistake>,
) -> Vec<JobSection> {
    let (global, jobs, at) = (Vec::new(), Vec::new(), SectionContext::Nowhere);
    let mut reader = Reader { around, wrong, global, jobs, at, options: 0 };
    reader.read(file, text, 0);
    reader.jobs
}

/// Whether fio misreads `value` of option `row` because it starts with a blank (no number does so).
fn is_misread(row: &FioOption, value: &str) -> bool {
    let is_number = value.trim().bytes().all(|byte| byte.is_ascii_digit());
    value.starts_with(char::is_whitespace)
        && matches!(row.means, OptionMeaning::Taken(_))
        && !is_number
        && row.name != "filename"
}

enum SectionContext {
    Nowhere,
    Global,
    Job,
    /// Too many options: parsing has ended.
    Ended,
}

struct Reader<'a> {
    around: &'a dyn JobEnvironment,
    wrong: &'a mut Vec<Mistake>,
    global: Vec<GivenOption>,
    jobs: Vec<JobSection>,
    at: SectionContext,
    options: usize,
}

impl Reader<'_> {
    fn read(&mut self, file: &str, text: &str, nested: usize) {
        let file: std::rc::Rc<str> = file.into();
        for (number, text) in text.lines().enumerate() {
            if matches!(self.at, SectionContext::Ended) {
                return;
            }
            let line = FileLine { file: file.clone(), number: number + 1 };
            if text.len() > MAX_LINE {
                self.wrong.push(Mistake::wrong(&line, "the line has more than 8192 bytes"));
                continue;
            }
            // A comment may follow an option.
            let text = text.split([';', '#']).next().unwrap_or_default().trim();
            match (text.strip_prefix('['), text.strip_prefix("include ")) {
                _ if text.is_empty() => {}
                (Some(_), _) if nested > 0 => {
                    self.wrong.push(Mistake::wrong(&line, "an included file must have no sections"));
                }
                (Some(name), _) => self.section(name, line),
                (None, Some(name)) => self.include(name.trim(), &line, nested),
                (None, None) => self.option(text, line),
            }
        }
    }

    fn section(&mut self, text: &str, line: FileLine) {
        let name = text.split(']').next().unwrap_or_default().trim();
        if name.is_empty() || !text.contains(']') {
            self.wrong.push(Mistake::wrong(&line, "a section must be written as [name]"));
        } else if self.jobs.len() == MAX_SECTIONS {
            self.wrong.push(Mistake::wrong(&line, "a job file must have at most 1000 jobs"));
            self.at = SectionContext::Ended;
        } else if name.eq_ignore_ascii_case("global") {
            self.at = SectionContext::Global;
        } else {
            self.options += self.global.len();
            let options = self.global.clone();
            self.jobs.push(JobSection { name: shown_within(name, 60), line, options });
            self.at = SectionContext::Job;
        }
    }

    fn include(&mut self, name: &str, line: &FileLine, nested: usize) {
        let text = match nested {
            MAX_NESTED => Err("files include files more than 8 deep".to_owned()),
            _ => self.around.included(name),
        };
        match text {
            Ok(text) => self.read(&shown_within(name, 100), &text, nested + 1),
            Err(why) => {
                let why = format!("include {}: {why}", shown_within(name, 100));
                self.wrong.push(Mistake::wrong(line, &why));
            }
        }
    }

    fn option(&mut self, text: &str, line: FileLine) {
        self.options += 1;
        if self.options > MAX_OPTIONS {
            self.wrong.push(Mistake::wrong(&line, "a job file must have at most 20000 options"));
            self.at = SectionContext::Ended;
            return;
        }
        if let Some((name, value)) = text.split_once(char::is_whitespace).filter(|_| !text.contains('='))
            && option::find(name).means != OptionMeaning::Unknown
        {
            let why = format!("'=' is missing: write {name}={}", shown_within(value.trim(), 60));
            return self.wrong.push(Mistake::wrong(&line, &why));
        }
        let (name, spaced) = text.split_once('=').map_or((text, "1"), |(name, value)| (name.trim(), value));
        let (row, written) = (option::find(name), spaced.trim());
        if is_misread(row, spaced) {
            let why = format!(
                "fio 3.33 misreads a blank before a value (it drops the job, or takes 4k for 4): write {}={}",
                shown_within(name, 60),
                shown_within(written, 60)
            );
            return self.wrong.push(Mistake::wrong(&line, &why));
        }
        let (value, unset) = match row.means {
            OptionMeaning::Nothing(_) if !row.is_switch() => (written.to_owned(), None),
            _ => match self.expanded(written) {
                Ok(expanded) => expanded,
                Err(why) => return self.wrong.push(Mistake::wrong(&line, why)),
            },
        };
        let name = shown_within(name, 60);
        let given = GivenOption { row, name, written: written.to_owned(), value, unset, line };
        match self.at {
            SectionContext::Global => self.global.push(given),
            SectionContext::Job if let Some(job) = self.jobs.last_mut() => job.options.push(given),
            SectionContext::Nowhere => {
                let why = "an option must be in a section: write [global] or the name of a job above it";
                self.wrong.push(Mistake::wrong(&given.line, why));
                self.at = SectionContext::Global;
            }
            SectionContext::Job | SectionContext::Ended => {}
        }
    }

    /// Expands `${VARIABLE}` and fio's keywords (`$ncpus`); returns the result and the name of the
    /// first unset variable, if any. Fails if the result is too long or has several lines.
    fn expanded(&self, value: &str) -> Result<(String, Option<String>), &'static str> {
        let (mut out, mut unset) = (String::new(), None);
        let mut rest = value;
        while let Some(at) = rest.find('$') {
            out += &rest[..at];
            let after = &rest[at + 1..];
            if let Some((name, behind)) = after.strip_prefix('{').and_then(|after| after.split_once('}')) {
                match self.around.variable(name) {
                    Some(value) => out += &value,
                    None => unset = unset.or_else(|| Some(shown_within(name, 60))),
                }
                rest = behind;
            } else {
                let end = after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
                match self.around.keyword(&after[..end]) {
                    Some(number) => out += &number.to_string(),
                    None => out += &rest[at..at + 1 + end],
                }
                rest = &after[end..];
            }
            if out.len() > MAX_VALUE {
                break;
            }
        }
        out += rest;
        if out.len() > MAX_VALUE {
            return Err("the value must have at most 16384 bytes, its variables included");
        }
        match out.contains(['\n', '\r', '\0']) {
            true => Err("the value must be one line: a variable in it holds several lines"),
            false => Ok((out, unset)),
        }
    }
}
