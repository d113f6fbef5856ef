//! The stacks of a saved profile, packed: a file of 100 MB has a million of them, with thirty places each, and must not take
//! more room here than there.

/// A sample, unpacked for the moment.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// How many come before it.
    pub index: usize,
    /// Indices of locations, leaf first.
    pub stack: &'a [u32],
    /// One for each sample type.
    pub values: &'a [i64],
    /// Index of its set of labels; 0 for none.
    pub labels: u32,
}

/// All samples, in their order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// Of each: the bytes of its stack, then index + 1 of every location; all as varints.
    packed: Vec<u8>,
    values: Vec<i64>,
    labels: Vec<u32>,
    width: usize,
    /// When each was taken, ns of some clock; empty where that is not known.
    times_ns: Vec<u64>,
}

/// A number in groups of seven bits, lowest first.
pub fn put_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

/// Takes a varint off the front of `bytes`; `None` where there is none, or one of more than 64 bits.
#[inline]
pub fn take_varint(bytes: &mut &[u8]) -> Option<u64> {
    let (&first, mut rest) = bytes.split_first()?;
    let mut number = u64::from(first & 0x7f);
    let (mut byte, mut shift) = (first, 0);
    while byte & 0x80 != 0 {
        shift += 7;
        if shift > 63 {
            return None;
        }
        (byte, rest) = rest.split_first().map(|(&byte, rest)| (byte, rest))?;
        number |= u64::from(byte & 0x7f) << shift;
    }
    *bytes = rest;
    Some(number)
}

