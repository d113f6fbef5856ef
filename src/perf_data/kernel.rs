//! The kernel of a recording: which it was, and how its addresses become those of a table of
//! symbols on this machine. A kernel that starts moves to another address.

use super::header::FileFacts;
use super::record::MappingRecord;
use crate::symbols::kernel_symbol;
use crate::wire::{KERNEL_START, shorten_kernel_address};

/// The beginning of the path of the kernel's mapping. A symbol follows, whose address is in place
/// of the offset.
const PATH: &[u8] = b"[kernel.kallsyms]";
/// The build id of a kernel of which no table is here.
const UNKNOWN: [u8; 20] = [0; 20];

/// The kernel.
pub(super) struct RecordedKernel {
    /// Its build id, or that of no kernel.
    pub(super) build_id: Box<[u8]>,
    /// The addresses of its own code, without that of modules.
    code: std::ops::Range<u64>,
    /// The number that is added to addresses (wrapping).
    shift: u64,
}

impl Default for RecordedKernel {
    fn default() -> RecordedKernel {
        RecordedKernel { build_id: UNKNOWN.into(), code: 0..0, shift: 0 }
    }
}

impl RecordedKernel {
    /// Finds the kernel that a record describes, if it does.
    pub(super) fn find(facts: &FileFacts, record: &MappingRecord<'_>) -> Option<RecordedKernel> {
        let symbol = record.path.strip_prefix(PATH)?;
        let recorded = Some(facts.build_id(PATH)).filter(|id| !id.is_empty()).unwrap_or(record.build_id);
        let code = record.start..record.start.saturating_add(record.length);
        let found = kernel_symbol(recorded, symbol, record.offset).filter(|_| record.offset != 0);
        Some(match found {
            Some((build_id, address)) => RecordedKernel { build_id, code, shift: address.wrapping_sub(record.offset) },
            None => RecordedKernel { code, ..RecordedKernel::default() },
        })
    }

    /// Returns what stands for an address of the kernel on stacks.
    pub(super) fn shorten(&self, address: u64) -> u64 {
        match self.shift {
            0 => shorten_kernel_address(address),
            shift if self.code.contains(&address) => shorten_kernel_address(address.wrapping_add(shift)),
            // Modules have moved by another distance.
            _ => KERNEL_START,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::is_kernel_address;

    #[test]
    fn code_of_a_kernel_that_has_moved_is_shifted_and_that_of_its_modules_is_unknown() {
        let code = 0xffff_ffff_8100_0000..0xffff_ffff_8200_0000;
        let mut kernel = RecordedKernel { build_id: [1; 20].into(), code, shift: 0x1000_0000 };
        assert_eq!(kernel.shorten(0xffff_ffff_8100_0010), shorten_kernel_address(0xffff_ffff_9100_0010));
        assert_eq!(kernel.shorten(0xffff_ffff_c000_0010), KERNEL_START);
        kernel.shift = 0;
        assert_eq!(kernel.shorten(0xffff_ffff_c000_0010), shorten_kernel_address(0xffff_ffff_c000_0010));
        assert!(is_kernel_address(kernel.shorten(7)));
    }
}
