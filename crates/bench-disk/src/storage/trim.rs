//! Checks that trims reach the device.

use std::os::unix::fs::MetadataExt;

use crate::display::human;
use plimsoll_bench_api::{Context, RawTarget};
use plimsoll_machine::disk::users;
use plimsoll_machine::{DeviceNumber, Root, Storage};
use plimsoll_model::job::disk::BlockSizes;
use plimsoll_model::sample::CannotMeasure;
use plimsoll_units::text::shown_path;

/// Fails, with what is missing, unless trims of a test file reach the device below it.
pub(crate) fn check_dir_trims(cx: &Context<'_>) -> Result<(), CannotMeasure> {
    let Some(storage) = cx.machine.storage.as_ref() else { return Ok(()) };
    let limit = |number| users::disk_number(&Root::live(), number, "queue/discard_max_bytes");
    let most = storage.number.and_then(limit);
    refusal(storage, most).map_or(Ok(()), |reason| Err(CannotMeasure::not_here(reason)))
}

/// Fails, with what is missing, unless the device of `target` supports trims of these block sizes.
pub(crate) fn check_device(target: &RawTarget, blocks: &BlockSizes) -> Result<(), CannotMeasure> {
    let name = shown_path(&target.device);
    let about = std::fs::metadata(&target.device)
        .map_err(|error| CannotMeasure::environment(format!("{name} cannot be checked: {error}")))?;
    let number = DeviceNumber::from_raw(about.rdev());
    let of = |file: &str| users::disk_number(&Root::live(), number, &format!("queue/{file}"));
    let reason = device_refusal(&name, blocks.unit(), of("discard_max_bytes"), of("discard_granularity"));
    reason.map_or(Ok(()), |reason| Err(CannotMeasure::not_here(reason)))
}

/// Explains why device `name` would ignore trims of multiples of `unit` bytes: by
/// `discard_max_bytes` (`most`) or `discard_granularity` (Documentation/ABI/stable/sysfs-block).
/// `None` if it would not.
fn device_refusal(name: &str, unit: u64, most: Option<u64>, granularity: Option<u64>) -> Option<String> {
    match (most, granularity) {
        (Some(0), _) => Some(format!("{name} does not support trim (its discard_max_bytes is 0)")),
        (_, Some(granularity)) if granularity > 0 && !unit.is_multiple_of(granularity) => Some(format!(
            "{name} frees {} at a time (its discard_granularity) and may ignore less; give a --block that is a multiple",
            human(granularity)
        )),
        _ => None,
    }
}

/// Explains why trims of a file do not reach the device, whose `discard_max_bytes` is `most`;
/// `None` if they do or nothing is known.
fn refusal(storage: &Storage, most: Option<u64>) -> Option<String> {
    let device = storage.device.as_deref().unwrap_or("the device");
    let passes_on = |option: &String| option == "discard" || option.starts_with("discard=");
    let lost = storage.file_system.as_ref().filter(|fs| !fs.options.iter().any(passes_on)).map(|fs| {
        let kind = &fs.fs_type;
        format!("the {kind} on {device} does not pass trims to the device; mount it with -o discard")
    });
    device_refusal(device, 0, most, None).or(lost)
}

#[cfg(test)]
mod tests {
    use super::*;
    use plimsoll_machine::MountedFileSystem;
    use plimsoll_machine::fixture::mounted;

    #[test]
    fn trims_must_get_through_file_system_and_device() {
        let why = |options: &[&str], most| {
            let options = options.iter().map(|option| (*option).to_owned()).collect();
            let file_system = Some(MountedFileSystem { options, ..mounted("ext4") });
            let storage = Storage { file_system, device: Some("vda".to_owned()), ..Storage::default() };
            refusal(&storage, most).unwrap_or_default()
        };
        assert_eq!(why(&["rw", "discard"], Some(1 << 30)), "");
        assert_eq!(why(&["rw", "discard=async"], None), "");
        assert!(why(&["rw", "discard"], Some(0)).contains("discard_max_bytes"));
        assert!(why(&["rw"], Some(1 << 30)).contains("-o discard"));
        assert!(why(&["nodiscard"], None).contains("-o discard"));
    }

    #[test]
    fn a_device_must_take_trims_of_that_size() {
        let why = |unit, most, step| device_refusal("/dev/x", unit, most, step).unwrap_or_default();
        assert_eq!(why(4096, Some(1 << 30), Some(4096)), "");
        assert_eq!(why(4096, None, None), "");
        assert_eq!(why(4096, Some(1 << 30), Some(0)), "");
        assert!(why(4096, Some(0), Some(0)).contains("does not support trim"));
        assert!(why(4096, Some(1 << 30), Some(65536)).contains("frees 64 KiB at a time"));
    }
}
