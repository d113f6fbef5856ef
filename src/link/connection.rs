//! One connection to an agent: the bytes that were received and not decoded yet, the stacks they
//! refer to, and the requests that were not sent yet. The other end is not trusted, neither before
//! nor after a valid Hello.

use std::fs::File;
use std::io::{ErrorKind, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use crate::wire::ring::{self, RING_BYTES};
use crate::wire::{self, AgentCounters, MAX_MESSAGE, Malformed, Message, Request, SourceId, StackMemory, Writer};

/// Maximum number of bytes read from a connection before the others have their turn.
pub(super) const READ_BYTES: usize = 64 * 1024;
/// Maximum length of the requests that an agent may leave unread, in bytes. A request has about
/// ten.
const MAX_UNSENT: usize = 4096;
/// Length of the largest request in its frame: kind, clock, engine, a flag, and a varint.
const MAX_REQUEST: usize = 4 + 4 + 10;

/// The state of a connection.
pub(super) enum ConnectionState {
    /// The Hello has not arrived yet.
    AwaitingHello {
        /// Time of the connection.
        since: Instant,
    },
    /// The agent's messages are delivered.
    Accepted {
        /// Number of the connection.
        source: SourceId,
        /// The stacks that samples refer to.
        memory: Box<StackMemory>,
        /// The data received so far.
        received: Box<Received>,
    },
    /// The agent was asked to leave, and its messages are ignored.
    Dismissed {
        /// Time of the request.
        since: Instant,
    },
}

/// The part of what has arrived that is needed to recover the rest from the agent's ring.
#[derive(Default)]
pub(super) struct Received {
    /// Pid in the target's own pid namespace.
    own_pid: u32,
    /// Number of samples, wrapping.
    samples: u32,
    /// Last module generation.
    generation: u32,
    /// Last counters.
    counters: AgentCounters,
}

impl Received {
    /// Creates the state after a Hello with this pid.
    pub(super) fn new(own_pid: u32) -> Received {
        Received { own_pid, ..Received::default() }
    }

    /// Returns the counters of a sampler that sends no more, in which every sample is counted.
    pub(super) fn final_counters(&self) -> AgentCounters {
        let (sent, lost) = (u64::from(self.samples), self.counters.lost_ticks.iter().sum::<u64>());
        AgentCounters { sent, ticks: sent + lost, ..self.counters.clone() }
    }

    /// Updates the state with a message.
    pub(super) fn update(&mut self, message: &Message) {
        match message {
            Message::Sample(..) => self.samples = self.samples.wrapping_add(1),
            Message::Module(module) => self.generation = self.generation.max(module.generation),
            Message::Unload(unload) => self.generation = self.generation.max(unload.generation),
            Message::Counters(counters) => self.counters = counters.clone(),
            _ => {}
        }
    }
}

/// A connection to an agent.
pub(super) struct Connection {
    pub(super) stream: UnixStream,
    /// The process at the other end, according to the kernel.
    pub(super) pid: u32,
    pub(super) state: ConnectionState,
    /// Received bytes from the first incomplete message on.
    pending: Vec<u8>,
    /// Number of bytes of `pending` that are decoded already.
    consumed: usize,
    unsent: Vec<u8>,
    /// The memory file of the agent's ring.
    ring: Option<File>,
}

/// The other end has closed the connection.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct ConnectionLost;

impl Connection {
    pub(super) fn new(stream: UnixStream, pid: u32, now: Instant) -> Connection {
        let state = ConnectionState::AwaitingHello { since: now };
        Connection { stream, pid, state, pending: Vec::new(), consumed: 0, unsent: Vec::new(), ring: None }
    }

    /// Receives at most [`READ_BYTES`]. Afterwards the caller decodes all messages with
    /// [`next`](Self::next).
    pub(super) fn receive(&mut self, scratch: &mut [u8; READ_BYTES]) -> Result<(), ConnectionLost> {
        self.pending.drain(..self.consumed);
        self.consumed = 0;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&self.stream, &mut [IoSliceMut::new(scratch)], &mut control, flags);
        // Every received descriptor is owned. All but the first are closed here.
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                for descriptor in descriptors {
                    self.ring.get_or_insert_with(|| File::from(descriptor));
                }
            }
        }
        match received {
            Ok(received) if received.bytes == 0 => Err(ConnectionLost),
            Ok(received) => {
                self.pending.extend_from_slice(&scratch[..received.bytes]);
                Ok(())
            }
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(()),
            Err(_) => Err(ConnectionLost),
        }
    }

    /// Recovers the samples, the ends of allocations and the counters that the agent had not sent
    /// when its process ended, as messages. There are none if the agent did not pass its ring.
    pub(super) fn recover_unsent(&self) -> Vec<Message> {
        let (Some(file), ConnectionState::Accepted { received, .. }) = (&self.ring, &self.state) else {
            return Vec::new();
        };
        // The descriptor may be of any file. It is only read, up to the size of a ring.
        let size = file.metadata().ok().filter(|metadata| metadata.is_file()).map_or(0, |metadata| metadata.len());
        let mut bytes = vec![0; size.min(RING_BYTES as u64) as usize];
        if bytes.is_empty() || file.read_exact_at(&mut bytes, 0).is_err() {
            return Vec::new();
        }
        let Received { own_pid, samples, generation, counters } = &**received;
        let now = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(Duration::ZERO, Duration::from);
        let recovered = ring::recover(&bytes, *samples, counters, (*own_pid, *generation), now.as_nanos() as u64);
        recovered.map_or_else(Vec::new, |recovered| {
            let samples = recovered.samples.into_iter().map(|(sample, frames)| Message::Sample(sample, frames));
            let freed = recovered.freed.into_iter().map(|(id, left)| Message::Freed { id, left });
            samples.chain(freed).chain([Message::Counters(recovered.counters)]).collect()
        })
    }

    /// Decodes the next complete message.
    pub(super) fn next(&mut self) -> Result<Option<Message>, Malformed> {
        let Some(framed) = wire::split_frame(&self.pending[self.consumed..])? else {
            // Between messages a connection holds no buffer, because there may be a thousand of
            // them.
            if self.consumed == self.pending.len() {
                (self.pending, self.consumed) = (Vec::new(), 0);
            }
            debug_assert!(self.pending.len() - self.consumed < 4 + MAX_MESSAGE);
            return Ok(None);
        };
        self.consumed += framed.size;
        // Only samples need the stack memory, and 256 KiB is much for an unknown process.
        let memory: &mut StackMemory = match &mut self.state {
            ConnectionState::Accepted { memory, .. } => memory,
            _ => &mut [],
        };
        wire::decode_message(framed.kind, framed.body, memory).map(Some)
    }

    /// Sends a request, now or once the agent reads. That the connection is lost is noticed when it
    /// is read, because the agent may have sent something before.
    pub(super) fn send(&mut self, request: &Request) {
        let mut buffer = [0; MAX_REQUEST];
        let mut writer = Writer::new(&mut buffer, 0);
        if self.unsent.len() > MAX_UNSENT || writer.write_request(request).is_err() {
            return;
        }
        let length = writer.length();
        self.unsent.extend_from_slice(&buffer[..length]);
        self.flush();
    }

    /// Returns whether requests wait to be sent.
    pub(super) fn has_unsent(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends as much of the requests as the socket accepts.
    pub(super) fn flush(&mut self) {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(_) => self.unsent.clear(),
            }
        }
    }
}
