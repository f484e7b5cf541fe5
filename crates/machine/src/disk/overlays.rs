//! Files on overlayfs, and the files of its layers that hold their bytes. Both have numbers of their own: a file that was
//! copied up even shows the inode of the layer below, where its bytes are not.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use super::thing::{FileId, Thing};
use crate::mounts::{DeviceNumber, Mount, Table, Tables, mount_of};
use crate::root::Root;

/// Another name of a file's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Alias {
    pub(super) thing: Thing,
    /// Its path in its mount namespace.
    pub(super) written: PathBuf,
    /// A path by which it can be looked at from here.
    pub(super) path: PathBuf,
}

/// Overlays of which a layer cannot be found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Blind {
    pub(super) overlays: Vec<DeviceNumber>,
    /// The numbers of all mounted file systems.
    mounted: HashSet<DeviceNumber>,
}

impl Blind {
    /// Whether a file that shows the number `system` may be on one of them. Where the layers of an overlay are on several
    /// file systems, its files show numbers that are in no mount table.
    pub(super) fn may_have(&self, system: DeviceNumber) -> bool {
        let in_no_table = || system.major == 0 && !self.mounted.contains(&system);
        self.overlays.contains(&system) || (!self.overlays.is_empty() && in_no_table())
    }
}

/// The overlays in all mount tables.
pub(super) struct Overlays<'a> {
    pub(super) root: &'a Root,
    pub(super) tables: &'a Tables,
}

impl Overlays<'_> {
    /// What else the bytes of the file are known as: on an overlay the files in its layers, in a layer the files that the
    /// overlays show. `None` where it is on an overlay and its real file cannot be found. `written` is its path in
    /// whichever mount namespace.
    pub(super) fn aliases(&self, file: FileId, written: &Path) -> Option<Vec<Alias>> {
        if self.mounts().next().is_none() {
            return Some(Vec::new());
        }
        let below = self.below(file, written);
        if below.is_empty() && self.is_on_one(file, written) {
            return None;
        }
        Some(below.into_iter().chain(self.above(file, written)).collect())
    }

    /// Overlays of which a layer cannot be found: its path is relative to a directory that nobody knows, or leads nowhere. The
    /// files that they show may be any, under the same name or, where they were not copied up, of the same inode.
    pub(super) fn blind(&self) -> Blind {
        let found = |table: &Table, layer: &Path| {
            layer.is_absolute()
                && (self.root.about(seen(table, layer)).is_some() || self.root.about(layer).is_some())
        };
        let is_blind =
            |(table, mount): &(&Table, &Mount)| !all_layers(mount).iter().all(|layer| found(table, layer));
        let overlays: Vec<DeviceNumber> =
            self.mounts().filter(is_blind).map(|(_, mount)| mount.device).collect();
        if overlays.is_empty() {
            return Blind::default();
        }
        let mounts = self.tables.all.iter().flat_map(|table| &table.mounts);
        Blind { overlays, mounted: mounts.map(|mount| mount.device).collect() }
    }

    fn mounts(&self) -> impl Iterator<Item = (&Table, &Mount)> {
        let of = |table: &'_ Table| -> bool { table.mounts.iter().any(is_overlay) };
        let tables = self.tables.all.iter().filter(move |table| of(table));
        tables
            .flat_map(|table| table.mounts.iter().filter(|mount| is_overlay(mount)).map(move |m| (table, m)))
    }

    /// Whether the file shows the number of an overlay. Where the layers are on several file systems, its number is in no
    /// mount table, as are those of btrfs: then the path decides, and without one nothing is known.
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

    /// The tables in whose namespace the path leads to the file.
    fn places(&self, file: FileId, written: &Path) -> impl Iterator<Item = &Table> {
        let leads =
            move |table: &&Table| Thing::at(self.root, &seen(table, written)) == Some(Thing::File(file));
        self.tables.all.iter().filter(leads)
    }

    /// The real files of a file on an overlay.
    fn below(&self, file: FileId, written: &Path) -> Vec<Alias> {
        let mut found: Vec<Alias> = Vec::new();
        for table in self.places(file, written) {
            let shows = |mount: &&Mount| is_overlay(mount) && written.starts_with(&mount.point);
            // Mounts on one point hide each other.
            let Some(deepest) = mount_of(&table.mounts, written) else { continue };
            for mount in table.mounts.iter().filter(shows).filter(|mount| mount.point == deepest.point) {
                let Some(inner) = moved(written, &mount.point, &mount.root) else { continue };
                for alias in self.in_layers(table, mount, &inner) {
                    if alias.thing != Thing::File(file) && !found.contains(&alias) {
                        found.push(alias);
                    }
                }
            }
        }
        found
    }

    /// The file in the layers: in the uppermost that has it. Their paths are those of the namespace where the overlay was
    /// mounted, which may be another one.
    fn in_layers(&self, table: &Table, mount: &Mount, inner: &Path) -> Vec<Alias> {
        let layers = layers(mount);
        let inner = inner.strip_prefix("/").unwrap_or(inner);
        let in_namespace = |table: &Table| {
            layers.iter().find_map(|layer| {
                let written = layer.join(inner);
                let path = seen(table, &written);
                let thing = Thing::at(self.root, &path).filter(|thing| matches!(thing, Thing::File(_)))?;
                Some(Alias { thing, written, path })
            })
        };
        let near: Vec<Alias> =
            self.tables.all.first().into_iter().chain([table]).filter_map(in_namespace).collect();
        if near.is_empty() { self.tables.all.iter().filter_map(in_namespace).collect() } else { near }
    }

    /// The files by which overlays show a file in one of their layers.
    fn above(&self, file: FileId, written: &Path) -> Vec<Alias> {
        let place = |table: &Table| located(table, written);
        let places: Vec<(DeviceNumber, PathBuf)> = self.places(file, written).filter_map(place).collect();
        let mut found: Vec<Alias> = Vec::new();
        for (table, mount) in self.mounts() {
            for layer in layers(mount) {
                let inner = self.located_here(table, &layer).into_iter().find_map(|(system, dir)| {
                    let within =
                        |(other, path): &&(DeviceNumber, PathBuf)| *other == system && path.starts_with(&dir);
                    let (_, path) = places.iter().find(within)?;
                    moved(path, &dir, Path::new("/"))
                });
                let shown = inner.and_then(|inner| moved(&inner, &mount.root, &mount.point));
                let alias = shown.and_then(|shown| self.shown(table, shown, file));
                found.extend(alias.filter(|alias| !found.contains(alias)));
            }
        }
        found
    }

    /// The file at a path of an overlay, if its bytes are those of the `real` one.
    fn shown(&self, table: &Table, written: PathBuf, real: FileId) -> Option<Alias> {
        let path = seen(table, &written);
        let thing = Thing::at(self.root, &path)?;
        let Thing::File(file) = thing else { return None };
        let is_it = |alias: &Alias| alias.thing == Thing::File(real);
        self.below(file, &written).iter().any(is_it).then_some(Alias { thing, written, path })
    }

    /// Which directories of which file systems a layer's path may mean.
    fn located_here(&self, table: &Table, layer: &Path) -> Vec<(DeviceNumber, PathBuf)> {
        let linked = self.root.resolve(layer).ok();
        let own = self.tables.all.first();
        let own = own.and_then(|own| located(own, linked.as_deref().unwrap_or(layer)));
        own.into_iter().chain(located(table, layer)).collect()
    }
}

