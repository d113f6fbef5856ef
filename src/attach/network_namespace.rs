//! A socket for agents in the network namespace of another process. The name of an abstract socket
//! belongs to one network namespace, so an agent in a container cannot reach the viewer's own.
//!
//! There are two ways. A thread enters the namespace and listens there: this leaves nothing behind,
//! and takes `CAP_SYS_ADMIN`. Otherwise the socket is a file in the `/tmp` that the process sees,
//! which takes nothing but the right to write there. The agent tries both names.

use std::fs::{self, File, OpenOptions, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::thread;

use nix::sched::{CloneFlags, setns};
use nix::sys::socket::{AddressFamily, Backlog, SockFlag, SockType, UnixAddr, bind, listen, socket};
use nix::unistd::geteuid;

use super::proc::ProcStatus;
use crate::wire::{VIEWER_SOCKET, VIEWER_SOCKET_FILE};

/// A socket that an agent in another network namespace can reach.
#[derive(Debug)]
pub struct NamespaceListener {
    /// The listening socket, which does not block.
    pub listener: UnixListener,
    /// The file to remove when the socket is closed, if the socket has one.
    pub file: Option<PathBuf>,
}

/// Returns the network namespace of a process by the device and inode of its file; `None` if it
/// cannot be read.
pub fn id(pid: u32) -> Option<(u64, u64)> {
    let file = fs::metadata(format!("/proc/{pid}/ns/net")).ok()?;
    Some((file.dev(), file.ino()))
}

/// Returns whether a process is known to be in another network namespace than this one.
pub fn is_other(pid: u32) -> bool {
    id(pid).is_some_and(|of_process| id(std::process::id()) != Some(of_process))
}

/// Listens where the agent of a process calls this viewer.
///
/// # Errors
/// The error of the second way, where neither way works.
pub fn listen_for(pid: u32) -> io::Result<NamespaceListener> {
    match listen_inside(pid) {
        Ok(listener) => Ok(NamespaceListener { listener, file: None }),
        Err(_) => listen_in_tmp(pid),
    }
}

/// Has a thread enter the namespace and listen there. The namespace is the thread's alone.
fn listen_inside(pid: u32) -> io::Result<UnixListener> {
    let namespace = File::open(format!("/proc/{pid}/ns/net"))?;
    let user = ProcStatus::of(pid)?.users[1];
    let enter = move || enter_and_listen(&namespace, user);
    let thread = thread::Builder::new().name("network".to_owned()).spawn(enter)?;
    let listening = thread.join().map_err(|_| io::Error::other("the thread panicked"))?;
    Ok(listening?.into())
}

/// Runs on a thread of its own. An agent trusts a viewer of its own user or root, and the kernel
/// remembers who called listen(2), in the terms of the agent's user namespace: root becomes the
/// agent's user before.
fn enter_and_listen(namespace: &File, user: u32) -> nix::Result<OwnedFd> {
    setns(namespace, CloneFlags::CLONE_NEWNET)?;
    let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
    let socket = socket(AddressFamily::Unix, SockType::Stream, flags, None)?;
    let name = format!("{VIEWER_SOCKET}{}", std::process::id());
    bind(socket.as_raw_fd(), &UnixAddr::new_abstract(name.as_bytes())?)?;
    if geteuid().is_root() {
        // SAFETY: setresuid takes three integers. The system call itself, unlike libc's function,
        // changes the calling thread alone, which ends after this.
        let _ = unsafe { libc::syscall(libc::SYS_setresuid, u32::MAX, user, u32::MAX) };
    }
    listen(&socket, Backlog::MAXCONN)?;
    Ok(socket)
}

/// Listens at a file in the `/tmp` that the process sees.
fn listen_in_tmp(pid: u32) -> io::Result<NamespaceListener> {
    let name = format!("{}{}{}", VIEWER_SOCKET_FILE.0, std::process::id(), VIEWER_SOCKET_FILE.1);
    let (own, other) = (fs::metadata("/tmp")?, fs::metadata(format!("/proc/{pid}/root/tmp"))?);
    let is_same = (own.dev(), own.ino()) == (other.dev(), other.ino());
    // By its own path the file can be removed after the process has ended.
    let path = PathBuf::from(if is_same { name } else { format!("/proc/{pid}/root{name}") });
    let listener = match UnixListener::bind(&path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse && remove_stale(&path) => UnixListener::bind(&path),
        bound => bound,
    }?;
    // Connections are checked by their user. The agent's user may be another than root.
    let mode = if geteuid().is_root() { 0o666 } else { 0o600 };
    set_mode(&path, mode)?;
    listener.set_nonblocking(true)?;
    Ok(NamespaceListener { listener, file: Some(path) })
}

/// Sets the mode of a file, and not that of another one to which a link may lead by now: others can
/// write to the directory, and a link is followed from this process's root.
fn set_mode(path: &Path, mode: u32) -> io::Result<()> {
    let file = OpenOptions::new().read(true).custom_flags(libc::O_PATH | libc::O_NOFOLLOW).open(path)?;
    fs::set_permissions(format!("/proc/self/fd/{}", file.as_raw_fd()), Permissions::from_mode(mode))
}

/// Removes a socket that a killed viewer with this pid has left.
fn remove_stale(path: &Path) -> bool {
    let is_ours = fs::symlink_metadata(path).is_ok_and(|file| file.uid() == geteuid().as_raw());
    let is_deaf = || UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused);
    is_ours && is_deaf() && fs::remove_file(path).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a container that put a link in the socket's place had the mode of any file
    /// of the host set to 0666 by a viewer that runs as root.
    #[test]
    fn the_mode_of_a_linked_file_stays() {
        let directory = std::env::temp_dir().join(format!("sigtop-namespace-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let (socket, link, file) = (directory.join("socket"), directory.join("link"), directory.join("file"));
        let _listener = UnixListener::bind(&socket).unwrap();
        fs::write(&file, "x").unwrap();
        std::os::unix::fs::symlink(&file, &link).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        fs::set_permissions(&file, Permissions::from_mode(0o600)).unwrap();
        assert!(set_mode(&link, 0o666).is_err());
        set_mode(&socket, 0o666).unwrap();
        assert_eq!((mode(&file), mode(&socket)), (0o600, 0o666));
        fs::remove_dir_all(&directory).unwrap();
    }
}
