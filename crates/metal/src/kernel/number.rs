use std::fmt;

use super::Element;

/// A number in a kernel's operands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Number {
    element: Element,
    bits: u64,
}

impl Number {
    pub(crate) fn from_bits(element: Element, bits: u64) -> Self {
        Self { element, bits }
    }

    /// Converts `value` to `element`: rounded; to bfloat16 and integers (which saturate) truncated.
    pub(crate) fn nearest(element: Element, value: f64) -> Self {
        let bits = match element {
            Element::F64 => value.to_bits(),
            Element::F32 => u64::from((value as f32).to_bits()),
            Element::F16 => u64::from(half_bits(value)),
            Element::Bf16 => u64::from((value as f32).to_bits() >> 16),
            Element::I64 => (value as i64) as u64,
            Element::I32 => u64::from((value as i32) as u32),
            Element::I16 => u64::from((value as i16) as u16),
            Element::I8 => u64::from((value as i8) as u8),
        };
        Self { element, bits }
    }

    /// Returns the number's bits in the low bits of the result.
    pub fn bits(self) -> u64 {
        self.bits
    }

    /// Returns the number's value; integers beyond 2⁵³ are rounded.
    pub fn value(self) -> f64 {
        match self.element {
            Element::F64 => f64::from_bits(self.bits),
            Element::F32 => f64::from(f32::from_bits(self.bits as u32)),
            Element::F16 => half_value(self.bits as u16),
            Element::Bf16 => f64::from(f32::from_bits((self.bits as u32) << 16)),
            Element::I64 => (self.bits as i64) as f64,
            Element::I32 => f64::from(self.bits as i32),
            Element::I16 => f64::from(self.bits as i16),
            Element::I8 => f64::from(self.bits as i8),
        }
    }
}

/// Returns the value of a binary16: sign, 5 bits of exponent (bias 15), 10 of mantissa (IEEE 754).
fn half_value(bits: u16) -> f64 {
    let (exponent, mantissa) = (i32::from(bits >> 10 & 0x1f), f64::from(bits & 0x3ff));
    let size = match exponent {
        0 => mantissa * (-24.0_f64).exp2(),
        0x1f if mantissa == 0.0 => f64::INFINITY,
        0x1f => f64::NAN,
        _ => (1024.0 + mantissa) * f64::from(exponent - 25).exp2(),
    };
    if bits >> 15 == 1 { -size } else { size }
}

/// Returns the bits of the nearest binary16, ties to even.
fn half_bits(value: f64) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let size = value.abs();
    if size.is_nan() {
        return 0x7e00;
    }
    // From half a step above the largest number, 65504, the result is infinity.
    if size >= 65_520.0 {
        return sign | 0x7c00;
    }
    // Below the smallest normal number, 2⁻¹⁴, the step size is constant.
    let exponent = if size > 0.0 { ((size.to_bits() >> 52) as i32 - 1023).max(-14) } else { -14 };
    let steps = (size * f64::from(10 - exponent).exp2()).round_ties_even();
    // The leading bit of the steps adds one to the exponent; rounded up to a power of two, two.
    sign | ((((exponent + 14) as u16) << 10) + steps as u16)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_comes_back_and_what_lies_between_goes_to_the_nearest() {
        for bits in 0..0x7c00_u16 {
            for sign in [0, 0x8000] {
                assert_eq!(half_bits(half_value(sign | bits)), sign | bits, "{bits:#x}");
            }
            let next = if bits == 0x7bff { 65_536.0 } else { half_value(bits + 1) };
            let middle = (half_value(bits) + next) / 2.0;
            assert_eq!(half_bits(middle), bits + bits % 2, "a tie at {middle}");
            assert_eq!(half_bits(middle.next_up()), bits + 1);
            assert_eq!(half_bits(middle.next_down()), bits);
        }
        assert_eq!([0x3c00, 0xc248].map(half_value), [1.0, -3.140625]);
        assert_eq!([f64::INFINITY, 1e300, f64::NAN].map(half_bits), [0x7c00, 0x7c00, 0x7e00]);
        assert!(half_value(0x7e00).is_nan() && half_value(0xfc00) == f64::NEG_INFINITY);
    }
}
