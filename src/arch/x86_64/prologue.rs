//! The decoder of the instructions of prologues, for handlers of signals. Other instructions are
//! skipped if their length is known and they do not change the stack pointer.
//!
//! It is the only decoder that a handler can use: that of [`code`](super::code) makes its tables on
//! the heap when it is first used.

use super::machine_code::operands_length;
use super::registers::{FRAME_POINTER, STACK_POINTER};
use crate::arch::operation::{Operation, Transfer};

/// Number of the stack pointer in an instruction.
const RSP: u8 = 4;

/// An instruction that changes neither the stack pointer nor the flow of control.
const OTHER: Operation = Operation::Change([None; 2]);

/// Decodes the instruction that some code begins with. Returns its length, too; `None` for one that
/// is not known.
pub(crate) fn decode_prologue(code: &[u8]) -> Option<(Operation, usize)> {
    let word = |at: usize| code.get(at..at + 4)?.try_into().ok().map(i32::from_le_bytes);
    let known = match *code {
        [0x55, ..] => (push(FRAME_POINTER), 1),
        [0x50..=0x57, ..] => (push(STACK_POINTER), 1),
        [0x41, 0x50..=0x57, ..] => (push(STACK_POINTER), 2),
        [0x48, 0x89, 0xe5, ..] | [0x48, 0x8b, 0xec, ..] => {
            (Operation::Add { to: FRAME_POINTER, from: STACK_POINTER, constant: 0 }, 3)
        }
        [0x48, 0x83, 0xec, bytes, ..] => (add(-i64::from(bytes.cast_signed())), 4),
        [0x48, 0x83, 0xc4, bytes, ..] => (add(bytes.cast_signed().into()), 4),
        [0x48, 0x81, 0xec, ..] => (add(-i64::from(word(3)?)), 7),
        [0x48, 0x81, 0xc4, ..] => (add(word(3)?.into()), 7),
        [0x48, 0x83, 0xe4, mask, ..] => (align(mask.cast_signed().into()), 4),
        [0x48, 0x81, 0xe4, ..] => (align(word(3)?.into()), 7),
        [0x70..=0x7f, ..] => (Operation::Branch(0), 2),
        [0x0f, 0x80..=0x8f, ..] => (Operation::Branch(0), 6),
        // ret, call, jmp, syscall, ud2
        [0xc2 | 0xc3 | 0xe8 | 0xe9 | 0xeb, ..] | [0x0f, 0x05 | 0x0b, ..] => (Operation::Elsewhere, 1),
        _ => return other(code),
    };
    Some(known)
}

/// A `push` of a register. The stack pointer stands for those other than the frame pointer.
fn push(register: usize) -> Operation {
    let registers = [Some(register), None];
    Operation::Store(Transfer { registers, base: STACK_POINTER, offset: -8, to: STACK_POINTER, added: -8 })
}

fn add(constant: i64) -> Operation {
    Operation::Add { to: STACK_POINTER, from: STACK_POINTER, constant }
}

fn align(mask: i64) -> Operation {
    Operation::Align { from: STACK_POINTER, mask }
}

