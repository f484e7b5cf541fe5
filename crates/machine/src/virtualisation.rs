//! Detection of virtual machines and containers by all evidence; the most specific guess wins.

use super::{Cpu, Root, Survey, mounts};
use plimsoll_units::text::{shown, shown_bytes};
use serde::{Deserialize, Serialize};
use std::path::Path;

const EC2: &str = "Amazon EC2";
/// The hypervisor of Amazon EC2 that is not Xen.
pub const NITRO: &str = "KVM (Amazon Nitro)";
pub(super) const METADATA: &str = "run/cloud-init/instance-data.json";

/// Hypervisor and container.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Virtualisation {
    /// Whether there is a hypervisor, if known.
    pub is_virtual: Option<bool>,
    /// Most specific guess: `Firecracker`, `KVM`, `Xen`, `VMware`, `Hyper-V` …
    pub hypervisor: Option<String>,
    /// Kind of container: `docker`, `podman`, `kubernetes`, `lxc` …
    pub container: Option<String>,
    /// System vendor in the firmware (DMI).
    pub system_vendor: Option<String>,
    /// Product name in the firmware (DMI), on clouds often the instance type.
    pub product: Option<String>,
    /// Amazon EC2 instance type from cloud-init's metadata, if the firmware has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instance: Option<String>,
    /// Evidence of the guesses.
    pub evidence: Vec<String>,
}

/// Texts of firmware or kernel with the hypervisor they identify, the most specific first.
const BY_FIRMWARE: [(&str, &str); 15] = [
    ("FIRECK", "Firecracker"),
    ("CLOUDH", "Cloud Hypervisor"),
    ("Google Compute Engine", "KVM (Google)"),
    ("VMware", "VMware"),
    ("VirtualBox", "VirtualBox"),
    ("Virtual Machine", "Hyper-V"),
    ("Parallels", "Parallels"),
    ("OpenStack", "KVM (OpenStack)"),
    ("Alibaba Cloud ECS", "KVM (Alibaba)"),
    ("vServer", "KVM"),
    ("Apple Virtualization", "Apple Virtualization"),
    ("KVM", "KVM"),
    ("QEMU", "QEMU"),
    ("BOCHS", "QEMU"),
    ("Xen", "Xen"),
];

const CLOUDS_WITH_BARE_METAL: [&str; 2] = ["Google Compute Engine", "Alibaba Cloud ECS"];

/// Returns whether there are virtio, VMBus or Xen devices, which some real machines have as cards.
fn has_devices_of_a_hypervisor(root: &Root) -> bool {
    let devices = ["virtio", "vmbus", "xen"].map(|bus| Path::new("sys/bus").join(bus).join("devices"));
    devices.iter().any(|bus| root.names(bus).is_ok_and(|names| !names.is_empty()))
}

fn is_x86(cpu: &Cpu) -> bool {
    cpu.vendor.is_some() && !cpu.flags.is_empty()
}

/// Returns whether firmware names vendor and product, or a device tree names a real board.
fn is_made_by_somebody(root: &Root, found: &Virtualisation) -> bool {
    const GENERAL_BOARD: &str = "linux,dummy-virt";
    let board = root.line("proc/device-tree/model").is_ok_and(|model| !model.contains(GENERAL_BOARD));
    let product = found.system_vendor.is_some() && found.product.is_some();
    board || product
}

/// Namespaces of containers with the inodes of the kernel's initial ones (`PID_NS_INIT_INO` and
/// `CGROUP_NS_INIT_INO` in linux/nsfs.h; unchanged since Linux 3.8 and 4.6).
pub(super) const FIRST_NAMESPACES: [(&str, u32); 2] = [("pid", 0xEFFF_FFFC), ("cgroup", 0xEFFF_FFFB)];

const BY_CLOCK: [(&str, &str); 3] = [("kvm-clock", "KVM"), ("hyperv_clocksource", "Hyper-V"), ("xen", "Xen")];

pub(super) const BANNER: &str = "proc/version";
/// Container name of gVisor, which implements system calls itself.
pub const GVISOR: &str = "gVisor";

/// Returns whether `banner`, the text of `/proc/version`, is gVisor's: by its constant version
/// (pkg/sentry/kernel/version) or release, and without a builder in parentheses, which Linux has.
pub(super) fn is_gvisor(banner: &str) -> bool {
    const GVISOR_VERSION: &str = "#1 SMP Sun Jan 10 15:06:54 PST 2016";
    let release = banner.split_whitespace().nth(2).unwrap_or_default();
    !banner.contains('(') && (banner.contains(GVISOR_VERSION) || release.ends_with("-gvisor"))
}

/// CPUID name of QEMU when it emulates each instruction.
pub(super) const TCG: &str = "TCGTCGTCGTCG";

