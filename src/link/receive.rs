//! The viewer's end of the sockets: listens, checks who speaks, and turns bytes into messages on a channel.
//!
//! One thread serves all agents. It trusts nobody: a connection must come from our own user or root (or we are root), and say
//! within [`HELLO_WITHIN`] a Hello with our token, or come from a process that we knocked at; until then it costs a descriptor
//! and little more, and there are at most [`MAX_NEWCOMERS`] such. What is refused is counted: [`Post::refusals`].
//!
//! The channel is bounded, and a full one stops this thread until there is room. Then the sockets fill, and the agents, who
//! never wait, count what they could not send ([`Loss::SocketFull`](super::wire::Loss::SocketFull)): a slow viewer costs samples that are
//! known to be lost, not memory, and not the target's time.
//!
//! It ends here: what a message means is the profile's. SIGPIPE must be ignored, as Rust's runtime does.

use std::collections::HashSet;
use std::ffi::OsString;
use std::hash::{BuildHasher, RandomState};
use std::io::{self, Read, Write};
use std::net::Shutdown;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use crossbeam_channel::{Receiver, Sender, bounded, select, unbounded};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::resource::{Resource, getrlimit, setrlimit};
use nix::sys::time::TimeValLike;
use nix::time::{ClockId, clock_gettime};

use super::door::Door;
pub use super::door::LONGEST_DIRECTORY;
use super::peer::{Gone, Heard, Peer, READ_AT_ONCE, Standing};
use super::wire::{Arrival, Clock, Event, Hello, Malformed, Message, Request, SourceId, stack_memory};

/// Connections at once, at most: each may hold a third of a MiB.
pub const MAX_CONNECTIONS: usize = 1024;
/// Connections at once that have not said Hello; more wait outside.
pub const MAX_NEWCOMERS: usize = 64;
/// How long a connection may take to say Hello, and a dismissed one to leave.
pub const HELLO_WITHIN: Duration = Duration::from_secs(2);
/// Arrivals that are handed over at once, at most.
pub const BATCH: usize = 256;
/// How long nobody comes in when the system has no descriptor left.
const RETRY: Duration = Duration::from_millis(100);

/// Connections that were not listened to, by cause.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// Of other users.
    pub strangers: u64,
    /// With another viewer's token, and not knocked at.
    pub unexpected: u64,
    /// Without a Hello in time, or with something else first; and those told to leave that do not.
    pub speechless: u64,
    /// Past [`MAX_CONNECTIONS`].
    pub crowded: u64,
    /// By agents that speak another version of the wire; the pid and version of the last one.
    pub foreign: u64,
    /// See [`foreign`](Self::foreign).
    pub last_foreign: Option<(u32, u16)>,
}

#[derive(Debug, Default)]
struct Counts {
    strangers: AtomicU64,
    unexpected: AtomicU64,
    speechless: AtomicU64,
    crowded: AtomicU64,
    foreign: AtomicU64,
    /// `1 << 63 | version << 32 | pid`; 0 while there is none.
    last_foreign: AtomicU64,
}

#[derive(Debug)]
enum Order {
    Engage(Request),
    Expect(u32),
    /// Hand over everything that has been sent so far, then answer here.
    Flush(Sender<()>),
}

/// The open sockets. Agents can connect from now on; they are heard once it is [started](Listener::start).
#[derive(Debug)]
pub struct Listener {
    door: Door,
    token: u64,
}

impl Listener {
    /// Opens the sockets, the named one in a private directory whose path has at most [`LONGEST_DIRECTORY`] bytes. It makes no
    /// thread: a target is forked between this and the start.
    pub fn bind(directory: &Path) -> io::Result<Listener> {
        // Their keys come from the kernel's random numbers. The token is a secret; the socket's name is not, so they differ.
        let random = || RandomState::new().hash_one(std::process::id());
        Ok(Listener { door: Door::open(directory, random() as u32)?, token: random() })
    }

    /// Value of [`LINK_VARIABLE`](super::wire::LINK_VARIABLE) for what is launched, with the clock and period that its agents begin with.
    pub fn link(&self, clock: Clock, period_ns: u64) -> OsString {
        let mut value = OsString::from(format!("{}:{}:{period_ns}:{}:", self.token, std::process::id(), clock as u8));
        value.push(self.path());
        value
    }

    /// Of the socket in the directory.
    pub fn path(&self) -> &Path {
        self.door.path()
    }

    /// Whether knocked agents can come: another user may hold the abstract socket's name.
    pub fn is_open_to_knocked(&self) -> bool {
        self.door.is_open_to_knocked()
    }