/// Returns the length of an instruction of the common kinds, if it does not change the stack
/// pointer.
fn other(code: &[u8]) -> Option<(Operation, usize)> {
    let prefixes = code.iter().take_while(|byte| matches!(byte, 0x26 | 0x2e | 0x36 | 0x3e | 0x64..=0x66 | 0xf2 | 0xf3));
    let mut at = prefixes.count();
    let narrow = if code[..at].contains(&0x66) { 2 } else { 4 };
    let rex = code.get(at).copied().filter(|byte| byte & 0xf0 == 0x40).unwrap_or(0);
    at += usize::from(rex != 0);
    let opcode = *code.get(at)?;
    at += 1;
    let operands = code.get(at).copied().unwrap_or(0);
    let extension = operands >> 3 & 7;
    // The first is whether operands follow that name registers and memory, the second is the number
    // of bytes of a constant.
    let (has_operands, constant) = match opcode {
        0x0f => {
            at += 1;
            match operands {
                0x10..=0x1f | 0x28..=0x2f | 0x40..=0x6f | 0x74..=0x76 | 0x7e | 0x7f | 0x90..=0x9f => (true, 0),
                0xa3 | 0xaf | 0xb6 | 0xb7 | 0xbe | 0xbf | 0xd0..=0xfe => (true, 0),
                0x70..=0x73 | 0xba | 0xc2 | 0xc4..=0xc6 => (true, 1),
                0xa2 | 0x31 => (false, 0),
                _ => return None,
            }
        }
        0x00..=0x3f if opcode & 7 < 4 => (true, 0),
        0x00..=0x3f if opcode & 7 == 4 => (false, 1),
        0x00..=0x3f if opcode & 7 == 5 => (false, narrow),
        0x63 | 0x84..=0x8b | 0x8d | 0xd0..=0xd3 | 0xfe => (true, 0),
        0x69 | 0x81 | 0xc7 => (true, narrow),
        0x6b | 0x80 | 0x83 | 0xc0 | 0xc1 | 0xc6 => (true, 1),
        0x90 | 0x98 | 0x99 => (false, 0),
        0xa8 | 0xb0..=0xb7 => (false, 1),
        0xa9 => (false, narrow),
        0xb8..=0xbf => (false, if rex & 8 != 0 { 8 } else { narrow }),
        0xf6 => (true, usize::from(extension < 2)),
        0xf7 => (true, if extension < 2 { narrow } else { 0 }),
        0xff => match extension {
            0 | 1 => (true, 0),
            2..=5 => return Some((Operation::Elsewhere, at)),
            6 => return Some((push(STACK_POINTER), at + operands_length(&code[at..])?)),
            _ => return None,
        },
        _ => return None,
    };
    if !has_operands {
        return Some((OTHER, at + constant));
    }
    let length = at + operands_length(code.get(at..)?)? + constant;
    let operands = *code.get(at)?;
    // The prefix says whether a register is one of the upper eight.
    let (changed, upper) = match opcode {
        0x0f | 0x63 | 0x69 | 0x6b | 0x8a | 0x8b | 0x8d => (operands >> 3 & 7, rex & 4),
        0x00..=0x3f if opcode & 2 != 0 => (operands >> 3 & 7, rex & 4),
        _ if operands >> 6 == 3 => (operands & 7, rex & 1),
        _ => return Some((OTHER, length)),
    };
    (changed != RSP || upper != 0).then_some((OTHER, length))
}

#[cfg(test)]
mod tests {
    use crate::arch::{FrameSize, frame_size};

    #[test]
    fn the_size_of_a_frame_is_what_its_prologue_takes() {
        // push rbp; mov rbp, rsp
        let with_base = |more: &[u8]| [&[0x55, 0x48, 0x89, 0xe5], more].concat();
        let size_of = |code: &[u8]| frame_size(code).filter(|size| size.alignment == 1).map(|size| size.bytes);
        let size = |more: &[u8]| size_of(&with_base(more));
        assert_eq!(size(&[]), Some(0));
        assert_eq!(size_of(&[&[0xf3, 0x0f, 0x1e, 0xfa][..], &with_base(&[0x53])].concat()), Some(8), "endbr64");
        // push r15, r14, r12, rbx; sub rsp, 0x20; test rdi, rdi; sete al; jne
        let sleep = [0x41, 0x57, 0x41, 0x56, 0x41, 0x54, 0x53, 0x48, 0x83, 0xec, 0x20, 0x48, 0x85, 0xff];
        assert_eq!(size(&[&sleep[..], &[0x0f, 0x94, 0xc0, 0x75, 0x71]].concat()), Some(0x40));
        assert_eq!(size(&[0x48, 0x83, 0xc4, 0x80, 0xc3]), Some(128), "add rsp, -128");
        assert_eq!(size(&[0x48, 0x81, 0xec, 0, 0x10, 0, 0, 0x48, 0x83, 0x0c, 0x24, 0, 0xe8]), Some(0x1000), "a probe");
        // mov rax, fs:[0x28]; mov [rbp - 8], rax; xor eax, eax; mov rbx, rsp; lea rdi, [rbp - 0x20]
        let guard = [0x64, 0x48, 0x8b, 0x04, 0x25, 0x28, 0, 0, 0, 0x48, 0x89, 0x45, 0xf8, 0x31, 0xc0, 0x48, 0x89, 0xe3];
        assert_eq!(size(&[&guard[..], &[0x48, 0x8d, 0x7d, 0xe0, 0x53]].concat()), Some(8));
        assert_eq!(size(&[0x53, 0xe8, 0, 0, 0, 0, 0x53]), Some(8), "what follows a call is no prologue");
        assert_eq!(size(&[0x53, 0x48, 0x83]), None, "cut off in an instruction");
    }

    #[test]
    fn a_base_pointer_that_is_set_in_the_aligned_stack_has_one_place() {
        // lea r10, [rsp + 8]; and rsp, -64; push [r10 - 8]; push rbp; mov rbp, rsp; push r10
        let code = [
            &[0x4c, 0x8d, 0x54, 0x24, 8, 0x48, 0x83, 0xe4, 0xc0, 0x41, 0xff, 0x72, 0xf8][..],
            &[0x55, 0x48, 0x89, 0xe5, 0x41, 0x52, 0x48, 0x83, 0xec, 0x48],
        ]
        .concat();
        assert_eq!(frame_size(&code), Some(FrameSize { bytes: 0x50, alignment: 1 }));
    }

