//! Addresses to which the target's signal handlers return.

use core::sync::atomic::{AtomicU64, Ordering};

use crate::agent::os::{loader, syscall};
use crate::arch::{SA_RESTORER, VDSO_SIGRETURN};

/// Maximum number of different restorers: one for each libc in the process.
const MAX_RESTORERS: usize = 4;

/// Address to which handlers that libc has installed return; 0 before the first one.
static LIBC_RESTORER: AtomicU64 = AtomicU64::new(0);

/// Records the restorer of a signal for which libc has just installed a handler, because no
/// existing snapshot knows it.
pub(crate) fn note_restorer(signal: i32) {
    if LIBC_RESTORER.load(Ordering::Relaxed) == 0 {
        let action = syscall::signal_action(signal);
        let restorer = match VDSO_SIGRETURN {
            Some(name) if action.flags & SA_RESTORER == 0 => loader::first_definition(name),
            _ => action.restorer,
        };
        LIBC_RESTORER.store(restorer as u64, Ordering::Relaxed);
    }
}

/// The restorers of all handlers that the target has installed.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Restorers([u64; MAX_RESTORERS]);

impl Restorers {
    /// Asks the kernel for them.
    pub(crate) fn read() -> Restorers {
        let mut found = [0; MAX_RESTORERS];
        let mut count = 0;
        for signal in 1..=64 {
            let action = syscall::signal_action(signal);
            let restorer = action.restorer as u64;
            let has_handler = action.handler > libc::SIG_IGN && action.flags & SA_RESTORER != 0;
            if has_handler && !found.contains(&restorer) && count < MAX_RESTORERS {
                found[count] = restorer;
                count += 1;
            }
        }
        Restorers(found)
    }

    /// Whether handlers return to an address.
    pub(crate) fn contain(&self, address: u64) -> bool {
        address != 0 && (address == LIBC_RESTORER.load(Ordering::Relaxed) || self.0.contains(&address))
    }
}
