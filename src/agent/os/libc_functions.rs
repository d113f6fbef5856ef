//! The addresses of libc's functions that the agent interposes. Each is 0 until [`look_up`] has
//! run.
//!
//! Constructors of other libraries may call an interposed function before the agent's own
//! constructor runs; an interposed function that finds 0 here calls [`look_up`] first.

use core::ffi::{CStr, c_int};
use core::sync::atomic::{AtomicUsize, Ordering};

use crate::agent::os::loader;

/// Returns a text that ends with a zero byte as a C string.
const fn terminated(name: &str) -> &CStr {
    match CStr::from_bytes_with_nul(name.as_bytes()) {
        Ok(name) => name,
        Err(_) => panic!("the name ends with a zero byte"),
    }
}

macro_rules! functions {
    ($table:ident: $($name:literal $address:ident;)*) => {
        $(
            #[doc = concat!("Address of `", $name, "`.")]
            pub(crate) static $address: AtomicUsize = AtomicUsize::new(0);
        )*
        static $table: &[(&CStr, u32, &AtomicUsize)] = &[$({
            const NAME: &CStr = terminated(concat!($name, "\0"));
            // The hash is computed here, and not in each process.
            (NAME, const { loader::gnu_hash(NAME) }, &$address)
        },)*];
    };
}

functions! { CALLED:
    "unshare" UNSHARE;
    "setns" SETNS;
    "prctl" PRCTL;
    "dlclose" DLCLOSE;
    "syscall" SYSCALL;
    "sigprocmask" SIGPROCMASK;
    "pthread_sigmask" PTHREAD_SIGMASK;
    "sigwait" SIGWAIT;
    "sigwaitinfo" SIGWAITINFO;
    "sigtimedwait" SIGTIMEDWAIT;
    "signalfd" SIGNALFD;
    "sigsuspend" SIGSUSPEND;
    "ppoll" PPOLL;
    "__ppoll_chk" PPOLL_CHK;
    "pselect" PSELECT;
    "epoll_pwait" EPOLL_PWAIT;
    "epoll_pwait2" EPOLL_PWAIT2;
    "sigaltstack" SIGALTSTACK;
    "pthread_create" PTHREAD_CREATE;
    "thrd_create" THRD_CREATE;
    "sigaction" SIGACTION;
    "signal" SIGNAL;
    "__sysv_signal" SYSV_SIGNAL;
    "setuid" SETUID;
    "setgid" SETGID;
    "seteuid" SETEUID;
    "setegid" SETEGID;
    "setreuid" SETREUID;
    "setregid" SETREGID;
    "setresuid" SETRESUID;
    "setresgid" SETRESGID;
    "setgroups" SETGROUPS;
    "initgroups" INITGROUPS;
    "capset" CAPSET;
}

// Functions that are jumped to without a look whether they exist.
functions! { JUMPED_TO:
    "_exit" EXIT;
    "_Exit" ISO_EXIT;
    "pthread_exit" PTHREAD_EXIT;
    "thrd_exit" THRD_EXIT;
    "execve" EXECVE;
    "execv" EXECV;
    "execvp" EXECVP;
    "execvpe" EXECVPE;
    "execl" EXECL;
    "execlp" EXECLP;
    "execle" EXECLE;
    "fexecve" FEXECVE;
    "sigset" SIGSET;
    "sighold" SIGHOLD;
    "sigrelse" SIGRELSE;
    "sigignore" SIGIGNORE;
    "sigpause" SIGPAUSE;
    "opendir" OPENDIR;
    "stat" STAT;
    "stat64" STAT64;
    "fstatat" FSTATAT;
    "fstatat64" FSTATAT64;
    "__xstat" XSTAT;
    "__xstat64" XSTAT64;
}

/// Looks the functions up, in the objects that are loaded after this library. For the constructor.
pub(crate) fn look_up() {
    loader::next_definitions(loader::own_dynamic(), CALLED.iter().chain(JUMPED_TO).copied());
    for (.., address) in JUMPED_TO {
        let _ = address.compare_exchange(0, missing as *const () as usize, Ordering::Relaxed, Ordering::Relaxed);
    }
}

/// Replaces a function that this libc does not have.
extern "C" fn missing() -> c_int {
    -1
}
