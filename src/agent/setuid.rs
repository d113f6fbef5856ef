//! libc's calls that change the credentials of the whole process. libc carries a change to every
//! thread that it knows, and the agent's is none: the agent thread is asked to follow, and the call
//! returns when it has.
//!
//! Raw system calls change one thread alone and are not seen; a change of the first thread is found
//! at the next look at the process.

use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicUsize, Ordering};

use super::{credentials, guard, loader, start};

type Call = unsafe extern "C" fn(usize, usize, usize) -> c_int;

/// Makes the call, and waits for the agent thread to follow where it succeeds.
///
/// # Safety
/// The arguments are those of libc's function of this name.
unsafe fn follow_after(real: &AtomicUsize, arguments: [usize; 3]) -> c_int {
    if real.load(Ordering::Relaxed) == 0 {
        // A constructor of the program's runs before ours.
        start::prepare();
    }
    let address = real.load(Ordering::Relaxed);
    if address == 0 {
        return -1;
    }
    let [a, b, c] = arguments;
    // SAFETY: libc's own function with the caller's arguments; it takes three at most, all of them
    // in registers.
    let result = unsafe { core::mem::transmute::<usize, Call>(address)(a, b, c) };
    if result == 0 {
        credentials::await_following();
    }
    result
}

macro_rules! followed {
    ($($name:ident, $real:ident;)*) => {
        $(
            static $real: AtomicUsize = AtomicUsize::new(0);
            /// libc's function of this name, which the agent thread follows.
            ///
            /// # Safety
            /// As libc's.
            #[cfg_attr(sigtop_agent, unsafe(no_mangle))]
            unsafe extern "C" fn $name(a: usize, b: usize, c: usize) -> c_int {
                // SAFETY: the caller vouches.
                unsafe { follow_after(&$real, [a, b, c]) }
            }
        )*
        const CALLS: [(&CStr, &AtomicUsize, Call); 11] = [
            $((
                match CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("ends with its NUL"),
                },
                &$real,
                $name,
            ),)*
        ];
    };
}

followed! {
    setuid, REAL_SETUID;
    setgid, REAL_SETGID;
    seteuid, REAL_SETEUID;
    setegid, REAL_SETEGID;
    setreuid, REAL_SETREUID;
    setregid, REAL_SETREGID;
    setresuid, REAL_SETRESUID;
    setresgid, REAL_SETRESGID;
    setgroups, REAL_SETGROUPS;
    initgroups, REAL_INITGROUPS;
    capset, REAL_CAPSET;
}

/// Looks up what is called behind. For the constructor.
pub(super) fn look_up() {
    for (name, real, _) in CALLS {
        real.store(loader::next(name, guard::own_dynamic()), Ordering::Relaxed);
    }
}
