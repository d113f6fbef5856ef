//! Disassembles x86-64, as objdump prints it.

use iced_x86::{Decoder, DecoderOptions, Formatter, GasFormatter, Instruction as Decoded, Mnemonic, OpKind};

use crate::symbols::assembly::{Instruction, Target};

/// Disassembles bytes that lie at `start`. `name` returns the name of a function outside of them.
pub(super) fn disassemble(bytes: &[u8], start: u64, name: impl Fn(Target) -> Option<String>) -> Box<[Instruction]> {
    let end = start.saturating_add(bytes.len() as u64);
    let mut decoder = Decoder::with_ip(64, bytes, start, DecoderOptions::NONE);
    let mut formatter = GasFormatter::new();
    let options = formatter.options_mut();
    options.set_uppercase_hex(false);
    options.set_rip_relative_addresses(true);
    options.set_space_after_operand_separator(false);
    options.set_branch_leading_zeros(false);
    options.set_small_hex_numbers_in_decimal(false);
    let mut instructions = Vec::new();
    let mut decoded = Decoded::default();
    let mut text = String::new();
    while decoder.can_decode() {
        let position = decoder.position();
        decoder.decode_out(&mut decoded);
        let mut length = decoded.len().clamp(1, 15);
        if decoded.is_invalid() {
            // Data between code may have any length, so decoding resumes at the next byte.
            length = 1;
            decoder.set_ip(decoded.ip().wrapping_add(1));
            // The position lies before the current one, so it is valid.
            let _ = decoder.set_position(position + 1);
        }
        text.clear();
        let mut jump = None;
        let target = target(&decoded);
        let inner = matches!(target, Some(Target::Address(to)) if (start..end).contains(&to));
        match target {
            Some(Target::Address(to)) if inner && decoded.mnemonic() != Mnemonic::Call => {
                jump = Some(to);
                formatter.format_mnemonic(&decoded, &mut text);
                text.push_str(&format!(" {to:x}"));
            }
            _ if decoded.is_invalid() => text.push_str("(bad)"),
            Some(to) => match name(to) {
                Some(name) if matches!(to, Target::Slot(_)) => {
                    let word = if decoded.mnemonic() == Mnemonic::Call { "call" } else { "jmp" };
                    text.push_str(&format!("{word} *{name}@GOT"));
                }
                Some(name) => {
                    formatter.format_mnemonic(&decoded, &mut text);
                    text.push_str(&format!(" {name}"));
                }
                None => formatter.format(&decoded, &mut text),
            },
            None => formatter.format(&decoded, &mut text),
        }
        instructions.push(Instruction {
            address: decoded.ip(),
            length: length as u8,
            text: text.as_str().into(),
            jump,
            place: None,
        });
    }
    instructions.into()
}

fn target(decoded: &Decoded) -> Option<Target> {
    let branches = matches!(decoded.mnemonic(), Mnemonic::Call | Mnemonic::Jmp);
    match decoded.op0_kind() {
        OpKind::NearBranch16 | OpKind::NearBranch32 | OpKind::NearBranch64 if decoded.op_count() > 0 => {
            Some(Target::Address(decoded.near_branch_target()))
        }
        OpKind::Memory if branches && decoded.is_ip_rel_memory_operand() => {
            Some(Target::Slot(decoded.ip_rel_memory_address()))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::property::property;
    use proptest::prelude::*;

    fn name(target: Target) -> Option<String> {
        match target {
            Target::Address(0x2000) => Some("parse".to_owned()),
            Target::Slot(0x3008) => Some("memcpy".to_owned()),
            _ => None,
        }
    }

    #[test]
    fn jumps_have_targets_and_calls_have_names() {
        let bytes = [
            0x55, // push %rbp
            0x48, 0x89, 0xe5, // mov %rsp,%rbp
            0x74, 0xfa, // je to the first
            0xe8, 0xf5, 0x0f, 0x00, 0x00, // call 2000
            0xff, 0x15, 0xf7, 0x1f, 0x00, 0x00, // call *1ff7(%rip): slot 3008
            0xe8, 0x00, 0x01, 0x00, 0x00, // call without a name
            0x8b, 0x05, 0x10, 0x00, 0x00, 0x00, // mov 0x10(%rip),%eax
            0x06, // invalid
            0xc3,
        ];
        let code = disassemble(&bytes, 0x1000, name);
        let texts: Vec<&str> = code.iter().map(|instruction| &*instruction.text).collect();
        assert_eq!(
            texts,
            [
                "push %rbp",
                "mov %rsp,%rbp",
                "je 1000",
                "call parse",
                "call *memcpy@GOT",
                "call 0x1116",
                "mov 0x10(%rip),%eax",
                "(bad)",
                "ret"
            ]
        );
        assert_eq!(code.iter().map(|instruction| instruction.jump).nth(2), Some(Some(0x1000)));
        assert_eq!(code.iter().filter(|instruction| instruction.jump.is_some()).count(), 1);
        assert_eq!(code.iter().map(|instruction| usize::from(instruction.length)).sum::<usize>(), bytes.len());
    }

    proptest! {
        #![proptest_config(property(256))]
        /// The instructions cover all bytes.
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
