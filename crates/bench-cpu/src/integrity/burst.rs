//! Bursts: microseconds of work with a known answer.

use std::sync::Arc;

use plimsoll_metal::gemm::CoreCaches;
use plimsoll_metal::kernel::{self, AccumulatorSnapshot, ComputeKernel, LoadedKernel, Op};

/// Work of microseconds on the calling thread, with a known right answer for each input.
pub(crate) trait Burst: Send {
    fn name(&self) -> &str;

    /// Computes the answer for input number `input` and keeps it for [`Burst::compare`].
    fn run(&mut self, input: u64);

    /// Inverts one bit, which `random` selects, of the kept answer: a fault to be found.
    fn invert_bit(&mut self, random: u64);

    /// Compares the kept answer with the right answer for input `input`; fails if they differ.
    fn compare(&self, input: u64) -> Result<(), WrongBurst>;

    /// Computes the right answer for input number `input` again without the kernel; returns whether
    /// it equals the right answer used so far.
    fn confirm(&mut self, input: u64) -> bool;
}

/// Makes a burst for the calling thread, pinned to the CPU of this number. Fails with a reason.
pub(crate) type BurstMaker = Box<dyn Fn(usize) -> Result<Box<dyn Burst>, String> + Send + Sync>;

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct WrongBurst {
    /// Answer, as a number or in words.
    pub(super) got: String,
    pub(super) expected: String,
    /// Which of the numbers of the answer it is.
    pub(super) at: String,
}

impl WrongBurst {
    pub(crate) fn new(got: impl Into<String>, expected: impl Into<String>, at: String) -> Self {
        Self { got: got.into(), expected: expected.into(), at }
    }
}

/// Returns the iterations of a kernel in a burst: few for divisions and roots, which are slow.
fn turns(kernel: &ComputeKernel) -> u64 {
    if [Op::DIV, Op::SQRT].contains(&kernel.op) { 16 } else { 128 }
}

#[derive(Clone)]
struct KernelBurst {
    loaded: LoadedKernel,
    /// States after 0, 1, 2 … bursts, by the portable reference.
    states: Arc<[AccumulatorSnapshot]>,
}

/// Returns a [`BurstMaker`] per kernel that this CPU can run, with `inputs` different start states.
pub(super) fn kernels(inputs: u64) -> Vec<BurstMaker> {
    let full: Vec<&ComputeKernel> = kernel::kernels().collect();
    let kind = |kernel: &ComputeKernel| (kernel.op, kernel.element, kernel.isa, kernel.vector_bits());
    // Vectors narrower than the instruction set's, with the most chains.
    let is_narrow = |narrow: &&&ComputeKernel| full.iter().all(|other| kind(other) != kind(narrow));
    let chained: Vec<&ComputeKernel> = kernel::chained().collect();
    let narrow = chained.iter().filter(is_narrow).filter(|narrow| {
        let alike = chained.iter().filter(|other| kind(other) == kind(narrow));
        alike.map(|other| other.accumulators).max() == Some(narrow.accumulators)
    });
    let maker = |loaded: LoadedKernel| -> BurstMaker {
        let turns = turns(loaded.kernel());
        let next = |state: &AccumulatorSnapshot| Some(loaded.reference(state, turns));
        let states: Arc<[_]> =
            std::iter::successors(Some(loaded.snapshot()), next).take(inputs as usize + 1).collect();
        Box::new(move |_| Ok(Box::new(KernelBurst { loaded: loaded.clone(), states: Arc::clone(&states) })))
    };
    full.iter().chain(narrow).filter_map(|kernel| kernel.load().ok()).map(maker).collect()
}

impl KernelBurst {
    fn states(&self, input: u64) -> [&AccumulatorSnapshot; 2] {
        let at = input as usize % (self.states.len() - 1);
        [&self.states[at], &self.states[at + 1]]
    }
}

impl Burst for KernelBurst {
    fn name(&self) -> &str {
        self.loaded.kernel().name
    }

    fn run(&mut self, input: u64) {
        let states = Arc::clone(&self.states);
        self.loaded.start_from(&states[input as usize % (states.len() - 1)]);
        self.loaded.run(turns(self.loaded.kernel()));
    }

