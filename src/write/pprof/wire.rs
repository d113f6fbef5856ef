//! Protocol buffers as bytes: fields of a message, taken off one by one, and put on.

use crate::write::error::ReadError;

/// What a field holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Held<'a> {
    Number(u64),
    Bytes(&'a [u8]),
    /// Of a kind that the schema has nowhere.
    Other,
}

impl<'a> Held<'a> {
    pub(super) fn number(self) -> Result<u64, ReadError> {
        match self {
            Held::Number(number) => Ok(number),
            _ => Err(ReadError::malformed("a field that should be a number is none")),
        }
    }

    pub(super) fn signed(self) -> Result<i64, ReadError> {
        self.number().map(|number| number as i64)
    }

    pub(super) fn bytes(self) -> Result<&'a [u8], ReadError> {
        match self {
            Held::Bytes(bytes) => Ok(bytes),
            _ => Err(ReadError::malformed("a field that should have a length has none")),
        }
    }
}

/// Takes a number off the front.
#[inline]
pub(super) fn number(bytes: &mut &[u8]) -> Result<u64, ReadError> {
    crate::tally::saved::take_varint(bytes).ok_or_else(|| ReadError::malformed("a number that does not end"))
}

/// Takes the next field off the front; `None` at the end.
pub(super) fn field<'a>(bytes: &mut &'a [u8]) -> Result<Option<(u64, Held<'a>)>, ReadError> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let tag = number(bytes)?;
    let mut skip = |count: usize| -> Result<&'a [u8], ReadError> {
        let (taken, rest) = bytes
            .split_at_checked(count)
            .ok_or_else(|| ReadError::malformed("a field that goes beyond its message"))?;
        *bytes = rest;
        Ok(taken)
    };
    let held = match tag & 7 {
        0 => Held::Number(number(bytes)?),
        1 => skip(8).map(|_| Held::Other)?,
        2 => {
            let length = number(bytes)?;
            let length = usize::try_from(length).unwrap_or(usize::MAX);
            let (taken, rest) = bytes
                .split_at_checked(length)
                .ok_or_else(|| ReadError::malformed("a field that goes beyond its message"))?;
            *bytes = rest;
            Held::Bytes(taken)
        }
        5 => skip(4).map(|_| Held::Other)?,
        kind => return Err(ReadError::malformed(format!("a field of the unknown kind {kind}"))),
    };
    Ok(Some((tag >> 3, held)))
}

/// Calls `each` with the numbers of a field, packed or single.
pub(super) fn numbers(held: Held, mut each: impl FnMut(u64)) -> Result<(), ReadError> {
    match held {
        Held::Number(number) => each(number),
        held => {
            let mut packed = held.bytes()?;
            while !packed.is_empty() {
                each(number(&mut packed)?);
            }
        }
    }
    Ok(())
}