    #[test]
    fn an_aligned_frame_has_an_alignment() {
        // push rbp; mov rbp, rsp; push rbx; and rsp, -64; sub rsp, 0x40
        let code = [0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x83, 0xe4, 0xc0, 0x48, 0x83, 0xec, 0x40];
        assert_eq!(frame_size(&code), Some(FrameSize { bytes: 0x48, alignment: 64 }));
    }

    /// The decoder of all instructions is the oracle, on the first instructions of all functions of
    /// this program.
    #[cfg(feature = "viewer")]
    #[test]
    fn both_decoders_give_prologues_the_same_effect() {
        use super::*;
        use crate::arch::{PROLOGUE, decode};
        use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
        /// The effect on the stack pointer, and on a frame pointer that becomes the stack pointer.
        fn on_stack(operation: Operation) -> Operation {
            match operation {
                Operation::Add { to: STACK_POINTER, .. } | Operation::Align { .. } => operation,
                Operation::Add { to: FRAME_POINTER, from: STACK_POINTER, constant: 0 } => operation,
                Operation::Store(transfer) if transfer.to == STACK_POINTER && transfer.added != 0 => {
                    push(transfer.registers[0].filter(|&register| register == FRAME_POINTER).unwrap_or(STACK_POINTER))
                }
                Operation::Load(transfer) if transfer.to == STACK_POINTER && transfer.added != 0 => operation,
                Operation::Change(changed) if changed.contains(&Some(STACK_POINTER)) => operation,
                Operation::Branch(_) => Operation::Branch(0),
                _ => OTHER,
            }
        }
        let bytes = std::fs::read("/proc/self/exe").expect("this program");
        let file = object::File::parse(&*bytes).expect("an ELF file");
        let text = file.section_by_name(".text").expect("code");
        let data = text.data().expect("bytes");
        let (mut functions, mut instructions) = (0, 0);
        for symbol in file.symbols().filter(|symbol| symbol.section_index() == Some(text.index())) {
            let start = (symbol.address() - text.address()) as usize;
            let mut code = &data[start..][..symbol.size().min(PROLOGUE as u64) as usize];
            functions += usize::from(!code.is_empty());
            while let Some((operation, length)) = decode_prologue(code).filter(|known| known.0 != Operation::Elsewhere)
            {
                let Some((whole, whole_length)) = decode(code) else { break };
                let name = symbol.name();
                assert_eq!((length, operation), (whole_length, on_stack(whole)), "{name:?}: {code:x?}");
                instructions += 1;
                code = &code[length.min(code.len())..];
            }
        }
        assert!(functions > 1000 && instructions > 10 * functions, "{instructions} in {functions} functions");
    }

    #[test]
    fn what_is_not_understood_has_no_size() {
        let size = |more: &[u8]| frame_size(&[&[0x55, 0x48, 0x89, 0xe5], more].concat());
        assert_eq!(frame_size(&[]), None);
        assert_eq!(frame_size(&[0x53, 0x48, 0x83, 0xec, 0x20, 0xc3]), None, "no base pointer");
        assert_eq!(frame_size(&[0x48, 0x89, 0xe5, 0xc3]), None, "the caller's base pointer is not saved");
        assert_eq!(size(&[0x48, 0x83, 0xe4, 0xe8]), None, "and rsp, -24");
        assert_eq!(size(&[0x48, 0x83, 0xe4, 0xe0, 0x48, 0x83, 0xe4, 0xe0]), None, "and rsp, -32, twice");
        assert_eq!(size(&[0x48, 0x29, 0xc4]), None, "sub rsp, rax");
        assert_eq!(size(&[0x48, 0x8d, 0x64, 0x24, 0xe0]), None, "lea rsp, [rsp - 32]");
        assert_eq!(size(&[0x4c, 0x89, 0xd4]), None, "mov rsp, r10");
        assert_eq!(size(&[0x5b]), None, "pop rbx");
        assert_eq!(size(&[0xc5, 0xf8, 0x11, 0x45]), None, "a vector instruction");
        assert_eq!(size(&[0x48, 0x83, 0xec, 0xe0]), None, "a negative size");
    }

    proptest::proptest! {
        #![proptest_config(crate::property::property(256))]
        #[test]
        fn no_bytes_do_harm(code in proptest::collection::vec(proptest::num::u8::ANY, 0..40)) {
            let with_base = [&[0x55, 0x48, 0x89, 0xe5], &code[..]].concat();
            proptest::prop_assert!(frame_size(&with_base).is_none_or(|size| size.bytes < 1 << 40));
        }
    }
}
