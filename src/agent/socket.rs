//! The agent's end of the stream: connects out, checks who is there, sends without waiting, and keeps what does not go yet.

use alloc::boxed::Box;
use alloc::vec::Vec;

use super::ring::Handle;
use super::sys::{self, syscall};
use crate::link::wire::{self, Full, MAX_MESSAGE, Malformed, Request, Writer};

/// Bytes kept for a viewer that does not read: at steady state seconds of samples. What does not fit is lost and counted.
const OUT: usize = 256 * 1024;
/// So many of them to begin with, and until there is no room for the longest message.
const FIRST_OUT: usize = 64 * 1024;
/// Bytes of requests not yet whole: several of the longest.
const IN: usize = 1024;

const AF_UNIX: u16 = libc::AF_UNIX as u16;

/// Where a viewer listens.
#[derive(Clone, Copy)]
pub(super) struct Address {
    bytes: [u8; 110],
    length: usize,
}

impl Address {
    /// A path in the file system; `None` when it is too long.
    pub(super) fn path(path: &[u8]) -> Option<Address> {
        Address::new(&[], path)
    }

    /// The abstract name of a viewer, by its pid.
    pub(super) fn of_viewer(pid: u32) -> Address {
        let name = sys::PathBuffer::<32>::new().text(b"sigtop/").number(pid.into());
        Address::new(&[0], name.as_bytes()).unwrap_or(Address { bytes: [0; 110], length: 2 })
    }

    fn new(prefix: &[u8], name: &[u8]) -> Option<Address> {
        let mut address = Address { bytes: [0; 110], length: 2 + prefix.len() + name.len() };
        address.bytes[..2].copy_from_slice(&AF_UNIX.to_ne_bytes());
        let place = address.bytes.get_mut(2 + prefix.len()..address.length)?;
        place.copy_from_slice(name);
        Some(address)
    }
}

/// The viewer is gone, or is no viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gone;

/// A connection to a viewer, or to nobody: what is written to that is forgotten.
pub(super) struct Socket {
    /// -1 for nobody.
    descriptor: i32,
    /// The viewer's pid, as the target sees it.
    pub(super) viewer: u32,
    out: Box<[u8]>,
    out_length: usize,
    input: [u8; IN],
    input_length: usize,
    /// Goes with the next bytes.
    handle: Option<Handle>,
}

impl Socket {
    /// Connects, if whoever listens there is this user or root. socket(2), connect(2), unix(7)
    pub(super) fn connect(address: &Address) -> Option<Socket> {
        let kind = libc::SOCK_STREAM | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
        // SAFETY: plain values.
        let descriptor = unsafe { syscall!(libc::SYS_socket, libc::AF_UNIX, kind, 0) };
        if descriptor < 0 {
            return None;
        }
        let mut socket = Socket {
            descriptor: descriptor as i32,
            viewer: 0,
            out: alloc::vec![0; FIRST_OUT].into_boxed_slice(),
            out_length: 0,
            input: [0; IN],
            input_length: 0,
            handle: None,
        };
        // A full backlog (EAGAIN) is waited for, a little: many processes may start at once.
        for _ in 0..100 {
            // SAFETY: the address outlives the call.
            let result =
                unsafe { syscall!(libc::SYS_connect, socket.descriptor, address.bytes.as_ptr(), address.length) };
            match -result as i32 {
                0 => {
                    socket.viewer = socket.trusted_peer()?;
                    return Some(socket);
                }
                libc::EAGAIN | libc::EINTR => sys::futex_wait(&core::sync::atomic::AtomicU32::new(0), 0, 10_000_000),
                _ => return None,
            }
        }
        None
    }

    /// No connection.
    pub(super) fn to_nobody() -> Socket {
        Socket {
            descriptor: -1,
            viewer: 0,
            out: alloc::vec![0; FIRST_OUT].into_boxed_slice(),
            out_length: 0,
            input: [0; IN],
            input_length: 0,
            handle: None,
        }
    }

    /// Whether nobody is at the other end.
    pub(super) fn is_to_nobody(&self) -> bool {
        self.descriptor < 0
    }

    /// The peer's pid, if it is this user's or root's. SO_PEERCRED
    fn trusted_peer(&self) -> Option<u32> {
        let (mut peer, mut length) = ([0u32; 3], 12u32);
        // SAFETY: the kernel writes at most `length` bytes.
        let result = unsafe {
            syscall!(
                libc::SYS_getsockopt,
                self.descriptor,
                libc::SOL_SOCKET,
                libc::SO_PEERCRED,
                peer.as_mut_ptr(),
                &raw mut length
            )
        };
        // SAFETY: no arguments, no failure.
        let user = unsafe { syscall!(libc::SYS_geteuid) as u32 };
        let [pid, uid, _] = peer;
        (result == 0 && (uid == user || uid == 0)).then_some(pid)
    }

