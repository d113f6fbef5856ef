//! The listener's thread: waits for sockets and commands, accepts connections, and delivers their
//! messages. [`listener`](super::listener) says whom it trusts and what happens when the channel is
//! full.

use std::collections::{HashMap, HashSet};
use std::io::{self, Read};
use std::os::fd::AsFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, select};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

use super::connection::{Connection, ConnectionLost, ConnectionState, READ_BYTES, Received};
use super::sockets::ListeningSockets;
use crate::wire::{
    Arrival, ConnectionEvent, Hello, Malformed, Message, Request, SourceId, SpawnCause, TIME_UNIT_NS, stack_memory,
};

/// Maximum number of simultaneous connections. Each may buffer up to 341 KiB.
pub const MAX_CONNECTIONS: usize = 1024;
/// Maximum number of simultaneous connections without a Hello. Further ones wait to be accepted.
pub const MAX_PENDING: usize = 64;
/// Time within which a connection must send its Hello, and a dismissed agent must leave.
pub const HELLO_TIMEOUT: Duration = Duration::from_secs(2);
/// Maximum number of events in a batch.
pub const MAX_BATCH: usize = 256;
/// Delay before accepting again after EMFILE or ENFILE.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Numbers of refused connections by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RefusedConnections {
    /// Connections of other users.
    pub other_user: u64,
    /// Connections with another viewer's token, of processes that were not woken.
    pub wrong_token: u64,
    /// Connections that did not send a Hello in time or sent something else first, and dismissed
    /// ones that did not leave.
    pub no_hello: u64,
    /// Connections past [`MAX_CONNECTIONS`].
    pub over_limit: u64,
    /// Connections of agents that speak another version of the wire.
    pub other_version: u64,
    /// Pid and version of the last of these agents.
    pub last_other_version: Option<(u32, u16)>,
}

/// [`RefusedConnections`] as the thread counts them.
#[derive(Debug, Default)]
pub(super) struct RefusalCounters {
    other_user: AtomicU64,
    wrong_token: AtomicU64,
    no_hello: AtomicU64,
    over_limit: AtomicU64,
    other_version: AtomicU64,
    /// `1 << 63 | version << 32 | pid`; 0 as long as there is none.
    last_other_version: AtomicU64,
}

impl RefusalCounters {
    pub(super) fn snapshot(&self) -> RefusedConnections {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let last = count(&self.last_other_version);
        RefusedConnections {
            other_user: count(&self.other_user),
            wrong_token: count(&self.wrong_token),
            no_hello: count(&self.no_hello),
            over_limit: count(&self.over_limit),
            other_version: count(&self.other_version),
            last_other_version: (last != 0).then_some((last as u32, (last >> 32) as u16)),
        }
    }
}

fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}

/// A command to the thread.
#[derive(Debug)]
pub(super) enum ListenerCommand {
    /// Send this request to all agents, also to future ones.
    Engage(Request),
    /// Accept this process without a token.
    Expect(u32),
    /// Listen on this socket too, and remove its file at the end.
    ListenAt(UnixListener, Option<PathBuf>),
    /// Deliver everything that was sent so far, then answer here.
    Flush(Sender<()>),
}

/// Whom to accept, and what to ask.
pub(super) struct Policy {
    /// The viewer's token.
    pub(super) token: u64,
    /// The processes to accept, if not all.
    pub(super) only: Option<Vec<u32>>,
    /// The request for new agents.
    pub(super) request: Request,
}

/// The thread's ends of its channels.
pub(super) struct LoopChannels {
    pub(super) commands: Receiver<ListenerCommand>,
    /// Becomes readable with every command, and is closed at the end.
    pub(super) woken: UnixStream,
    /// Is disconnected at the end.
    pub(super) running: Receiver<()>,
    pub(super) arrivals: Sender<Vec<Arrival>>,
}

/// The thread has to end.
struct Stopped;

/// The sockets that are ready.
#[derive(Default)]
struct Readiness {
    /// Readiness of each connection's socket.
    connections: Vec<bool>,
    /// `true` if a connection waits to be accepted.
    accept: bool,
}

/// The sender of the samples of a process.
#[derive(Clone, Copy)]
struct ProcessSource {
    source: SourceId,
    /// Start time of the process. It distinguishes the process from a later one with the same pid.
    start_ticks: u64,
    /// Whether it is a sampler, and not the agent.
    is_sampler: bool,
}

