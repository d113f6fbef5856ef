//! Functions of libc before which something of ours runs. The target's call goes on to libc's own
//! function with every argument as it was, those on the stack too.

use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicUsize, Ordering};

use super::loader;

/// Names of libc's functions, and where the address of each is kept.
pub(super) type Table = &'static [(&'static CStr, &'static AtomicUsize)];

/// Saves the registers that hold arguments, and says so to unwinders.
macro_rules! save_arguments {
    () => {
        concat!(
            "push rdi\n.cfi_adjust_cfa_offset 8\n",
            "push rsi\n.cfi_adjust_cfa_offset 8\n",
            "push rdx\n.cfi_adjust_cfa_offset 8\n",
            "push rcx\n.cfi_adjust_cfa_offset 8\n",
            "push r8\n.cfi_adjust_cfa_offset 8\n",
            "push r9\n.cfi_adjust_cfa_offset 8\n",
            "push rax\n.cfi_adjust_cfa_offset 8\n",
        )
    };
}
pub(super) use save_arguments;

/// Takes them back. Flags stay as they are.
macro_rules! restore_arguments {
    () => {
        concat!(
            "pop rax\n.cfi_adjust_cfa_offset -8\n",
            "pop r9\n.cfi_adjust_cfa_offset -8\n",
            "pop r8\n.cfi_adjust_cfa_offset -8\n",
            "pop rcx\n.cfi_adjust_cfa_offset -8\n",
            "pop rdx\n.cfi_adjust_cfa_offset -8\n",
            "pop rsi\n.cfi_adjust_cfa_offset -8\n",
            "pop rdi\n.cfi_adjust_cfa_offset -8\n",
        )
    };
}
pub(super) use restore_arguments;

/// Defines functions that call `$before` with the arguments of the call (up to six, in registers),
/// and then jump to libc's function of the same name; and the `$table` of them for [`look_up`].
/// Constructors of other libraries call them before ours has run: `$before` begins with
/// [`prepare`](super::start::prepare), which looks libc's functions up.
macro_rules! hooks {
    ($table:ident, $before:ident: $($name:ident, $real:ident;)*) => {
        $(
            static $real: core::sync::atomic::AtomicUsize = core::sync::atomic::AtomicUsize::new(0);
            /// Prepares, and goes on to libc's function of this name with every argument as it was.
            #[cfg_attr(sigtop_agent, unsafe(no_mangle))]
            #[unsafe(naked)]
            unsafe extern "C" fn $name() {
                core::arch::naked_asm!(
                    ".cfi_startproc",
                    $crate::agent::hook::save_arguments!(),
                    "call {before}",
                    $crate::agent::hook::restore_arguments!(),
                    "jmp [rip + {real}]",
                    ".cfi_endproc",
                    before = sym $before,
                    real = sym $real,
                )
            }
        )*
        static $table: $crate::agent::hook::Table = &[
            $((
                match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("ends with its NUL"),
                },
                &$real,
            ),)*
        ];
    };
}
pub(super) use hooks;

/// Looks up libc's functions. For the constructor; `here` is an address inside of this library.
pub(super) fn look_up(table: Table, here: usize) {
    for (name, real) in table {
        let found = loader::next(name, here);
        real.store(if found == 0 { missing as *const () as usize } else { found }, Ordering::Relaxed);
    }
}

/// Stands in for a function that this libc does not have, and that nobody can have called before.
extern "C" fn missing() -> c_int {
    -1
}
