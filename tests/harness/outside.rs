//! The ways of sampling from outside that this machine allows.

use super::skips::skip;

/// Returns the engines that sample from outside and that the kernel lets this user have.
pub(crate) fn engines_outside() -> Vec<&'static str> {
    let mut engines = vec!["ptrace"];
    if may_open_events() {
        engines.push("events");
    } else {
        skip("perf_event_open is not allowed here");
    }
    engines
}

/// Opens an event of this thread that counts nothing.
fn may_open_events() -> bool {
    const SOFTWARE: u64 = 1;
    const DUMMY: u64 = 9;
    const EXCLUDE_KERNEL: u64 = 1 << 5;
    // Kind and size of the attributes, what is counted, and five words later the flags.
    let mut attributes = [0_u64; 14];
    (attributes[0], attributes[1], attributes[5]) = (SOFTWARE | 112 << 32, DUMMY, EXCLUDE_KERNEL);
    // SAFETY: the kernel reads the attributes, whose size they tell.
    let event = unsafe { libc::syscall(libc::SYS_perf_event_open, attributes.as_ptr(), 0, -1, -1, 8) };
    if event >= 0 {
        // SAFETY: nothing else uses this descriptor.
        unsafe { libc::close(event as i32) };
    }
    event >= 0
}
