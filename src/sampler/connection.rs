//! The connection for one process image to the viewer, in the place of an agent's.

use std::io::{self, Write};
use std::os::fd::AsRawFd;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixStream};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::socket::{MsgFlags, recv};

use crate::wire::{self, BufferFull, MAX_MESSAGE, Request, Writer};

/// Size of the buffer of messages that were not sent yet, bytes.
const BUFFER: usize = 2 * MAX_MESSAGE;

/// The viewer's socket and its token.
#[derive(Clone, Debug)]
pub(super) struct ViewerAddress {
    pub(super) path: PathBuf,
    pub(super) token: u64,
}

/// A connection to the viewer. Writing waits for the viewer: the sampler's tracer does not write,
/// and counts what it cannot pass on.
pub(super) struct ViewerConnection {
    stream: UnixStream,
    buffer: Box<[u8]>,
    length: usize,
    /// Received bytes that are no whole request yet.
    received: Vec<u8>,
}

impl ViewerConnection {
    /// Connects to the viewer's socket: a path, or `@` and an abstract name.
    pub(super) fn open(path: &Path) -> io::Result<ViewerConnection> {
        let stream = match path.as_os_str().as_bytes().strip_prefix(b"@") {
            Some(name) => UnixStream::connect_addr(&SocketAddr::from_abstract_name(name)?)?,
            None => UnixStream::connect(path)?,
        };
        Ok(ViewerConnection { stream, buffer: vec![0; BUFFER].into_boxed_slice(), length: 0, received: Vec::new() })
    }

    /// Writes a message, and sends the earlier ones first if there is no room.
    pub(super) fn write(
        &mut self,
        mut message: impl FnMut(&mut Writer<'_>) -> Result<(), BufferFull>,
    ) -> io::Result<()> {
        for _ in 0..2 {
            let mut writer = Writer::new(&mut self.buffer, self.length);
            let written = message(&mut writer);
            self.length = writer.length();
            if written.is_ok() {
                return Ok(());
            }
            self.flush()?;
        }
        Err(io::ErrorKind::InvalidData.into())
    }

    /// Sends everything.
    pub(super) fn flush(&mut self) -> io::Result<()> {
        let length = std::mem::take(&mut self.length);
        self.stream.write_all(&self.buffer[..length])
    }

    /// Receives the next request, without waiting.
    ///
    /// # Errors
    /// If the viewer has closed the connection or sent anything else.
    pub(super) fn request(&mut self) -> io::Result<Option<Request>> {
        let mut bytes = [0; 256];
        match recv(self.stream.as_raw_fd(), &mut bytes, MsgFlags::MSG_DONTWAIT) {
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(count) => self.received.extend_from_slice(&bytes[..count]),
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(error) => return Err(error.into()),
        }
        let invalid = |malformed| io::Error::new(io::ErrorKind::InvalidData, malformed);
        let Some(framed) = wire::split_frame(&self.received).map_err(invalid)? else { return Ok(None) };
        let (request, size) = (wire::decode_request(framed.kind, framed.body).map_err(invalid)?, framed.size);
        self.received.drain(..size);
        Ok(Some(request))
    }
}
