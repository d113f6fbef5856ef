//! The agent's end of the stream. It connects, verifies the peer, sends without waiting, and
//! buffers what cannot be sent yet.

use alloc::boxed::Box;
use alloc::vec::Vec;

use crate::agent::os::memory::MemoryFile;
use crate::agent::os::syscall::{self, syscall};
use crate::wire::{self, BufferFull, MAX_MESSAGE, Malformed, Request, VIEWER_SOCKET, VIEWER_SOCKET_FILE, Writer};

/// Maximum number of bytes buffered for a viewer that does not read: seconds of samples at the
/// usual rate. What does not fit is lost and counted.
const OUT: usize = 256 * 1024;
/// Initial size of that buffer, used until it has no room for the longest message.
const FIRST_OUT: usize = 64 * 1024;
/// Size of the buffer for incomplete requests, bytes: several of the longest.
const IN: usize = 1024;

const AF_UNIX: u16 = libc::AF_UNIX as u16;

/// The address at which a viewer listens.
#[derive(Clone, Copy)]
pub(crate) struct Address {
    bytes: [u8; 110],
    length: usize,
}

impl Address {
    /// Returns the address of a path in the file system; `None` if the path is too long.
    pub(crate) fn path(path: &[u8]) -> Option<Address> {
        Address::new(&[], path)
    }

    /// Returns the abstract address of the viewer with this pid.
    fn of_viewer(pid: u32) -> Address {
        let name = syscall::PathBuffer::<32>::new().text(VIEWER_SOCKET.as_bytes()).number(pid.into());
        Address::new(&[0], name.as_bytes()).unwrap_or(Address { bytes: [0; 110], length: 2 })
    }

    /// Returns the address of the file that the viewer with this pid creates for agents in other
    /// network namespaces.
    fn of_viewer_file(pid: u32) -> Option<Address> {
        let (before, after) = VIEWER_SOCKET_FILE;
        let name = syscall::PathBuffer::<40>::new().text(before.as_bytes()).number(pid.into()).text(after.as_bytes());
        Address::path(name.as_bytes())
    }

    fn new(prefix: &[u8], name: &[u8]) -> Option<Address> {
        let mut address = Address { bytes: [0; 110], length: 2 + prefix.len() + name.len() };
        address.bytes[..2].copy_from_slice(&AF_UNIX.to_ne_bytes());
        let place = address.bytes.get_mut(2 + prefix.len()..address.length)?;
        place.copy_from_slice(name);
        Some(address)
    }
}

/// Error: the viewer is gone, or the peer is not a viewer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerGone;

/// A connection to a viewer. An unconnected socket discards what is written to it.
pub(crate) struct Socket {
    /// The socket's descriptor; -1 if it is unconnected.
    descriptor: i32,
    /// The viewer's pid, as the target sees it.
    pub(crate) viewer: u32,
    out: Box<[u8]>,
    out_length: usize,
    input: [u8; IN],
    input_length: usize,
    /// The file to send with the next bytes.
    handle: Option<MemoryFile>,
}

impl Socket {
    /// Connects to the viewer with this pid.
    pub(crate) fn connect_to_viewer(pid: u32) -> Option<Socket> {
        let in_file = || Address::of_viewer_file(pid).and_then(|address| Socket::connect(&address));
        Socket::connect(&Address::of_viewer(pid)).or_else(in_file)
    }

