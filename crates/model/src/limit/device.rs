//! Ratings of drives, cloud volumes and instance types: `data/{devices,instances}.toml`.

use std::sync::LazyLock;

use serde::Deserialize;

use plimsoll_machine::{Disk, Virtualisation};

const DEVICES: &str = include_str!("../../../../data/devices.toml");
const INSTANCES: &str = include_str!("../../../../data/instances.toml");

static DEVICE_TABLE: LazyLock<Devices> = LazyLock::new(|| toml::from_str(DEVICES).unwrap_or_default());
static INSTANCE_TABLE: LazyLock<Instances> = LazyLock::new(|| toml::from_str(INSTANCES).unwrap_or_default());

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Devices {
    device: Vec<Device>,
}

/// A drive or kind of cloud volume.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    /// Vendor's or provider's name.
    pub name: String,
    models: Vec<String>,
    /// Whether the model does not show the volume type; the fastest type is assumed.
    #[serde(default)]
    pub any: bool,
    /// Read bandwidth in B/s.
    pub read: Option<f64>,
    /// Write bandwidth in B/s.
    pub write: Option<f64>,
    /// Small random reads per second.
    pub read_io: Option<f64>,
    /// Small random writes per second.
    pub write_io: Option<f64>,
    /// Rotational speed in rpm.
    pub turns_per_minute: Option<f64>,
    /// Source of the figures.
    pub source: String,
    /// Copy of the source that the figures were checked against.
    pub checked: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
struct Instances {
    source: String,
    interface_source: String,
    applies_to: Vec<String>,
    instance: Vec<Instance>,
    burstable_source: String,
    burstable: Vec<Burstable>,
    network_source: String,
    network_list_source: String,
    weighted: Vec<String>,
    weighted_source: String,
    network: Vec<Network>,
}

impl Instances {
    /// Returns a note that `setting` (`vpc-1`) may add 25 % if instance type `product` has it.
    fn weighting(&self, product: &str, setting: &str) -> Option<String> {
        let family = product.split('.').next()?;
        self.weighted.iter().any(|known| known == family).then(|| {
            format!(
                "up to 25 % more with the bandwidth weighting {setting}, which a guest cannot see ({})",
                self.weighted_source
            )
        })
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Network {
    products: Vec<String>,
    burst: f64,
    baseline: f64,
    /// Whether the baseline comes from a list instead of the provider's guide.
    #[serde(default)]
    listed: bool,
    /// Whether burst and baseline come from the provider's API.
    #[serde(default)]
    interface: bool,
}

/// Network ratings of an instance type in bit/s per direction.
#[derive(Debug, Clone, PartialEq)]
pub struct NetworkPromise<'a> {
    /// Instance type.
    pub product: &'a str,
    /// Rate while credits last.
    pub burst: f64,
    /// Rate that is always available.
    pub baseline: f64,
    /// How much a hidden setting may add to the baseline, in words.
    pub weighting: Option<String>,
    /// Source of the figures.
    pub source: &'static str,
}

impl<'a> NetworkPromise<'a> {
    /// Returns the network ratings of the machine's EC2 instance type; `None` if not listed.
    pub fn of(machine: &'a Virtualisation) -> Option<NetworkPromise<'a>> {
        let table = &*INSTANCE_TABLE;
        let product = machine.ec2_type()?;
        let row = table.network.iter().find(|row| row.products.iter().any(|known| known == product))?;
        Some(NetworkPromise {
            product,
            burst: row.burst,
            baseline: row.baseline,
            weighting: table.weighting(product, "vpc-1"),
            source: match row {
                Network { interface: true, .. } => &table.interface_source,
                Network { listed: true, .. } => &table.network_list_source,
                Network { .. } => &table.network_source,
            },
        })
    }
}

/// Instance type whose vCPUs run at full speed while it has credits (one per vCPU and minute).
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Burstable {
    /// Instance type.
    pub product: String,
    /// Number of vCPUs.
    pub vcpus: f64,
    /// Share of each vCPU that is always available.
    pub baseline: f64,
    /// Credits earned per hour.
    pub credits_an_hour: f64,
    /// Maximum number of stored credits.
    pub credits: f64,
    /// Credits at launch.
    pub launch_credits: f64,
    /// Provider's description of its network; there is no figure for it, nor for its volumes.
    pub network: String,
}

impl Burstable {
    /// Returns ratings, and their source, of a burstable EC2 instance; `None` on other machines.
    pub fn of(machine: &Virtualisation) -> Option<(&'static Burstable, &'static str)> {
        let product = machine.ec2_type()?;
        let row = INSTANCE_TABLE.burstable.iter().find(|row| row.product == product)?;
        Some((row, &INSTANCE_TABLE.burstable_source))
    }

