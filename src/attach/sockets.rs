//! Describes the sockets of a process by their addresses, as `/proc/PID/net` lists them: those of
//! its network namespace.

use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use super::network_namespace;
use super::unix_peers::unix_peers;

/// Maximum number of lines to read of each list, which take some 20 ms.
const MAX_LINES: usize = 20_000;

/// Reads the descriptions of all sockets in the network namespace of a process, by inode.
pub fn sockets(pid: u32) -> HashMap<u64, String> {
    let mut sockets = HashMap::new();
    for protocol in ["tcp", "tcp6", "udp", "udp6"] {
        let name = protocol.trim_end_matches('6');
        each_line(pid, protocol, |line| {
            sockets.insert(inode(line, 9)?, describe_internet(name, line)?);
            Some(())
        });
    }
    let mut paths = HashMap::new();
    each_line(pid, "unix", |line| {
        paths.insert(inode(line, 6)?, line.split_ascii_whitespace().nth(7).map(str::to_owned));
        Some(())
    });
    let peers = if network_namespace::is_other(pid) { HashMap::new() } else { unix_peers() };
    sockets.extend(paths.keys().map(|&inode| (inode, describe_unix(inode, &paths, &peers))));
    sockets
}

/// Describes a unix socket by its path, by that of its peer, or by its peer's inode.
fn describe_unix(inode: u64, paths: &HashMap<u64, Option<String>>, peers: &HashMap<u64, u64>) -> String {
    let path = |inode: &u64| paths.get(inode)?.as_deref();
    match (path(&inode), peers.get(&inode)) {
        (Some(path), _) => format!("unix {path}"),
        (None, Some(peer)) => match path(peer) {
            Some(path) => format!("unix to {path}"),
            None => format!("unix to socket:[{peer}]"),
        },
        (None, None) => "unix".to_owned(),
    }
}

/// Calls `each` with the lines of a list but its head. Those that are not understood are left out.
fn each_line(pid: u32, list: &str, mut each: impl FnMut(&str) -> Option<()>) {
    let Ok(file) = File::open(format!("/proc/{pid}/net/{list}")) else { return };
    for line in BufReader::new(file).split(b'\n').skip(1).take(MAX_LINES).map_while(Result::ok) {
        let _ = each(&String::from_utf8_lossy(&line));
    }
}

fn inode(line: &str, column: usize) -> Option<u64> {
    line.split_ascii_whitespace().nth(column)?.parse().ok()
}

/// Describes a line of `/proc/net/tcp` and its kin: `tcp 10.0.0.5:5432 (established)`.
fn describe_internet(protocol: &str, line: &str) -> Option<String> {
    let mut words = line.split_ascii_whitespace().skip(1);
    let (local, remote, state) = (address(words.next()?)?, address(words.next()?)?, words.next()?);
    let state = match state {
        _ if protocol != "tcp" => None,
        "01" => Some("established"),
        "02" | "03" => Some("connecting"),
        "0A" => Some("listening"),
        "08" => Some("closed by its peer"),
        _ => Some("closing"),
    };
    // A socket without a peer is known by its own address.
    let (arrow, shown) = if remote.port() == 0 { ("at ", local) } else { ("", remote) };
    let state = state.map_or_else(String::new, |state| format!(" ({state})"));
    Some(format!("{protocol} {arrow}{shown}{state}"))
}

/// Parses `0100007F:1538`: 32-bit words as the machine stores them, and a port.
fn address(text: &str) -> Option<SocketAddr> {
    let (host, port) = text.split_once(':')?;
    let word = |index: usize| u32::from_str_radix(host.get(8 * index..8 * index + 8)?, 16).ok().map(u32::to_ne_bytes);
    let ip = match host.len() {
        8 => IpAddr::from(Ipv4Addr::from(word(0)?)),
        32 => {
            let words = [word(0)?, word(1)?, word(2)?, word(3)?];
            IpAddr::from(Ipv6Addr::from(<[u8; 16]>::try_from(words.concat()).ok()?)).to_canonical()
        }
        _ => return None,
    };
    Some(SocketAddr::new(ip, u16::from_str_radix(port, 16).ok()?))
}

#[cfg(test)]
mod tests {
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::AsRawFd;
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::*;

    fn describe(descriptor: &impl AsRawFd) -> Option<String> {
        let link = std::fs::read_link(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).unwrap();
        let link = link.to_string_lossy().into_owned();
        let inode = link.strip_prefix("socket:[").unwrap().trim_end_matches(']').parse().unwrap();
        sockets(std::process::id()).remove(&inode)
    }

    #[test]
    fn sockets_have_their_addresses() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        assert_eq!(describe(&listener), Some(format!("tcp at {address} (listening)")));
        let stream = TcpStream::connect(address).unwrap();
        let (accepted, peer) = listener.accept().unwrap();
        assert_eq!(describe(&stream), Some(format!("tcp {address} (established)")));
        assert_eq!(describe(&accepted), Some(format!("tcp {peer} (established)")));
        let path = std::env::temp_dir().join(format!("sigtop-sockets-{}", std::process::id()));
        let _ = std::fs::remove_file(&path);
        let unix = UnixListener::bind(&path).unwrap();
        assert_eq!(describe(&unix), Some(format!("unix {}", path.display())));
        let client = UnixStream::connect(&path).unwrap();
        let (accepted, _) = unix.accept().unwrap();
        assert_eq!(describe(&accepted), Some(format!("unix {}", path.display())));
        let (left, right) = UnixStream::pair().unwrap();
        if !unix_peers().is_empty() {
            assert_eq!(describe(&client), Some(format!("unix to {}", path.display())));
            assert!(describe(&left).is_some_and(|words| words.starts_with("unix to socket:[")));
            assert_ne!(describe(&left), describe(&right));
        }
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn addresses_are_those_of_the_kernel() {
        assert_eq!(address("0100007F:1538"), Some("127.0.0.1:5432".parse().unwrap()));
        assert_eq!(address("00000000000000000000000001000000:0050"), Some("[::1]:80".parse().unwrap()));
        assert_eq!(address("0000000000000000FFFF00000100007F:0050"), Some("127.0.0.1:80".parse().unwrap()));
        for text in ["", ":", "0100007F", "0100007F:", "0100007:1", "0100007Fx:1", "é100007:1"] {
            assert_eq!(address(text), None, "{text}");
        }
        assert_eq!(describe_internet("tcp", "  0: 0100007F:1538 00000000:0000"), None);
    }
}