/// The state of the thread.
pub(super) struct EventLoop {
    sockets: ListeningSockets,
    policy: Policy,
    channels: LoopChannels,
    counters: Arc<RefusalCounters>,
    /// Events of the current iteration.
    batch: Vec<Arrival>,
    /// Time of the last read, ns.
    at_ns: u64,
    connections: Vec<Connection>,
    next_source: u32,
    /// Processes that were woken, and their children.
    expected: HashSet<u32>,
    /// The latest accepted connection for each process: those of agents as long as they last.
    senders: HashMap<u32, ProcessSource>,
    /// Connections of samplers for processes whose agents have connected meanwhile.
    superseded: Vec<SourceId>,
    /// Requests to send to all agents in this iteration.
    broadcasts: Vec<Request>,
    /// Flushes to answer once no socket is readable.
    flushes: Vec<Sender<()>>,
    /// Time until which no connection is accepted, because the system is out of descriptors.
    accept_after: Option<Instant>,
    scratch: Box<[u8; READ_BYTES]>,
}

impl EventLoop {
    pub(super) fn new(
        sockets: ListeningSockets,
        policy: Policy,
        channels: LoopChannels,
        counters: Arc<RefusalCounters>,
    ) -> EventLoop {
        EventLoop {
            sockets,
            policy,
            channels,
            counters,
            batch: Vec::new(),
            at_ns: 0,
            connections: Vec::new(),
            next_source: 0,
            expected: HashSet::new(),
            senders: HashMap::new(),
            superseded: Vec::new(),
            broadcasts: Vec::new(),
            flushes: Vec::new(),
            accept_after: None,
            scratch: Box::new([0; READ_BYTES]),
        }
    }

    /// Runs until the handle is closed or the receiver of arrivals is gone.
    pub(super) fn run(&mut self) {
        while self.iterate().is_ok() {}
    }

    fn iterate(&mut self) -> Result<(), Stopped> {
        // A flush that arrives during the wait is answered in a later iteration, because this poll
        // may be older.
        let flushes = self.flushes.len();
        let Readiness { connections: ready, accept } = self.wait()?;
        let is_drained = !accept && !ready.contains(&true);
        self.apply_commands();
        for request in std::mem::take(&mut self.broadcasts) {
            let is_accepted =
                |connection: &&mut Connection| matches!(connection.state, ConnectionState::Accepted { .. });
            for connection in self.connections.iter_mut().filter(is_accepted) {
                connection.send(&request);
            }
            self.policy.request = request;
        }
        let now = Instant::now();
        for (index, mut connection) in std::mem::take(&mut self.connections).into_iter().enumerate() {
            if !ready.get(index).is_some_and(|&ready| ready) || self.serve(&mut connection)? {
                self.connections.push(connection);
            }
        }
        self.dismiss_superseded()?;
        let before = self.connections.len();
        self.connections.retain(|connection| deadline(connection).is_none_or(|deadline| now < deadline));
        count(&self.counters.no_hello, before - self.connections.len());
        if accept {
            self.accept(now);
        }
        self.send_batch()?;
        if is_drained {
            for done in self.flushes.drain(..flushes) {
                // A session that is over does not wait for the answer.
                let _ = done.send(());
            }
        }
        Ok(())
    }

    /// Sleeps until there is something to do.
    fn wait(&mut self) -> Result<Readiness, Stopped> {
        let now = Instant::now();
        self.accept_after = self.accept_after.filter(|&until| now < until);
        let mut sources = vec![PollFd::new(self.channels.woken.as_fd(), PollFlags::POLLIN)];
        for connection in &self.connections {
            let mut flags = PollFlags::POLLIN;
            flags.set(PollFlags::POLLOUT, connection.has_unsent());
            sources.push(PollFd::new(connection.stream.as_fd(), flags));
        }
        if self.pending_connections() < MAX_PENDING && self.accept_after.is_none() {
            sources.extend(self.sockets.descriptors().map(|socket| PollFd::new(socket, PollFlags::POLLIN)));
        }
        let next = self.connections.iter().filter_map(deadline).chain(self.accept_after).min();
        // Rounded up, so that the deadline has passed when poll returns.
        let timeout = match next {
            _ if !self.flushes.is_empty() => PollTimeout::ZERO,
            None => PollTimeout::NONE,
            Some(next) => PollTimeout::try_from(next.saturating_duration_since(now) + Duration::from_millis(1))
                .unwrap_or(PollTimeout::MAX),
        };
        let ready = match poll(&mut sources, timeout) {
            Ok(_) => {
                let mut ready = sources[1..].iter().map(|source| source.any().unwrap_or(true));
                let connections = ready.by_ref().take(self.connections.len()).collect();
                Readiness { connections, accept: ready.any(|ready| ready) }
            }
            Err(Errno::EINTR) => Readiness::default(),
            Err(_) => return Err(Stopped),
        };
        if self.drain_wake_ups() { Ok(ready) } else { Err(Stopped) }
    }

