//! libc's calls that change the credentials of the process. libc changes those of every thread that
//! it knows, and it does not know the agent thread. The agent thread is asked to change its own,
//! and the call returns once it has.
//!
//! Raw system calls change a single thread and are not interposed. A change of the first thread is
//! noticed when the agent thread next reads the process's status.

use core::ffi::c_int;
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::agent::os::libc_functions;
use crate::agent::{requests, start};

type Call = unsafe extern "C" fn(usize, usize, usize) -> c_int;

/// Makes the call. If it succeeds, waits for the agent thread to change its credentials too.
///
/// # Safety
/// The arguments are those of libc's function of this name.
unsafe fn follow_after(real: &AtomicUsize, arguments: [usize; 3]) -> c_int {
    if real.load(Ordering::Relaxed) == 0 {
        // A constructor of the program's runs before the agent's.
        start::prepare();
    }
    let address = real.load(Ordering::Relaxed);
    if address == 0 {
        return -1;
    }
    let [a, b, c] = arguments;
    // SAFETY: libc's own function with the caller's arguments, of which there are at most three,
    // all in registers.
    let result = unsafe { core::mem::transmute::<usize, Call>(address)(a, b, c) };
    if result == 0 {
        requests::await_following();
    }
    result
}

macro_rules! followed {
    ($($name:ident, $real:path;)*) => {
        $(
            /// Calls libc's function of this name; the agent thread's credentials follow.
            ///
            /// # Safety
            /// The caller keeps the contract of the function that this one replaces in libc.
            #[cfg_attr(sigtop_agent, unsafe(no_mangle))]
            unsafe extern "C" fn $name(a: usize, b: usize, c: usize) -> c_int {
                // SAFETY: the caller upholds the contract of libc's function.
                unsafe { follow_after(&$real, [a, b, c]) }
            }
        )*
    };
}

followed! {
    setuid, libc_functions::SETUID;
    setgid, libc_functions::SETGID;
    seteuid, libc_functions::SETEUID;
    setegid, libc_functions::SETEGID;
    setreuid, libc_functions::SETREUID;
    setregid, libc_functions::SETREGID;
    setresuid, libc_functions::SETRESUID;
    setresgid, libc_functions::SETRESGID;
    setgroups, libc_functions::SETGROUPS;
    initgroups, libc_functions::INITGROUPS;
    capset, libc_functions::CAPSET;
}
