//! The sockets on which the viewer accepts agents: one in the viewer's private directory for
//! launched processes, and an abstract one named after the viewer's pid for processes that it wakes
//! and for those that cannot see the file. The kernel tells the user of whoever connects. The name
//! of a socket is no secret: `/proc/net/unix` shows it to everyone.

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

use crate::wire::VIEWER_SOCKET;

/// Start and end of a socket's file name. The viewer's pid and a random part are in between.
const FILE_NAME: (&str, &str) = ("viewer-", ".sock");
/// Maximum length of a file name in bytes: a pid has up to 7 digits, the random part has 8.
const MAX_FILE_NAME: usize = 7 + 7 + 1 + 8 + 5;
/// Maximum length of a socket's path in bytes: sun_path has 108, including a NUL.
const MAX_SOCKET_PATH: usize = 107;
/// Maximum length of the directory's path in bytes.
pub const MAX_DIRECTORY_BYTES: usize = MAX_SOCKET_PATH - 1 - MAX_FILE_NAME;

/// The listening sockets. Dropping them removes their files.
#[derive(Debug)]
pub(super) struct ListeningSockets {
    sockets: Vec<UnixListener>,
    /// The files of the sockets that have one.
    files: Vec<PathBuf>,
    /// The address for launched agents: the path of the first socket, or `@` and the abstract name.
    path: PathBuf,
    has_abstract: bool,
}

/// An accepted connection and its process according to the kernel.
pub(super) struct PendingConnection {
    pub(super) stream: UnixStream,
    /// Pid in the viewer's pid namespace; 0 if it has none there.
    pub(super) pid: u32,
    /// `true` if the process runs as the viewer's user or root, or the viewer runs as root.
    pub(super) is_trusted: bool,
}

impl ListeningSockets {
    /// Opens both sockets. The abstract one may be missing, because another user can hold its name;
    /// without a directory it is required.
    pub(super) fn open(directory: Option<&Path>, random: u32) -> io::Result<ListeningSockets> {
        let name = format!("{VIEWER_SOCKET}{}", std::process::id());
        let abstract_socket = listen_abstract(&name);
        let Some(directory) = directory else {
            // An agent that finds no such file tries the abstract socket next.
            let path = PathBuf::from(format!("@{name}"));
            let sockets = vec![abstract_socket?];
            return Ok(ListeningSockets { sockets, files: Vec::new(), path, has_abstract: true });
        };
        remove_stale_files(directory);
        let path = directory.join(format!("{}{}-{random:08x}{}", FILE_NAME.0, std::process::id(), FILE_NAME.1));
        let has_abstract = abstract_socket.is_ok();
        let sockets = [listen_at(&path)?].into_iter().chain(abstract_socket).collect();
        Ok(ListeningSockets { sockets, files: vec![path.clone()], path, has_abstract })
    }

    /// Adds a listening socket, which must be non-blocking, and its file.
    pub(super) fn add(&mut self, socket: UnixListener, file: Option<PathBuf>) {
        self.sockets.push(socket);
        self.files.extend(file);
    }

    /// The address for launched agents.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns whether an agent that knows only the viewer's pid can connect.
    pub(super) fn accepts_knocked_agents(&self) -> bool {
        self.has_abstract
    }

    /// The descriptors for poll(2).
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.sockets.iter().map(AsFd::as_fd)
    }

    /// Accepts the next connection; `None` if none is waiting.
    ///
    /// # Errors
    /// If the system cannot open another descriptor.
    pub(super) fn accept(&self) -> io::Result<Option<PendingConnection>> {
        for listener in &self.sockets {
            match listener.accept() {
                Ok((stream, _)) => {
                    stream.set_nonblocking(true)?;
                    let peer = getsockopt(&stream, PeerCredentials)?;
                    let own = geteuid();
                    let is_trusted = own.is_root() || [0, own.as_raw()].contains(&peer.uid());
                    let pid = peer.pid().try_into().unwrap_or_default();
                    return Ok(Some(PendingConnection { stream, pid, is_trusted }));
                }
                // No connection is waiting, or it was closed meanwhile.
                Err(error)
                    if [ErrorKind::WouldBlock, ErrorKind::ConnectionAborted, ErrorKind::Interrupted]
                        .contains(&error.kind()) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }
}

impl Drop for ListeningSockets {
    fn drop(&mut self) {
        self.files.iter().for_each(|file| drop(fs::remove_file(file)));
    }
}

fn listen_abstract(name: &str) -> io::Result<UnixListener> {
    let listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(name)?)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

/// Listens at a path. The file's mode is set before the file has a name. A process that root
/// launches may change its user, so root's socket is open to all; connections are checked by their
/// user.
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

/// Removes the files of killed viewers. A file is removed only if it is a socket of this user, its
/// viewer does not exist, and nothing listens on it: a viewer in another pid namespace may share
/// the directory.
fn remove_stale_files(directory: &Path) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let Some(pid) = name.to_str().and_then(viewer_pid) else { continue };
        let Ok(metadata) = fs::symlink_metadata(entry.path()) else { continue };
        let is_ours = metadata.file_type().is_socket() && metadata.uid() == geteuid().as_raw();
        if is_ours && kill(Pid::from_raw(pid), None) == Err(Errno::ESRCH) && refuses_connections(&entry.path()) {
            drop(fs::remove_file(entry.path()));
        }
    }
}

fn refuses_connections(path: &Path) -> bool {
    UnixStream::connect(path).is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// The viewer's pid in the name of a socket's file.
fn viewer_pid(name: &str) -> Option<i32> {
    let (pid, _) = name.strip_prefix(FILE_NAME.0)?.strip_suffix(FILE_NAME.1)?.split_once('-')?;
    pid.parse().ok().filter(|&pid| pid > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_name_fits_the_limit_and_holds_the_viewers_pid() {
        let name = format!("{}{}-{:08x}{}", FILE_NAME.0, 4_194_303, u32::MAX, FILE_NAME.1);
        assert_eq!((name.len(), viewer_pid(&name)), (MAX_FILE_NAME, Some(4_194_303)));
        for other in ["viewer-1.sock", "viewer-0-a.sock", "viewer--1-a.sock", "viewer-x-a.sock", "libsigtop-agent-1.so"]
        {
            assert_eq!(viewer_pid(other), None, "{other}");
        }
    }
}