    /// Reads all wake-ups. Returns whether the handle is still open.
    fn drain_wake_ups(&self) -> bool {
        let mut bytes = [0; 64];
        loop {
            match (&self.channels.woken).read(&mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    fn apply_commands(&mut self) {
        for command in self.channels.commands.try_iter() {
            match command {
                ListenerCommand::Engage(request) => self.broadcasts.push(request),
                ListenerCommand::Expect(pid) => drop(self.expected.insert(pid)),
                ListenerCommand::ListenAt(socket, file) => self.sockets.add(socket, file),
                ListenerCommand::Flush(done) => self.flushes.push(done),
            }
        }
    }

    fn pending_connections(&self) -> usize {
        let is_pending = |connection: &&Connection| matches!(connection.state, ConnectionState::AwaitingHello { .. });
        self.connections.iter().filter(is_pending).count()
    }

    fn accept(&mut self, now: Instant) {
        for _ in self.pending_connections()..MAX_PENDING {
            let counters = &self.counters;
            match self.sockets.accept() {
                Ok(Some(pending)) if !pending.is_trusted => count(&counters.other_user, 1),
                Ok(Some(_)) if self.connections.len() >= MAX_CONNECTIONS => count(&counters.over_limit, 1),
                Ok(Some(pending)) => self.connections.push(Connection::new(pending.stream, pending.pid, now)),
                Ok(None) => return,
                Err(_) => {
                    self.accept_after = Some(now + ACCEPT_RETRY);
                    return;
                }
            }
        }
    }

    /// Receives from a connection and sends what it is due. Returns whether it stays open: until
    /// everything is read that was sent before it was closed.
    fn serve(&mut self, connection: &mut Connection) -> Result<bool, Stopped> {
        let received = connection.receive(&mut self.scratch);
        let now_ns = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| now.num_nanoseconds() as u64);
        self.at_ns = now_ns - now_ns % TIME_UNIT_NS;
        connection.flush();
        loop {
            match connection.next() {
                Ok(Some(message)) => {
                    if !self.handle_message(connection, message)? {
                        return Ok(false);
                    }
                }
                Ok(None) => break,
                Err(malformed) => {
                    self.abort(connection, malformed)?;
                    return Ok(false);
                }
            }
        }
        match (received, &connection.state) {
            (Ok(()), _) => return Ok(true),
            (Err(ConnectionLost), ConnectionState::Accepted { source, .. }) => {
                for message in connection.recover_unsent() {
                    self.deliver(connection.pid, *source, ConnectionEvent::Received(message))?;
                }
                self.deliver(connection.pid, *source, ConnectionEvent::Closed)?;
            }
            (Err(ConnectionLost), ConnectionState::AwaitingHello { .. }) => count(&self.counters.no_hello, 1),
            (Err(ConnectionLost), ConnectionState::Dismissed { .. }) => {}
        }
        Ok(false)
    }

    /// Reports or counts a connection that sent malformed bytes.
    fn abort(&mut self, connection: &Connection, malformed: Malformed) -> Result<(), Stopped> {
        let counters = &self.counters;
        match (&connection.state, malformed) {
            (ConnectionState::Accepted { source, .. }, _) => {
                self.deliver(connection.pid, *source, ConnectionEvent::Aborted(malformed))?;
            }
            (ConnectionState::AwaitingHello { .. }, Malformed::Version(version)) => {
                count(&counters.other_version, 1);
                let last = 1 << 63 | u64::from(version) << 32 | u64::from(connection.pid);
                counters.last_other_version.store(last, Ordering::Relaxed);
            }
            (ConnectionState::AwaitingHello { .. }, _) => count(&counters.no_hello, 1),
            (ConnectionState::Dismissed { .. }, _) => {}
        }
        Ok(())
    }

    /// Handles a message. Returns whether the connection stays open.
    fn handle_message(&mut self, connection: &mut Connection, message: Message) -> Result<bool, Stopped> {
        match (&mut connection.state, message) {
            (ConnectionState::Dismissed { .. }, _) => Ok(true),
            (ConnectionState::Accepted { source, .. }, _) if self.superseded.contains(source) => Ok(true),
            (ConnectionState::AwaitingHello { .. }, Message::Hello(hello)) => self.handle_hello(connection, hello),
            (ConnectionState::AwaitingHello { .. }, _) => {
                count(&self.counters.no_hello, 1);
                Ok(false)
            }
            (ConnectionState::Accepted { source, .. }, Message::Hello(_)) => {
                let malformed = Malformed::Field("position in the stream");
                self.deliver(connection.pid, *source, ConnectionEvent::Aborted(malformed))?;
                Ok(false)
            }
            (ConnectionState::Accepted { source, received, .. }, message) => {
                received.update(&message);
                self.deliver(connection.pid, *source, ConnectionEvent::Received(message))?;
                Ok(true)
            }
        }
    }

    /// Decides whether to accept an agent. Returns whether the connection stays open.
    fn handle_hello(&mut self, connection: &mut Connection, hello: Hello<Box<[u8]>>) -> Result<bool, Stopped> {
        // The command to expect this process may have arrived during this iteration.
        self.apply_commands();
        let is_expected = hello.token == self.policy.token || self.expected.contains(&connection.pid);
        // A sampler of this viewer has a connection for each process that it watches.
        let is_sampler = hello.spawn_cause == SpawnCause::External && hello.token == self.policy.token;
        if is_sampler {
            connection.pid = hello.pid;
        }
        // A child of a woken process has no token either.
        if is_expected || self.expected.contains(&hello.parent) {
            self.expected.insert(connection.pid);
        } else {
            count(&self.counters.wrong_token, 1);
            return Ok(false);
        }
        let is_unwanted = self.policy.only.as_ref().is_some_and(|only| !only.contains(&connection.pid));
        let earlier = self.senders.get(&connection.pid).copied();
        let has_agent = earlier.is_some_and(|earlier| !earlier.is_sampler) && self.prefers_agents();
        if is_unwanted || is_sampler && has_agent {
            connection.state = ConnectionState::Dismissed { since: Instant::now() };
            connection.send(&Request::Leave);
            return Ok(true);
        }
        let source = SourceId(self.next_source);
        self.next_source += 1;
        let start_ticks = hello.start_ticks;
        self.senders.insert(connection.pid, ProcessSource { source, start_ticks, is_sampler });
        let mut request = self.policy.request;
        if let Some(sampler) = earlier.filter(|earlier| earlier.is_sampler && !is_sampler)
            && let Request::Engage { is_continued, engine, .. } = &mut request
            && !engine.is_external()
        {
            *is_continued = sampler.start_ticks == start_ticks;
            self.superseded.push(sampler.source);
        }
        let received = Box::new(Received::new(hello.pid));
        connection.state = ConnectionState::Accepted { source, memory: stack_memory(), received };
        connection.send(&request);
        self.deliver(connection.pid, source, ConnectionEvent::Received(Message::Hello(hello)))?;
        Ok(true)
    }

    /// Returns whether a process is sampled by its agent, if it has one, and not from outside.
    fn prefers_agents(&self) -> bool {
        !matches!(self.policy.request, Request::Engage { engine, .. } if engine.is_external())
    }

    /// Asks samplers to leave the processes whose agents have connected.
    fn dismiss_superseded(&mut self) -> Result<(), Stopped> {
        let superseded = std::mem::take(&mut self.superseded);
        let mut dismissed = Vec::new();
        for connection in &mut self.connections {
            if let ConnectionState::Accepted { source, received, .. } = &connection.state
                && superseded.contains(source)
            {
                dismissed.push((connection.pid, *source, received.final_counters()));
                connection.state = ConnectionState::Dismissed { since: Instant::now() };
                connection.send(&Request::Leave);
            }
        }
        dismissed.into_iter().try_for_each(|(pid, source, counters)| {
            self.deliver(pid, source, ConnectionEvent::Received(Message::Counters(counters)))?;
            self.deliver(pid, source, ConnectionEvent::Closed)
        })
    }

    fn deliver(&mut self, pid: u32, source: SourceId, mut event: ConnectionEvent) -> Result<(), Stopped> {
        if let ConnectionEvent::Received(Message::Sample(sample, _)) = &mut event {
            sample.monotonic_ns -= sample.monotonic_ns % TIME_UNIT_NS;
        }
        let is_end = matches!(event, ConnectionEvent::Closed | ConnectionEvent::Aborted(_));
        if is_end && self.senders.get(&pid).is_some_and(|latest| latest.source == source && !latest.is_sampler) {
            self.senders.remove(&pid);
        }
        self.batch.push(Arrival { source, pid, at_ns: self.at_ns, event });
        if self.batch.len() < MAX_BATCH { Ok(()) } else { self.send_batch() }
    }

    /// Sends the batch, and waits for room in the channel for as long as the handle is open.
    fn send_batch(&mut self) -> Result<(), Stopped> {
        let batch = std::mem::take(&mut self.batch);
        if batch.is_empty() {
            return Ok(());
        }
        select! {
            send(self.channels.arrivals, batch) -> sent => sent.map_err(|_| Stopped),
            recv(self.channels.running) -> _ => Err(Stopped),
        }
    }
}

/// The time at which a connection is closed unless its agent does what it must.
fn deadline(connection: &Connection) -> Option<Instant> {
    match connection.state {
        ConnectionState::AwaitingHello { since } | ConnectionState::Dismissed { since } => Some(since + HELLO_TIMEOUT),
        ConnectionState::Accepted { .. } => None,
    }
}
