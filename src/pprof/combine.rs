//! Combines profiles of one recording whose samples count different things, such as the events of
//! perf: every sample type of each is one of the result.

use super::profile::{SavedProfile, ValueType};
use super::samples::Samples;

impl SavedProfile {
    /// Names what the samples count: `samples` and this kind. `is_time` says that it is nanoseconds.
    pub fn name_values(&mut self, kind: &str, is_time: bool) {
        let named = ValueType::new(kind, if is_time { "nanoseconds" } else { "count" });
        if let Some(last) = self.sample_types.last_mut() {
            *last = named.clone();
        }
        self.default_sample_type = named.kind.clone();
        self.period_type = named;
    }

    /// Combines profiles of one time that have a count of samples and a value each. The first has
    /// the default type. Samples keep their times, if all profiles have them.
    ///
    /// # Errors
    /// If there is none.
    pub fn combine(mut all: Vec<SavedProfile>) -> Result<SavedProfile, String> {
        if all.len() == 1 {
            return SavedProfile::merge(all);
        }
        for of in &mut all {
            let [count, value] = of.sample_types.as_mut_slice() else { continue };
            count.kind = format!("{}_samples", value.kind).into();
        }
        let types: Vec<ValueType> = all.iter().flat_map(|of| of.sample_types.clone()).collect();
        let first = all.first().map(|of| (of.period_type.clone(), of.period, of.default_sample_type.clone()));
        let (period_type, period, default_sample_type) = first.ok_or("no profiles to combine")?;
        // All of them are of one time.
        let duration_ns = all.iter().map(|of| of.duration_ns).max().unwrap_or(0);
        let mut before = 0;
        for of in &mut all {
            let width = of.samples.width();
            let mut samples = Samples::with_width(types.len());
            of.samples.for_each_packed(|packed, values, labels| {
                let mut widened = vec![0; types.len()];
                widened[before..before + width].copy_from_slice(values);
                samples.push_packed(packed, &widened, labels);
            });
            samples.set_times_ns(of.samples.times_ns().to_vec());
            before += width;
            of.samples = samples;
            of.sample_types = types.clone();
            of.default_sample_type = default_sample_type.clone();
            (of.period_type, of.period) = (period_type.clone(), period);
        }
        Ok(SavedProfile { duration_ns, ..SavedProfile::merge_parts(&all)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pprof::profile::Location;

    /// A profile of one event, whose samples are of one location and have these times.
    fn event(kind: &str, duration_ns: i64, times_ns: &[u64]) -> SavedProfile {
        let mut samples = Samples::with_width(2);
        times_ns.iter().for_each(|&time_ns| samples.push_timed(&[0], &[1, 10], 0, time_ns));
        let mut profile = SavedProfile {
            sample_types: vec![ValueType::new("samples", "count"), ValueType::new("cpu", "nanoseconds")],
            samples,
            labels: vec![[].into()],
            locations: vec![Location { id: 1, address: 16, ..Location::default() }],
            duration_ns,
            ..SavedProfile::default()
        };
        profile.name_values(kind, false);
        profile
    }

    #[test]
    fn events_of_one_recording_keep_their_times_and_are_as_long_as_the_longest() {
        let all = vec![event("cycles", 50, &[1, 3, 5]), event("faults", 70, &[2, 3])];
        let combined = SavedProfile::combine(all.clone()).expect("a profile");
        assert_eq!(combined.duration_ns, 70);
        assert_eq!(combined.samples.times_ns(), [1, 2, 3, 3, 5]);
        assert_eq!(combined.samples.values(1).collect::<Vec<_>>(), [10, 0, 10, 0, 10]);
        assert_eq!(combined.samples.values(3).collect::<Vec<_>>(), [0, 10, 0, 10, 0]);
        let mut untimed = all;
        untimed[1].samples.set_times_ns(Vec::new());
        let combined = SavedProfile::combine(untimed).expect("a profile");
        assert!(combined.samples.times_ns().is_empty());
        let mut values = Vec::new();
        combined.samples.for_each(|sample| values.push(sample.values.to_vec()));
        assert_eq!(values, [[3, 30, 2, 20]], "equal samples are one");
    }
}