    /// Takes the larger buffer, if there is memory for it.
    fn make_room(&mut self) {
        let mut larger = Vec::new();
        if larger.try_reserve_exact(OUT).is_ok() {
            larger.extend_from_slice(&self.out[..self.out_length]);
            larger.resize(OUT, 0);
            self.out = larger.into_boxed_slice();
        }
    }

    /// Writes messages into the room that is left; all or nothing of each.
    pub(super) fn write<T>(&mut self, put: impl FnOnce(&mut Writer<'_>) -> Result<T, Full>) -> Result<T, Full> {
        let keep = !self.is_to_nobody();
        if self.out.len() < OUT && self.out.len() - self.out_length < MAX_MESSAGE {
            self.make_room();
        }
        let mut writer = Writer::new(&mut self.out, self.out_length);
        let result = put(&mut writer);
        self.out_length = if keep { writer.length() } else { 0 };
        result
    }

    /// Lets a file go with the next bytes that are sent, once.
    pub(super) fn hand_over(&mut self, handle: Handle) {
        self.handle = Some(handle);
    }

    /// Sends some bytes, and the file that is to go with them; returns what the kernel does. sendmsg(2)
    fn send(&self, bytes: &[u8]) -> isize {
        let part = [bytes.as_ptr() as usize, bytes.len()];
        // A cmsghdr (its length, level and type) and the descriptor.
        let descriptor = self.handle.as_ref().map_or(-1, Handle::descriptor);
        let control = [20u64, libc::SOL_SOCKET as u64 | (libc::SCM_RIGHTS as u64) << 32, descriptor as u32 as u64];
        let length = if self.handle.is_some() { size_of_val(&control) } else { 0 };
        let message = [0, 0, part.as_ptr() as usize, 1, control.as_ptr() as usize, length, 0];
        // SAFETY: a msghdr with one part and at most one control message, all of which outlive the call.
        unsafe {
            syscall!(libc::SYS_sendmsg, self.descriptor, message.as_ptr(), libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
        }
    }

    /// Sends what can be sent now.
    pub(super) fn flush(&mut self) -> Result<(), Gone> {
        let mut sent = 0;
        let mut result = Ok(());
        while sent < self.out_length {
            let count = self.send(&self.out[sent..self.out_length]);
            match count {
                1.. => {
                    sent += count as usize;
                    self.handle = None;
                }
                _ if -count as i32 == libc::EINTR => {}
                _ => {
                    if -count as i32 != libc::EAGAIN {
                        result = Err(Gone);
                    }
                    break;
                }
            }
        }
        self.out.copy_within(sent..self.out_length, 0);
        self.out_length -= sent;
        result
    }

    /// Whether everything written has been sent.
    pub(super) fn is_flushed(&self) -> bool {
        self.out_length == 0
    }

    /// Waits until there is something to read. ppoll(2)
    pub(super) fn wait(&self, timeout_ns: u64) {
        let mut poll = libc::pollfd { fd: self.descriptor, events: libc::POLLIN, revents: 0 };
        let timeout = [timeout_ns / 1_000_000_000, timeout_ns % 1_000_000_000];
        // SAFETY: one pollfd in and out, one timespec in.
        unsafe { syscall!(libc::SYS_ppoll, &raw mut poll, 1, timeout.as_ptr(), 0usize, 8) };
    }

    /// The next request, if one is there. recv(2)
    pub(super) fn receive(&mut self) -> Result<Option<Request>, Gone> {
        if self.is_to_nobody() {
            return Ok(None);
        }
        loop {
            match wire::frame(&self.input[..self.input_length]) {
                Ok(Some(framed)) => {
                    let (request, size) = (wire::request(framed.kind, framed.body), framed.size);
                    self.input.copy_within(size..self.input_length, 0);
                    self.input_length -= size;
                    return request.map(Some).map_err(|_: Malformed| Gone);
                }
                Ok(None) if self.input_length < IN => {}
                _ => return Err(Gone),
            }
            let room = &mut self.input[self.input_length..];
            // SAFETY: the kernel writes at most the room's length.
            let count = unsafe {
                syscall!(
                    libc::SYS_recvfrom,
                    self.descriptor,
                    room.as_mut_ptr(),
                    room.len(),
                    libc::MSG_DONTWAIT,
                    0usize,
                    0usize
                )
            };
            match count {
                1.. => self.input_length += count as usize,
                0 => return Err(Gone),
                _ if [libc::EAGAIN, libc::EINTR].contains(&(-count as i32)) => return Ok(None),
                _ => return Err(Gone),
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if !self.is_to_nobody() {
            sys::close(self.descriptor);
        }
    }
}
