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

    /// Combines profiles that have a count of samples and a value each. The first has the default
    /// type.
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
        let mut before = 0;
        for of in &mut all {
            let width = of.samples.width();
            let mut samples = Samples::with_width(types.len());
            of.samples.for_each_packed(|packed, values, labels| {
                let mut widened = vec![0; types.len()];
                widened[before..before + width].copy_from_slice(values);
                samples.push_packed(packed, &widened, labels);
            });
            before += width;
            of.samples = samples;
            of.sample_types = types.clone();
            of.default_sample_type = default_sample_type.clone();
            (of.period_type, of.period) = (period_type.clone(), period);
        }
        SavedProfile::merge(all)
    }
}
