//! Files on overlayfs and the layer files with their bytes. Both have device numbers of their own;
//! a copied-up file even shows the inode of the lower layer, which no longer has its bytes.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::thing::{FileId, FileOrDevice};
use crate::mounts::{DeviceNumber, Mount, MountTable, Tables, mount_of};
use crate::root::Root;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alias {
    pub(super) thing: FileOrDevice,
    pub(super) written: PathBuf,
    pub(super) path: PathBuf,
}

/// Overlays with a layer that cannot be found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BlindOverlays {
    pub(super) overlays: Vec<DeviceNumber>,
    mounted: HashSet<DeviceNumber>,
}

impl BlindOverlays {
    /// Returns whether a file with device number `system` may be on one of these overlays: the
    /// number is an overlay's or in no mount table, as for layers on several file systems.
    pub(super) fn may_have(&self, system: DeviceNumber) -> bool {
        let in_no_table = || system.major == 0 && !self.mounted.contains(&system);
        self.overlays.contains(&system) || (!self.overlays.is_empty() && in_no_table())
    }
}

pub(super) struct Overlays<'a> {
    pub(super) root: &'a Root,
    pub(super) tables: &'a Tables,
}

impl Overlays<'_> {
    /// Returns the other files with the bytes of `file` (path `written`): layer files of a file on
    /// an overlay, or what overlays show of a layer file. `None` if the layer file is not found.
    pub(super) fn aliases(&self, file: FileId, written: &Path) -> Option<Vec<Alias>> {
        if self.mounts().next().is_none() {
            return Some(Vec::new());
        }
        let below = self.layer_aliases(file, written);
        if below.is_empty() && self.is_on_one(file, written) {
            return None;
        }
        Some(below.into_iter().chain(self.overlay_aliases(file, written)).collect())
    }

    /// Returns the overlays with a layer whose path is relative or does not exist.
    pub(super) fn blind(&self) -> BlindOverlays {
        let found = |table: &MountTable, layer: &Path| {
            layer.is_absolute()
                && (self.root.about(readable_path(table, layer)).is_some()
                    || self.root.about(layer).is_some())
        };
        let is_blind = |(table, mount): &(&MountTable, &Mount)| {
            !all_layers(mount).iter().all(|layer| found(table, layer))
        };
        let overlays: Vec<DeviceNumber> =
            self.mounts().filter(is_blind).map(|(_, mount)| mount.device).collect();
        if overlays.is_empty() {
            return BlindOverlays::default();
        }
        let mounts = self.tables.all.iter().flat_map(|table| &table.mounts);
        BlindOverlays { overlays, mounted: mounts.map(|mount| mount.device).collect() }
    }

    fn mounts(&self) -> impl Iterator<Item = (&MountTable, &Mount)> {
        let of = |table: &'_ MountTable| -> bool { table.mounts.iter().any(is_overlay) };
        let tables = self.tables.all.iter().filter(move |table| of(table));
        tables
            .flat_map(|table| table.mounts.iter().filter(|mount| is_overlay(mount)).map(move |m| (table, m)))
    }

    /// Returns whether `file` is on an overlay: by the mount with its device number, else by the
    /// mounts at its path `written`; true if that leads to it in no namespace.
    pub(super) fn is_on_one(&self, file: FileId, written: &Path) -> bool {
        let mut all = self.tables.all.iter().flat_map(|table| &table.mounts);
        match all.find(|mount| mount.device == file.system) {
            Some(mount) => is_overlay(mount),
            None if file.system.major != 0 => false,
            None => {
                let mut places = self.places(file, written).peekable();
                places.peek().is_none()
                    || places.any(|table| mount_of(&table.mounts, written).is_some_and(is_overlay))
            }
        }
    }

    /// Returns the tables of the mount namespaces in which the path `written` leads to `file`.
    fn places(&self, file: FileId, written: &Path) -> impl Iterator<Item = &MountTable> {
        let leads = move |table: &&MountTable| {
            FileOrDevice::at(self.root, &readable_path(table, written)) == Some(FileOrDevice::File(file))
        };
        self.tables.all.iter().filter(leads)
    }

    fn layer_aliases(&self, file: FileId, written: &Path) -> Vec<Alias> {
        let mut found: Vec<Alias> = Vec::new();
        for table in self.places(file, written) {
            let shows = |mount: &&Mount| is_overlay(mount) && written.starts_with(&mount.point);
            let Some(deepest) = mount_of(&table.mounts, written) else { continue };
            for mount in table.mounts.iter().filter(shows).filter(|mount| mount.point == deepest.point) {
                let Some(inner) = replace_prefix(written, &mount.point, &mount.root) else { continue };
                for alias in self.in_layers(table, mount, &inner) {
                    if alias.thing != FileOrDevice::File(file) && !found.contains(&alias) {
                        found.push(alias);
                    }
                }
            }
        }
        found
    }

    /// Returns the file `inner` of the overlay `mount` from the uppermost layer that has it,
    /// searched in this process's mount namespace and that of `table`, or else in all.
    fn in_layers(&self, table: &MountTable, mount: &Mount, inner: &Path) -> Vec<Alias> {
        let layers = layers(mount);
        let inner = inner.strip_prefix("/").unwrap_or(inner);
        let in_namespace = |table: &MountTable| {
            layers.iter().find_map(|layer| {
                let written = layer.join(inner);
                let path = readable_path(table, &written);
                let thing = FileOrDevice::at(self.root, &path)
                    .filter(|thing| matches!(thing, FileOrDevice::File(_)))?;
                Some(Alias { thing, written, path })
            })
        };
        let near: Vec<Alias> =
            self.tables.all.first().into_iter().chain([table]).filter_map(in_namespace).collect();
        if near.is_empty() { self.tables.all.iter().filter_map(in_namespace).collect() } else { near }
    }

    /// Returns the files as which overlays show the layer file `file` with path `written`.
    fn overlay_aliases(&self, file: FileId, written: &Path) -> Vec<Alias> {
        let place = |table: &MountTable| locate(table, written);
        let places: Vec<(DeviceNumber, PathBuf)> = self.places(file, written).filter_map(place).collect();
        let mut found: Vec<Alias> = Vec::new();
        for (table, mount) in self.mounts() {
            for layer in layers(mount) {
                let inner = self.located_here(table, &layer).into_iter().find_map(|(system, dir)| {
                    let within =
                        |(other, path): &&(DeviceNumber, PathBuf)| *other == system && path.starts_with(&dir);
                    let (_, path) = places.iter().find(within)?;
                    replace_prefix(path, &dir, Path::new("/"))
                });
                let shown = inner.and_then(|inner| replace_prefix(&inner, &mount.root, &mount.point));
                let alias = shown.and_then(|shown| self.shown(table, shown, file));
                found.extend(alias.filter(|alias| !found.contains(alias)));
            }
        }
        found
    }

    fn shown(&self, table: &MountTable, written: PathBuf, real: FileId) -> Option<Alias> {
        let path = readable_path(table, &written);
        let thing = FileOrDevice::at(self.root, &path)?;
        let FileOrDevice::File(file) = thing else { return None };
        let is_it = |alias: &Alias| alias.thing == FileOrDevice::File(real);
        self.layer_aliases(file, &written).iter().any(is_it).then_some(Alias { thing, written, path })
    }

    /// Returns (file system, path in it) of a `layer`, seen from this process and from `table`.
    fn located_here(&self, table: &MountTable, layer: &Path) -> Vec<(DeviceNumber, PathBuf)> {
        let linked = self.root.resolve(layer).ok();
        let own = self.tables.all.first();
        let own = own.and_then(|own| locate(own, linked.as_deref().unwrap_or(layer)));
        own.into_iter().chain(locate(table, layer)).collect()
    }
}

