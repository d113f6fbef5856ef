//! One agent at the other end of a socket: the bytes it has sent and not yet finished, the stacks it refers to, the requests
//! it has not yet taken. A peer is hostile until it has said a proper Hello, and after.

use std::fs::File;
use std::io::{ErrorKind, IoSliceMut, Write};
use std::mem::MaybeUninit;
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::time::Instant;

use rustix::io::Errno;
use rustix::net::{RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, recvmsg};

use super::wire::ring::{self, RING_BYTES};
use super::wire::{self, Account, MAX_MESSAGE, Malformed, Message, Request, SourceId, StackMemory, Writer};

/// Bytes read of one peer before the others have their turn.
pub(super) const READ_AT_ONCE: usize = 64 * 1024;
/// Bytes of requests that a peer may leave unread; each has about ten.
const MAX_UNSENT: usize = 4096;
/// Bytes of the largest request in its frame: kind, clock, engine, and a varint.
const MAX_REQUEST: usize = 4 + 3 + 10;

/// Where a peer stands.
pub(super) enum Standing {
    /// It has not said Hello yet.
    New {
        /// When it came.
        since: Instant,
    },
    /// It is listened to.
    Known {
        /// As which stream.
        source: SourceId,
        /// The stacks it refers to.
        memory: Box<StackMemory>,
        /// What its ring is read with when it has ended.
        heard: Heard,
    },
    /// It was told to leave, and nothing that it says counts.
    Dismissed {
        /// When it was told.
        since: Instant,
    },
}

/// What a peer has said, as far as it tells what it has not.
#[derive(Default)]
pub(super) struct Heard {
    /// Its process, as it knows itself.
    own_pid: u32,
    /// Samples received, wrapping.
    samples: u32,
    /// Last module generation.
    generation: u32,
    /// Last account.
    account: Account,
}

impl Heard {
    /// Of a process that has just said Hello.
    pub(super) fn of(own_pid: u32) -> Heard {
        Heard { own_pid, ..Heard::default() }
    }

    /// Takes note of a message.
    pub(super) fn note(&mut self, message: &Message) {
        match message {
            Message::Sample(..) => self.samples = self.samples.wrapping_add(1),
            Message::Module(module) => self.generation = self.generation.max(module.generation),
            Message::Unload(unload) => self.generation = self.generation.max(unload.generation),
            Message::Account(account) => self.account = account.clone(),
            _ => {}
        }
    }
}

/// An agent, or whoever holds the other end.
pub(super) struct Peer {
    pub(super) stream: UnixStream,
    /// Its process, as the kernel tells.
    pub(super) pid: u32,
    pub(super) standing: Standing,
    /// What it sent, from the first message that is not whole.
    pending: Vec<u8>,
    /// Bytes of `pending` that are read already.
    consumed: usize,
    unsent: Vec<u8>,
    /// The memory of its ring.
    ring: Option<File>,
}

/// The other end is gone, or does not take what it is sent.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Gone;

impl Peer {
    pub(super) fn new(stream: UnixStream, pid: u32, now: Instant) -> Peer {
        let standing = Standing::New { since: now };
        Peer { stream, pid, standing, pending: Vec::new(), consumed: 0, unsent: Vec::new(), ring: None }
    }

    /// Takes what has come, at most [`READ_AT_ONCE`]; to be followed by [`next`](Self::next) until there is none.
    pub(super) fn read(&mut self, scratch: &mut [u8; READ_AT_ONCE]) -> Result<(), Gone> {
        self.pending.drain(..self.consumed);
        self.consumed = 0;
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let flags = RecvFlags::CMSG_CLOEXEC;
        let received = recvmsg(&self.stream, &mut [IoSliceMut::new(scratch)], &mut control, flags);
        // Every descriptor that came is owned, and closed here if it is not the first.
        for message in control.drain() {
            if let RecvAncillaryMessage::ScmRights(descriptors) = message {
                for descriptor in descriptors {
                    self.ring.get_or_insert_with(|| File::from(descriptor));
                }
            }
        }
        match received {
            Ok(received) if received.bytes == 0 => Err(Gone),
            Ok(received) => {
                self.pending.extend_from_slice(&scratch[..received.bytes]);
                Ok(())
            }
            Err(Errno::WOULDBLOCK | Errno::INTR) => Ok(()),
            Err(_) => Err(Gone),
        }
    }

    /// What it had not sent when it ended, as messages: samples and the account; nothing if its ring was not handed over.
    pub(super) fn last_words(&self) -> Vec<Message> {
        let (Some(file), Standing::Known { heard, .. }) = (&self.ring, &self.standing) else { return Vec::new() };
        // Whatever file it is: reading is all that is done with it, at most this much.
        let size = file.metadata().ok().filter(|metadata| metadata.is_file()).map_or(0, |metadata| metadata.len());
        let mut bytes = vec![0; size.min(RING_BYTES as u64) as usize];
        if bytes.is_empty() || file.read_exact_at(&mut bytes, 0).is_err() {
            return Vec::new();
        }
        let Heard { own_pid, samples, generation, account } = heard;
        ring::remains(&bytes, *samples, account, *own_pid, *generation).map_or_else(Vec::new, |remains| {
            let samples = remains.samples.into_iter().map(|(sample, frames)| Message::Sample(sample, frames));
            samples.chain([Message::Account(remains.account)]).collect()
        })
    }

    /// The next whole message of what was read.
    pub(super) fn next(&mut self) -> Result<Option<Message>, Malformed> {
        let Some(framed) = wire::frame(&self.pending[self.consumed..])? else {
            // Between messages a peer holds no buffer: there may be a thousand of them.
            if self.consumed == self.pending.len() {
                (self.pending, self.consumed) = (Vec::new(), 0);
            }
            debug_assert!(self.pending.len() - self.consumed < 4 + MAX_MESSAGE);
            return Ok(None);
        };
        self.consumed += framed.size;
        // Only a sample needs the memory, and a quarter of a MiB is much for a stranger.
        let memory: &mut StackMemory = match &mut self.standing {
            Standing::Known { memory, .. } => memory,
            _ => &mut [],
        };
        wire::message(framed.kind, framed.body, memory).map(Some)
    }

    /// Sends a request, now or when the peer reads.
    pub(super) fn send(&mut self, request: &Request) -> Result<(), Gone> {
        if self.unsent.len() > MAX_UNSENT {
            return Err(Gone);
        }
        let mut buffer = [0; MAX_REQUEST];
        let mut writer = Writer::new(&mut buffer, 0);
        writer.request(request).map_err(|_| Gone)?;
        let length = writer.length();
        self.unsent.extend_from_slice(&buffer[..length]);
        self.flush()
    }

    /// Whether it has something to be sent.
    pub(super) fn is_behind(&self) -> bool {
        !self.unsent.is_empty()
    }

    /// Sends what the peer takes.
    pub(super) fn flush(&mut self) -> Result<(), Gone> {
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(count) => drop(self.unsent.drain(..count)),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(_) => return Err(Gone),
            }
        }
        Ok(())
    }
}