impl Samples {
    /// For samples of so many values.
    pub fn of_width(width: usize) -> Samples {
        Samples { width, ..Samples::default() }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// Values of each.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Adds one.
    pub fn push(&mut self, stack: &[u32], values: &[i64], labels: u32) {
        let mut packed = Vec::with_capacity(stack.len() * 3);
        stack.iter().for_each(|&location| put_varint(&mut packed, u64::from(location) + 1));
        self.push_packed(&packed, values, labels);
    }

    /// Adds one of which is known when it was taken, as of all before it.
    pub fn push_at(&mut self, stack: &[u32], values: &[i64], labels: u32, time_ns: u64) {
        debug_assert_eq!(self.times_ns.len(), self.len());
        self.push(stack, values, labels);
        self.times_ns.push(time_ns);
    }

    /// When each was taken, ns of some clock; empty where that is not known.
    pub fn times_ns(&self) -> &[u64] {
        &self.times_ns
    }

    /// Says when each was taken, in their order.
    pub fn set_times_ns(&mut self, times_ns: Vec<u64>) {
        debug_assert_eq!(times_ns.len(), self.len());
        self.times_ns = times_ns;
    }

    /// Adds one whose stack is packed already: index + 1 of every location, as varints.
    pub fn push_packed(&mut self, packed: &[u8], values: &[i64], labels: u32) {
        debug_assert_eq!(values.len(), self.width);
        put_varint(&mut self.packed, packed.len() as u64);
        self.packed.extend_from_slice(packed);
        self.values.extend_from_slice(values);
        self.labels.push(labels);
    }

    /// Calls `see` with every sample's packed stack, values and labels.
    pub fn each_packed(&self, mut see: impl FnMut(&[u8], &[i64], u32)) {
        let mut rest = self.packed.as_slice();
        for (index, &labels) in self.labels.iter().enumerate() {
            let length = take_varint(&mut rest).map_or(0, |length| length as usize).min(rest.len());
            let (stack, behind) = rest.split_at(length);
            rest = behind;
            see(stack, &self.values[index * self.width..(index + 1) * self.width], labels);
        }
    }

    /// Calls `see` with every sample.
    pub fn each(&self, mut see: impl FnMut(Sample)) {
        let (mut stack, mut index) = (Vec::new(), 0);
        self.each_packed(|mut packed, values, labels| {
            stack.clear();
            while let Some(place) = take_varint(&mut packed) {
                stack.push((place as u32).wrapping_sub(1));
            }
            see(Sample { index, stack: &stack, values, labels });
            index += 1;
        });
    }

    /// The same, with stacks as `change` leaves them; those of which it says no go.
    pub fn retain(&mut self, mut change: impl FnMut(&mut Vec<u32>, &[i64], &mut u32) -> bool) {
        let mut kept = Samples::of_width(self.width);
        let mut own = Vec::new();
        self.each(|sample| {
            own.clear();
            own.extend_from_slice(sample.stack);
            let mut labels = sample.labels;
            if change(&mut own, sample.values, &mut labels) {
                kept.push(&own, sample.values, labels);
                kept.times_ns.extend(self.times_ns.get(sample.index));
            }
        });
        *self = kept;
    }

    /// Gives every packed stack new places: `place` says index + 1 for what was there.
    ///
    /// # Errors
    /// The first number for which there is none.
    pub fn place(&mut self, place: impl Fn(u64) -> Option<u32>) -> Result<(), u64> {
        let mut placed = Samples::of_width(self.width);
        let (mut own, mut wrong) = (Vec::new(), None);
        self.each_packed(|mut packed, values, labels| {
            own.clear();
            while let Some(number) = take_varint(&mut packed) {
                match place(number) {
                    Some(index) => own.push(index),
                    None => wrong = wrong.or(Some(number)),
                }
            }
            placed.push(&own, values, labels);
        });
        placed.times_ns = std::mem::take(&mut self.times_ns);
        *self = placed;
        wrong.map_or(Ok(()), Err)
    }

    /// Changes values in place; those of which it says no go.
    pub fn revalue(&mut self, mut change: impl FnMut(&mut [i64]) -> bool) {
        let mut any_gone = false;
        let mut kept = Vec::with_capacity(self.labels.len());
        for index in 0..self.labels.len() {
            let keep = change(&mut self.values[index * self.width..(index + 1) * self.width]);
            any_gone |= !keep;
            kept.push(keep);
        }
        if any_gone {
            let mut kept = kept.into_iter();
            self.retain(|_, _, _| kept.next().unwrap_or(true));
        }
    }

    /// Gives all the same set of labels, as `change` makes it from theirs.
    pub fn relabel(&mut self, change: impl Fn(u32) -> u32) {
        self.labels.iter_mut().for_each(|labels| *labels = change(*labels));
    }

    /// Every value of one kind.
    pub fn values(&self, index: usize) -> impl Iterator<Item = i64> {
        self.values.iter().skip(index).step_by(self.width.max(1)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_pushed_is_seen() {
        let mut samples = Samples::of_width(2);
        samples.push(&[0, 300, 70_000], &[1, -5], 0);
        samples.push(&[], &[2, 7], 3);
        let seen = |samples: &Samples| {
            let mut seen = Vec::new();
            samples.each(|sample| seen.push((sample.stack.to_vec(), sample.values.to_vec(), sample.labels)));
            seen
        };
        assert_eq!(seen(&samples), [(vec![0, 300, 70_000], vec![1, -5], 0), (vec![], vec![2, 7], 3)]);
        assert_eq!(samples.values(1).collect::<Vec<_>>(), [-5, 7]);
        samples.retain(|stack, _, _| {
            stack.truncate(2);
            !stack.is_empty()
        });
        assert_eq!(seen(&samples), [(vec![0, 300], vec![1, -5], 0)]);
        assert_eq!(samples.place(|number| (number != 301).then_some(9)), Err(301));
    }

    #[test]
    fn varints_of_any_length() {
        for number in [0, 1, 127, 128, 1 << 35, u64::MAX] {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, number);
            let mut rest = bytes.as_slice();
            assert_eq!((take_varint(&mut rest), rest.len()), (Some(number), 0));
        }
        assert_eq!(take_varint(&mut [0x80].as_slice()), None);
        assert_eq!(take_varint(&mut [0xff; 11].as_slice()), None);
    }
}
