//! Lets sigtops that watch the same process from outside know of each other, as its agent would:
//! the first one holds an abstract socket that is named after the process. Sigtops in another
//! network namespace do not see it.

use std::io;
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};

use nix::sys::socket::{getsockopt, sockopt::PeerCredentials};

use super::proc::ProcessIdentity;

/// The claim of a process that is watched. It ends with this value.
#[derive(Debug)]
pub struct WatchClaim {
    _socket: Option<UnixListener>,
}

impl WatchClaim {
    /// Claims a process.
    ///
    /// # Errors
    /// The pid of the sigtop that watches it already.
    pub fn new(process: ProcessIdentity) -> Result<WatchClaim, u32> {
        let ProcessIdentity { pid, start_ticks } = process;
        let address = SocketAddr::from_abstract_name(format!("sigtop/watched/{pid}/{start_ticks}"));
        let Ok(address) = address else { return Ok(WatchClaim { _socket: None }) };
        match UnixListener::bind_addr(&address) {
            Ok(socket) => Ok(WatchClaim { _socket: Some(socket) }),
            Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
                holder(&address).map_or(Ok(WatchClaim { _socket: None }), Err)
            }
            Err(_) => Ok(WatchClaim { _socket: None }),
        }
    }
}

/// Returns the pid of the process that holds a socket, if it is seen here.
fn holder(address: &SocketAddr) -> Option<u32> {
    let stream = UnixStream::connect_addr(address).ok()?;
    let credentials = getsockopt(&stream, PeerCredentials).ok()?;
    u32::try_from(credentials.pid()).ok().filter(|&pid| pid != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_process_is_claimed_once() {
        let process = ProcessIdentity::of(std::process::id()).unwrap();
        let claim = WatchClaim::new(process).unwrap();
        assert_eq!(WatchClaim::new(process).err(), Some(std::process::id()));
        let other = ProcessIdentity { start_ticks: process.start_ticks + 1, ..process };
        assert!(WatchClaim::new(other).is_ok());
        drop(claim);
        assert!(WatchClaim::new(process).is_ok());
    }
}