/// Hypervisor names in CPUID leaf 0x4000_0000 (Linux, arch/x86/kernel/cpu; QEMU, target/i386/cpu.c;
/// bhyve, x86.c). For Windows guests KVM may show Hyper-V.
const BY_SIGNATURE: [(&str, &str); 6] = [
    ("KVMKVMKVM", "KVM"),
    ("Microsoft Hv", "Hyper-V"),
    ("VMwareVMware", "VMware"),
    ("XenVMMXenVMM", "Xen"),
    (TCG, "QEMU"),
    ("bhyve bhyve", "bhyve"),
];

impl Virtualisation {
    pub(super) fn discover(s: &mut Survey, cpu: &Cpu) -> Self {
        let root = s.root;
        let dmi = |name: &str| root.line(Path::new("sys/class/dmi/id").join(name)).ok();
        let mut found =
            Self { system_vendor: dmi("sys_vendor"), product: dmi("product_name"), ..Self::default() };
        found.look_at_firmware(root, cpu);
        found.look_at_metadata(root);
        found.look_at_kernel(root, cpu);
        found.look_for_container(root);
        let is_virtual = found.hypervisor.is_some() || cpu.has("hypervisor");
        // On x86 no evidence means bare metal; elsewhere firmware or device tree must confirm it.
        let is_real =
            (is_x86(cpu) || is_made_by_somebody(root, &found)) && !has_devices_of_a_hypervisor(root);
        found.is_virtual = (is_virtual || is_real).then_some(is_virtual);
        if found.is_virtual.is_none() {
            s.note("virtualisation", "nothing in /sys or /proc/cpuinfo tells");
        } else if is_virtual && found.hypervisor.is_none() {
            s.note("virtualisation.hypervisor", "the processor says that there is one, nothing says which");
        }
        s.keep("virtualisation.product", root.line("sys/class/dmi/id/product_name"));
        found
    }

    /// Returns the Amazon EC2 instance type, such as `m5.large`; `None` elsewhere or if unknown.
    pub fn ec2_type(&self) -> Option<&str> {
        let by_firmware = self.product.as_deref().filter(|_| self.system_vendor.as_deref() == Some(EC2));
        by_firmware.or(self.instance.as_deref()).map(str::trim)
    }

    fn look_at_metadata(&mut self, root: &Root) {
        if self.system_vendor.as_deref() == Some(EC2) {
            return;
        }
        let kept = root.text(METADATA).ok().and_then(|text| text.parse::<serde_json::Value>().ok());
        let Some(kept) = kept else { return };
        let is_ec2 = ["cloud_name", "cloud-name"].iter().any(|key| kept["v1"][key] == "aws");
        let metadata = &kept["ds"]["meta_data"];
        let named = ["instance-type", "instance_type"].iter().find_map(|key| metadata[key].as_str());
        if let Some(named) = named.filter(|_| is_ec2) {
            self.instance = Some(shown(named));
            self.evidence.push(shown(&format!("/{METADATA}: an Amazon EC2 {named}")));
        }
    }

    /// Sets the hypervisor, unless one is set already, and adds `evidence` to the evidence.
    fn guess(&mut self, hypervisor: Option<&str>, evidence: String) {
        if self.hypervisor.is_none() {
            self.hypervisor = hypervisor.map(str::to_owned);
        }
        self.evidence.push(shown(&evidence));
    }

    fn look_at_firmware(&mut self, root: &Root, cpu: &Cpu) {
        let is_bare_x86 = is_x86(cpu) && !cpu.has("hypervisor");
        for table in ["APIC", "FACP", "DSDT"] {
            let path = Path::new("sys/firmware/acpi/tables").join(table);
            // The OEM ID is bytes 10 to 15 (ACPI specification, system description header).
            let Some(oem) = root.head(&path, 16).ok().and_then(|head| head.get(10..16).map(shown_bytes))
            else {
                continue;
            };
            if let Some((_, name)) = BY_FIRMWARE.iter().find(|(text, _)| oem.starts_with(text)) {
                self.guess(Some(name), format!("ACPI tables are by {}", oem.trim()));
                break;
            }
        }
        for name in ["sys_vendor", "product_name", "board_vendor", "bios_vendor"] {
            let Ok(text) = root.line(Path::new("sys/class/dmi/id").join(name)) else { continue };
            let Some((hint, hypervisor)) = BY_FIRMWARE.iter().find(|(hint, _)| text.contains(hint)) else {
                continue;
            };
            if is_bare_x86 && CLOUDS_WITH_BARE_METAL.contains(hint) {
                let evidence = format!("DMI {name} is {text}, but the processor has no flag hypervisor");
                self.evidence.push(shown(&evidence));
            } else {
                self.guess(Some(hypervisor), format!("DMI {name} is {text}"));
            }
        }
        if self.system_vendor.as_deref() == Some(EC2)
            && let Some(product) = self.product.clone().filter(|product| !product.contains(".metal"))
        {
            self.guess(Some(NITRO), format!("DMI is of an Amazon EC2 {product}"));
        }
        if let Ok(kind) = root.line("sys/hypervisor/type") {
            let name = if kind == "xen" { "Xen" } else { kind.as_str() };
            self.guess(Some(name), format!("/sys/hypervisor/type is {kind}"));
        }
        if let Ok(tree) = root.line("proc/device-tree/hypervisor/compatible") {
            let name = ["kvm", "xen", "vmware"].into_iter().find(|name| tree.contains(name));
            self.guess(name, format!("the device tree names the hypervisor {tree}"));
        }
    }