    fn invert_bit(&mut self, random: u64) {
        self.loaded.invert_bit(random);
    }

    fn compare(&self, input: u64) -> Result<(), WrongBurst> {
        let [_, right] = self.states(input);
        if self.loaded.equals(right) {
            return Ok(());
        }
        let compared = self.loaded.compare(&self.loaded.snapshot(), right, turns(self.loaded.kernel()));
        compared.map_err(|wrong| {
            let at = format!("accumulator {}, lane {}", wrong.accumulator, wrong.lane);
            WrongBurst::new(wrong.got.to_string(), wrong.wanted.to_string(), at)
        })
    }

    fn confirm(&mut self, input: u64) -> bool {
        let [start, right] = self.states(input);
        self.loaded.reference(start, turns(self.loaded.kernel())) == *right
    }
}

/// Words that a burst reads and writes.
const WINDOW_WORDS: usize = 512;

/// Memory written window by window in passes; each pass first reads what the last one wrote.
struct MemoryBurst {
    name: &'static str,
    memory: Vec<u64>,
    done: usize,
    /// Words of the window as they were before this burst wrote it.
    answer: Vec<u64>,
}

/// Returns a [`BurstMaker`] per cache level: working sets that fit the level and not the one before
/// it, with twice the level-2 cache for level 3.
pub(super) fn memory(caches: CoreCaches) -> Vec<BurstMaker> {
    let first = caches.first / 2;
    let second = (caches.second / 2).max(2 * caches.first);
    let sizes = [("memory_l1", first), ("memory_l2", second), ("memory_l3", 2 * caches.second)];
    let maker = |(name, bytes): (&'static str, usize)| -> BurstMaker {
        let windows = (bytes / (8 * WINDOW_WORDS)).clamp(1, 1 << 12);
        Box::new(move |_| {
            let mut memory = vec![0; windows * WINDOW_WORDS];
            write(&mut memory, 0);
            Ok(Box::new(MemoryBurst { name, memory, done: 0, answer: Vec::with_capacity(WINDOW_WORDS) }))
        })
    };
    sizes.into_iter().map(maker).collect()
}

/// Returns the word to write at `index` in pass `pass`: constant, alternating, one bit, or mixed.
fn pattern(pass: usize, index: usize) -> u64 {
    match pass % 6 {
        0 => 0,
        1 => u64::MAX,
        2 => 0x5555_5555_5555_5555,
        3 => 0xaaaa_aaaa_aaaa_aaaa,
        4 => 1 << (index % 64),
        _ => (index as u64 + pass as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15),
    }
}

fn write(words: &mut [u64], pass: usize) {
    words.iter_mut().enumerate().for_each(|(index, word)| *word = pattern(pass, index));
}

impl Burst for MemoryBurst {
    fn name(&self) -> &str {
        self.name
    }

    fn run(&mut self, _: u64) {
        let windows = self.memory.len() / WINDOW_WORDS;
        let start = self.done % windows * WINDOW_WORDS;
        let window = &mut self.memory[start..start + WINDOW_WORDS];
        self.answer.clear();
        self.answer.extend_from_slice(window);
        write(window, self.done / windows + 1);
        self.done += 1;
    }

    fn invert_bit(&mut self, random: u64) {
        self.answer[random as usize % WINDOW_WORDS] ^= 1 << (random >> 32 & 63);
    }

    fn compare(&self, _: u64) -> Result<(), WrongBurst> {
        let windows = self.memory.len() / WINDOW_WORDS;
        let (pass, window) = ((self.done - 1) / windows, (self.done - 1) % windows);
        // The first pass wrote the memory as a whole, with the indices of the whole.
        let right = |index: usize| match pass {
            0 => pattern(0, window * WINDOW_WORDS + index),
            _ => pattern(pass, index),
        };
        match self.answer.iter().enumerate().find(|(index, word)| **word != right(*index)) {
            None => Ok(()),
            Some((index, word)) => Err(WrongBurst::new(
                format!("{word:#018x}"),
                format!("{:#018x}", right(index)),
                format!("byte {} of {}", 8 * (window * WINDOW_WORDS + index), 8 * self.memory.len()),
            )),
        }
    }

    fn confirm(&mut self, _: u64) -> bool {
        true
    }
}
