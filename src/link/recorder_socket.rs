//! The socket on which a recorder that keeps the last minutes is asked for them (`sigtop dump`). It
//! is abstract and named after the recorder's pid. Both ends check the user of the other one: root,
//! or their own user.
//!
//! A request is `dump PID` and a line feed. The answer is one line: `saved BYTES PATH`, `failed
//! REASON`, or `none` if the process is neither the recorder nor its target.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::time::Duration;

use nix::sys::socket::getsockopt;
use nix::sys::socket::sockopt::PeerCredentials;
use nix::unistd::geteuid;

/// Start of the socket's name. The recorder's pid follows.
const NAME: &str = "sigtop-recorder/";
/// Maximum time for a request, and for its answer: the file is written until then.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(1);
const ANSWER_TIMEOUT: Duration = Duration::from_secs(60);
/// Maximum length of a request and of an answer in bytes.
const MAX_REQUEST: u64 = 64;
const MAX_ANSWER: u64 = 8192;
/// The flags of a listening socket in `/proc/net/unix`. Its connections have its name, too.
const LISTENS: &str = "00010000";
/// Maximum number of recorders that are asked.
const MAX_RECORDERS: usize = 256;

/// The listening socket of a recorder.
#[derive(Debug)]
pub struct RecorderSocket(UnixListener);

/// A request for what a recorder has kept.
#[derive(Debug)]
pub struct DumpRequest {
    /// The process whose recorder is meant: the recorder itself, or its target.
    pub pid: u32,
    stream: UnixStream,
}

/// The answer of a recorder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DumpAnswer {
    /// The file that it has written.
    Saved {
        /// The absolute path.
        path: String,
        /// The size in bytes.
        bytes: u64,
    },
    /// The reason why it has written none: one sentence.
    Failed(String),
    /// The process is neither the recorder nor its target.
    None,
}

impl DumpAnswer {
    fn parse(line: &str) -> Option<DumpAnswer> {
        match line.split_once(' ') {
            None if line == "none" => Some(DumpAnswer::None),
            Some(("failed", reason)) => Some(DumpAnswer::Failed(reason.to_owned())),
            Some(("saved", rest)) => {
                let (bytes, path) = rest.split_once(' ')?;
                Some(DumpAnswer::Saved { path: path.to_owned(), bytes: bytes.parse().ok()? })
            }
            _ => None,
        }
    }

    /// The line without its end. A line feed in a path would end it early.
    fn line(&self) -> String {
        let one_line = |text: &str| text.replace('\n', "?");
        match self {
            DumpAnswer::Saved { path, bytes } => format!("saved {bytes} {}", one_line(path)),
            DumpAnswer::Failed(reason) => format!("failed {}", one_line(reason)),
            DumpAnswer::None => "none".to_owned(),
        }
    }
}

impl RecorderSocket {
    /// Listens for requests to this process.
    ///
    /// # Errors
    /// If another process holds the name, or the system has no room for a socket.
    pub fn listen() -> io::Result<RecorderSocket> {
        let name = SocketAddr::from_abstract_name(format!("{NAME}{}", std::process::id()))?;
        UnixListener::bind_addr(&name).map(RecorderSocket)
    }

    /// Waits for the next request of a trusted user. Malformed requests are dropped.
    ///
    /// # Errors
    /// If the system cannot open another descriptor.
    pub fn accept(&self) -> io::Result<DumpRequest> {
        loop {
            let (stream, _) = self.0.accept()?;
            let read = || read_line(&stream, MAX_REQUEST, REQUEST_TIMEOUT)?.strip_prefix("dump ")?.parse().ok();
            if let Some(pid) = is_trusted(&stream).then(read).flatten() {
                return Ok(DumpRequest { pid, stream });
            }
        }
    }
}

impl DumpRequest {
    /// Answers the request. It does not matter if the other end is gone.
    pub fn answer(mut self, answer: &DumpAnswer) {
        let _ = self.stream.write_all(format!("{}\n", answer.line()).as_bytes());
    }
}

/// Asks the recorder of a process, or the one that is this process, for a file. Returns `None` if
/// there is no such recorder of this user.
///
/// # Errors
/// If the list of sockets cannot be read.
pub fn request_dump(pid: u32) -> io::Result<Option<DumpAnswer>> {
    let sockets = std::fs::read_to_string("/proc/net/unix")?;
    let name_of = |line: &'_ str| {
        let words: Vec<&str> = line.split_whitespace().collect();
        let name = words.get(7)?.strip_prefix('@')?;
        (*words.get(3)? == LISTENS).then(|| name.to_owned())
    };
    let names = sockets.lines().filter_map(name_of);
    let names = names.filter(|name| name.strip_prefix(NAME).is_some_and(|pid| pid.parse::<u32>().is_ok()));
    let mut answers = names.take(MAX_RECORDERS).filter_map(|name| ask(&name, pid));
    Ok(answers.find(|answer| *answer != DumpAnswer::None))
}

fn ask(name: &str, pid: u32) -> Option<DumpAnswer> {
    let mut stream = UnixStream::connect_addr(&SocketAddr::from_abstract_name(name).ok()?).ok()?;
    if !is_trusted(&stream) {
        return None;
    }
    stream.write_all(format!("dump {pid}\n").as_bytes()).ok()?;
    DumpAnswer::parse(&read_line(&stream, MAX_ANSWER, ANSWER_TIMEOUT)?)
}

/// Whether the process at the other end runs as root or as this user.
fn is_trusted(stream: &UnixStream) -> bool {
    getsockopt(stream, PeerCredentials).is_ok_and(|peer| [0, geteuid().as_raw()].contains(&peer.uid()))
}

fn read_line(stream: &UnixStream, most: u64, timeout: Duration) -> Option<String> {
    stream.set_read_timeout(Some(timeout)).ok()?;
    let mut line = String::new();
    BufReader::new(stream.take(most)).read_line(&mut line).ok()?;
    line.strip_suffix('\n').map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_as_written() {
        let saved = DumpAnswer::Saved { path: "/tmp/a b.sigtop".to_owned(), bytes: 7 };
        for answer in [saved, DumpAnswer::Failed("no space".to_owned()), DumpAnswer::None] {
            assert_eq!(DumpAnswer::parse(&answer.line()), Some(answer));
        }
        for wrong in ["", "saved", "saved x /a", "none ", "dump 7"] {
            assert_eq!(DumpAnswer::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_recorder_is_found_by_the_process_that_it_answers_for() {
        let socket = RecorderSocket::listen().expect("a socket");
        let server = std::thread::spawn(move || {
            for _ in 0..2 {
                let request = socket.accept().expect("a request");
                let answer = match request.pid {
                    7 => DumpAnswer::Failed("disk full\nreally".to_owned()),
                    _ => DumpAnswer::None,
                };
                request.answer(&answer);
            }
        });
        // A line that is no request is dropped.
        let name = SocketAddr::from_abstract_name(format!("{NAME}{}", std::process::id())).expect("a name");
        UnixStream::connect_addr(&name).and_then(|mut stream| stream.write_all(b"hello\n")).expect("connected");
        assert_eq!(request_dump(8).expect("sockets"), None);
        assert_eq!(request_dump(7).expect("sockets"), Some(DumpAnswer::Failed("disk full?really".to_owned())));
        server.join().expect("no panic");
    }
}
