//! Puts the addresses of sockets into the messages that name them by inode, before anything reads
//! or records them.

use std::collections::HashMap;

use crate::attach::sockets::sockets;
use crate::wire::{Arrival, ConnectionEvent, Message};

/// Time between two readings of the sockets of one process, ns.
const READ_NS: u64 = 1_000_000_000;
/// Maximum number of processes whose sockets are kept.
const MAX_PROCESSES: usize = 64;

/// The known sockets of each process.
#[derive(Default)]
pub(super) struct SocketNames(HashMap<u32, KnownSockets>);

/// The sockets in the network namespace of one process.
struct KnownSockets {
    read_ns: u64,
    by_inode: HashMap<u64, String>,
}

impl SocketNames {
    /// Describes the sockets in messages of waits.
    pub(super) fn describe(&mut self, arrivals: &mut [Arrival]) {
        for Arrival { pid, at_ns, event, .. } in arrivals {
            let ConnectionEvent::Received(Message::Wait(wait)) = event else { continue };
            // Others may be polled beside it.
            let object = str::from_utf8(&wait.object).ok();
            let Some((inode, others)) = object.and_then(|object| object.strip_prefix("socket:[")?.split_once(']'))
            else {
                continue;
            };
            if let Some(words) = inode.parse().ok().and_then(|inode| self.find(*pid, inode, *at_ns)) {
                wait.object = format!("{words}{others}").into_bytes().into();
            }
        }
    }

    /// The description of a socket. The list is read again if it does not have the socket.
    fn find(&mut self, pid: u32, inode: u64, now_ns: u64) -> Option<&str> {
        let is_known = |known: &KnownSockets| {
            known.by_inode.contains_key(&inode) || now_ns.saturating_sub(known.read_ns) < READ_NS
        };
        if !self.0.get(&pid).is_some_and(is_known) {
            if self.0.len() >= MAX_PROCESSES {
                self.0.clear();
            }
            self.0.insert(pid, KnownSockets { read_ns: now_ns, by_inode: sockets(pid) });
        }
        self.0.get(&pid)?.by_inode.get(&inode).map(String::as_str)
    }
}
