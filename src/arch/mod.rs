//! The processor: everything that names a register, an instruction or a layout that the kernel's
//! ABI defines differently for each processor. Other folders use the names below and nothing else.
//! To add a processor, write a folder that defines the same items as [`x86_64`], and select it here.
//!
//! The agent and the sampler from outside share this folder, so what is not the sampler's alone is
//! `no_std`. Hostile bytes do no harm.

#[cfg(target_arch = "aarch64")]
mod aarch64;
mod aarch64_stub;
#[cfg(all(test, feature = "agent"))]
mod builtins_tests;
#[cfg(feature = "viewer")]
mod interrupted_stack;
mod leaf_frame;
#[cfg(feature = "agent")]
mod link_register;
#[cfg(feature = "agent")]
mod naked_functions;
mod operation;
#[cfg(feature = "agent")]
mod prologue;
#[cfg(target_arch = "aarch64")]
pub(crate) use aarch64::*;
#[cfg(any(feature = "agent", target_arch = "aarch64"))]
pub(crate) use aarch64_stub::STUB;
pub(crate) use aarch64_stub::linkage_stub;
#[cfg(feature = "viewer")]
pub(crate) use interrupted_stack::interrupted_stack;
pub(crate) use leaf_frame::{LeafCaller, LeafFrame};
#[cfg(feature = "agent")]
pub(crate) use link_register::{LINK_PATH, ReturnPlace, return_place};
#[cfg(feature = "agent")]
pub(crate) use naked_functions::*;
#[cfg(feature = "viewer")]
pub(crate) use operation::{Operation, Transfer};
#[cfg(feature = "agent")]
pub(crate) use prologue::{PROLOGUE, frame_size};
#[cfg(target_arch = "x86_64")]
mod x86_64;
#[cfg(target_arch = "x86_64")]
pub(crate) use x86_64::*;

/// A call instruction before a return address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CallBefore {
    /// It names this function.
    Direct(u64),
    /// It calls through a register or memory.
    Indirect,
}

/// The bytes between a stack pointer and an address further up in the same frame that is a multiple
/// of [`STACK_ALIGNMENT`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameSize {
    /// The minimum.
    pub(crate) bytes: u64,
    /// The function has decreased its stack pointer to a multiple of this power of two; 1 for none.
    pub(crate) alignment: u64,
}

impl FrameSize {
    /// The size of a frame that depends on data, as arrays of variable length make it: the address
    /// is taken to be in the next page.
    pub(crate) const VARIABLE: FrameSize = FrameSize { bytes: 0, alignment: 4096 };

    /// Returns where the address may be. A frame that is not aligned has one such place.
    pub(crate) fn places(self, sp: u64) -> impl Iterator<Item = u64> {
        let lowest = sp.saturating_add(self.bytes);
        let to_first = if self.alignment == 1 { 0 } else { lowest.wrapping_neg() % STACK_ALIGNMENT };
        (to_first..self.alignment).step_by(STACK_ALIGNMENT as usize).map_while(move |more| lowest.checked_add(more))
    }
}

/// Returns the alignment that a mask of the stack pointer makes: a power of two of at most a page.
pub(crate) fn alignment_of(mask: i64) -> Option<u64> {
    let alignment = mask.wrapping_neg() as u64;
    (alignment.is_power_of_two() && alignment <= 4096).then_some(alignment)
}

/// Returns the caller of a function among candidates, each with the call that it has made: the one
/// that called this very function, or the only one. The others are left over from earlier calls.
pub(crate) fn caller_of<T>(function: u64, candidates: impl Iterator<Item = (T, CallBefore)>) -> Option<T> {
    let (mut found, mut is_only) = (None, true);
    for (candidate, call) in candidates {
        if call == CallBefore::Direct(function) {
            return Some(candidate);
        }
        is_only &= found.replace(candidate).is_none();
    }
    found.filter(|_| is_only)
}

/// Returns the first candidate, from the stack pointer on, that has called this very function. Only
/// an array that the function has not filled may hold one of an earlier call before it.
pub(crate) fn direct_caller_of<T>(function: u64, mut candidates: impl Iterator<Item = (T, CallBefore)>) -> Option<T> {
    candidates.find(|(_, call)| *call == CallBefore::Direct(function)).map(|(candidate, _)| candidate)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_aligned_frame_may_have_several_sizes() {
        let size = FrameSize { bytes: 0x48, alignment: 64 };
        assert!(size.places(0x1000).eq([0x1050, 0x1060, 0x1070, 0x1080]));
        for place in (0x2000..0x2100).step_by(16) {
            // Eight bytes below the place, the stack pointer was aligned and then decreased by 64.
            assert!(size.places(((place - 8) & !63) - 0x40).any(|found| found == place), "{place:#x}");
        }
        assert!(FrameSize { bytes: 24, alignment: 1 }.places(0x1000).eq([0x1018]), "one that is not aligned has one");
        assert_eq!(FrameSize { bytes: 8, alignment: 64 }.places(u64::MAX - 4).count(), 0);
        assert!(FrameSize::VARIABLE.places(0x1008).eq((0x1010..0x2008).step_by(16)));
    }

    #[test]
    fn a_mask_of_leading_ones_aligns() {
        assert_eq!([-16, -64, -4096].map(alignment_of), [16, 64, 4096].map(Some));
        assert_eq!([-24, -8192, 0, 16, i64::MIN].map(alignment_of), [None; 5]);
    }

    #[test]
    fn the_caller_has_called_the_function_or_is_the_only_one() {
        let caller = |calls: &[CallBefore]| caller_of(7, calls.iter().copied().enumerate());
        let (direct, other, indirect) = (CallBefore::Direct(7), CallBefore::Direct(8), CallBefore::Indirect);
        assert_eq!(caller(&[other, indirect, direct]), Some(2));
        assert_eq!(caller(&[indirect]), Some(0));
        assert_eq!(caller(&[other]), Some(0), "a function that jumps to another has not called that");
        assert_eq!(caller(&[indirect, other]), None);
        assert_eq!(caller(&[]), None);
        let caller = |calls: &[CallBefore]| direct_caller_of(7, calls.iter().copied().enumerate());
        assert_eq!(caller(&[other, indirect, direct, direct]), Some(2));
        assert_eq!(caller(&[indirect]), None, "that may have been called by the function");
    }
}
