use std::fmt;

use serde::{Deserialize, Serialize};

use plimsoll_units::text::format_count;

/// A wrong result, which voids the measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct WrongAnswer {
    /// CPU, storage or network path with the wrong result.
    pub origin: WrongAnswerSource,
    /// Kernel or operation.
    pub operation: String,
    /// Result, as a number or in words.
    pub got: String,
    /// Right result, if it is one number.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<String>,
    /// Further evidence in one line: which element, after how many iterations.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub detail: String,
    /// Number of wrong results among the checked ones.
    pub count: u64,
    /// Results of repetitions on single CPUs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub repeated: Option<Repeated>,
}

/// Origin of a wrong answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum WrongAnswerSource {
    /// The thread pinned to this CPU.
    Cpu(usize),
    /// Threads on these CPUs together.
    Cpus(Vec<usize>),
    /// Data of a file or device that differs from what was written.
    Storage {
        /// File or device.
        path: String,
        /// Offset in bytes of the first wrong byte or sector.
        offset: u64,
    },
    /// Data from a network path.
    Network,
}

/// Count of wrong answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Trials {
    /// Measurements with a wrong answer.
    pub wrong: u32,
    /// All measurements.
    pub of: u32,
}

impl Trials {
    /// Counts a repetition, and whether its answer was wrong.
    pub fn add(&mut self, is_wrong: bool) {
        self.wrong += u32::from(is_wrong);
        self.of += 1;
    }

    fn are_all_wrong(self) -> bool {
        self.of > 0 && self.wrong == self.of
    }
}

/// Repetitions of the case with one thread, on the CPU that was wrong and on another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Repeated {
    /// Trials on the CPU that was wrong, the first measurement included.
    pub there: Trials,
    /// Trials on a CPU of another core, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub elsewhere: Option<Elsewhere>,
}

/// Trials on another CPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Elsewhere {
    /// CPU.
    pub cpu: usize,
    /// Trials on it.
    pub trials: Trials,
}

/// Component at fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AtFault {
    /// One CPU: wrong every time, another one is right.
    Cpu,
    /// A CPU, intermittently.
    Unstable,
    /// Every tested CPU is wrong, so the program or its build is probably at fault.
    Program,
    /// Nothing was repeated, or there is no other CPU: CPU, memory or program.
    Undecided,
    /// Storage, its driver or its path.
    Storage,
    /// Network path.
    Network,
}

impl WrongAnswer {
    /// Creates a wrong answer: `operation` at `origin` returned `got`, a number or words.
    pub fn new(origin: WrongAnswerSource, operation: impl Into<String>, got: impl Into<String>) -> Self {
        let (operation, got, detail) = (operation.into(), got.into(), String::new());
        Self { origin, operation, got, expected: None, detail, count: 1, repeated: None }
    }

    /// Sets the right result.
    #[must_use]
    pub fn expected(self, expected: impl Into<String>) -> Self {
        Self { expected: Some(expected.into()), ..self }
    }

    /// Sets further evidence, in one line.
    #[must_use]
    pub fn detail(self, detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), ..self }
    }

    /// Returns the CPU that gave the answer; `None` unless it is a single CPU.
    pub fn cpu(&self) -> Option<usize> {
        if let WrongAnswerSource::Cpu(cpu) = self.origin { Some(cpu) } else { None }
    }

    /// Returns the component at fault, as far as the origin and repetitions show it.
    pub fn at_fault(&self) -> AtFault {
        match (&self.origin, self.repeated) {
            (WrongAnswerSource::Storage { .. }, _) => AtFault::Storage,
            (WrongAnswerSource::Network, _) => AtFault::Network,
            (_, None) => AtFault::Undecided,
            (_, Some(Repeated { there, elsewhere })) => match elsewhere.map(|it| it.trials) {
                _ if !there.are_all_wrong() => AtFault::Unstable,
                None => AtFault::Undecided,
                Some(trials) if trials.are_all_wrong() => AtFault::Program,
                Some(Trials { wrong: 0, .. }) => AtFault::Cpu,
                Some(_) => AtFault::Unstable,
            },
        }
    }

    /// Describes the fault in about 60 characters: what, where, how often.
    pub fn headline(&self) -> String {
        let (operation, got) = (&self.operation, shortened(&self.got));
        if let (AtFault::Program, Some(cpu), Some(other)) = (self.at_fault(), self.cpu(), self.elsewhere()) {
            let cpus = format!("CPUs {cpu} and {}", other.cpu);
            return format!("{cpus} wrong in {operation} (wrong answer): plimsoll's build?");
        }
        let times = self.repeated.map(|Repeated { there, .. }| format!(", {} of {}", there.wrong, there.of));
        let times = times.unwrap_or_default();
        let computed = |which: &str| format!("{which} computed {got} in {operation} (wrong answer{times})");
        match &self.origin {
            WrongAnswerSource::Cpu(cpu) => computed(&shown_cpus(&[*cpu])),
            WrongAnswerSource::Cpus(cpus) => computed(&shown_cpus(cpus)),
            WrongAnswerSource::Storage { path, offset } => {
                format!("offset {offset} of {path} read back wrong (wrong answer)")
            }
            WrongAnswerSource::Network => {
                format!("the network path changed data in {operation} (wrong answer)")
            }
        }
    }

    fn elsewhere(&self) -> Option<Elsewhere> {
        self.repeated?.elsewhere
    }

    /// Describes the result of the repetitions in a few words; empty if they show nothing.
    pub fn conclusion(&self) -> String {
        match (self.at_fault(), self.elsewhere()) {
            (AtFault::Cpu, Some(other)) => format!("CPU {} is right", other.cpu),
            (AtFault::Unstable, Some(Elsewhere { cpu, trials: Trials { wrong: 0, .. } })) => {
                format!("unstable; CPU {cpu} is right")
            }
            (AtFault::Unstable, _) => "unstable".to_owned(),
            _ => String::new(),
        }
    }
}

