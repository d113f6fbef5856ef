//! The reasons why threads wait.

/// The reason why a thread waits: the thing that it waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum WaitReason {
    /// A mutex.
    Lock,
    /// A condition variable.
    Condvar,
    /// A lock for readers and writers.
    RwLock,
    /// A semaphore.
    Semaphore,
    /// The end of another thread.
    Join,
    /// A futex that serves something else, or nobody knows what.
    Futex,
    /// The time: it sleeps.
    Sleep,
    /// An event of one of several descriptors.
    Poll,
    /// Data from a descriptor.
    Read,
    /// Room in a descriptor.
    Write,
    /// Data from a socket.
    Receive,
    /// Room in a socket.
    Send,
    /// A connection from a peer.
    Accept,
    /// A connection to a peer.
    Connect,
    /// A disk.
    Disk,
    /// A child process.
    Child,
    /// A signal.
    Signal,
    /// An io_uring.
    IoUring,
    /// Memory: a page that is read from a file or from swap.
    Memory,
    /// Something else.
    Other,
    /// A CPU.
    Runnable,
    /// The next period of the CPU quota of its control group.
    Throttled,
    /// A signal to continue: its process was stopped by one, by a debugger or by the freezer.
    Stopped,
}

impl WaitReason {
    /// All reasons with their words, in the order of their declaration.
    const TABLE: [(WaitReason, &'static str); 23] = [
        (WaitReason::Lock, "lock"),
        (WaitReason::Condvar, "condvar"),
        (WaitReason::RwLock, "rwlock"),
        (WaitReason::Semaphore, "semaphore"),
        (WaitReason::Join, "join"),
        (WaitReason::Futex, "futex"),
        (WaitReason::Sleep, "sleep"),
        (WaitReason::Poll, "poll"),
        (WaitReason::Read, "read"),
        (WaitReason::Write, "write"),
        (WaitReason::Receive, "recv"),
        (WaitReason::Send, "send"),
        (WaitReason::Accept, "accept"),
        (WaitReason::Connect, "connect"),
        (WaitReason::Disk, "disk"),
        (WaitReason::Child, "child"),
        (WaitReason::Signal, "signal"),
        (WaitReason::IoUring, "io_uring"),
        (WaitReason::Memory, "memory"),
        (WaitReason::Other, "other"),
        (WaitReason::Runnable, "runnable"),
        (WaitReason::Throttled, "throttled"),
        (WaitReason::Stopped, "stopped"),
    ];

    /// All reasons.
    pub fn all() -> impl Iterator<Item = WaitReason> {
        WaitReason::TABLE.into_iter().map(|(reason, _)| reason)
    }

    /// Whether a thread may hold what is waited for.
    pub fn is_lock(self) -> bool {
        matches!(self, WaitReason::Lock | WaitReason::RwLock)
    }

    /// Whether the thread would run if it could.
    pub fn is_for_cpu(self) -> bool {
        matches!(self, WaitReason::Runnable | WaitReason::Throttled)
    }

    /// The word for a reason.
    pub fn word(self) -> &'static str {
        WaitReason::TABLE[self as usize].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_reasons_are_in_one_order() {
        for (index, (reason, _)) in WaitReason::TABLE.iter().enumerate() {
            assert_eq!(*reason as usize, index);
        }
    }
}
