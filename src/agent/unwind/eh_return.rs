//! Functions that raise exceptions and end with a jump to a landing pad: libgcc's
//! `_Unwind_RaiseException`, `_Unwind_Resume` and their like. They use `__builtin_eh_return`.
//!
//! Such a function saves all registers, finds the landing pad, and then *installs* the landing
//! pad's context: it replaces what it has saved, its own return address included, by what the
//! landing pad is to find, and writes the landing pad's address over the return address that the
//! landing pad's function expects. From then on its frame says nothing about its caller. The walk
//! goes on in the landing pad's function, whose registers the two contexts in the frame tell.

use crate::agent::unwind::registers::Caller;
use crate::arch::{CONTEXT_REGISTERS, FRAME_POINTER, LINK_REGISTER, RETURN_ADDRESS, strip_signature};
use crate::process::unwind::{CallerValue, PackedRule, plus};

/// Maximum size of a frame in which contexts are looked for, in words: two, and as many registers.
const MAX_WORDS: u64 = 4 * CONTEXT_REGISTERS + 188;
/// Maximum size of a frame among whose words a return address is looked for.
const MAX_STEP: u64 = 8192;
/// Size of a word in bytes.
const WORD: u64 = 8;
/// Words of libgcc's `struct _Unwind_Context`: the addresses at which registers are saved, by DWARF
/// number and with one to spare; the canonical frame address; the address of the code; flags.
const SAVED_FRAME_POINTER: u64 = FRAME_POINTER as u64;
const SAVED_RETURN_ADDRESS: u64 = RETURN_ADDRESS as u64;
const CONTEXT_CFA: u64 = CONTEXT_REGISTERS + 1;
const CONTEXT_ADDRESS: u64 = CONTEXT_CFA + 1;
const CONTEXT_FLAGS: u64 = CONTEXT_CFA + 6;
/// The flags of every context, apart from the one of the frame of a signal.
const EXTENDED: u64 = 1 << 62;
const SIGNAL_FRAME: u64 = 1 << 63;

/// Returns the landing pad's frame, if a function with `__builtin_eh_return` has begun to install
/// it. `sp` and `bp` are those of its frame, `cfa` is the canonical frame address, `return_at` the
/// place of the return address, and `word` reads the stack.
pub(crate) fn landing_pad(
    rule: PackedRule,
    (sp, bp): (u64, Option<u64>),
    cfa: u64,
    return_at: u64,
    word: &mut dyn FnMut(u64) -> Option<u64>,
) -> Option<Caller> {
    // The last instructions: only the landing pad's address is left to be taken from the stack.
    // With a link register nothing is left there, and their rules name no word.
    let is_based = |register: u8| usize::from(register) == FRAME_POINTER || LINK_REGISTER.is_some();
    if !matches!(rule.cfa, CallerValue::Register(register, _) if is_based(register)) {
        return Some(Caller::at_landing_pad(word(return_at)?, cfa, bp));
    }
    let [CallerValue::AtCfa(offset)] = rule.saved else { return None };
    let base_at = plus(cfa, offset);
    let words = (cfa.checked_sub(sp)? / WORD).min(MAX_WORDS);
    let start = cfa - words * WORD;
    // Context of the function itself, as it was entered.
    let own = (CONTEXT_CFA..words).map(|at| start + (at - CONTEXT_CFA) * WORD).find(|&own| {
        let mut says = |at: u64, value: u64| word(own + at * WORD) == Some(value);
        says(CONTEXT_CFA, cfa) && says(SAVED_RETURN_ADDRESS, return_at)
    })?;
    // Context of the frame that the search has reached.
    let target = (CONTEXT_FLAGS..words).map(|at| start + (at - CONTEXT_FLAGS) * WORD).find(|&target| {
        target != own && word(target + CONTEXT_FLAGS * WORD).is_some_and(|flags| flags & !SIGNAL_FRAME == EXTENDED)
    })?;
    let (target_base_at, target_return_at) =
        (word(target + SAVED_FRAME_POINTER * WORD)?, word(target + SAVED_RETURN_ADDRESS * WORD)?);
    let (target_sp, address) = (word(target + CONTEXT_CFA * WORD)?, word(target + CONTEXT_ADDRESS * WORD)?);
    let target_return = strip_signature(word(target_return_at)?);
    let installed = strip_signature(word(return_at)?);
    let is_installed = if installed != word(own + CONTEXT_ADDRESS * WORD)? {
        // Contexts that an earlier call has left behind say something else.
        installed == address || target_return_at != return_at && [installed, address].contains(&target_return)
    } else {
        // The frame pointer is replaced before. It may also be equal by chance, while the search
        // takes a step: then the address is still the return address of the frame before.
        target_base_at != base_at && word(target_base_at) == word(base_at) && {
            let slots = (0..MAX_STEP).map(|at| target_return_at.wrapping_sub(at * WORD));
            !slots.take_while(|&at| at >= return_at).any(|at| word(at) == Some(address))
        }
    };
    is_installed.then(|| Caller::at_landing_pad(address, target_sp, word(target_base_at)))
}