    fn look_at_kernel(&mut self, root: &Root, cpu: &Cpu) {
        let clocks = root.text("sys/devices/system/clocksource/clocksource0/available_clocksource");
        let clocks = clocks.unwrap_or_default();
        for (clock, hypervisor) in BY_CLOCK {
            if clocks.split_whitespace().any(|c| c.starts_with(clock)) {
                self.guess(Some(hypervisor), format!("the kernel offers the clock {clock}"));
            }
        }
        if cpu.has("hypervisor") {
            let named = cpu.cpuid.hypervisor();
            let known = BY_SIGNATURE.iter().find(|(signature, _)| named.as_deref() == Some(signature));
            let evidence = match &named {
                Some(name) => format!("the processor has the flag hypervisor and names {name}"),
                None => "the processor has the flag hypervisor".to_owned(),
            };
            self.guess(known.map(|(_, hypervisor)| *hypervisor), evidence);
        }
    }

    fn look_for_container(&mut self, root: &Root) {
        let mut found = |kind: Option<&str>, evidence: String| {
            if self.container.is_none() {
                self.container = kind.map(shown);
            }
            self.evidence.push(shown(&evidence));
        };
        if root.line(BANNER).is_ok_and(|line| is_gvisor(&line)) {
            found(Some(GVISOR), format!("/{BANNER} is gVisor's"));
        }
        let bare = root_is_a_disk(root);
        for (file, kind) in [(".dockerenv", "docker"), ("run/.containerenv", "podman")] {
            match (root.exists(file), bare) {
                (true, false) => found(Some(kind), format!("/{file} is there")),
                (true, true) => found(None, format!("/{file} is there, but / is a disk's own file system")),
                _ => {}
            }
        }
        if let Ok(kind) = root.line("run/systemd/container") {
            found(Some(&kind), format!("/run/systemd/container is {kind}"));
        }
        let groups = root.text("proc/self/cgroup").unwrap_or_default();
        let hints = [
            ("kubepods", "kubernetes"),
            ("docker", "docker"),
            ("libpod", "podman"),
            ("lxc", "lxc"),
            ("garden", "garden"),
        ];
        if let Some((hint, kind)) = hints.iter().find(|(hint, _)| groups.contains(hint)) {
            found(Some(kind), format!("/proc/self/cgroup names {hint}"));
        }
        // A container with a cgroup namespace of its own sees no name in its groups.
        for (name, _) in FIRST_NAMESPACES {
            if is_first_namespace(root, name) == Some(false) {
                found(Some("unknown kind"), format!("/proc/self/ns/{name} is not the kernel's first"));
            }
        }
    }
}

/// Returns whether this process is in the kernel's initial `pid` or `cgroup` namespace (`name`).
pub(super) fn is_first_namespace(root: &Root, name: &str) -> Option<bool> {
    let first = FIRST_NAMESPACES.iter().find(|(of, _)| *of == name)?.1;
    Some(namespace(root, name)? == format!("{name}:[{first}]"))
}

/// Returns this process's namespace `name`: `pid:[4026531836]` for `pid`; `None` if unreadable.
pub(super) fn namespace(root: &Root, name: &str) -> Option<String> {
    let path = Path::new("proc/self/ns").join(name);
    let link = root.link_text(&path).map(|link| link.display().to_string());
    link.or_else(|_| root.line(&path)).ok()
}

