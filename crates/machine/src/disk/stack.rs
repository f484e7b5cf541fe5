//! Composition of a block device, down to the disks and files with its bytes.

use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::loops::Looped;
use super::overlays::Overlays;
use super::served::{self, Served, ServedFile};
use super::thing::{FileId, FileOrDevice};
use crate::mounts::DeviceNumber;
use crate::root::Root;
use plimsoll_units::text::{shown_bytes, shown_path};

const MAX_STACK_MEMBERS: usize = 1024;

/// A device or file of the stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StackMember {
    /// The device or file.
    pub thing: FileOrDevice,
    /// The kernel's name of a device, or the path of a file.
    pub name: String,
    /// Sysfs directory of the device.
    pub place: Option<PathBuf>,
    /// Step by which it was reached.
    pub step: StackStep,
    /// Index of the node from which it was reached.
    pub from: usize,
    /// Path by which it can be opened, if any.
    pub path: Option<PathBuf>,
    /// Path of a file in the mount namespace of its source.
    pub written: Option<PathBuf>,
    /// Process that serves the device above from it.
    pub server: Option<u32>,
}

/// Step that led to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StackStep {
    /// The requested device itself.
    Itself,
    /// Disk of a partition.
    Disk,
    /// Member of the device above.
    Member,
    /// Backing of a loop device.
    Loop {
        /// Whether the loop device shows only a part.
        partial: bool,
    },
    /// Backing device of compressed memory (zram).
    Memory,
    /// Storage of a serving process.
    Served {
        /// Whether the server is known.
        certain: bool,
    },
    /// Another path to the same medium.
    OtherPath,
    /// Layer file of an overlay, or a file as an overlay shows it.
    Overlaid,
}

/// A device and everything below it, top down.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Stack {
    /// All nodes, the device itself first.
    pub nodes: Vec<StackMember>,
    /// Phrases on parts that could not be followed: reasons not to write to the device.
    pub unfollowed: Vec<String>,
    /// Sentences on facts that cannot be known from here, for display.
    pub remarks: Vec<String>,
}

impl Stack {
    /// Returns the device `number` with sysfs directory `place` and all devices and files below it.
    /// `loops` are the loop devices in use; `fuse` returns whether a process serves a file system.
    pub(super) fn below(
        root: &Root,
        number: DeviceNumber,
        place: &Path,
        loops: &[Looped],
        fuse: &dyn Fn(DeviceNumber) -> bool,
        overlays: &Overlays,
    ) -> Stack {
        let mut stack = Stack::default();
        let itself = node(FileOrDevice::Block(number), name_of(place), StackStep::Itself, 0);
        stack.nodes.push(StackMember { place: Some(place.to_path_buf()), ..itself });
        let mut next = 0;
        while next < stack.nodes.len() {
            if let FileOrDevice::File(FileId { system, .. }) = stack.nodes[next].thing
                && fuse(system)
            {
                stack.kept(root, next, served::by_fuse(root, system));
            }
            stack.overlaid(root, next, overlays);
            stack.step(root, next, loops);
            next += 1;
            if stack.nodes.len() > MAX_STACK_MEMBERS {
                stack.unfollowed.push(format!("is made of more than {MAX_STACK_MEMBERS} devices"));
                break;
            }
        }
        stack
    }

    /// Returns (node, step to it, node above it) of all nodes not below a guessed server.
    pub fn certain(&self) -> Vec<(FileOrDevice, StackStep, FileOrDevice)> {
        let mut doubtful = vec![false; self.nodes.len()];
        let mut certain = Vec::new();
        for (at, node) in self.nodes.iter().enumerate() {
            doubtful[at] = node.step == (StackStep::Served { certain: false })
                || (node.from < at && doubtful[node.from]);
            if !doubtful[at] {
                certain.push((node.thing, node.step, self.nodes[node.from].thing));
            }
        }
        certain
    }

    /// Returns whether the stack contains the device with the kernel's name `name`.
    pub fn has(&self, name: &str) -> bool {
        self.nodes.iter().any(|node| node.place.is_some() && node.name == name)
    }

    fn step(&mut self, root: &Root, at: usize, loops: &[Looped]) {
        let Some(place) = self.nodes[at].place.clone() else { return };
        let name = self.nodes[at].name.clone();
        if root.exists(place.join("partition")) {
            let disk = place.parent().map(Path::to_path_buf);
            return self.device(root, at, disk, StackStep::Disk, "the disk it is a partition of");
        }
        for member in root.names(place.join("slaves")).unwrap_or_default() {
            let found = root.resolve(place.join("slaves").join(&member));
            let found = found.or_else(|_| root.resolve(Path::new("sys/class/block").join(&member)));
            self.device(root, at, found.ok(), StackStep::Member, &member);
        }
        self.behind_loop(root, at, &name, loops);
        self.swapped(root, at, &name, &place);
        self.served(root, at, &name, &place);
        self.other_paths(root, at, &place);
    }

    /// Adds the files with the bytes of node number `at`, a file on an overlay or in a layer.
    fn overlaid(&mut self, root: &Root, at: usize, overlays: &Overlays) {
        let StackMember { thing: FileOrDevice::File(file), name, written, .. } = &self.nodes[at] else {
            return;
        };
        match overlays.aliases(*file, written.as_deref().unwrap_or(Path::new(""))) {
            None => self.unfollowed.push(format!(
                "keeps its bytes in {name}, which is a file on overlayfs whose real file cannot be found"
            )),
            Some(aliases) => {
                for alias in aliases {
                    let shown = shown_path(&alias.written);
                    let other = node(alias.thing, shown, StackStep::Overlaid, at).at(&alias.path);
                    self.thing(root, StackMember { written: Some(alias.written), ..other });
                }
            }
        }
    }

