//! Reads profiles of contention and of threads in the text formats of gperftools and brpc, and the
//! counts of Go (`goroutine`, `threadcreate`; `?debug=1`). The memory map follows.
//!
//! ```text
//! --- contention:                      cycles, contentions, stack
//! cycles/second = 3000000000
//! sampling period = 100
//! 19490304 27 @ 0xbccc97 0xc61202
//!
//! --- threadz 1 ---                    one line a frame
//! --- Thread 7f794ab90940 (name: main/14748) stack: ---
//!   PC:  0x00bc8f1c: helper(arg *)
//!   0x0040be31: main
//!
//! goroutine profile: total 7           a count, stack
//! 1 @ 0x44cb3 0x45045
//! ```

use super::maps;
use super::read::MAX_TEXT;
use super::stacks::{LocationTable, is_map_heading, parse_address};
use crate::pprof::error::ReadError;
use crate::pprof::format::input::ProfileInput;
use crate::pprof::profile::{SavedProfile, ValueType};
use crate::pprof::samples::Samples;

/// The kind of a profile, from the first line.
#[derive(Clone, Debug, PartialEq, Eq)]
enum CountKind {
    Contention,
    Threads,
    /// The name of the counts of Go.
    Counts(String),
}

fn parse_first_line(line: &str) -> Option<CountKind> {
    if let Some((name, total)) = line.split_once(" profile: total ") {
        let is_name = !name.is_empty() && !name.contains(char::is_whitespace);
        return (is_name && total.parse::<u64>().is_ok()).then(|| CountKind::Counts(name.to_owned()));
    }
    match line.strip_prefix("--- ")? {
        heading if ["contentionz ", "mutex:", "contention:"].iter().any(|of| heading.starts_with(of)) => {
            Some(CountKind::Contention)
        }
        heading if heading.starts_with("threadz ") || is_thread(line) => Some(CountKind::Threads),
        _ => None,
    }
}

/// Whether a line is the heading of a thread's stack.
fn is_thread(line: &str) -> bool {
    line.starts_with("--- Thread ") && line.contains(" (name: ") && line.ends_with(") stack: ---")
}

/// Whether a text that starts so is one of these profiles. Those of Java name their format.
pub(in crate::pprof) fn has_counts(start: &str) -> bool {
    let mut lines = start.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let kind = lines.next().and_then(parse_first_line);
    let is_java = lines.take_while(|line| line.contains('=')).any(|line| line.starts_with("format"));
    kind.is_some_and(|kind| kind != CountKind::Contention || !is_java)
}

/// Reads a profile.
pub(in crate::pprof) fn read(input: &mut ProfileInput) -> Result<SavedProfile, ReadError> {
    let kind = loop {
        let line = input.read_line()?.ok_or(ReadError::UnknownFormat)?;
        if let Some(kind) = parse_first_line(line.trim()) {
            break kind;
        }
    };
    let mut reader = CountReader::new(&kind);
    let mut is_over = false;
    while let Some(line) = input.read_line()? {
        let line = line.trim();
        if is_map_heading(line) {
            break;
        }
        is_over |= kind != CountKind::Threads && line.starts_with("---");
        if line.is_empty() || line.starts_with('#') || is_over {
            continue;
        }
        match kind {
            CountKind::Contention => reader.read_contention(line)?,
            CountKind::Threads => reader.read_thread_line(line)?,
            CountKind::Counts(_) => reader.read_count(line)?,
        }
    }
    let text = String::from_utf8_lossy(input.fill_to(MAX_TEXT)?).into_owned();
    Ok(reader.build(&text))
}

struct CountReader {
    profile: SavedProfile,
    locations: LocationTable,
    stack: Vec<u32>,
    /// The stacks of threads, and how many have them.
    threads: Vec<(Box<[u32]>, i64)>,
    /// Cycles in a second, if the delays are cycles.
    cycles_per_second: i64,
}