/// Returns whether `/` is a whole file system on a block device, which is rare in containers.
fn root_is_a_disk(root: &Root) -> bool {
    let all = mounts::read(root).unwrap_or_default();
    let top = mounts::mount_of(&all, Path::new("/"));
    top.is_some_and(|mount| mount.device.major != 0 && mount.root == Path::new("/"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fixture::Fixture;

    fn discover(tree: &str) -> Virtualisation {
        let fixture = Fixture::unpack(tree).unwrap();
        let mut survey = Survey::new(&fixture.root);
        let cpu = Cpu::discover(&mut survey);
        Virtualisation::discover(&mut survey, &cpu)
    }

    fn dmi(vendor: &str, product: &str) -> String {
        format!("sys/class/dmi/id/sys_vendor = {vendor}\nsys/class/dmi/id/product_name = {product}\n")
    }

    const X86: &str = "proc/cpuinfo = vendor_id\\t: GenuineIntel\nproc/cpuinfo = flags\\t: fpu sse2";

    #[test]
    fn hypervisors_are_known_by_firmware() {
        let table = [
            ("QEMU", "Standard PC (Q35 + ICH9, 2009)", Some("QEMU")),
            ("VMware, Inc.", "VMware Virtual Platform", Some("VMware")),
            ("Microsoft Corporation", "Virtual Machine", Some("Hyper-V")),
            ("Microsoft Corporation", "Surface Pro", None),
            ("Xen", "HVM domU", Some("Xen")),
            ("Google", "Google Compute Engine", Some("KVM (Google)")),
            ("Amazon EC2", "m7i.xlarge", Some("KVM (Amazon Nitro)")),
            ("Amazon EC2", "m7i.metal-24xl", None),
            ("Dell Inc.", "PowerEdge R650", None),
        ];
        for (vendor, product, hypervisor) in table {
            let found = discover(&dmi(vendor, product)).hypervisor;
            assert_eq!(found.as_deref(), hypervisor, "{vendor} {product}");
        }
    }

    #[test]
    fn clouds_with_bare_metal_are_known_by_the_processors_flag() {
        for product in CLOUDS_WITH_BARE_METAL {
            let dmi = dmi("A cloud", product);
            let metal = discover(&format!("{X86}\n{dmi}"));
            assert_eq!((metal.is_virtual, metal.hypervisor), (Some(false), None), "{product}");
            assert_eq!(discover(&format!("{X86} hypervisor\n{dmi}")).is_virtual, Some(true), "{product}");
        }
        let named = format!("{X86}\n{}", dmi("QEMU", "Standard PC"));
        assert_eq!(discover(&named).is_virtual, Some(true), "its flag is hidden");
        let metal = Fixture::open("google-metal-seen-as-kvm").unwrap().machine();
        assert_eq!(metal.virtualisation.is_virtual, Some(false));
    }

    #[test]
    fn silence_on_x86_is_no_sign_and_elsewhere_nothing() {
        assert_eq!(discover(X86).is_virtual, Some(false));
        let flagged = discover(&format!("{X86} hypervisor\n"));
        assert_eq!((flagged.is_virtual, flagged.hypervisor), (Some(true), None));
        let hidden = discover(&format!("{X86}\nsys/bus/virtio/devices/virtio0/\n"));
        assert_eq!(hidden.is_virtual, None, "a hypervisor that leaves its flag out, or a card");
        let arm = "proc/cpuinfo = CPU part\\t: 0xd0c\n";
        assert_eq!(discover(arm).is_virtual, None);
        let server = format!("{arm}{}", dmi("HPE", "RL300"));
        assert_eq!(discover(&server).is_virtual, Some(false));
        assert_eq!(discover(&format!("{server}sys/bus/virtio/devices/virtio0/\n")).is_virtual, None);
        let board = |model: &str| discover(&format!("{arm}proc/device-tree/model = {model}\n"));
        assert_eq!(board("Raspberry Pi 5 Model B Rev 1.0").is_virtual, Some(false));
        assert_eq!(board("linux,dummy-virt").is_virtual, None);
    }

    #[test]
    fn containers_are_known_by_what_they_leave() {
        let container = |tree: &str| discover(tree).container;
        let overlay = "proc/self/mountinfo = 1 0 0:50 / / rw - overlay overlay rw\n.dockerenv =\n";
        assert_eq!(container(overlay).as_deref(), Some("docker"));
        let image = "proc/self/mountinfo = 1 0 254:0 / / rw - ext4 /dev/vda rw\n.dockerenv =\n";
        assert_eq!(container(image), None);
        assert!(discover(image).evidence.iter().any(|line| line.contains("but / is a disk")));
        assert_eq!(container("run/systemd/container = lxc\n").as_deref(), Some("lxc"));
        let pod = "proc/self/cgroup = 4:memory:/kubepods/burstable/pod1/2\n";
        assert_eq!(container(pod).as_deref(), Some("kubernetes"));
        let own = |pid: u64, cgroup: u64| {
            format!("proc/self/ns/pid -> pid:[{pid}]\nproc/self/ns/cgroup -> cgroup:[{cgroup}]\n")
        };
        assert_eq!(container(&own(4_026_531_836, 4_026_531_835)), None);
        assert_eq!(container(&own(4_026_531_836, 4_026_532_400)).as_deref(), Some("unknown kind"));
        assert_eq!(container(&own(4_026_532_401, 4_026_531_835)).as_deref(), Some("unknown kind"));
        assert_eq!(container(""), None);
    }
}
