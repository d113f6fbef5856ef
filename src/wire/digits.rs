//! Numbers in files of `/proc`.

/// Parses a number. `None` if it has no digit, another character, or more than 64 bits.
pub fn parse_number(digits: &[u8], radix: u32) -> Option<u64> {
    let digit =
        |value: u64, &byte: &u8| value.checked_mul(radix.into())?.checked_add((byte as char).to_digit(radix)?.into());
    if digits.is_empty() { None } else { digits.iter().try_fold(0, digit) }
}
