//! The disk benchmarks as a part of a report.

use crate::Subsystem;
use crate::machine::Storage;

/// The disk benchmarks.
pub static PART: Subsystem = Subsystem {
    name: "disk",
    title: "Disk",
    context: |machine, _| machine.storage.as_ref().map(context).unwrap_or_default(),
    asked_first: &["op", "pattern", "block", "depth", "threads", "dir"],
    cpus: |_, _| Vec::new(),
    on_files: true,
    ..Subsystem::USUAL
};

fn context(storage: &Storage) -> Vec<String> {
    let mut parts = vec![storage.path.clone()];
    parts.extend(storage.file_system.as_ref().map(|fs| fs.fs_type.clone()));
    parts.extend(storage.layers.iter().map(|layer| layer.name.clone()));
    parts.extend(storage.disks.iter().map(|disk| {
        let kind = serde_json::to_value(disk.kind).ok();
        let kind = kind.as_ref().and_then(|k| k.as_str()).unwrap_or("disk");
        let words = [Some(disk.name.as_str()), disk.model.as_deref(), Some(kind)];
        words.into_iter().flatten().collect::<Vec<_>>().join(" ")
    }));
    parts
}
