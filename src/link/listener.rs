//! The viewer's end of the link: listens for agents, checks who connects, and turns their bytes
//! into messages on a channel.
//!
//! One thread serves all agents. It trusts none of them: a connection must come from the viewer's
//! own user or root (or the viewer is root), and must send a Hello within [`HELLO_TIMEOUT`] that
//! carries the viewer's token or comes from a process that the viewer woke. Until then a connection
//! costs little more than a descriptor, and there are at most [`MAX_PENDING`] of them. Refused
//! connections are counted: [`ListenerHandle::refused`].
//!
//! The channel is bounded. When it is full, the thread waits. Then the sockets fill, and the
//! agents, which never wait, count the samples that they cannot send
//! ([`LossCause::SocketFull`](crate::wire::LossCause::SocketFull)). So a slow viewer costs samples
//! that are known to be lost, but neither memory nor the target's time.
//!
//! The profile interprets the messages. SIGPIPE must be ignored, as Rust's runtime does.

use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Write};
use std::net::Shutdown;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::{self, JoinHandle};

use crossbeam_channel::{Receiver, Sender, bounded, unbounded};
use nix::sys::resource::{Resource, getrlimit, setrlimit};

use super::event_loop::{EventLoop, ListenerCommand, LoopChannels, Policy, RefusalCounters};
pub use super::event_loop::{HELLO_TIMEOUT, MAX_BATCH, MAX_CONNECTIONS, MAX_PENDING, RefusedConnections};
use super::sockets::ListeningSockets;
pub use super::sockets::MAX_DIRECTORY_BYTES;
use crate::wire::{Arrival, Clock, Request};

/// The open sockets. Agents can connect already; they are served once [`start`](Listener::start) is
/// called.
#[derive(Debug)]
pub struct Listener {
    sockets: ListeningSockets,
    token: u64,
}

impl Listener {
    /// Opens the sockets, one of them in a private directory whose path has at most
    /// [`MAX_DIRECTORY_BYTES`] bytes. Does not start a thread, because the target is forked between
    /// this call and [`start`](Listener::start).
    pub fn bind(directory: &Path) -> io::Result<Listener> {
        Listener::open(Some(directory))
    }

    /// Opens the abstract socket alone, for systems without a writable directory. Launched agents
    /// find it too, as long as they stay in the viewer's network namespace.
    pub fn bind_abstract() -> io::Result<Listener> {
        Listener::open(None)
    }

    fn open(directory: Option<&Path>) -> io::Result<Listener> {
        // The keys of RandomState come from the kernel's random numbers. The token is a secret and
        // the socket's name is not, so they differ.
        let random = || RandomState::new().hash_one(std::process::id());
        Ok(Listener { sockets: ListeningSockets::open(directory, random() as u32)?, token: random() })
    }

    /// The value of [`LINK_VARIABLE`](crate::wire::LINK_VARIABLE) for launched programs, with the
    /// clock and period with which their agents start.
    pub fn link_variable(&self, clock: Clock, period_ns: u64) -> OsString {
        let mut value = OsString::from(format!("{}:{}:{period_ns}:{}:", self.token, std::process::id(), clock as u8));
        value.push(self.path());
        value
    }

    /// The address for launched agents: the path of a socket, or `@` and an abstract name.
    pub fn path(&self) -> &Path {
        self.sockets.path()
    }

    /// Returns whether woken agents can connect. They cannot if another user holds the name of the
    /// abstract socket.
    pub fn accepts_knocked_agents(&self) -> bool {
        self.sockets.accepts_knocked_agents()
    }

    /// Starts the thread that serves the agents. Each agent receives the request `first`. With
    /// `only`, all other processes are asked to leave and their messages are ignored. Events that
    /// arrive together are sent in batches of up to [`MAX_BATCH`], in their order. The thread ends
    /// when the [`ListenerHandle`] is closed or dropped, or when the receiver of `arrivals` is
    /// gone.
    ///
    /// # Errors
    /// If the system cannot open a descriptor or start a thread.
    pub fn start(
        self,
        arrivals: Sender<Vec<Arrival>>,
        first: Request,
        only: Option<Vec<u32>>,
    ) -> io::Result<ListenerHandle> {
        let (wake, woken) = UnixStream::pair()?;
        for end in [&wake, &woken] {
            end.set_nonblocking(true)?;
        }
        let (commands, received) = unbounded();
        let (open, running) = bounded(0);
        let counters = Arc::new(RefusalCounters::default());
        let policy = Policy { token: self.token, only, request: first };
        let channels = LoopChannels { commands: received, woken, running, arrivals };
        let mut event_loop = EventLoop::new(self.sockets, policy, channels, Arc::clone(&counters));
        let thread = thread::Builder::new().name("link".to_owned()).spawn(move || {
            raise_descriptor_limit();
            event_loop.run();
        })?;
        Ok(ListenerHandle { commands, wake, counters, open: Some(open), thread: Some(thread) })
    }
}

/// Controls the thread that serves the agents. Dropping it closes all connections.
#[derive(Debug)]
pub struct ListenerHandle {
    commands: Sender<ListenerCommand>,
    wake: UnixStream,
    counters: Arc<RefusalCounters>,
    /// Nothing is ever sent here. The thread notices when this end is dropped.
    open: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl ListenerHandle {
    /// Sends a request to every agent, and to every agent that connects from now on.
    pub fn engage(&self, request: Request) {
        self.send(ListenerCommand::Engage(request));
    }

    /// Accepts the agent of this process without a token. Call it before waking the process.
    pub fn expect_process(&self, pid: u32) {
        self.send(ListenerCommand::Expect(pid));
    }

    /// Listens on this socket too, which must be non-blocking, and removes its file at the end.
    /// Call it before waking a process that can reach no other socket.
    pub fn listen_at(&self, socket: UnixListener, file: Option<PathBuf>) {
        self.send(ListenerCommand::ListenAt(socket, file));
    }

    /// Waits for everything that processes have sent by now, including those that have connected
    /// and were not accepted yet. The receiver gets a value once all of it has been sent as
    /// arrivals. A process that has been reaped has sent everything.
    pub fn flush(&self) -> Receiver<()> {
        let (done, flushed) = bounded(1);
        self.send(ListenerCommand::Flush(done));
        flushed
    }

    /// The numbers of refused connections so far.
    pub fn refused(&self) -> RefusedConnections {
        self.counters.snapshot()
    }

    /// Closes all connections and sockets and waits until the thread has ended. Agents leave when
    /// their connection is closed.
    pub fn close(&mut self) {
        self.open = None;
        let _ = self.wake.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    fn send(&self, command: ListenerCommand) {
        // Sending fails only if the thread has ended. A full wake-up socket will wake the thread.
        drop(self.commands.send(command));
        drop((&self.wake).write(&[1]));
    }
}

impl Drop for ListenerHandle {
    fn drop(&mut self) {
        self.close();
    }
}

/// Raises the soft limit of descriptors for the maximum number of connections and everything else.
/// This is not done earlier, because a launched target would inherit the limit.
fn raise_descriptor_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let wanted = hard.min(4 * MAX_CONNECTIONS as u64);
        if soft < wanted {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard);
        }
    }
}
