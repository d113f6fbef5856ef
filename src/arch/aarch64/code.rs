//! The decoder of aarch64 instructions.

use super::machine_code::{INSTRUCTION, branch_offset, is_indirect_call};
use super::registers::STACK_POINTER;
use crate::arch::operation::{Operation, Transfer};

/// The register number that stands for the stack pointer in addresses and in additions of
/// constants, and for zero elsewhere.
const SP: usize = STACK_POINTER;

/// Length of every instruction in bytes.
#[cfg(feature = "viewer")]
pub(crate) const MAX_INSTRUCTION: usize = INSTRUCTION;

/// Decodes the instruction that some code begins with. Returns its length, too.
pub(crate) fn decode(code: &[u8]) -> Option<(Operation, usize)> {
    Some((operation(u32::from_le_bytes(*code.first_chunk()?)), INSTRUCTION))
}

#[cfg(feature = "agent")]
pub(crate) use self::decode as decode_prologue;

fn operation(instruction: u32) -> Operation {
    let field = |low: u32, bits: u32| (instruction >> low & ((1 << bits) - 1)) as usize;
    let signed = |low: u32, bits: u32| i64::from((instruction << (32 - low - bits)) as i32 >> (32 - bits));
    let (to, from, second) = (field(0, 5), field(5, 5), field(10, 5));
    match instruction {
        // bl, blr
        _ if instruction >> 26 == 0b10_0101 || is_indirect_call(instruction) => Operation::Call,
        // b
        _ if instruction >> 26 == 0b00_0101 => Operation::Jump(branch_offset(instruction)),
        // b.cond, cbz and cbnz, tbz and tbnz
        _ if instruction & 0xff00_0000 == 0x5400_0000 || instruction & 0x7e00_0000 == 0x3400_0000 => {
            Operation::Branch(signed(5, 19) * INSTRUCTION as i64)
        }
        _ if instruction & 0x7e00_0000 == 0x3600_0000 => Operation::Branch(signed(5, 14) * INSTRUCTION as i64),
        // ret, retaa, retab
        _ if instruction & 0xffff_fc1f == 0xd65f_0000 || matches!(instruction, 0xd65f_0bff | 0xd65f_0fff) => {
            Operation::Return(0)
        }
        // br, braa and their like
        _ if instruction & 0xfeff_f000 == 0xd61f_0000 => Operation::Elsewhere,
        // udf, brk
        _ if instruction >> 16 == 0 || instruction & 0xffe0_001f == 0xd420_0000 => Operation::End,
        // add and sub of a constant, 64 bits, without flags
        _ if instruction & 0xbf80_0000 == 0x9100_0000 => {
            let constant = (field(10, 12) as i64) << if field(22, 1) == 1 { 12 } else { 0 };
            Operation::Add { to, from, constant: if field(30, 1) == 1 { -constant } else { constant } }
        }
        // mov of a whole register: orr with the register zero
        _ if instruction & 0xffe0_ffe0 == 0xaa00_03e0 => match (to, field(16, 5)) {
            (SP, _) => Operation::Change([None; 2]),
            (to, SP) => Operation::Change([Some(to), None]),
            (to, from) => Operation::Add { to, from, constant: 0 },
        },
        // and sp, xN, #-2^n: the mask is ones from bit n on
        _ if instruction & 0xffc0_001f == 0x9240_001f => {
            let (rotation, ones) = (field(16, 6), field(10, 6) + 1);
            match ones == rotation {
                true => Operation::Align { from, mask: -1 << (64 - ones) },
                false => Operation::Change([Some(SP), None]),
            }
        }
        // ldp and stp of whole registers, with all kinds of addresses
        _ if instruction & 0xfe00_0000 == 0xa800_0000 => {
            let offset = signed(15, 7) * 8;
            let transfer = Transfer::new([to, second], from, offset, field(23, 2));
            if field(22, 1) == 1 { Operation::Load(transfer) } else { Operation::Store(transfer) }
        }
        // ldr and str of a whole register: with any offset or a changed base, or a positive offset
        _ if matches!(instruction & 0xffe0_0000, 0xf840_0000 | 0xf800_0000) => {
            let transfer = Transfer::new([to], from, signed(12, 9), field(10, 2));
            if field(22, 1) == 1 { Operation::Load(transfer) } else { Operation::Store(transfer) }
        }
        _ if matches!(instruction & 0xffc0_0000, 0xf940_0000 | 0xf900_0000) => {
            let transfer = Transfer::new([to], from, field(10, 12) as i64 * 8, 0b10);
            if field(22, 1) == 1 { Operation::Load(transfer) } else { Operation::Store(transfer) }
        }
        // Other pairs: of vector registers, or of half registers.
        _ if instruction & 0x3a00_0000 == 0x2800_0000 => {
            let (is_vector, is_load, mode) = (field(26, 1) == 1, field(22, 1) == 1, field(23, 2));
            let size = match (is_vector, field(30, 2)) {
                (true, size) => 4 << size,
                (false, 0b10) => 8,
                (false, _) => 4,
            };
            let added = if mode & 1 == 1 { signed(15, 7) * size } else { 0 };
            let changed = if is_load && !is_vector { [Some(to), Some(second)] } else { [None; 2] };
            with_base(changed, from, added)
        }
        // Other loads and stores of one register with a changed base.
        _ if instruction & 0x3b20_0400 == 0x3800_0400 => {
            let is_load = field(22, 2) != 0 && field(26, 1) == 0;
            with_base([is_load.then_some(to), None], from, signed(12, 9))
        }
        // Other stores of one register.
        _ if instruction & 0x3b40_0000 == 0x3900_0000 || instruction & 0x3f60_0c00 == 0x3800_0000 => {
            Operation::Change([None; 2])
        }
        // Hints, barriers, system registers, system calls: `svc` returns in x0.
        _ if instruction & 0xff00_0000 == 0xd500_0000 && field(21, 1) == 0 => Operation::Change([None; 2]),
        _ if instruction & 0xffe0_001f == 0xd400_0001 => Operation::Change([None; 2]),
        // Comparisons: their result goes to the register zero.
        _ if to == SP && instruction & 0x1f00_0000 == 0x1100_0000 && field(29, 1) == 0 => {
            Operation::Change([Some(SP), None])
        }
        _ if to == SP && instruction & 0x1fe0_0000 == 0x0b20_0000 && field(29, 1) == 0 => {
            Operation::Change([Some(SP), None])
        }
        _ if to == SP => Operation::Change([None; 2]),
        _ => Operation::Change([Some(to), None]),
    }
}