    /// Starts the thread that serves the agents. Each is asked `first`; with `only`, processes other than this one are told to
    /// leave and not listened to. What comes at once is handed over at once, up to [`BATCH`] in the order in which it came. It ends when the
    /// [`Post`] is closed or dropped, or nobody takes the arrivals any more.
    ///
    /// # Errors
    /// If the system gives no descriptor or no thread.
    pub fn start(self, arrivals: Sender<Vec<Arrival>>, first: Request, only: Option<Vec<u32>>) -> io::Result<Post> {
        let (wake, woken) = UnixStream::pair()?;
        for end in [&wake, &woken] {
            end.set_nonblocking(true)?;
        }
        let (tell, orders) = unbounded();
        let (open, running) = bounded(0);
        let counts = Arc::new(Counts::default());
        let mut service = Service {
            door: self.door,
            token: self.token,
            request: first,
            only,
            orders,
            woken,
            running,
            counts: Arc::clone(&counts),
            arrivals,
            gathered: Vec::new(),
            at_ns: 0,
            peers: Vec::new(),
            next_source: 0,
            expected: HashSet::new(),
            broadcasts: Vec::new(),
            flushes: Vec::new(),
            shut_until: None,
            scratch: Box::new([0; READ_AT_ONCE]),
        };
        let thread = thread::Builder::new().name("link".to_owned()).spawn(move || {
            raise_descriptor_limit();
            while service.turn().is_ok() {}
        })?;
        Ok(Post { orders: tell, wake, counts, open: Some(open), thread: Some(thread) })
    }
}

/// Steers the thread that serves the agents. Dropping it closes every connection.
#[derive(Debug)]
pub struct Post {
    orders: Sender<Order>,
    wake: UnixStream,
    counts: Arc<Counts>,
    /// Never sent on: its end is what the thread sees.
    open: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Post {
    /// Asks this of every agent, and of every one that comes from now on.
    pub fn engage(&self, request: Request) {
        self.order(Order::Engage(request));
    }

    /// Lets the agent of this process in, whatever its token. To be called before it is knocked at.
    pub fn expect(&self, pid: u32) {
        self.order(Order::Expect(pid));
    }

    /// Asks for everything that processes have sent by now, also those that connected and were not
    /// accepted yet. The answer comes once all of it has been handed over as arrivals. A process
    /// that has been reaped has sent all that it ever will.
    pub fn flush(&self) -> Receiver<()> {
        let (done, flushed) = bounded(1);
        self.order(Order::Flush(done));
        flushed
    }

    /// Who was not listened to so far.
    pub fn refusals(&self) -> Refusals {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let last = count(&self.counts.last_foreign);
        Refusals {
            strangers: count(&self.counts.strangers),
            unexpected: count(&self.counts.unexpected),
            speechless: count(&self.counts.speechless),
            crowded: count(&self.counts.crowded),
            foreign: count(&self.counts.foreign),
            last_foreign: (last != 0).then_some((last as u32, (last >> 32) as u16)),
        }
    }

    /// Closes every connection and the sockets, and waits until that is done. Agents leave when they see it.
    pub fn close(&mut self) {
        self.open = None;
        let _ = self.wake.shutdown(Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }

    fn order(&self, order: Order) {
        // It fails where the thread has ended; a full wake-up is one that will be noticed.
        drop(self.orders.send(order));
        drop((&self.wake).write(&[1]));
    }
}

impl Drop for Post {
    fn drop(&mut self) {
        self.close();
    }
}

/// As many descriptors as we accept connections, and some for everything else. Not earlier: a target would inherit it.
fn raise_descriptor_limit() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let wanted = hard.min(4 * MAX_CONNECTIONS as u64);
        if soft < wanted {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard);
        }
    }
}

/// The end of the listener.
struct Stop;

/// What can be done without waiting.
#[derive(Default)]
struct Ready {
    /// For each peer, whether it has something.
    peers: Vec<bool>,
    /// Somebody wants to come in.
    door: bool,
}

struct Service {
    door: Door,
    token: u64,
    /// What newcomers are asked.
    request: Request,
    /// The one process that is listened to.
    only: Option<Vec<u32>>,
    orders: Receiver<Order>,
    woken: UnixStream,
    running: Receiver<()>,
    counts: Arc<Counts>,
    arrivals: Sender<Vec<Arrival>>,
    /// What this turn has brought so far.
    gathered: Vec<Arrival>,
    /// When the last bytes were read, ns.
    at_ns: u64,
    peers: Vec<Peer>,
    next_source: u32,
    /// Processes that were knocked at.
    expected: HashSet<u32>,
    /// To be sent to everyone in this turn.
    broadcasts: Vec<Request>,
    /// To be answered once no socket has anything to read.
    flushes: Vec<Sender<()>>,
    /// Nobody can come in before this, as the system is out of descriptors.
    shut_until: Option<Instant>,
    scratch: Box<[u8; READ_AT_ONCE]>,
}