impl CountReader {
    fn new(kind: &CountKind) -> CountReader {
        let counts = match kind {
            CountKind::Contention => "contentions",
            CountKind::Threads => "thread",
            CountKind::Counts(name) => name,
        };
        let mut profile = SavedProfile {
            period_type: ValueType::new(counts, "count"),
            period: 1,
            sample_types: vec![ValueType::new(counts, "count")],
            labels: vec![[].into()],
            ..SavedProfile::default()
        };
        if *kind == CountKind::Contention {
            profile.sample_types.push(ValueType::new("delay", "nanoseconds"));
        }
        profile.samples = Samples::with_width(profile.sample_types.len());
        CountReader {
            profile,
            locations: LocationTable::default(),
            stack: Vec::new(),
            threads: Vec::new(),
            cycles_per_second: 0,
        }
    }

    /// Reads `KEY = VALUE`, or a delay, a number of contentions and a stack.
    fn read_contention(&mut self, line: &str) -> Result<(), ReadError> {
        let malformed = || ReadError::malformed(format!("not a line of a contention profile: {line}"));
        let number = |text: &str| text.trim().parse::<i64>().ok().filter(|&number| number >= 0).ok_or_else(malformed);
        if let Some((key, value)) = line.split_once('=') {
            match key.trim() {
                "cycles/second" => self.cycles_per_second = number(value)?,
                "sampling period" => self.profile.period = number(value)?,
                "ms since reset" => self.profile.duration_ns = number(value)?.saturating_mul(1_000_000),
                "discarded samples" => {}
                _ => return Err(malformed()),
            }
            return Ok(());
        }
        let (numbers, addresses) = line.split_once('@').ok_or_else(malformed)?;
        let (delay, contentions) = numbers.trim().split_once(char::is_whitespace).ok_or_else(malformed)?;
        let (mut delay, mut contentions) = (number(delay)?, number(contentions)?);
        let period = self.profile.period;
        if period > 0 {
            if self.cycles_per_second > 0 {
                delay = (delay as f64 * period as f64 / (self.cycles_per_second as f64 / 1e9)) as i64;
            }
            contentions = contentions.saturating_mul(period);
        }
        self.add(addresses, &[contentions, delay])
    }

    /// Reads a count and a stack.
    fn read_count(&mut self, line: &str) -> Result<(), ReadError> {
        let malformed = || ReadError::malformed(format!("not a count and a stack: {line}"));
        let (count, addresses) = line.split_once('@').ok_or_else(malformed)?;
        let count = count.trim().parse().ok().filter(|&count: &i64| count >= 0).ok_or_else(malformed)?;
        self.add(addresses, &[count])
    }

    fn add(&mut self, addresses: &str, values: &[i64]) -> Result<(), ReadError> {
        self.locations.push_all(addresses, &mut self.profile, &mut self.stack)?;
        self.profile.samples.push(&self.stack, values, 0);
        self.stack.clear();
        Ok(())
    }

    /// Reads the heading of a thread, a frame, or that a thread is like the one before. The leaf
    /// was not calling.
    fn read_thread_line(&mut self, line: &str) -> Result<(), ReadError> {
        if line.starts_with("---") {
            self.end_thread();
        } else if line.contains("same as previous thread") {
            self.stack.clear();
            self.threads.last_mut().into_iter().for_each(|(_, count)| *count = count.saturating_add(1));
        } else {
            let words = line.split_whitespace().map(|word| word.trim_end_matches(':'));
            for address in words.filter_map(parse_address) {
                let calls = u64::from(!self.stack.is_empty());
                self.locations.push(address.wrapping_sub(calls), &mut self.profile, &mut self.stack)?;
            }
        }
        Ok(())
    }

