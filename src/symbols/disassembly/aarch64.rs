//! Disassembles aarch64, as objdump prints it.

use yaxpeax_arch::{Arch, Decoder, U8Reader};
use yaxpeax_arm::armv8::a64::{ARMv8, Opcode, Operand};

use crate::symbols::assembly::{Instruction, Target};

/// Length of every instruction in bytes.
const LENGTH: u64 = 4;

/// Disassembles bytes that lie at `start`. `name` returns the name of a function outside of them.
pub(super) fn disassemble(bytes: &[u8], start: u64, name: impl Fn(Target) -> Option<String>) -> Box<[Instruction]> {
    let end = start.saturating_add(bytes.len() as u64);
    let is_inside = |address: u64| (start..end).contains(&address);
    let chunks = bytes.chunks(LENGTH as usize).zip((0..).map(|index| start.wrapping_add(LENGTH * index)));
    let decoder = <ARMv8 as Arch>::Decoder::default();
    let instruction = |(bytes, address): (&[u8], u64)| {
        let decoded = decoder.decode(&mut U8Reader::new(bytes));
        let Ok(decoded) = decoded else { return bad(address, bytes.len()) };
        let branch = BranchKind::of(decoded.opcode);
        let place = decoded.operands.iter().position(|operand| matches!(operand, Operand::PCOffset(_)));
        let target = place.map(|place| match decoded.operands[place] {
            Operand::PCOffset(offset) if decoded.opcode == Opcode::ADRP => {
                (address & !0xfff).wrapping_add_signed(offset)
            }
            Operand::PCOffset(offset) => address.wrapping_add_signed(offset),
            _ => address,
        });
        let text = match (place, target) {
            (Some(place), Some(target)) => {
                let named = branch.filter(|_| !is_inside(target)).and_then(|_| name(Target::Address(target)));
                let target = named.unwrap_or_else(|| match is_inside(target) {
                    true => format!("{target:x}"),
                    false => format!("{target:#x}"),
                });
                let others = decoded.operands[..place].iter().map(|operand| format!("{operand}, "));
                format!("{} {}{target}", decoded.opcode, others.collect::<String>())
            }
            _ => decoded.to_string(),
        };
        let jump = target.filter(|&target| branch == Some(BranchKind::Jump) && is_inside(target));
        Instruction { address, length: LENGTH as u8, text: text.into(), jump, place: None }
    };
    chunks.map(instruction).collect()
}

/// The kind of an instruction with the address of code in it.
#[derive(Clone, Copy, PartialEq, Eq)]
enum BranchKind {
    Call,
    Jump,
}

impl BranchKind {
    fn of(opcode: Opcode) -> Option<BranchKind> {
        match opcode {
            Opcode::BL => Some(BranchKind::Call),
            Opcode::B | Opcode::Bcc(_) | Opcode::CBZ | Opcode::CBNZ | Opcode::TBZ | Opcode::TBNZ => {
                Some(BranchKind::Jump)
            }
            _ => None,
        }
    }
}

/// Returns the instruction for bytes that cannot be decoded.
fn bad(address: u64, length: usize) -> Instruction {
    Instruction { address, length: length as u8, text: "(bad)".into(), jump: None, place: None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::property::property;
    use proptest::prelude::*;

    #[test]
    fn jumps_have_targets_and_calls_have_names() {
        let words = [
            0xa9be_7bfdu32, // stp x29, x30, [sp, #-32]!
            0x9100_03fd,    // mov x29, sp
            0xb4ff_ffc0,    // cbz x0 to the first
            0x9400_03fd,    // bl 2000
            0x9000_0090,    // adrp x16, 11000
            0x5400_0040,    // b.eq to the last
            0x9400_0100,    // bl without a name
            0xd65f_03c0,    // ret
        ];
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).chain([1, 2]).collect();
        let name = |target| (target == Target::Address(0x2000)).then(|| "parse".to_owned());
        let code = disassemble(&bytes, 0x100c, name);
        let texts: Vec<&str> = code.iter().map(|instruction| &*instruction.text).collect();
        assert_eq!(
            texts,
            [
                "stp x29, x30, [sp, #-0x20]!",
                "mov x29, sp",
                "cbz x0, 100c",
                "bl 0x200c",
                "adrp x16, 0x11000",
                "b.eq 1028",
                "bl 0x1424",
                "ret",
                "(bad)"
            ]
        );
        let jumps: Vec<Option<u64>> = code.iter().map(|instruction| instruction.jump).collect();
        assert_eq!((jumps[2], jumps[3], jumps[5]), (Some(0x100c), None, Some(0x1028)));
        assert_eq!(&*disassemble(&bytes, 0x1000, name)[3].text, "bl parse");
    }

    proptest! {
        #![proptest_config(property(2048))]
        /// The instructions cover all bytes, whatever they are.
        #[test]
        fn any_bytes_are_covered(bytes in prop::collection::vec(any::<u8>(), 0..200), start in any::<u64>()) {
            let code = disassemble(&bytes, start, |_| None);
            let mut at = start;
            for instruction in &code {
                prop_assert_eq!(instruction.address, at);
                prop_assert!(instruction.length > 0 && !instruction.text.is_empty());
                at = at.wrapping_add(instruction.length.into());
            }
            prop_assert_eq!(at, start.wrapping_add(bytes.len() as u64));
        }
    }
}
