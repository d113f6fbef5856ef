//! Decides whether a seccomp filter that the program is about to install allows rt_sigreturn, the
//! system call with which every tick ends. A filter is a program of classic BPF (seccomp(2)), which
//! is run here as the kernel will run it.

use crate::arch::{AUDIT_ARCH, sigreturn_address};

/// A BPF instruction (`struct sock_filter`): operation, jumps if true and if false, operand.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub(crate) struct BpfInstruction {
    code: u16,
    if_true: u8,
    if_false: u8,
    operand: u32,
}

/// A BPF program (`struct sock_fprog`).
#[repr(C)]
pub(crate) struct BpfProgram {
    length: u16,
    code: *const BpfInstruction,
}

/// Maximum number of instructions that the kernel accepts (BPF_MAXINSNS).
const MAX_LENGTH: u16 = 4096;
/// Actions that let the call through: SECCOMP_RET_ALLOW and SECCOMP_RET_LOG.
const ALLOWED: [u32; 2] = [0x7fff_0000, 0x7ffc_0000];

/// Returns whether a filter lets handlers return; false if the program is not a valid filter.
///
/// # Safety
/// `program` is what the target passes to the kernel: null or a readable program.
pub(crate) unsafe fn lets_handlers_return(program: *const BpfProgram) -> bool {
    // SAFETY: the caller passes a readable program or null. A program with a bug may pass an
    // address in the first page.
    let code = unsafe {
        if (program as usize) < 4096 || (*program).length > MAX_LENGTH || ((*program).code as usize) < 4096 {
            return false;
        }
        core::slice::from_raw_parts((*program).code, usize::from((*program).length))
    };
    run(code, libc::SYS_rt_sigreturn as u32, sigreturn_address())
        .is_some_and(|action| ALLOWED.contains(&(action & 0xffff_0000)))
}

/// Runs a filter for a system call without arguments that is made at an address, and returns its
/// result; `None` for a program that the kernel would refuse.
fn run(code: &[BpfInstruction], number: u32, address: u64) -> Option<u32> {
    let data = |offset: u32| match offset {
        0 => Some(number),
        4 => Some(AUDIT_ARCH),
        8 => Some(address as u32),
        12 => Some((address >> 32) as u32),
        16..=60 if offset.is_multiple_of(4) => Some(0),
        _ => None,
    };
    let (mut a, mut x, mut memory) = (0u32, 0u32, [0u32; 16]);
    let mut at = 0;
    // All jumps go forward, so every instruction runs at most once.
    loop {
        let BpfInstruction { code: operation, if_true, if_false, operand } = *code.get(at)?;
        at += 1;
        let second = if operation & 8 != 0 { x } else { operand };
        match (operation & 7, operation) {
            (0, 0x20) => a = data(operand)?,
            (0, 0x00) => a = operand,
            (0, 0x60) => a = *memory.get(operand as usize)?,
            (0, 0x80) => a = 64,
            (1, 0x01) => x = operand,
            (1, 0x61) => x = *memory.get(operand as usize)?,
            (1, 0x81) => x = 64,
            (2, _) => *memory.get_mut(operand as usize)? = a,
            (3, _) => *memory.get_mut(operand as usize)? = x,
            (4, _) => a = calculate(operation & 0xf0, a, second)?,
            (5, 0x05) => at += operand as usize,
            (5, _) => {
                let holds = match operation & 0xf0 {
                    0x10 => a == second,
                    0x20 => a > second,
                    0x30 => a >= second,
                    0x40 => a & second != 0,
                    _ => return None,
                };
                at += usize::from(if holds { if_true } else { if_false });
            }
            (6, 0x06) => return Some(operand),
            (6, 0x16) => return Some(a),
            (7, 0x07) => x = a,
            (7, 0x87) => a = x,
            _ => return None,
        }
    }
}

fn calculate(operation: u16, a: u32, b: u32) -> Option<u32> {
    Some(match operation {
        0x00 => a.wrapping_add(b),
        0x10 => a.wrapping_sub(b),
        0x20 => a.wrapping_mul(b),
        0x30 => a.checked_div(b)?,
        0x40 => a | b,
        0x50 => a & b,
        0x60 => a.checked_shl(b).unwrap_or(0),
        0x70 => a.checked_shr(b).unwrap_or(0),
        0x80 => a.wrapping_neg(),
        0x90 => a.checked_rem(b)?,
        0xa0 => a ^ b,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOW: u32 = 0x7fff_0000;
    const KILL: u32 = 0x8000_0000;

    fn statement(code: u16, operand: u32) -> BpfInstruction {
        BpfInstruction { code, if_true: 0, if_false: 0, operand }
    }

    /// A filter that allows these system calls and kills for all others.
    fn allow_list(numbers: &[u32]) -> Vec<BpfInstruction> {
        let allow = |&number: &u32| {
            [BpfInstruction { code: 0x15, if_true: 0, if_false: 1, operand: number }, statement(0x06, ALLOW)]
        };
        let body = numbers.iter().flat_map(allow);
        [statement(0x20, 0)].into_iter().chain(body).chain([statement(0x06, KILL)]).collect()
    }

    fn lets(code: &[BpfInstruction]) -> bool {
        let program = BpfProgram { length: code.len() as u16, code: code.as_ptr() };
        // SAFETY: a complete program.
        unsafe { lets_handlers_return(&raw const program) }
    }

    #[test]
    fn an_allow_list_lets_handlers_return_if_it_names_the_call() {
        let [write, end, exit] =
            [libc::SYS_write, libc::SYS_rt_sigreturn, libc::SYS_exit_group].map(|call| call as u32);
        assert!(lets(&allow_list(&[write, end, exit])));
        assert!(!lets(&allow_list(&[write, exit])));
        assert!(!lets(&[]));
    }

    #[test]
    fn operations_have_the_kernels_results() {
        // Kills for another architecture. Otherwise (15 + 1) / 2 * 3 - 24 is 0, which is allowed.
        let code = [
            statement(0x20, 4),
            BpfInstruction { code: 0x15, if_true: 1, if_false: 0, operand: AUDIT_ARCH },
            statement(0x06, KILL),
            statement(0x20, 0),
            statement(0x04, 1),
            statement(0x34, 2),
            statement(0x02, 3),
            statement(0x61, 3),
            statement(0x00, 3),
            statement(0x2c, 0),
            statement(0x14, 24),
            BpfInstruction { code: 0x15, if_true: 0, if_false: 1, operand: 0 },
            statement(0x06, 0x7ffc_0000),
            statement(0x06, KILL),
        ];
        assert_eq!(run(&code, 15, 0), Some(0x7ffc_0000));
        assert_eq!(run(&code, 16, 0), Some(0x7ffc_0000), "the quotient is rounded");
        assert_eq!(run(&code, 18, 0), Some(KILL));
        assert_eq!(run(&[statement(0x05, 7)], 15, 0), None, "the jump leaves the program");
    }

    #[test]
    fn a_null_program_does_not_let_handlers_return() {
        // SAFETY: null is compared and not read.
        assert!(!unsafe { lets_handlers_return(core::ptr::null()) });
    }
}
