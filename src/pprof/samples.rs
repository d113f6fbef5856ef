//! The samples of a saved profile in compact form. A file of 100 MB has a million stacks with
//! thirty locations each; as varints they take no more memory than in the file.

use crate::wire::varint;

/// A decoded sample.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// Its position among the samples.
    pub index: usize,
    /// Indices of its locations, leaf first.
    pub stack: &'a [u32],
    /// One value for each sample type.
    pub values: &'a [i64],
    /// The index of its label set; 0 is the empty set.
    pub labels: u32,
}

/// A list of samples.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Samples {
    /// The stacks: each is its length in bytes and index + 1 of every location, all as varints.
    packed: Vec<u8>,
    values: Vec<i64>,
    labels: Vec<u32>,
    width: usize,
    /// The time of each sample in ns of an unspecified clock; empty if unknown.
    times_ns: Vec<u64>,
}

impl Samples {
    /// Creates an empty list of samples with `width` values each.
    pub fn with_width(width: usize) -> Samples {
        Samples { width, ..Samples::default() }
    }

    /// The number of samples.
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Whether there are no samples.
    pub fn is_empty(&self) -> bool {
        self.labels.is_empty()
    }

    /// The number of values of each sample.
    pub fn width(&self) -> usize {
        self.width
    }

    /// Appends a sample without a time.
    pub fn push(&mut self, stack: &[u32], values: &[i64], labels: u32) {
        let mut packed = Vec::with_capacity(stack.len() * 3);
        stack.iter().for_each(|&location| varint::push(&mut packed, u64::from(location) + 1));
        self.push_packed(&packed, values, labels);
    }

    /// Appends a sample with its time. All samples before it must have times too.
    pub fn push_timed(&mut self, stack: &[u32], values: &[i64], labels: u32, time_ns: u64) {
        debug_assert_eq!(self.times_ns.len(), self.len());
        self.push(stack, values, labels);
        self.times_ns.push(time_ns);
    }

    /// The time of each sample in ns of an unspecified clock; empty if unknown.
    pub fn times_ns(&self) -> &[u64] {
        &self.times_ns
    }

    /// Sets the time of every sample.
    pub fn set_times_ns(&mut self, times_ns: Vec<u64>) {
        debug_assert!(times_ns.is_empty() || times_ns.len() == self.len());
        self.times_ns = times_ns;
    }

    /// Appends a sample whose stack is encoded already: index + 1 of every location, as varints.
    pub fn push_packed(&mut self, packed: &[u8], values: &[i64], labels: u32) {
        debug_assert_eq!(values.len(), self.width);
        varint::push(&mut self.packed, packed.len() as u64);
        self.packed.extend_from_slice(packed);
        self.values.extend_from_slice(values);
        self.labels.push(labels);
    }

    /// Calls `f` with the encoded stack, the values and the label set of every sample.
    pub fn for_each_packed(&self, mut f: impl FnMut(&[u8], &[i64], u32)) {
        let mut rest = self.packed.as_slice();
        for (index, &labels) in self.labels.iter().enumerate() {
            let length = varint::decode(&mut rest).map_or(0, |length| length as usize).min(rest.len());
            let (stack, next) = rest.split_at(length);
            rest = next;
            f(stack, &self.values[index * self.width..(index + 1) * self.width], labels);
        }
    }

    /// Calls `f` with every sample.
    pub fn for_each(&self, mut f: impl FnMut(Sample)) {
        let (mut stack, mut index) = (Vec::new(), 0);
        self.for_each_packed(|mut packed, values, labels| {
            stack.clear();
            while let Ok(number) = varint::decode(&mut packed) {
                stack.push((number as u32).wrapping_sub(1));
            }
            f(Sample { index, stack: &stack, values, labels });
            index += 1;
        });
    }

    /// Lets `change` edit the stack and label set of every sample. Samples for which it returns
    /// false are removed.
    pub fn retain(&mut self, mut change: impl FnMut(&mut Vec<u32>, &[i64], &mut u32) -> bool) {
        let mut kept = Samples::with_width(self.width);
        let mut stack = Vec::new();
        self.for_each(|sample| {
            stack.clear();
            stack.extend_from_slice(sample.stack);
            let mut labels = sample.labels;
            if change(&mut stack, sample.values, &mut labels) {
                kept.push(&stack, sample.values, labels);
                kept.times_ns.extend(self.times_ns.get(sample.index));
            }
        });
        *self = kept;
    }

    /// Replaces the locations of every stack. `index_of` maps an encoded number to the index of its
    /// location.
    ///
    /// # Errors
    /// The first number that has no location.
    pub fn remap_locations(&mut self, index_of: impl Fn(u64) -> Option<u32>) -> Result<(), u64> {
        let mut remapped = Samples::with_width(self.width);
        let (mut stack, mut invalid) = (Vec::new(), None);
        self.for_each_packed(|mut packed, values, labels| {
            stack.clear();
            while let Ok(number) = varint::decode(&mut packed) {
                match index_of(number) {
                    Some(index) => stack.push(index),
                    None => invalid = invalid.or(Some(number)),
                }
            }
            remapped.push(&stack, values, labels);
        });
        remapped.times_ns = std::mem::take(&mut self.times_ns);
        *self = remapped;
        invalid.map_or(Ok(()), Err)
    }

    /// Lets `change` edit the values of every sample. Samples for which it returns false are
    /// removed.
    pub fn retain_values(&mut self, mut change: impl FnMut(&mut [i64]) -> bool) {
        let mut any_removed = false;
        let mut kept = Vec::with_capacity(self.labels.len());
        for index in 0..self.labels.len() {
            let keep = change(&mut self.values[index * self.width..(index + 1) * self.width]);
            any_removed |= !keep;
            kept.push(keep);
        }
        if any_removed {
            let mut kept = kept.into_iter();
            self.retain(|_, _, _| kept.next().unwrap_or(true));
        }
    }

    /// Replaces the label set of every sample.
    pub fn map_label_sets(&mut self, change: impl Fn(u32) -> u32) {
        self.labels.iter_mut().for_each(|labels| *labels = change(*labels));
    }

    /// The values of all samples for the sample type with this index.
    pub fn values(&self, index: usize) -> impl Iterator<Item = i64> {
        self.values.iter().skip(index).step_by(self.width.max(1)).copied()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pushed_samples_are_decoded_and_edited() {
        let mut samples = Samples::with_width(2);
        samples.push(&[0, 300, 70_000], &[1, -5], 0);
        samples.push(&[], &[2, 7], 3);
        let decode = |samples: &Samples| {
            let mut all = Vec::new();
            samples.for_each(|sample| all.push((sample.stack.to_vec(), sample.values.to_vec(), sample.labels)));
            all
        };
        assert_eq!(decode(&samples), [(vec![0, 300, 70_000], vec![1, -5], 0), (vec![], vec![2, 7], 3)]);
        assert_eq!(samples.values(1).collect::<Vec<_>>(), [-5, 7]);
        samples.retain(|stack, _, _| {
            stack.truncate(2);
            !stack.is_empty()
        });
        assert_eq!(decode(&samples), [(vec![0, 300], vec![1, -5], 0)]);
        assert_eq!(samples.remap_locations(|number| (number != 301).then_some(9)), Err(301));
    }
}