impl Service {
    fn turn(&mut self) -> Result<(), Stop> {
        // A flush that arrives during the wait is answered in a later turn: this one's poll may be
        // older.
        let flushes = self.flushes.len();
        let Ready { peers: ready, door } = self.wait()?;
        let is_drained = !door && !ready.contains(&true);
        self.take_orders();
        for request in std::mem::take(&mut self.broadcasts) {
            for peer in self.peers.iter_mut().filter(|peer| matches!(peer.standing, Standing::Known { .. })) {
                drop(peer.send(&request)); // who is gone is noticed when it is read
            }
            self.request = request;
        }
        let now = Instant::now();
        for (index, mut peer) in std::mem::take(&mut self.peers).into_iter().enumerate() {
            if !ready.get(index).is_some_and(|&ready| ready) || self.serve(&mut peer)? {
                self.peers.push(peer);
            }
        }
        let speechless = self.peers.len();
        self.peers.retain(|peer| deadline(peer).is_none_or(|deadline| now < deadline));
        count(&self.counts.speechless, speechless - self.peers.len());
        if door {
            self.admit(now);
        }
        self.hand_over()?;
        if is_drained {
            for done in self.flushes.drain(..flushes) {
                // A watch that is over does not wait for the answer.
                let _ = done.send(());
            }
        }
        Ok(())
    }

    /// Sleeps until there is something to do.
    fn wait(&mut self) -> Result<Ready, Stop> {
        let now = Instant::now();
        self.shut_until = self.shut_until.filter(|&until| now < until);
        let mut sources = vec![PollFd::new(self.woken.as_fd(), PollFlags::POLLIN)];
        for peer in &self.peers {
            let mut flags = PollFlags::POLLIN;
            flags.set(PollFlags::POLLOUT, peer.is_behind());
            sources.push(PollFd::new(peer.stream.as_fd(), flags));
        }
        if self.newcomers() < MAX_NEWCOMERS && self.shut_until.is_none() {
            sources.extend(self.door.descriptors().map(|door| PollFd::new(door, PollFlags::POLLIN)));
        }
        let next = self.peers.iter().filter_map(deadline).chain(self.shut_until).min();
        // Rounded up, so that the time has come when it is over.
        let timeout = match next {
            _ if !self.flushes.is_empty() => PollTimeout::ZERO,
            None => PollTimeout::NONE,
            Some(next) => PollTimeout::try_from(next.saturating_duration_since(now) + Duration::from_millis(1))
                .unwrap_or(PollTimeout::MAX),
        };
        let ready = match poll(&mut sources, timeout) {
            Ok(_) => {
                let mut ready = sources[1..].iter().map(|source| source.any().unwrap_or(true));
                let peers = ready.by_ref().take(self.peers.len()).collect();
                Ready { peers, door: ready.any(|ready| ready) }
            }
            Err(Errno::EINTR) => Ready::default(),
            Err(_) => return Err(Stop),
        };
        if self.is_to_run() { Ok(ready) } else { Err(Stop) }
    }

    /// Takes the wake-ups away; their end is the post's.
    fn is_to_run(&self) -> bool {
        let mut bytes = [0; 64];
        loop {
            match (&self.woken).read(&mut bytes) {
                Ok(0) => return false,
                Ok(_) => {}
                Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
            }
        }
    }

    fn take_orders(&mut self) {
        for order in self.orders.try_iter() {
            match order {
                Order::Engage(request) => self.broadcasts.push(request),
                Order::Expect(pid) => drop(self.expected.insert(pid)),
                Order::Flush(done) => self.flushes.push(done),
            }
        }
    }

    fn newcomers(&self) -> usize {
        self.peers.iter().filter(|peer| matches!(peer.standing, Standing::New { .. })).count()
    }

    fn admit(&mut self, now: Instant) {
        for _ in self.newcomers()..MAX_NEWCOMERS {
            let counts = &self.counts;
            match self.door.admit() {
                Ok(Some(newcomer)) if !newcomer.trusted => count(&counts.strangers, 1),
                Ok(Some(_)) if self.peers.len() >= MAX_CONNECTIONS => count(&counts.crowded, 1),
                Ok(Some(newcomer)) => self.peers.push(Peer::new(newcomer.stream, newcomer.pid, now)),
                Ok(None) => return,
                Err(_) => {
                    self.shut_until = Some(now + RETRY);
                    return;
                }
            }
        }
    }

