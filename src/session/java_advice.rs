//! Compiled Java code keeps no frame pointers, and nothing names it, unless the program is started
//! so. This module finds what is missing in the samples, and says what helps. `JAVA_TOOL_OPTIONS` and `JDK_JAVA_OPTIONS`
//! could switch both on, but the machine prints that it read them, so sigtop leaves that to the
//! user.

use std::fmt;

use crate::profile::stack::Frame;
use crate::profile::totals::Span;
use crate::profile::{Clock, Profile};
use crate::symbols::{Names, UNNAMED_CODE};

/// The library of the virtual machine.
const LIBRARY: &str = "libjvm.so";
/// Minimum number of samples through compiled code before anything is said.
const MIN_SAMPLES: u64 = 100;
/// Maximum number of stacks that are looked at.
const MAX_STACKS: usize = 4_096;

/// The advice for a program whose stacks through compiled Java code are truncated or nameless.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JavaAdvice {
    /// A process that runs the virtual machine.
    pub pid: u32,
    /// The share of truncated stacks in percent, if it is more than a tenth.
    pub truncated_percent: Option<u64>,
    /// Whether most of the samples are in code that nothing names.
    pub is_unnamed: bool,
}

impl JavaAdvice {
    /// Looks for stacks through compiled Java code that lack their root or names.
    pub(super) fn find(profile: &Profile, names: &Names, clock: Clock) -> Option<JavaAdvice> {
        let library = profile.modules.ids().find(|&id| profile.modules.file(id).name() == LIBRARY)?;
        let (mut stacks, mut all, mut truncated, mut unnamed) = (0, 0, 0, 0);
        profile.visit(clock, Span::Total, |(_, stack), weight| {
            stacks += 1;
            if stacks > MAX_STACKS {
                return;
            }
            let (mut is_compiled, mut is_truncated, mut is_unnamed) = (false, false, false);
            for frame in profile.stacks.leaf_first(profile.stacks.code(stack)) {
                match profile.frame(frame) {
                    Frame::Unmapped { .. } => {
                        is_compiled = true;
                        let name = names.lines(frame).first();
                        is_unnamed |= name.is_none_or(|line| names.function(line.function).full == UNNAMED_CODE);
                    }
                    Frame::Truncated => is_truncated = true,
                    _ => {}
                }
            }
            if is_compiled {
                all += weight.samples;
                truncated += if is_truncated { weight.samples } else { 0 };
                unnamed += if is_unnamed { weight.samples } else { 0 };
            }
        });
        let percent = (truncated * 100).checked_div(all).filter(|_| all >= MIN_SAMPLES)?;
        let advice = JavaAdvice {
            pid: profile.modules.last_mapped_by(library),
            truncated_percent: (percent > 10).then_some(percent),
            is_unnamed: unnamed * 2 > all,
        };
        (advice.truncated_percent.is_some() || advice.is_unnamed).then_some(advice)
    }

    /// Leaves out what is said of names, if they come later. `None` if nothing is left.
    pub(super) fn without_names(self, come_later: bool) -> Option<JavaAdvice> {
        let is_unnamed = self.is_unnamed && !come_later;
        (is_unnamed || self.truncated_percent.is_some()).then_some(JavaAdvice { is_unnamed, ..self })
    }

    /// The advice in few words, for the header.
    pub fn short(&self) -> &'static str {
        match self.truncated_percent {
            Some(_) => "Java: -XX:+PreserveFramePointer completes stacks",
            None => "Java: jcmd PID Compiler.perfmap gives names",
        }
    }
}

impl fmt::Display for JavaAdvice {
    /// Writes one sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(percent) = self.truncated_percent {
            write!(f, "{percent} % of the stacks through compiled Java code are truncated: ")?;
            f.write_str("start the program with -XX:+PreserveFramePointer")?;
        }
        if self.is_unnamed {
            f.write_str(if self.truncated_percent.is_some() { "; " } else { "compiled Java code has no names: " })?;
            let Self { pid, .. } = self;
            write!(f, "jcmd {pid} Compiler.perfmap names its functions (JDK 17 or later)")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::symbols::scenario::scenario;

    fn advice(text: &str) -> Option<JavaAdvice> {
        let played = scenario(text).unwrap_or_else(|error| panic!("{error}"));
        JavaAdvice::find(&played.profile, &played.names, Clock::Prof)
    }

    #[test]
    fn truncated_and_nameless_java_code_is_said_with_the_remedy() {
        let vm = "process 7 ./app\nat 1s prof 10ms main;libjvm.so+0x4410\n";
        let compiled = "at 2s prof 10ms main;0x7f001234 x 50\nat 2s prof 10ms [truncated];0x7f001234 x 50\n";
        let found = advice(&format!("{vm}{compiled}")).expect("half of the stacks are truncated");
        assert_eq!((found.truncated_percent, found.is_unnamed), (Some(50), true));
        let said = found.to_string();
        assert!(said.starts_with("50 % of the stacks") && said.contains("-XX:+PreserveFramePointer; jcmd "), "{said}");
        assert!(found.short().contains("PreserveFramePointer"));

        let whole = "at 2s prof 10ms main;0x7f001234 x 100\n";
        let found = advice(&format!("{vm}{whole}")).expect("no names");
        assert_eq!(found.without_names(true), None);
        assert!(found.truncated_percent.is_none() && found.to_string().starts_with("compiled Java code has no names"));
        assert_eq!(advice(&format!("process 7 ./app\n{compiled}")), None, "other generated code");
        assert_eq!(advice(vm), None, "too few samples");
    }
}