fn is_overlay(mount: &Mount) -> bool {
    mount.fs_type == "overlay"
}

/// A path of a table's namespace as it can be looked at from here.
fn seen(table: &Table, written: &Path) -> PathBuf {
    match (table.process, written.strip_prefix("/")) {
        (Some(process), Ok(below)) => PathBuf::from(format!("/proc/{process}/root")).join(below),
        _ => written.to_path_buf(),
    }
}

/// The file system that a path is on, and the path in that.
fn located(table: &Table, path: &Path) -> Option<(DeviceNumber, PathBuf)> {
    let mount = mount_of(&table.mounts, path)?;
    Some((mount.device, moved(path, &mount.point, &mount.root)?))
}

/// The path with one directory for another above it.
fn moved(path: &Path, from: &Path, to: &Path) -> Option<PathBuf> {
    let below = path.strip_prefix(from).ok()?;
    Some(if below.as_os_str().is_empty() { to.to_path_buf() } else { to.join(below) })
}

/// The absolute paths of an overlay's layers, the upper one first (Documentation/filesystems/overlayfs.rst). Since Linux 6.5
/// each lower one may have an option of its own.
fn layers(mount: &Mount) -> Vec<PathBuf> {
    all_layers(mount).into_iter().filter(|layer| layer.is_absolute()).collect()
}

/// The paths as they were given.
fn all_layers(mount: &Mount) -> Vec<PathBuf> {
    let values = |name: &'static str| {
        mount.options.iter().filter_map(move |option| option.strip_prefix(name)?.strip_prefix('='))
    };
    let upper = values("upperdir").map(plain);
    let lower = values("lowerdir").flat_map(separated);
    let single = values("lowerdir+").chain(values("datadir+")).map(plain);
    upper.chain(lower).chain(single).collect()
}

/// overlayfs takes a backslash before any character, most of all a colon.
fn plain(text: &str) -> PathBuf {
    let mut out = String::new();
    let mut rest = text.chars();
    while let Some(one) = rest.next() {
        out.push(if one == '\\' { rest.next().unwrap_or(one) } else { one });
    }
    PathBuf::from(out)
}

/// The list of `lowerdir`: `::` comes before layers that hold only data.
fn separated(list: &str) -> Vec<PathBuf> {
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
    all.iter().filter(|layer| !layer.is_empty()).map(|layer| plain(layer)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_layers_are_taken_from_the_options() {
        let of = |options: &[&str]| {
            let mount = Mount {
                device: DeviceNumber { major: 0, minor: 50 },
                root: PathBuf::from("/"),
                point: PathBuf::from("/merged"),
                fs_type: "overlay".to_owned(),
                source: PathBuf::from("overlay"),
                options: options.iter().map(|option| (*option).to_owned()).collect(),
            };
            let paths = layers(&mount).into_iter().map(|path| path.to_string_lossy().into_owned());
            paths.collect::<Vec<_>>().join(" ")
        };
        assert_eq!(of(&["rw", "lowerdir=/a:/b\\:c::/d:e", "upperdir=/u", "workdir=/w"]), "/u /a /b:c /d");
        assert_eq!(of(&["lowerdir+=/a:b", "lowerdir+=/c", "datadir+=/d"]), "/a:b /c /d");
        assert_eq!(of(&["rw"]), "");
    }
}
