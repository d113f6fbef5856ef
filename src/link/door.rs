//! Where agents come in: a socket in the viewer's private directory, for the processes it launches, and an abstract one named by
//! the viewer's pid, for those it knocks at (and for those that have lost sight of the file system). Whoever comes is asked for
//! its user by the kernel; the name of a socket is no secret, `/proc/net/unix` tells it to everyone.

use std::fs::{self, Permissions};
use std::io::{self, ErrorKind};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::sys::signal::kill;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, getsockopt, listen, socket};
use nix::sys::stat::{Mode, fchmod};
use nix::unistd::{Pid, geteuid};

/// How the names of sockets begin and end; between are the viewer's pid and a random part.
const NAME: (&str, &str) = ("viewer-", ".sock");
/// Bytes of the longest name: a pid has at most 7 digits, the random part 8.
const LONGEST_NAME: usize = 7 + 7 + 1 + 8 + 5;
/// Bytes of a socket's path, at most: sun_path has 108, and a NUL.
const LONGEST_PATH: usize = 107;
/// Bytes of the directory's path, at most.
pub const LONGEST_DIRECTORY: usize = LONGEST_PATH - 1 - LONGEST_NAME;

/// The sockets that are listened on; the file goes with them.
#[derive(Debug)]
pub(super) struct Door {
    named: UnixListener,
    path: PathBuf,
    nameless: Option<UnixListener>,
}

/// Someone who came in, and who the kernel says it is.
pub(super) struct Newcomer {
    pub(super) stream: UnixStream,
    /// In our pid namespace; 0 if it has no number there.
    pub(super) pid: u32,
    /// It is us, or root, or we are root.
    pub(super) trusted: bool,
}

impl Door {
    /// Opens both. The abstract one may be missing: another user can hold its name.
    pub(super) fn open(directory: &Path, random: u32) -> io::Result<Door> {
        remove_stale(directory);
        let path = directory.join(format!("{}{}-{random:08x}{}", NAME.0, std::process::id(), NAME.1));
        let nameless = listen_nameless(&format!("sigtop/{}", std::process::id()));
        Ok(Door { named: listen_at(&path)?, path, nameless: nameless.ok() })
    }

    /// Of the socket in the directory.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Whether an agent that knows our pid alone can come.
    pub(super) fn is_open_to_knocked(&self) -> bool {
        self.nameless.is_some()
    }

    /// For poll(2).
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.listeners().map(AsFd::as_fd)
    }

    fn listeners(&self) -> impl Iterator<Item = &UnixListener> {
        [&self.named].into_iter().chain(&self.nameless)
    }

    /// The next one who waits, if there is one; an error when the system cannot take one more.
    pub(super) fn admit(&self) -> io::Result<Option<Newcomer>> {
        for listener in self.listeners() {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(true)?;
                    let who = getsockopt(&stream, PeerCredentials)?;
                    let us = geteuid();
                    let trusted = us.is_root() || [0, us.as_raw()].contains(&who.uid());
                    return Ok(Some(Newcomer { stream, pid: who.pid().try_into().unwrap_or_default(), trusted }));
                }
                // Nobody waits here, or whoever did has gone.
                Err(error)
                    if [ErrorKind::WouldBlock, ErrorKind::ConnectionAborted, ErrorKind::Interrupted]
                        .contains(&error.kind()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        drop(fs::remove_file(&self.path));
    }
}

fn listen_nameless(name: &str) -> io::Result<UnixListener> {
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// The file's mode is set before it has a name. What root launches may become another user, whose agent connects then.
fn listen_at(path: &Path) -> io::Result<UnixListener> {
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    fchmod(&socket, Mode::S_IRUSR | Mode::S_IWUSR)?;
    bind(socket.as_raw_fd(), &UnixAddr::new(path)?)?;
    if geteuid().is_root() {
        fs::set_permissions(path, Permissions::from_mode(0o666))?;
    }
    listen(&socket, Backlog::MAXCONN)?;
    Ok(socket.into())
}

/// Removes what killed viewers left. A file goes only if it is a socket of ours, its viewer is not there, and nobody listens
/// (a viewer in another pid namespace may share the directory).
fn remove_stale(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(viewer_of) else { continue };
        let Ok(found) = fs::symlink_metadata(entry.path()) else { continue };
        let ours = found.file_type().is_socket() && found.uid() == geteuid().as_raw();
        if ours && kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH) && is_deaf(&entry.path()) {
            drop(fs::remove_file(entry.path()));
        }
    }
}

fn is_deaf(path: &Path) -> bool {
    UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

fn viewer_of(name: &str) -> Option<i32> {
    let (pid, _) = name.strip_prefix(NAME.0)?.strip_suffix(NAME.1)?.split_once('-')?;
    pid.parse().ok().filter(|&pid| pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_fits_and_tells_its_viewer() {
        let name = format!("{}{}-{:08x}{}", NAME.0, 4_194_303, u32::MAX, NAME.1);
        assert_eq!((name.len(), viewer_of(&name)), (LONGEST_NAME, Some(4_194_303)));
        for other in ["viewer-1.sock", "viewer-0-a.sock", "viewer--1-a.sock", "viewer-x-a.sock", "libsigtop-agent-1.so"]
        {
            assert_eq!(viewer_of(other), None, "{other}");
        }
    }
}
