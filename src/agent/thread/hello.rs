//! The first message to a viewer: which process this is.

use alloc::vec::Vec;

use crate::agent::launch;
use crate::agent::os::status::{self, OwnProgram};
use crate::agent::os::syscall;
use crate::wire::{Hello, SpawnCause};

/// Returns the message of an agent thread that was spawned for this reason.
pub(super) fn hello(birth: SpawnCause, program: &OwnProgram) -> Hello<Vec<u8>> {
    let (parent, start_ticks) = status::parent_and_start();
    Hello {
        token: launch::link().map_or(0, |link| link.token),
        pid: syscall::getpid(),
        parent,
        start_ticks,
        monotonic_ns: syscall::monotonic_ns(),
        cpu_ns: syscall::clock_ns(libc::CLOCK_PROCESS_CPUTIME_ID),
        spawn_cause: birth,
        executable: program.path().to_vec(),
        argv: status::argv(),
    }
}