/// Cuts a number to six characters and `…`; other text is unchanged.
fn shortened(got: &str) -> String {
    const KEPT: usize = 6;
    let is_number = got.chars().all(|c| c.is_ascii_hexdigit() || ".+-xe".contains(c));
    match is_number && got.chars().count() > KEPT + 1 {
        true => got.chars().take(KEPT).chain(['…']).collect(),
        false => got.to_owned(),
    }
}

/// Formats `CPU 0` or `one of CPUs 0, 2, 3`; of more than four CPUs the first four and `…`.
fn shown_cpus(cpus: &[usize]) -> String {
    const SHOWN: usize = 4;
    let mut names: Vec<String> = cpus.iter().take(SHOWN).map(usize::to_string).collect();
    if cpus.len() > SHOWN {
        names.push("…".to_owned());
    }
    match names.as_slice() {
        [] => "a CPU".to_owned(),
        [one] => format!("CPU {one}"),
        _ => format!("one of CPUs {}", names.join(", ")),
    }
}

impl fmt::Display for WrongAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.headline())?;
        match &self.expected {
            Some(expected) => write!(f, "; {} instead of {expected}", self.got)?,
            None => write!(f, "; {}", self.got)?,
        }
        if !self.detail.is_empty() {
            write!(f, "; {}", self.detail)?;
        }
        if self.count > 1 {
            write!(f, "; {}", format_count(self.count as usize, "wrong result"))?;
        }
        let Some(Repeated { there, elsewhere }) = self.repeated else { return Ok(()) };
        if let Some(Elsewhere { cpu, trials }) = elsewhere {
            write!(
                f,
                "; repeated: wrong there in {} of {}, on CPU {cpu} in {} of {}",
                there.wrong, there.of, trials.wrong, trials.of
            )?;
        }
        match (self.at_fault(), elsewhere) {
            (AtFault::Program, _) => f.write_str(
                ": every CPU that was tried is wrong, so this program or its build is at fault rather than the \
                 hardware; install another build and repeat",
            ),
            (AtFault::Cpu, _) => f.write_str(
                ": this CPU or its caches compute wrongly; take it offline or the machine out of service",
            ),
            (AtFault::Unstable, _) => {
                write!(f, ": it is right in {} of {} trials there, so it is unstable", there.of - there.wrong, there.of)
            }
            (_, None) => f.write_str("; there was no other CPU to compare with: CPU, memory or this program"),
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repeated(there: u32, elsewhere: Option<u32>) -> WrongAnswer {
        let trials = |wrong| Trials { wrong, of: 3 };
        let elsewhere = elsewhere.map(|wrong| Elsewhere { cpu: 3, trials: trials(wrong) });
        let made = WrongAnswer::new(WrongAnswerSource::Cpu(57), "fma_f64_avx2", "9.25").expected("9.5");
        WrongAnswer { repeated: Some(Repeated { there: trials(there), elsewhere }), ..made }
    }

    #[test]
    fn repetitions_decide_what_is_at_fault() {
        for (there, elsewhere, at_fault) in [
            (3, Some(0), AtFault::Cpu),
            (3, Some(3), AtFault::Program),
            (1, Some(0), AtFault::Unstable),
            (3, Some(1), AtFault::Unstable),
            (3, None, AtFault::Undecided),
        ] {
            assert_eq!(repeated(there, elsewhere).at_fault(), at_fault, "{there} {elsewhere:?}");
        }
        let once = WrongAnswer::new(WrongAnswerSource::Cpus(vec![0, 1]), "gemm", "9");
        assert_eq!(once.at_fault(), AtFault::Undecided);
    }

    #[test]
    fn the_headline_names_cpu_result_kernel_and_how_often() {
        let line = repeated(3, Some(0)).headline();
        assert_eq!(line, "CPU 57 computed 9.25 in fma_f64_avx2 (wrong answer, 3 of 3)");
        let origin = WrongAnswerSource::Storage { path: "/mnt/data/f".to_owned(), offset: 163_840 };
        let line = WrongAnswer::new(origin, "verify", "zeros").headline();
        assert!(line.contains("offset 163840 of /mnt/data/f"), "{line}");
    }

    #[test]
    fn hardware_is_not_accused_if_every_cpu_is_wrong() {
        let text = repeated(3, Some(3)).to_string();
        let start = "CPUs 57 and 3 wrong in fma_f64_avx2 (wrong answer): plimsoll's build?";
        assert!(text.starts_with(start), "{text}");
        assert!(text.contains("on CPU 3 in 3 of 3") && text.contains("9.25 instead of 9.5"), "{text}");
        assert!(!text.contains("out of service"), "{text}");
    }
}
