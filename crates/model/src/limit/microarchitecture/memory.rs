//! The most memory that a socket of a server chip can have.

use serde::Deserialize;

use super::Unknown;
use super::identify::{Core, Identity};
use super::table::{Chip, table};
use crate::machine::Machine;

/// The most memory a socket of a server chip can have.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SocketMemory {
    /// Name of the chip.
    pub name: String,
    /// Which chip, by its numbers.
    pub(super) chip: Option<Chip>,
    /// Which chip, by how the type of an Amazon EC2 instance begins: on Arm a core is in many chips.
    #[serde(default)]
    pub(super) products: Vec<String>,
    /// Vendors of the system, as the firmware names them, one of which the machine must have.
    #[serde(default)]
    pub(super) vendors: Vec<String>,
    /// Parts of names one of which the chip's name must have; `#` stands for a digit.
    #[serde(default)]
    pub(super) only: Vec<String>,
    /// Parts of names, written alike, that the chip's name must not have: chips of the same number with other memory.
    #[serde(default, rename = "except")]
    pub(super) excepted: Vec<String>,
    /// 64-bit channels.
    pub channels: u32,
    /// Cores of the largest chip of the row.
    pub cores_most: u32,
    /// Sockets that hosts of this chip have.
    #[serde(default = "two")]
    pub sockets_most: u32,
    /// Millions of transfers a second on each channel.
    pub megatransfers: u32,
    /// Where the row is from.
    pub source: String,
}

/// Sockets of most servers.
fn two() -> u32 {
    2
}

impl SocketMemory {
    /// The most that a socket of this machine can have, if it is a server chip with a row. A chip whose numbers are not
    /// its own has none.
    ///
    /// # Errors
    /// Why the chip's numbers do not count.
    pub fn of(machine: &Machine) -> Result<Option<&'static Self>, Unknown> {
        let rows = &table()?.memory;
        let cpu = &machine.cpu;
        if let Some(row) = rows.iter().find(|row| row.is_of_product(machine)) {
            return Ok(Some(row));
        }
        let is_listed = |row: &&Self| row.chip.as_ref().is_some_and(|chip| chip.is(cpu, cpu.arm.as_ref()));
        let Some(_) = rows.iter().find(is_listed) else { return Ok(None) };
        let first = cpu.allowed.first().unwrap_or(0);
        let core = Core::of(machine, first)?;
        if core.identity == Identity::Inferred {
            return Err(Unknown(core.note.unwrap_or_default()));
        }
        let name = cpu.model_name.as_deref().unwrap_or_default();
        Ok(rows.iter().filter(is_listed).find(|row| row.fits(name) && row.is_of_vendor(machine)))
    }

    /// Whether the machine is an instance of Amazon EC2 of a type (`c7g.xlarge`) that has this chip.
    fn is_of_product(&self, machine: &Machine) -> bool {
        let begins = |of: &str| self.products.iter().any(|begin| of.starts_with(begin.as_str()));
        machine.virtualisation.ec2_type().is_some_and(begins)
    }

    fn is_of_vendor(&self, machine: &Machine) -> bool {
        let vendor = machine.virtualisation.system_vendor.as_deref();
        self.vendors.is_empty()
            || vendor.is_some_and(|vendor| self.vendors.iter().any(|known| known == vendor))
    }

    fn fits(&self, name: &str) -> bool {
        let is = |(shown, part): (&u8, &u8)| shown == part || (*part == b'#' && shown.is_ascii_digit());
        let has = |part: &String| {
            name.as_bytes().windows(part.len().max(1)).any(|place| place.iter().zip(part.as_bytes()).all(is))
        };
        (self.only.is_empty() || self.only.iter().any(has)) && !self.excepted.iter().any(has)
    }

    /// Bytes a second over all channels of one socket.
    pub fn bytes_per_second(&self) -> f64 {
        f64::from(self.channels) * 8.0 * f64::from(self.megatransfers) * 1e6
    }
}
