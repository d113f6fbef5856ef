//! Finds the peers of unix sockets, which `/proc/PID/net/unix` does not tell. The kernel lists them
//! through a socket of the family netlink (sock_diag(7)), for the network namespace of the caller.

use std::collections::HashMap;
use std::os::fd::AsRawFd;

use nix::sys::socket::{AddressFamily, MsgFlags, SockFlag, SockProtocol, SockType, recv, send, socket};

/// `SOCK_DIAG_BY_FAMILY`, which is also the type of each answer.
const BY_FAMILY: u16 = 20;
/// `NLM_F_REQUEST | NLM_F_DUMP`
const REQUEST_ALL: u16 = 0x301;
const UDIAG_SHOW_PEER: u32 = 4;
/// `UNIX_DIAG_PEER`, the attribute with the peer's inode.
const PEER: u16 = 2;
/// Length of the header of a message.
const HEADER: usize = 16;
/// Length of `struct unix_diag_msg`.
const SOCKET: usize = 16;
/// Length of the header of an attribute.
const ATTRIBUTE: usize = 4;
/// Maximum number of answers to read, each of some 600 sockets.
const MAX_ANSWERS: usize = 64;

/// Returns the inode of the peer of each connected unix socket, by its inode. Empty if the kernel
/// does not tell.
pub(super) fn unix_peers() -> HashMap<u64, u64> {
    let mut peers = HashMap::new();
    let protocol = SockProtocol::NetlinkSockDiag;
    let Ok(kernel) = socket(AddressFamily::Netlink, SockType::Raw, SockFlag::SOCK_CLOEXEC, protocol) else {
        return peers;
    };
    if send(kernel.as_raw_fd(), &request(), MsgFlags::empty()).is_err() {
        return peers;
    }
    let mut answer = vec![0; 1 << 15];
    // What there is to read is there at once.
    for _ in 0..MAX_ANSWERS {
        let Ok(length) = recv(kernel.as_raw_fd(), &mut answer, MsgFlags::MSG_DONTWAIT) else { break };
        if !add_peers(&answer[..length.min(answer.len())], &mut peers) {
            break;
        }
    }
    peers
}

/// A request for the peers of all unix sockets: a header, and `struct unix_diag_req`.
fn request() -> Vec<u8> {
    let mut request = Vec::new();
    request.extend_from_slice(&40u32.to_ne_bytes());
    [BY_FAMILY, REQUEST_ALL].iter().for_each(|word| request.extend_from_slice(&word.to_ne_bytes()));
    request.extend_from_slice(&[0; 8]);
    request.extend_from_slice(&[libc::AF_UNIX as u8, 0, 0, 0]);
    // All states, no inode, what to tell, and a cookie.
    [u32::MAX, 0, UDIAG_SHOW_PEER, 0, 0].iter().for_each(|word| request.extend_from_slice(&word.to_ne_bytes()));
    request
}

/// Adds the peers in one answer of the kernel. Returns whether further ones follow.
fn add_peers(mut answer: &[u8], peers: &mut HashMap<u64, u64>) -> bool {
    let mut has_any = false;
    loop {
        let length = u32_at(answer, 0);
        let Some(message) = next(&mut answer, length, HEADER) else { return has_any };
        if message.get(4..6) != Some(&BY_FAMILY.to_ne_bytes()) {
            return false;
        }
        has_any = true;
        let inode = u32_at(message, HEADER + 4);
        let mut attributes = message.get(HEADER + SOCKET..).unwrap_or_default();
        loop {
            let length = u16_at(attributes, 0).map(u32::from);
            let Some(attribute) = next(&mut attributes, length, ATTRIBUTE) else { break };
            if let (Some(PEER), Some(peer), Some(inode)) = (u16_at(attribute, 2), u32_at(attribute, ATTRIBUTE), inode)
                && peer != 0
            {
                peers.insert(inode.into(), peer.into());
            }
        }
    }
}

/// Takes the first `length` bytes, and those up to the next multiple of 4. `None` if they are not
/// there, or fewer than `least`.
fn next<'a>(rest: &mut &'a [u8], length: Option<u32>, least: usize) -> Option<&'a [u8]> {
    let length = length? as usize;
    let first = rest.get(..length).filter(|_| length >= least)?;
    *rest = rest.get(length.next_multiple_of(4)..).unwrap_or_default();
    Some(first)
}

fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes)
}

fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::net::UnixStream;

    use proptest::prelude::*;

    use super::*;

    fn inode(socket: &UnixStream) -> u64 {
        let link = fs::read_link(format!("/proc/self/fd/{}", socket.as_raw_fd())).unwrap();
        link.to_str().unwrap().trim_start_matches("socket:[").trim_end_matches(']').parse().unwrap()
    }

    #[test]
    fn the_kernel_tells_the_peers_of_sockets() {
        let (left, right) = UnixStream::pair().unwrap();
        let peers = unix_peers();
        if peers.is_empty() {
            // A container may forbid it.
            return;
        }
        assert_eq!(peers.get(&inode(&left)), Some(&inode(&right)));
        assert_eq!(peers.get(&inode(&right)), Some(&inode(&left)));
    }

    /// A message about a socket, with attributes.
    fn message(inode: u32, attributes: &[u8]) -> Vec<u8> {
        let mut message = ((HEADER + SOCKET + attributes.len()) as u32).to_ne_bytes().to_vec();
        message.extend_from_slice(&BY_FAMILY.to_ne_bytes());
        message.resize(HEADER + 4, 0);
        message.extend_from_slice(&inode.to_ne_bytes());
        message.resize(HEADER + SOCKET, 0);
        message.extend_from_slice(attributes);
        message
    }

    #[test]
    fn answers_are_decoded() {
        let peer = [&8u16.to_ne_bytes()[..], &PEER.to_ne_bytes(), &9u32.to_ne_bytes()].concat();
        let name = [&5u16.to_ne_bytes()[..], &0u16.to_ne_bytes(), b"x\0\0\0"].concat();
        let answer = [message(7, &[name, peer.clone()].concat()), message(3, &[]), message(9, &peer[..7])].concat();
        let mut peers = HashMap::new();
        assert!(add_peers(&answer, &mut peers));
        assert_eq!(peers, HashMap::from([(7, 9)]));
        assert!(!add_peers(&[16, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0], &mut peers), "the end");
        assert!(!add_peers(&[], &mut peers));
    }

    proptest! {
        #[test]
        fn hostile_answers_do_no_harm(answer in prop::collection::vec(prop_oneof![0u8..24, any::<u8>()], 0..200)) {
            let mut peers = HashMap::new();
            add_peers(&answer, &mut peers);
            prop_assert!(peers.len() <= answer.len());
        }
    }
}