    /// Returns for how many seconds `credits` let all vCPUs run at full speed.
    pub fn full_speed_seconds(&self, credits: f64) -> f64 {
        60.0 * credits / (self.vcpus * (1.0 - self.baseline))
    }

    /// Returns a note that burstable EC2 instances have no published figures; `None` elsewhere.
    pub fn unpublished_note(machine: &Virtualisation) -> Option<String> {
        let (Burstable { product, network, .. }, _) = Self::of(machine)?;
        Some(format!(
            "; {product}: the provider publishes no figure, its network is '{network}' and its volumes share it"
        ))
    }
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Instance {
    products: Vec<String>,
    volumes: f64,
    volumes_io: f64,
    #[serde(default)]
    interface: bool,
}

/// Rating of all network volumes of an instance together.
#[derive(Debug, Clone, PartialEq)]
pub struct Promise<'a> {
    /// Instance type.
    pub product: &'a str,
    /// Bandwidth in B/s.
    pub bytes: f64,
    /// Transfers per second.
    pub transfers: f64,
    /// How much a hidden setting may add to `bytes`, in words.
    pub weighting: Option<String>,
    /// Source of the figures.
    pub source: &'static str,
}

impl Device {
    /// Returns the vendor's ratings of the disk's model; `None` if the model is not listed.
    pub fn of(disk: &Disk) -> Option<&'static Device> {
        let model = disk.model.as_deref()?.trim();
        let matches = |row: &&Device| row.models.iter().any(|prefix| model.starts_with(prefix.as_str()));
        DEVICE_TABLE.device.iter().find(matches)
    }
}

impl<'a> Promise<'a> {
    /// Returns the EC2 instance type's rating for volumes; `None` unless all `disks` are volumes.
    pub fn of(machine: &'a Virtualisation, disks: &[&Disk]) -> Option<Promise<'a>> {
        let table = &*INSTANCE_TABLE;
        let product = machine.ec2_type()?;
        let applies = |disk: &&Disk| {
            let model = disk.model.as_deref().unwrap_or_default().trim();
            table.applies_to.iter().any(|prefix| model.starts_with(prefix.as_str()))
        };
        if !disks.iter().all(applies) {
            return None;
        }
        let row = table.instance.iter().find(|row| row.products.iter().any(|known| known == product))?;
        let (bytes, weighting) = (row.volumes / 8.0, table.weighting(product, "ebs-1"));
        let source = if row.interface { &table.interface_source } else { &table.source };
        Some(Promise { product, bytes, transfers: row.volumes_io, weighting, source })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use plimsoll_machine::fixture::Fixture;

    use super::*;

    #[test]
    fn networks_of_the_eighth_and_ninth_generation_are_known() {
        let promised = |product: &str| {
            let row =
                INSTANCE_TABLE.network.iter().find(|row| row.products.iter().any(|known| known == product));
            row.map(|row| (row.burst, row.baseline, row.listed))
        };
        assert_eq!(promised("r8g.large"), Some((12.5e9, 0.937e9, false)));
        assert_eq!(promised("m8g.large"), Some((12.5e9, 0.937e9, true)));
        assert_eq!(promised("c8gd.4xlarge"), Some((15e9, 7.5e9, true)));
        assert_eq!(promised("m8a.48xlarge"), Some((75e9, 75e9, true)));
        assert_eq!(promised("r8i.96xlarge"), Some((100e9, 100e9, true)));
        assert_eq!(promised("m9g.8xlarge"), Some((17e9, 17e9, true)));
        assert_eq!(promised("m8i.large"), Some((12.5e9, 0.937e9, false)));
        assert_eq!(promised("c6in.xlarge"), Some((30e9, 6.25e9, false)));
        assert_eq!(promised("t4g.nano"), Some((5e9, 0.032e9, false)));
        assert_eq!(promised("c6in.32xlarge"), None, "the interface contradicts itself");
        let weighting = |product| INSTANCE_TABLE.weighting(product, "vpc-1");
        assert!(weighting("m8i.8xlarge").is_some_and(|text| text.contains("vpc-1")));
        assert_eq!((weighting("m7i.8xlarge"), weighting("m8i-flex.large")), (None, None));
    }

    #[test]
    fn the_tables_are_sound() {
        let devices: Devices = toml::from_str(DEVICES).unwrap();
        let mut models = HashSet::new();
        for row in &devices.device {
            assert!(!row.source.is_empty() && !row.models.is_empty(), "{}", row.name);
            for model in &row.models {
                assert!(models.insert(model.clone()), "{model} stands twice");
                let shadowed = models.iter().any(|other| other != model && model.starts_with(other.as_str()));
                assert!(!shadowed, "{model} is part of another row");
            }
            let figures = [row.read, row.write, row.read_io, row.write_io, row.turns_per_minute];
            let is_sound = |figure: &f64| figure.is_finite() && *figure >= 1000.0;
            assert!(figures.iter().flatten().all(is_sound), "{}", row.name);
            assert!(row.read.is_some() && row.write.is_some(), "{}", row.name);
        }
        let instances: Instances = toml::from_str(INSTANCES).unwrap();
        let products: Vec<_> = instances.instance.iter().flat_map(|row| &row.products).collect();
        assert_eq!(products.iter().collect::<HashSet<_>>().len(), products.len());
        assert!(instances.instance.iter().all(|row| row.volumes >= 1e9 && row.volumes_io >= 1e3));
        for row in &instances.burstable {
            let earned = row.baseline * row.vcpus * 60.0;
            assert!((row.credits_an_hour / earned - 1.0).abs() < 0.01, "{}", row.product);
            assert!((row.credits / row.credits_an_hour - 24.0).abs() < 1e-9, "{}", row.product);
        }
        let products: Vec<_> = instances.network.iter().flat_map(|row| &row.products).collect();
        assert_eq!(products.iter().collect::<HashSet<_>>().len(), products.len());
        assert!(instances.network.iter().all(|row| row.burst >= row.baseline && row.baseline >= 1e7));
    }

    #[test]
    fn a_saved_machine_finds_its_drive_and_another_nothing() {
        let machine = Fixture::open("epyc-7543-nps4").unwrap().machine();
        let disk = machine.disks.iter().find(|disk| disk.name == "nvme0n1").unwrap();
        let row = Device::of(disk).unwrap();
        assert_eq!((row.name.as_str(), row.read), ("Samsung PM9A3 (U.2)", Some(6.9e9)));
        assert_eq!(Promise::of(&machine.virtualisation, &[disk]), None);
        let other = Disk { model: Some("A drive of nobody".to_owned()), ..disk.clone() };
        assert!(Device::of(&other).is_none());
        assert!(Device::of(&Disk { model: None, ..disk.clone() }).is_none());
    }

    #[test]
    fn an_instance_promises_its_volumes_and_not_its_own_disks() {
        let machine = Fixture::open("graviton2-container").unwrap().machine();
        let volume = machine.disks.iter().find(|disk| disk.name == "nvme1n1").unwrap();
        assert!(Device::of(volume).is_some_and(|row| row.any));
        let mut on = machine.virtualisation.clone();
        on.system_vendor = Some("Amazon EC2".to_owned());
        on.product = Some("m6g.8xlarge".to_owned());
        let promise = Promise::of(&on, &[volume]).unwrap();
        assert_eq!((promise.product, promise.bytes, promise.transfers), ("m6g.8xlarge", 1187.5e6, 40_000.0));
        let own = Disk { model: Some("Amazon EC2 NVMe Instance Storage".to_owned()), ..volume.clone() };
        assert_eq!(Promise::of(&on, &[volume, &own]), None);
        assert!(promise.source.starts_with("Amazon EC2: Instance Types"));
        on.product = Some("t4g.2xlarge".to_owned());
        let promise = Promise::of(&on, &[volume]).unwrap();
        assert_eq!((promise.bytes, promise.transfers), (347.5e6, 15_700.0));
        assert!(promise.source.contains("github.com/getmoto/moto"));
        assert!(NetworkPromise::of(&on).unwrap().source.contains("github.com/getmoto/moto"));
        on.product = Some("m99.huge".to_owned());
        assert_eq!(Promise::of(&on, &[volume]), None);
        on.system_vendor = Some("Google".to_owned());
        on.product = Some("m6g.8xlarge".to_owned());
        assert_eq!(Promise::of(&on, &[volume]), None);
    }

    #[test]
    fn an_instance_on_xen_is_known_by_what_cloud_init_keeps() {
        let [system_vendor, product, instance] = ["Xen", "HVM domU", "t2.micro"].map(|s| Some(s.to_owned()));
        let on = Virtualisation { system_vendor, product, instance, ..Virtualisation::default() };
        let (row, _) = Burstable::of(&on).unwrap();
        assert_eq!((row.vcpus, row.baseline, row.credits), (1.0, 0.10, 144.0));
        let seconds = |credits| row.full_speed_seconds(credits);
        assert_eq!((seconds(row.credits) / 60.0, seconds(row.launch_credits).round()), (160.0, 2000.0));
        assert!(Burstable::unpublished_note(&on).unwrap().contains("'Low to Moderate'"));
        assert!(Burstable::of(&Virtualisation { instance: None, ..on }).is_none());
    }
}
