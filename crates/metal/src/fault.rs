//! Wrong answers on request, so that tests can show what finds them. A released program has none.

/// Returns a random number, which chooses a bit to invert in a result of `kernel` on CPU `cpu`,
/// with the probability in `PLIMSOLL_TEST_FLIP`; else `None`. The variable is
/// `CPU:KERNEL:PROBABILITY`, such as `1:fma_f64_avx2:0.001`; `all` is any kernel.
#[cfg(any(test, feature = "testing"))]
pub fn flip(cpu: usize, kernel: &str) -> Option<u64> {
    use std::hash::{BuildHasher, RandomState};
    use std::sync::LazyLock;

    static FAULT: LazyLock<Option<(usize, String, f64)>> = LazyLock::new(|| {
        let text = std::env::var("PLIMSOLL_TEST_FLIP").ok()?;
        let [cpu, kernel, probability] = <[&str; 3]>::try_from(text.split(':').collect::<Vec<_>>()).ok()?;
        Some((cpu.parse().ok()?, kernel.to_owned(), probability.parse().ok()?))
    });
    thread_local! {
        static STATE: std::cell::Cell<u64> = std::cell::Cell::new(RandomState::new().hash_one(0));
    }
    let here = |(at, of, _): &&(usize, String, f64)| *at == cpu && (of == kernel || of == "all");
    let (.., probability) = FAULT.as_ref().filter(here)?;
    let random = || {
        let mut state = STATE.get();
        let number = crate::kernel::random::next(&mut state);
        STATE.set(state);
        number
    };
    ((random() as f64) < probability * 2.0_f64.powi(64)).then(random)
}

/// Returns `None` (no bit to invert): only test builds compute wrong results on request.
#[cfg(not(any(test, feature = "testing")))]
pub const fn flip(_cpu: usize, _kernel: &str) -> Option<u64> {
    None
}