    /// Keeps the stack of a thread that is complete. Its leaf may be there twice: as the place
    /// where it was, and as an address behind a call.
    fn end_thread(&mut self) {
        let address = |index: usize| Some(self.profile.locations[*self.stack.get(index)? as usize].address);
        if let (Some(leaf), Some(caller)) = (address(0), address(1))
            && leaf == caller.wrapping_add(1)
        {
            self.stack.remove(1);
        }
        if !self.stack.is_empty() {
            self.threads.push((self.stack.as_slice().into(), 1));
            self.stack.clear();
        }
    }

    fn build(mut self, map: &str) -> SavedProfile {
        self.end_thread();
        for (stack, count) in &self.threads {
            self.profile.samples.push(stack, &[*count], 0);
        }
        maps::assign(&mut self.profile, maps::parse(map));
        self.profile
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The addresses and the values of a sample.
    type AddressSample = (Vec<u64>, Vec<i64>);

    /// The types, the period, and the samples.
    fn read(text: &str) -> Result<(Vec<String>, i64, Vec<AddressSample>), ReadError> {
        let profile = super::read(&mut ProfileInput::open(text.as_bytes())?)?;
        let mut samples = Vec::new();
        profile.samples.for_each(|sample| {
            let address = |&location: &u32| profile.locations[location as usize].address;
            samples.push((sample.stack.iter().map(address).collect(), sample.values.to_vec()));
        });
        let types = profile.sample_types.iter().map(|of| format!("{}/{}", &*of.kind, &*of.unit)).collect();
        Ok((types, profile.period, samples))
    }

    #[test]
    fn delays_are_cycles_of_sampled_contentions() {
        let text = "--- contentionz 1 ---\ncycles/second = 2000000000\nsampling period = 100\n\
                    ms since reset = 5\ndiscarded samples = 0\n 4000 3 @ 0x1001 0x2001\n 10 1 @ 0x1001\n";
        let (types, period, samples) = read(text).unwrap();
        assert_eq!(types, ["contentions/count", "delay/nanoseconds"]);
        assert_eq!(period, 100);
        assert_eq!(samples, [(vec![0x1000, 0x2000], vec![300, 200_000]), (vec![0x1000], vec![100, 500])]);
        assert!(has_counts(text) && !has_counts("--- contention:\nformat = java\n"));
    }

    #[test]
    fn threads_with_one_stack_are_counted_together() {
        let text = "--- threadz 1 ---\n\n--- Thread 7f00 (name: main/1) stack: ---\n  PC:  0x1000: f(int *)\n  \
                    0x1000: f(int *)\n  0x2001: main\n--- Thread 7f01 (name: a/2) stack: ---\n  \
                    [same as previous thread]\n--- Thread 7f02 (name: b/3) stack: ---\n  PC:  0x3000\n      creator:\n  \
                    0x2001: main\n--- Memory map: ---\n  1000-4000: /bin/app\n";
        let (types, period, samples) = read(text).unwrap();
        assert_eq!((types, period), (vec!["thread/count".to_owned()], 1));
        assert_eq!(samples, [(vec![0x1000, 0x2000], vec![2]), (vec![0x3000, 0x2000], vec![1])]);
    }

    #[test]
    fn counts_of_go_have_its_name() {
        let (types, _, samples) =
            read("goroutine profile: total 3\n2 @ 0x1001\n#\t0x1000\tmain+0x1\n1 @ 0x2001\n").unwrap();
        assert_eq!(types, ["goroutine/count"]);
        assert_eq!(samples, [(vec![0x1000], vec![2]), (vec![0x2000], vec![1])]);
    }

    #[test]
    fn malformed_lines_are_named() {
        for text in [
            "--- mutex:\ncycles/second = x\n",
            "--- mutex:\n1 @ 0x1\n",
            "goroutine profile: total 3\nx @ 0x1\n",
            "goroutine profile: total 3\n1 @ 1\n",
        ] {
            let said = read(text).unwrap_err().to_string();
            assert!(said.starts_with("malformed profile: not a"), "{text}: {said}");
        }
    }
}