    /// Connects, if the listener belongs to this user or root. socket(2), connect(2), unix(7)
    pub(crate) fn connect(address: &Address) -> Option<Socket> {
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
                libc::EAGAIN | libc::EINTR => {
                    syscall::futex_wait(&core::sync::atomic::AtomicU32::new(0), 0, 10_000_000)
                }
                _ => return None,
            }
        }
        None
    }

    /// Creates an unconnected socket.
    pub(crate) fn unconnected() -> Socket {
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

    /// Returns whether the socket is unconnected.
    pub(crate) fn is_unconnected(&self) -> bool {
        self.descriptor < 0
    }

    /// Returns the peer's pid, if the peer belongs to this user or root. SO_PEERCRED
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

    /// Allocates the larger buffer, if there is memory for it.
    fn make_room(&mut self) {
        let mut larger = Vec::new();
        if larger.try_reserve_exact(OUT).is_ok() {
            larger.extend_from_slice(&self.out[..self.out_length]);
            larger.resize(OUT, 0);
            self.out = larger.into_boxed_slice();
        }
    }

    /// Writes messages into the free room of the buffer, each completely or not at all.
    pub(crate) fn write<T>(
        &mut self,
        put: impl FnOnce(&mut Writer<'_>) -> Result<T, BufferFull>,
    ) -> Result<T, BufferFull> {
        let keep = !self.is_unconnected();
        if self.out.len() < OUT && self.out.len() - self.out_length < MAX_MESSAGE {
            self.make_room();
        }
        let mut writer = Writer::new(&mut self.out, self.out_length);
        let result = put(&mut writer);
        self.out_length = if keep { writer.length() } else { 0 };
        result
    }

    /// Attaches a file to the next bytes that are sent, once.
    pub(crate) fn attach_file(&mut self, handle: MemoryFile) {
        self.handle = Some(handle);
    }

    /// Sends some bytes, and the file that is to go with them. Returns the kernel's result.
    /// sendmsg(2)
    fn send(&self, bytes: &[u8]) -> isize {
        let part = [bytes.as_ptr() as usize, bytes.len()];
        // A cmsghdr (its length, level and type) and the descriptor.
        let descriptor = self.handle.as_ref().map_or(-1, MemoryFile::descriptor);
        let control = [20u64, libc::SOL_SOCKET as u64 | (libc::SCM_RIGHTS as u64) << 32, descriptor as u32 as u64];
        let length = if self.handle.is_some() { size_of_val(&control) } else { 0 };
        let message = [0, 0, part.as_ptr() as usize, 1, control.as_ptr() as usize, length, 0];
        // SAFETY: a msghdr with one part and at most one control message, all of which outlive the
        // call.
        unsafe {
            syscall!(libc::SYS_sendmsg, self.descriptor, message.as_ptr(), libc::MSG_NOSIGNAL | libc::MSG_DONTWAIT)
        }
    }

    /// Sends as much as the socket takes now.
    pub(crate) fn flush(&mut self) -> Result<(), PeerGone> {
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
                        result = Err(PeerGone);
                    }
                    break;
                }
            }
        }
        self.out.copy_within(sent..self.out_length, 0);
        self.out_length -= sent;
        result
    }

    /// Returns whether everything written has been sent.
    pub(crate) fn is_flushed(&self) -> bool {
        self.out_length == 0
    }

    /// Waits until the socket is readable.
    pub(crate) fn wait(&self, timeout_ns: u64) {
        self.poll(libc::POLLIN, timeout_ns);
    }

    /// Sends as much as the socket takes within a time, ns.
    pub(crate) fn flush_within(&mut self, timeout_ns: u64) -> Result<(), PeerGone> {
        let until_ns = syscall::monotonic_ns() + timeout_ns;
        loop {
            self.flush()?;
            let left_ns = until_ns.saturating_sub(syscall::monotonic_ns());
            if self.is_flushed() || left_ns == 0 {
                return Ok(());
            }
            self.poll(libc::POLLOUT, left_ns);
        }
    }

    /// Waits for an event. ppoll(2)
    fn poll(&self, event: i16, timeout_ns: u64) {
        let mut poll = libc::pollfd { fd: self.descriptor, events: event, revents: 0 };
        let timeout = [timeout_ns / 1_000_000_000, timeout_ns % 1_000_000_000];
        // SAFETY: one pollfd in and out, one timespec in.
        unsafe { syscall!(libc::SYS_ppoll, &raw mut poll, 1, timeout.as_ptr(), 0usize, 8) };
    }

    /// Returns the next request, if one has arrived. recv(2)
    pub(crate) fn receive(&mut self) -> Result<Option<Request>, PeerGone> {
        if self.is_unconnected() {
            return Ok(None);
        }
        loop {
            match wire::split_frame(&self.input[..self.input_length]) {
                Ok(Some(framed)) => {
                    let (request, size) = (wire::decode_request(framed.kind, framed.body), framed.size);
                    self.input.copy_within(size..self.input_length, 0);
                    self.input_length -= size;
                    return request.map(Some).map_err(|_: Malformed| PeerGone);
                }
                Ok(None) if self.input_length < IN => {}
                _ => return Err(PeerGone),
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
                0 => return Err(PeerGone),
                _ if [libc::EAGAIN, libc::EINTR].contains(&(-count as i32)) => return Ok(None),
                _ => return Err(PeerGone),
            }
        }
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        if !self.is_unconnected() {
            syscall::close(self.descriptor);
        }
    }
}
