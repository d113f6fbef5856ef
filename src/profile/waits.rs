//! The waits of sleeping threads. Each is stored once, and is the leaf frame of the stacks of those
//! that wait so.

use std::collections::HashMap;

use super::ids::ThreadId;
pub use super::ids::WaitId;
use super::module::ModuleId;
use super::stack::FrameId;
pub use crate::process::waits::WaitReason;
use crate::wire::Wait;

/// Maximum number of waits. Of further ones only the reason is kept.
const MAX_WAITS: usize = 65_536;
/// Number of callers that a futex keeps: one of them tells what it is used for.
const CALLERS: usize = 6;

/// Something that threads wait for.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct KnownWait {
    /// The reason. That of a [futex](WaitReason::Futex) may follow from the names of `callers`.
    pub reason: WaitReason,
    /// The file behind the descriptor, the address of the futex, or the child process; empty
    /// without any.
    pub object: String,
    /// The file that may have the futex in its data, and the address within the file.
    pub data: Option<(ModuleId, u64)>,
    /// The thread that holds the lock. That of a [futex](WaitReason::Futex) holds it if it is a
    /// rwlock by the names of `callers`.
    pub holder: Option<ThreadId>,
    /// The innermost frames of those that wait on a futex, the leaf first.
    pub callers: Vec<FrameId>,
}

impl KnownWait {
    /// The wait of a message. Two threads may wait for the same.
    pub(super) fn new(wait: &Wait<Box<[u8]>>, holder: Option<ThreadId>, data: Option<(ModuleId, u64)>) -> KnownWait {
        let object = match (wait.call.futex(), wait.call.child()) {
            (Some(address), _) => format!("{address:#x}"),
            (None, Some(pid)) => format!("pid {pid}"),
            (None, None) => String::from_utf8_lossy(&wait.object).into_owned(),
        };
        KnownWait { reason: reason(wait), object, data, holder, callers: Vec::new() }
    }

    /// A wait of which the reason alone is known.
    pub fn of(reason: WaitReason) -> KnownWait {
        KnownWait { reason, object: String::new(), data: None, holder: None, callers: Vec::new() }
    }

    /// Whether the names of the callers are needed to tell the reason.
    pub(super) fn wants_callers(&self) -> bool {
        self.reason == WaitReason::Futex
    }
}

/// A regular file never keeps a reader waiting; its disk does. A pipe has no disk.
fn reason(wait: &Wait<Box<[u8]>>) -> WaitReason {
    match wait.call.reason() {
        WaitReason::Read | WaitReason::Write if wait.is_file => WaitReason::Disk,
        WaitReason::Disk if !wait.is_file && !wait.object.is_empty() => {
            wait.call.reason_of_pipe().unwrap_or(WaitReason::Disk)
        }
        reason => reason,
    }
}

/// All waits of a session.
pub struct WaitTable {
    waits: Vec<KnownWait>,
    ids: HashMap<KnownWait, WaitId>,
}

impl Default for WaitTable {
    fn default() -> WaitTable {
        let mut table = WaitTable { waits: Vec::new(), ids: HashMap::new() };
        table.intern(KnownWait::of(WaitReason::Runnable));
        table.intern(KnownWait::of(WaitReason::Stopped));
        table.intern(KnownWait::of(WaitReason::Throttled));
        table
    }
}

impl WaitTable {
    /// The wait for a CPU.
    pub(super) const RUNNABLE: WaitId = WaitId(0);
    /// The wait of a stopped process.
    pub(super) const STOPPED: WaitId = WaitId(1);
    /// The wait for the next period of a CPU quota.
    pub(super) const THROTTLED: WaitId = WaitId(2);

    /// Returns the id of a wait, and adds it if it is new.
    pub(super) fn intern(&mut self, mut wait: KnownWait) -> WaitId {
        if self.waits.len() >= MAX_WAITS && !self.ids.contains_key(&wait) {
            wait = KnownWait::of(wait.reason);
        }
        *self.ids.entry(wait).or_insert_with_key(|wait| {
            self.waits.push(wait.clone());
            WaitId(self.waits.len() as u32 - 1)
        })
    }

    /// Returns the id of the same wait with the innermost frames of those that wait.
    pub(super) fn intern_called(&mut self, id: WaitId, leaf_first: impl Iterator<Item = FrameId>) -> WaitId {
        self.intern(KnownWait { callers: leaf_first.take(CALLERS).collect(), ..self.get(id).clone() })
    }

    /// The wait with an id.
    pub fn get(&self, id: WaitId) -> &KnownWait {
        &self.waits[id.0 as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::BlockingCall;

    fn read(object: &str, is_file: bool) -> KnownWait {
        let call = BlockingCall { number: Some(0), arguments: [3, 0, 0] };
        KnownWait::new(&Wait { tid: 1, call, holder: 0, is_file, object: object.as_bytes().into() }, None, None)
    }

    #[test]
    fn equal_waits_are_one_and_their_number_is_limited() {
        let mut table = WaitTable::default();
        let first = table.intern(read("pipe:[7]", false));
        assert_eq!(table.intern(read("pipe:[7]", false)), first);
        let disk = table.intern(read("/var/lib/x.db", true));
        assert_eq!(table.get(disk).reason, WaitReason::Disk);
        let open = BlockingCall { number: Some(257), arguments: [0, 0x7000, 1] };
        let opened = |object: &[u8], is_file| Wait { tid: 1, call: open, holder: 0, is_file, object: object.into() };
        let reasons = [opened(b"pipe /tmp/f", false), opened(b"/tmp/f", true), opened(b"", false)];
        let reasons = reasons.map(|wait| KnownWait::new(&wait, None, None).reason);
        assert_eq!(reasons, [WaitReason::Write, WaitReason::Disk, WaitReason::Disk]);
        (0..2 * MAX_WAITS).for_each(|number| {
            table.intern(read(&format!("pipe:[{number}]"), false));
        });
        assert_eq!(table.waits.len(), MAX_WAITS + 1, "those, and one for further ones");
        assert_eq!(table.get(WaitTable::RUNNABLE).reason, WaitReason::Runnable);
        assert_eq!(table.get(WaitTable::STOPPED).reason, WaitReason::Stopped);
        assert_eq!(table.get(WaitTable::THROTTLED).reason, WaitReason::Throttled);
        assert_eq!(table.intern(read("pipe:[7]", false)), first);
    }
}
