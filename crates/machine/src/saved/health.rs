use std::path::Path;

use super::SavedContent;
use super::rename::NumberedNames;
use crate::disk::numbered;
use crate::health::smart_pages;
use crate::root::Root;

const OF_PCI: [&str; 6] =
    ["class", "current_link_speed", "current_link_width", "max_link_speed", "max_link_width", "vendor"];
/// Specified bytes of an NVMe log page; the rest is reserved.
const OF_PAGE: usize = 200;
const MAX_FILES: usize = 8192;

pub(super) fn add(root: &Root, names: &mut NumberedNames, content: &mut SavedContent) {
    sensors(root, "sys/class/hwmon", "hwmon", &["name"], content);
    sensors(root, "sys/class/thermal", "thermal_zone", &["temp", "type"], content);
    for (path, mut page) in smart_pages(root) {
        page.iter_mut().skip(OF_PAGE).for_each(|byte| *byte = 0);
        content.file(path, page);
    }
    links(root, names, content);
}

/// Adds to `content` from each `class`/`prefix`N the files `fixed`, temperatures and trip points.
fn sensors(root: &Root, class: &str, prefix: &str, fixed: &[&str], content: &mut SavedContent) {
    let chips = root.names(class).unwrap_or_default();
    for dir in chips.iter().filter(|name| numbered(name, prefix)).map(|name| Path::new(class).join(name)) {
        let is_read = |name: &&String| {
            let is_input = name.starts_with("temp")
                && ["_input", "_label", "_crit"].iter().any(|end| name.ends_with(end));
            let is_trip =
                name.starts_with("trip_point_") && ["_type", "_temp"].iter().any(|end| name.ends_with(end));
            is_input || is_trip || fixed.contains(&name.as_str())
        };
        for file in root.names(&dir).unwrap_or_default().iter().filter(is_read).take(MAX_FILES) {
            content.copy(root, dir.join(file), dir.join(file));
        }
    }
}

fn links(root: &Root, names: &mut NumberedNames, content: &mut SavedContent) {
    const PCI_DIRECTORY: &str = "sys/bus/pci/devices";
    for name in root.names(PCI_DIRECTORY).unwrap_or_default().into_iter().take(MAX_FILES) {
        let listed = Path::new(PCI_DIRECTORY).join(&name);
        let Ok(place) = root.resolve(&listed) else { continue };
        if !root.exists(place.join("current_link_speed")) {
            continue;
        }
        let to = names.sysfs_path(&place);
        for file in OF_PCI {
            content.copy(root, place.join(file), to.join(file));
            if let (Some(port), Some(port_to)) = (place.parent(), to.parent()) {
                content.copy(root, port.join(file), port_to.join(file));
            }
        }
        if let Ok(physical) = root.resolve(place.join("physfn")) {
            content.link(to.join("physfn"), names.sysfs_path(&physical));
        }
        content.link(Path::new(PCI_DIRECTORY).join(names.device(&name)), to);
    }
}
