use plimsoll_machine::Machine;
use serde::Deserialize;

use super::identify::{Core, Identity};
use super::table::{Chip, table};

/// Memory of a socket of a server chip with all channels filled.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketMemory {
    /// Name of the chip.
    pub name: String,
    pub(super) chip: Option<Chip>,
    /// Chip by the prefix of Amazon EC2 instance types: on Arm many chips share a core.
    #[serde(default)]
    pub(super) products: Vec<String>,
    /// Possible vendors of the system in the firmware's spelling; empty for any.
    #[serde(default)]
    pub(super) vendors: Vec<String>,
    /// Substrings of which the chip's name must contain one; `#` stands for a digit.
    #[serde(default)]
    pub(super) only: Vec<String>,
    /// Substrings of names of chips with the same numbers but other memory.
    #[serde(default, rename = "except")]
    pub(super) excepted: Vec<String>,
    /// Number of 64-bit channels.
    pub channels: u32,
    /// Cores of the row's largest chip.
    pub cores_most: u32,
    /// Maximum number of sockets of hosts with this chip.
    #[serde(default = "two")]
    pub sockets_most: u32,
    /// Million transfers per second and channel.
    pub megatransfers: u32,
    /// Source of the row.
    pub source: String,
}

fn two() -> u32 {
    2
}

impl SocketMemory {
    /// Returns the memory of the machine's chip, if listed; fails if the chip is not certain.
    pub fn of(machine: &Machine) -> Result<Option<&'static Self>, String> {
        let rows = &table()?.memory;
        let cpu = &machine.cpu;
        let product = machine.virtualisation.ec2_type().unwrap_or_default();
        let is_of_product =
            |row: &&Self| row.products.iter().any(|begin| product.starts_with(begin.as_str()));
        if let Some(row) = rows.iter().find(is_of_product) {
            return Ok(Some(row));
        }
        let is_listed = |row: &&Self| row.chip.as_ref().is_some_and(|chip| chip.is(cpu, cpu.arm.as_ref()));
        let Some(_) = rows.iter().find(is_listed) else { return Ok(None) };
        let first = cpu.allowed.first().unwrap_or(0);
        let core = Core::of(machine, first)?;
        if core.identity == Identity::Inferred {
            return Err(core.note.unwrap_or_default());
        }
        let name = cpu.model_name.as_deref().unwrap_or_default();
        let vendor = machine.virtualisation.system_vendor.as_ref();
        let is_of_vendor =
            |row: &&Self| row.vendors.is_empty() || vendor.is_some_and(|vendor| row.vendors.contains(vendor));
        Ok(rows.iter().filter(is_listed).filter(is_of_vendor).find(|row| row.fits(name)))
    }

    fn fits(&self, name: &str) -> bool {
        let is = |(shown, part): (&u8, &u8)| shown == part || (*part == b'#' && shown.is_ascii_digit());
        let has = |part: &String| {
            name.as_bytes().windows(part.len().max(1)).any(|place| place.iter().zip(part.as_bytes()).all(is))
        };
        (self.only.is_empty() || self.only.iter().any(has)) && !self.excepted.iter().any(has)
    }

    /// Returns the bandwidth in B/s over all channels of one socket.
    pub fn bytes_per_second(&self) -> f64 {
        f64::from(self.channels) * 8.0 * f64::from(self.megatransfers) * 1e6
    }
}