    /// Hears a peer and sends what it is due; says whether it stays.
    fn serve(&mut self, peer: &mut Peer) -> Result<bool, Stop> {
        let read = peer.read(&mut self.scratch);
        self.at_ns = clock_gettime(ClockId::CLOCK_MONOTONIC).map_or(0, |now| now.num_nanoseconds() as u64);
        let there = read.and_then(|()| peer.flush());
        loop {
            match peer.next() {
                Ok(Some(message)) => {
                    if !self.take(peer, message)? {
                        return Ok(false);
                    }
                }
                Ok(None) => break,
                Err(malformed) => {
                    self.cut(peer, malformed)?;
                    return Ok(false);
                }
            }
        }
        match (there, &peer.standing) {
            (Ok(()), _) => return Ok(true),
            (Err(Gone), Standing::Known { source, .. }) => {
                for message in peer.last_words() {
                    self.deliver(peer.pid, *source, Event::Said(message))?;
                }
                self.deliver(peer.pid, *source, Event::Closed)?;
            }
            (Err(Gone), Standing::New { .. }) => count(&self.counts.speechless, 1),
            (Err(Gone), Standing::Dismissed { .. }) => {}
        }
        Ok(false)
    }

    fn cut(&mut self, peer: &Peer, malformed: Malformed) -> Result<(), Stop> {
        let counts = &self.counts;
        match (&peer.standing, malformed) {
            (Standing::Known { source, .. }, _) => self.deliver(peer.pid, *source, Event::Cut(malformed))?,
            (Standing::New { .. }, Malformed::Version(version)) => {
                count(&counts.foreign, 1);
                let last = 1 << 63 | u64::from(version) << 32 | u64::from(peer.pid);
                counts.last_foreign.store(last, Ordering::Relaxed);
            }
            (Standing::New { .. }, _) => count(&counts.speechless, 1),
            (Standing::Dismissed { .. }, _) => {}
        }
        Ok(())
    }

    /// A message of a peer; says whether the peer stays.
    fn take(&mut self, peer: &mut Peer, message: Message) -> Result<bool, Stop> {
        match (&mut peer.standing, message) {
            (Standing::Dismissed { .. }, _) => Ok(true),
            (Standing::New { .. }, Message::Hello(hello)) => self.judge(peer, hello),
            (Standing::New { .. }, _) => {
                count(&self.counts.speechless, 1);
                Ok(false)
            }
            (Standing::Known { source, .. }, Message::Hello(_)) => {
                self.deliver(peer.pid, *source, Event::Cut(Malformed::Field("place in the stream")))?;
                Ok(false)
            }
            (Standing::Known { source, heard, .. }, message) => {
                heard.note(&message);
                self.deliver(peer.pid, *source, Event::Said(message))?;
                Ok(true)
            }
        }
    }

    /// Someone says Hello.
    fn judge(&mut self, peer: &mut Peer, hello: Hello<Box<[u8]>>) -> Result<bool, Stop> {
        // An order to expect it may have come since this turn began.
        self.take_orders();
        let of_ours = hello.token == self.token || self.expected.contains(&peer.pid);
        // A child of a process that was knocked at has no token either.
        if of_ours || self.expected.contains(&hello.parent) {
            self.expected.insert(peer.pid);
        } else {
            count(&self.counts.unexpected, 1);
            return Ok(false);
        }
        if self.only.as_ref().is_some_and(|only| !only.contains(&peer.pid)) {
            peer.standing = Standing::Dismissed { since: Instant::now() };
            return Ok(peer.send(&Request::Leave).is_ok());
        }
        let source = SourceId(self.next_source);
        self.next_source += 1;
        let heard = Heard::of(hello.pid);
        peer.standing = Standing::Known { source, memory: stack_memory(), heard };
        let there = peer.send(&self.request);
        self.deliver(peer.pid, source, Event::Said(Message::Hello(hello)))?;
        if there == Err(Gone) {
            self.deliver(peer.pid, source, Event::Closed)?;
        }
        Ok(there.is_ok())
    }

    fn deliver(&mut self, pid: u32, source: SourceId, event: Event) -> Result<(), Stop> {
        self.gathered.push(Arrival { source, pid, at_ns: self.at_ns, event });
        if self.gathered.len() < BATCH { Ok(()) } else { self.hand_over() }
    }

    /// Waits for room in the channel, but not longer than the post is open.
    fn hand_over(&mut self) -> Result<(), Stop> {
        let gathered = std::mem::take(&mut self.gathered);
        if gathered.is_empty() {
            return Ok(());
        }
        select! {
            send(self.arrivals, gathered) -> sent => sent.map_err(|_| Stop),
            recv(self.running) -> _ => Err(Stop),
        }
    }
}

/// When a peer that does not do what it must is cut off.
fn deadline(peer: &Peer) -> Option<Instant> {
    match peer.standing {
        Standing::New { since } | Standing::Dismissed { since } => Some(since + HELLO_WITHIN),
        Standing::Known { .. } => None,
    }
}

fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(by as u64, Ordering::Relaxed);
}
