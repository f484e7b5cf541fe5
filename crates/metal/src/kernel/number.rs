//! One number of a kernel: its bits, and what they mean.

use std::fmt;

use super::Element;

/// A number as a kernel left it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    element: Element,
    bits: u64,
}

impl Number {
    pub(crate) fn from_bits(element: Element, bits: u64) -> Self {
        Self { element, bits }
    }

    /// The nearest of a type to a real number; integers saturate.
    pub(crate) fn nearest(element: Element, value: f64) -> Self {
        let bits = match element {
            Element::F64 => value.to_bits(),
            Element::F32 => u64::from((value as f32).to_bits()),
            Element::Bf16 => u64::from((value as f32).to_bits() >> 16),
            Element::I64 => (value as i64) as u64,
            Element::I32 => u64::from((value as i32) as u32),
            Element::I16 => u64::from((value as i16) as u16),
            Element::I8 => u64::from((value as i8) as u8),
        };
        Self { element, bits }
    }

    /// Its bits, in the low end.
    #[must_use]
    pub fn bits(self) -> u64 {
        self.bits
    }

    /// Its value; integers beyond 2⁵³ are rounded.
    #[must_use]
    pub fn value(self) -> f64 {
        match self.element {
            Element::F64 => f64::from_bits(self.bits),
            Element::F32 => f64::from(f32::from_bits(self.bits as u32)),
            Element::Bf16 => f64::from(f32::from_bits((self.bits as u32) << 16)),
            Element::I64 => (self.bits as i64) as f64,
            Element::I32 => f64::from(self.bits as i32),
            Element::I16 => f64::from(self.bits as i16),
            Element::I8 => f64::from(self.bits as i8),
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.element {
            Element::I64 => write!(f, "{}", self.bits as i64),
            element if element.is_float() => write!(f, "{:e}", self.value()),
            _ => write!(f, "{:.0}", self.value()),
        }
    }
}
