//! Frames of the kernel on stacks.
//!
//! A sampler that may look into the kernel sends the functions of a system call, a page fault or an
//! interrupt as the innermost frames of a stack. The word of a frame has no room for the highest
//! bits of a kernel address, which are all set. They are left out: what is left begins with
//! [`KERNEL_START`], above all addresses of programs, and belongs to one module.

/// Path of the module that has all code of the kernel.
pub const KERNEL_PATH: &[u8] = b"[kernel]";
/// Address of the first byte of that module: the lowest kernel address without its highest bits.
/// Programs have addresses below it, also with 5-level page tables.
pub const KERNEL_START: u64 = 1 << 56;
/// Address after the last byte of that module.
pub const KERNEL_END: u64 = 1 << 57;

/// The file with the number that a kernel draws when it starts. Its addresses are the same until it
/// is started again, so that the number stands for its build id.
pub const BOOT_ID_FILE: &str = "/proc/sys/kernel/random/boot_id";

/// Parses the text of [`BOOT_ID_FILE`], a UUID. Anything else is 0 from there on.
pub fn parse_boot_id(text: &str) -> [u8; 16] {
    let mut id = [0; 16];
    let mut digits = text.chars().filter_map(|digit| digit.to_digit(16));
    for byte in &mut id {
        let (Some(high), Some(low)) = (digits.next(), digits.next()) else { break };
        *byte = (high << 4 | low) as u8;
    }
    id
}

/// Shortens an address of the kernel to what stands for it on stacks.
pub fn shorten_kernel_address(address: u64) -> u64 {
    address & (KERNEL_END - 1) | KERNEL_START
}

/// Returns whether an address on a stack is one of the kernel.
pub fn is_kernel_address(address: u64) -> bool {
    (KERNEL_START..KERNEL_END).contains(&address)
}

#[cfg(test)]
mod tests {
    use super::super::FrameAddress;
    use super::*;

    #[test]
    fn a_start_of_the_kernel_has_a_number() {
        let id = parse_boot_id("00112233-4455-6677-8899-aabbccddeeff\n");
        assert_eq!(id, [0, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff]);
        assert_eq!((parse_boot_id(""), parse_boot_id("f")), ([0; 16], [0; 16]));
    }

    #[test]
    fn addresses_of_the_kernel_fit_the_word_of_a_frame() {
        for address in [0xffff_8000_0000_0000, 0xffff_ffff_8100_0123, 0xff00_0000_0000_0000, u64::MAX] {
            let short = shorten_kernel_address(address);
            assert!(is_kernel_address(short));
            assert_eq!(short | !(KERNEL_END - 1), address);
            let frame = FrameAddress::Instruction(short);
            assert_eq!(FrameAddress::unpack(frame.pack()), frame);
        }
        assert!(!is_kernel_address(0x00ff_ffff_ffff_ffff) && !is_kernel_address(0x7fff_ffff_f000));
    }
}