    fn behind_loop(&mut self, root: &Root, at: usize, name: &str, loops: &[Looped]) {
        if !name.starts_with("loop") {
            return;
        }
        match loops.iter().find(|one| one.name == name) {
            None => self.unfollowed.push(format!("is on {name}, and what is behind that is not known")),
            Some(Looped { backing: None, path, .. }) => {
                let file = shown_path(path);
                self.unfollowed.push(format!("is on {name}, whose file {file} cannot be looked at"));
            }
            Some(Looped { backing: Some(thing), path, partial, .. }) => {
                let reached = StackStep::Loop { partial: *partial };
                self.thing(root, node(*thing, shown_path(path), reached, at).at(path));
            }
        }
    }

    fn swapped(&mut self, root: &Root, at: usize, name: &str, place: &Path) {
        let device = root.line(place.join("backing_dev")).ok().filter(|path| path.starts_with('/'));
        if let Some(path) = device.filter(|_| name.starts_with("zram")) {
            match FileOrDevice::at(root, Path::new(&path)) {
                Some(thing) => {
                    self.thing(root, node(thing, path.clone(), StackStep::Memory, at).at(Path::new(&path)));
                }
                None => self.unfollowed.push(format!("writes back to {path}, which cannot be looked at")),
            }
        }
    }

    fn served(&mut self, root: &Root, at: usize, name: &str, place: &Path) {
        let Some(served) = served::of(root, name, place) else { return };
        let certain = served.certain;
        self.kept(root, at, served);
        if !certain {
            self.remarks.push(format!(
                "the server of {name} is unknown, perhaps on another machine: plimsoll cannot see who else uses its \
                 storage"
            ));
        }
    }

    fn kept(&mut self, root: &Root, at: usize, served: Served) {
        for ServedFile { thing, path, server } in served.files {
            let target = root.link_text(&path).unwrap_or_else(|_| path.clone());
            let shown = shown_path(&target);
            let reached = StackStep::Served { certain: served.certain };
            let node = node(thing, shown, reached, at).at(&Path::new("/").join(path));
            self.thing(root, StackMember { server: Some(server), written: Some(target), ..node });
        }
        if !served.alike.is_empty() {
            self.unfollowed.push(format!(
                "may have the same server on this machine as {}, so that both may hold the same bytes",
                served.alike.join(", ")
            ));
        }
    }

    /// Adds the disks with the WWID and size of node number `at`: other paths to the same disk.
    fn other_paths(&mut self, root: &Root, at: usize, place: &Path) {
        let wwid =
            |place: &Path| ["wwid", "device/wwid"].iter().find_map(|file| root.line(place.join(file)).ok());
        let size = |place: &Path| root.number(place.join("size")).ok();
        let Some(own) = wwid(place) else { return };
        for other in root.names("sys/block").unwrap_or_default() {
            let Ok(found) = root.resolve(Path::new("sys/block").join(&other)) else { continue };
            // A path of the kernel's own multipath (nvme0c0n1 of nvme0n1), which cannot be opened.
            if root.number(found.join("hidden")) == Ok(1) {
                continue;
            }
            if found != place && wwid(&found).as_ref() == Some(&own) && size(&found) == size(place) {
                self.device(root, at, Some(found), StackStep::OtherPath, &other);
            }
        }
    }

    fn device(&mut self, root: &Root, from: usize, place: Option<PathBuf>, reached: StackStep, what: &str) {
        let number = place.as_ref().and_then(|place| root.line(place.join("dev")).ok()?.parse().ok());
        let (Some(place), Some(number)) = (place, number) else {
            return self.unfollowed.push(format!("is on {what}, which sysfs does not describe"));
        };
        let name = name_of(&place);
        self.add(StackMember {
            place: Some(place),
            ..node(FileOrDevice::Block(number), name, reached, from)
        });
    }

    fn thing(&mut self, root: &Root, mut node: StackMember) {
        if let FileOrDevice::Block(number) = node.thing {
            let Ok(place) = super::sysfs_directory(root, number) else {
                return self.unfollowed.push(format!("is on {}, which sysfs does not describe", node.name));
            };
            node.name = name_of(&place);
            node.place = Some(place);
        }
        let leads_there = |path: &PathBuf| {
            [FileOrDevice::at(root, path), FileOrDevice::open_at(root, path)].contains(&Some(node.thing))
        };
        node.path = node.path.filter(leads_there);
        self.add(node);
    }

    /// Adds `node` unless its device or file is in the stack. A disk that is there only because of
    /// a partition gets the step of `node`, which uses the whole disk.
    fn add(&mut self, node: StackMember) {
        match self.nodes.iter_mut().find(|known| known.thing == node.thing) {
            None => self.nodes.push(node),
            Some(known) if known.step == StackStep::Disk && node.step != StackStep::Disk => {
                (known.step, known.from) = (node.step, node.from);
            }
            Some(_) => {}
        }
    }
}

fn node(thing: FileOrDevice, name: String, reached: StackStep, from: usize) -> StackMember {
    StackMember { thing, name, place: None, step: reached, from, path: None, written: None, server: None }
}

impl StackMember {
    fn at(self, path: &Path) -> StackMember {
        StackMember { path: Some(path.to_path_buf()), written: Some(path.to_path_buf()), ..self }
    }
}

pub(super) fn name_of(place: &Path) -> String {
    place.file_name().map(|name| shown_bytes(name.as_bytes())).unwrap_or_default()
}
