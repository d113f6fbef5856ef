//! Encodes and decodes the fields of protocol buffer messages.

use crate::pprof::error::ReadError;
use crate::wire::varint;

/// The value of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum FieldValue<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// A fixed-size value; the schema has none.
    Other,
}

impl<'a> FieldValue<'a> {
    pub(crate) fn number(self) -> Result<u64, ReadError> {
        match self {
            FieldValue::Number(number) => Ok(number),
            _ => Err(ReadError::malformed("a field is not a number as it should be")),
        }
    }

    pub(super) fn signed(self) -> Result<i64, ReadError> {
        self.number().map(|number| number as i64)
    }

    pub(crate) fn bytes(self) -> Result<&'a [u8], ReadError> {
        match self {
            FieldValue::Bytes(bytes) => Ok(bytes),
            _ => Err(ReadError::malformed("a field is not length-delimited as it should be")),
        }
    }
}

/// Reads a varint and advances `bytes`.
#[inline]
pub(super) fn read_number(bytes: &mut &[u8]) -> Result<u64, ReadError> {
    varint::decode(bytes).map_err(|_| ReadError::malformed("a varint that does not end"))
}

/// Reads a field and advances `bytes`; `None` at the end of the message.
pub(crate) fn read_field<'a>(bytes: &mut &'a [u8]) -> Result<Option<(u64, FieldValue<'a>)>, ReadError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let tag = read_number(bytes)?;
    let take = |bytes: &mut &'a [u8], length: usize| -> Result<&'a [u8], ReadError> {
        let (taken, rest) =
            bytes.split_at_checked(length).ok_or_else(|| ReadError::malformed("a field that exceeds its message"))?;
        *bytes = rest;
        Ok(taken)
    };
    let value = match tag & 7 {
        0 => FieldValue::Number(read_number(bytes)?),
        1 => take(bytes, 8).map(|_| FieldValue::Other)?,
        2 => {
            let length = usize::try_from(read_number(bytes)?).unwrap_or(usize::MAX);
            FieldValue::Bytes(take(bytes, length)?)
        }
        5 => take(bytes, 4).map(|_| FieldValue::Other)?,
        kind => return Err(ReadError::malformed(format!("a field of unknown wire type {kind}"))),
    };
    Ok(Some((tag >> 3, value)))
}

/// Calls `each` with every number of a repeated field, packed or not.
pub(super) fn read_numbers(value: FieldValue, mut each: impl FnMut(u64)) -> Result<(), ReadError> {
    match value {
        FieldValue::Number(number) => each(number),
        value => {
            let mut packed = value.bytes()?;
            while !packed.is_empty() {
                each(read_number(&mut packed)?);
            }
        }
    }
    Ok(())
}

/// Appends a number field.
pub(crate) fn put_number(out: &mut Vec<u8>, field: u64, number: u64) {
    varint::push(out, field << 3);
    varint::push(out, number);
}

/// Appends a number field, unless it is 0, which is the default.
pub(crate) fn put(out: &mut Vec<u8>, field: u64, number: u64) {
    if number != 0 {
        put_number(out, field, number);
    }
}

pub(crate) fn put_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    varint::push(out, field << 3 | 2);
    varint::push(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}