/// An operation that changes registers, and adds to a base.
fn with_base(changed: [Option<usize>; 2], base: usize, added: i64) -> Operation {
    match changed {
        [None, None] if added != 0 => Operation::Add { to: base, from: base, constant: added },
        [Some(one), None] if added != 0 => Operation::Change([Some(one), Some(base)]),
        changed => Operation::Change(changed),
    }
}

impl Transfer {
    /// `mode` is that of the instruction: 1 adds the offset after the transfer, 3 before it, others
    /// do not.
    fn new<const N: usize>(registers: [usize; N], base: usize, offset: i64, mode: usize) -> Transfer {
        let (offset, added) = match mode {
            0b01 => (0, offset),
            0b11 => (offset, offset),
            _ => (offset, 0),
        };
        let mut places = [None; 2];
        for (place, register) in places.iter_mut().zip(registers) {
            *place = Some(register);
        }
        Transfer { registers: places, base, offset, to: base, added }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The instructions and their codes are those of GNU as.
    #[test]
    fn the_instructions_of_prologues_and_epilogues_are_known() {
        let pair = |offset, added| Transfer { registers: [Some(29), Some(30)], base: SP, offset, to: SP, added };
        let one =
            |register, offset, added| Transfer { registers: [Some(register), None], base: SP, offset, to: SP, added };
        let add = |to, from, constant| Operation::Add { to, from, constant };
        let expected = [
            (0xa9be_7bfd, Operation::Store(pair(-32, -32))), // stp x29, x30, [sp, #-32]!
            (0xa8c2_7bfd, Operation::Load(pair(0, 32))),     // ldp x29, x30, [sp], #32
            (0xa901_7bfd, Operation::Store(pair(16, 0))),    // stp x29, x30, [sp, #16]
            (0xa941_7bfd, Operation::Load(pair(16, 0))),     // ldp x29, x30, [sp, #16]
            (0xf81f_0ffe, Operation::Store(one(30, -16, -16))), // str x30, [sp, #-16]!
            (0xf841_07fe, Operation::Load(one(30, 0, 16))),  // ldr x30, [sp], #16
            (0xf900_0bf3, Operation::Store(one(19, 16, 0))), // str x19, [sp, #16]
            (0xf940_0bf3, Operation::Load(one(19, 16, 0))),  // ldr x19, [sp, #16]
            (0xf85f_83b3, Operation::Load(Transfer { base: 29, to: 29, ..one(19, -8, 0) })), // ldur x19, [x29, #-8]
            (0xf81f_83b3, Operation::Store(Transfer { base: 29, to: 29, ..one(19, -8, 0) })), // stur x19, [x29, #-8]
            (0x9100_03fd, add(29, SP, 0)),                   // mov x29, sp
            (0x9100_03bf, add(SP, 29, 0)),                   // mov sp, x29
            (0xd100_c3ff, add(SP, SP, -48)),                 // sub sp, sp, #48
            (0x9100_c3ff, add(SP, SP, 48)),                  // add sp, sp, #48
            (0xd140_07ff, add(SP, SP, -4096)),               // sub sp, sp, #1, lsl #12
            (0xaa13_03e0, add(0, 19, 0)),                    // mov x0, x19
            (0x927a_e53f, Operation::Align { from: 9, mask: -64 }), // and sp, x9, #0xffffffffffffffc0
            (0xcb30_63ff, Operation::Change([Some(SP), None])), // sub sp, sp, x16
            (0x6d01_23e9, Operation::Change([None, None])),  // stp d9, d8, [sp, #16]
            (0x6dbe_23e9, add(SP, SP, -32)),                 // stp d9, d8, [sp, #-32]!
            (0xf100_041f, Operation::Change([None, None])),  // cmp x0, #1
            (0xeb01_001f, Operation::Change([None, None])),  // cmp x0, x1
            (0xd503_233f, Operation::Change([None, None])),  // paciasp
            (0xd400_0001, Operation::Change([None, None])),  // svc #0
            (0x8b01_0013, Operation::Change([Some(19), None])), // add x19, x0, x1
            (0x9400_0001, Operation::Call),                  // bl .+4
            (0x1400_0002, Operation::Jump(8)),               // b .+8
            (0x5400_0040, Operation::Branch(8)),             // b.eq .+8
            (0xb4ff_ffe0, Operation::Branch(-4)),            // cbz x0, .-4
            (0x3607_ffe0, Operation::Branch(-4)),            // tbz w0, #0, .-4
            (0xd65f_03c0, Operation::Return(0)),             // ret
            (0xd65f_0bff, Operation::Return(0)),             // retaa
            (0xd61f_0200, Operation::Elsewhere),             // br x16
            (0xd420_7d00, Operation::End),                   // brk #1000
        ];
        for (instruction, operation) in expected {
            assert_eq!(super::operation(instruction), operation, "{instruction:x}");
        }
    }
    #[test]
    #[cfg(feature = "agent")]
    fn the_size_of_a_frame_is_what_its_prologue_takes() {
        let size = |code: &[u32]| {
            let bytes: std::vec::Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
            crate::arch::frame_size(&bytes).map(|size| size.bytes)
        };
        // stp x29, x30, [sp, #-32]!; mov x29, sp; sub sp, sp, #48; ret
        assert_eq!(size(&[0xa9be_7bfd, 0x9100_03fd, 0xd100_c3ff, 0xd65f_03c0]), Some(48));
        // sub sp, sp, #48; stp x29, x30, [sp, #16]; add x29, sp, #16
        assert_eq!(size(&[0xd100_c3ff, 0xa901_7bfd, 0x9100_43fd]), Some(16));
        // stp x29, x30, [sp, #-32]!; ret
        assert_eq!(size(&[0xa9be_7bfd, 0xd65f_03c0]), None, "no frame pointer");
        // mov x29, sp; sub sp, sp, x16
        assert_eq!(size(&[0x9100_03fd, 0xcb30_63ff]), None, "a size that is not constant");
        // bti c; paciasp; stp x29, x30, [sp, #-32]!; mov x29, sp; sub sp, sp, #48; autiasp; ret
        let signed = [0xd503_245f, 0xd503_233f, 0xa9be_7bfd, 0x9100_03fd, 0xd100_c3ff, 0xd503_23bf, 0xd65f_03c0];
        assert_eq!(size(&signed), Some(48), "a landing pad, and a signed return address");
        assert_eq!(size(&[]), None);
    }

    #[test]
    #[cfg(feature = "agent")]
    fn the_code_tells_where_the_return_address_is() {
        use crate::arch::{ReturnPlace, return_place};
        // bti c; paciasp; sub sp, sp, #48; stp x29, x30, [sp, #16]; cbz x0, .-4; bl .+4;
        // ldp x29, x30, [sp, #16]; add sp, sp, #48; autiasp; ret
        let code: [u32; 10] = [
            0xd503_245f,
            0xd503_233f,
            0xd100_c3ff,
            0xa901_7bfd,
            0xb4ff_ffe0,
            0x9400_0001,
            0xa941_7bfd,
            0x9100_c3ff,
            0xd503_23bf,
            0xd65f_03c0,
        ];
        let bytes: std::vec::Vec<u8> = code.iter().flat_map(|word| word.to_le_bytes()).collect();
        let place = |index: usize| return_place(&bytes[4 * index..]);
        let register = |frame| Some(ReturnPlace::Register { frame });
        assert_eq!([0, 1, 2, 3].map(place), [register(0), register(0), register(0), register(48)]);
        assert_eq!([4, 5, 6].map(place), [Some(ReturnPlace::Stack); 3]);
        assert_eq!([7, 8, 9].map(place), [register(48), register(0), register(0)]);
        assert_eq!(place(10), None, "there is no code");
        // b .+8; udf #0; ret; br x16
        let jumps: std::vec::Vec<u8> =
            [0x1400_0002u32, 0, 0xd65f_03c0, 0xd61f_0200].iter().flat_map(|word| word.to_le_bytes()).collect();
        assert_eq!(return_place(&jumps), register(0));
        assert_eq!([4, 12].map(|at| return_place(&jumps[at..])), [None; 2], "an end, and a jump to somewhere");
    }
}