fn is_overlay(mount: &Mount) -> bool {
    mount.fs_type == "overlay"
}

/// Returns a path to `written` of the namespace of `table` that works here: `/proc/PID/root/…`.
fn readable_path(table: &MountTable, written: &Path) -> PathBuf {
    match (table.process, written.strip_prefix("/")) {
        (Some(process), Ok(below)) => PathBuf::from(format!("/proc/{process}/root")).join(below),
        _ => written.to_path_buf(),
    }
}

/// Returns (device number, path within) of the file system with `path`; `None` if no mount has it.
fn locate(table: &MountTable, path: &Path) -> Option<(DeviceNumber, PathBuf)> {
    let mount = mount_of(&table.mounts, path)?;
    Some((mount.device, replace_prefix(path, &mount.point, &mount.root)?))
}

fn replace_prefix(path: &Path, from: &Path, to: &Path) -> Option<PathBuf> {
    let below = path.strip_prefix(from).ok()?;
    Some(if below.as_os_str().is_empty() { to.to_path_buf() } else { to.join(below) })
}

/// Returns the absolute layer paths of an overlay, the upper first (filesystems/overlayfs.rst).
fn layers(mount: &Mount) -> Vec<PathBuf> {
    all_layers(mount).into_iter().filter(|layer| layer.is_absolute()).collect()
}

fn all_layers(mount: &Mount) -> Vec<PathBuf> {
    let values = |name: &'static str| {
        mount.options.iter().filter_map(move |option| option.strip_prefix(name)?.strip_prefix('='))
    };
    let upper = values("upperdir").map(unescape_layer);
    let lower = values("lowerdir").flat_map(split_layers);
    let single = values("lowerdir+").chain(values("datadir+")).map(unescape_layer);
    upper.chain(lower).chain(single).collect()
}

/// Removes overlayfs escapes: a backslash before any character, mostly a colon.
fn unescape_layer(text: &str) -> PathBuf {
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(one) = rest.next() {
        out.push(if one == '\\' { rest.next().unwrap_or(one) } else { one });
    }
    PathBuf::from(out)
}

/// Splits a `lowerdir` list, `a:b::c`, into paths; `::` precedes data-only layers.
fn split_layers(list: &str) -> Vec<PathBuf> {
    let mut all = vec![String::new()];
    let mut rest = list.chars();
    while let Some(one) = rest.next() {
        match (one, all.last_mut()) {
            (':', _) => all.push(String::new()),
            ('\\', Some(last)) => last.extend(['\\'].into_iter().chain(rest.next())),
            (_, Some(last)) => last.push(one),
            _ => {}
        }
    }
    all.iter().filter(|layer| !layer.is_empty()).map(|layer| unescape_layer(layer)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layers_are_taken_from_the_options() {
        let of = |options: &[&str]| {
            let device = DeviceNumber { major: 0, minor: 50 };
            let [root, point, source] = ["/", "/merged", "overlay"].map(PathBuf::from);
            let options = options.iter().map(|option| (*option).to_owned()).collect();
            let mount = Mount { device, root, point, fs_type: "overlay".to_owned(), source, options };
            let paths = layers(&mount).into_iter().map(|path| path.to_string_lossy().into_owned());
            paths.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(&["rw", "lowerdir=/a:/b\\:c::/d:e", "upperdir=/u", "workdir=/w"]), "/u /a /b:c /d");
        assert_eq!(of(&["lowerdir+=/a:b", "lowerdir+=/c", "datadir+=/d"]), "/a:b /c /d");
        assert_eq!(of(&["rw"]), "");
    }
}
