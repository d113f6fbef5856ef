//! The viewer's end of the link, with agents played by the test: correct, slow and malicious ones.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use sigtop::link::listener::{Listener, ListenerHandle, MAX_DIRECTORY_BYTES, MAX_PENDING};
use sigtop::wire::{
    Arrival, Clock, ConnectionEvent, Engine, Hello, Malformed, Message, Request, SourceId, SpawnCause, Thread, VERSION,
    Writer, decode_request, split_frame,
};

/// A time limit for anything on a loaded machine.
const LONG: Duration = Duration::from_secs(60);
const FIRST: Request = Request::Engage {
    clock: Clock::Prof,
    engine: Engine::Threads,
    period_ns: 10_000_000,
    per_second: 0,
    is_continued: false,
};
const SECOND: Request = Request::Engage {
    clock: Clock::Real,
    engine: Engine::Threads,
    period_ns: 20_000_000,
    per_second: 0,
    is_continued: false,
};

/// The abstract socket is named after the pid, so there is one viewer at a time in this process.
static ONE_VIEWER: Mutex<()> = Mutex::new(());

/// A viewer with its own directory.
struct Viewer {
    handle: ListenerHandle,
    arrivals: Receiver<Vec<Arrival>>,
    /// The rest of the last batch.
    rest: RefCell<VecDeque<Arrival>>,
    directory: PathBuf,
    path: PathBuf,
    token: u64,
    _alone: MutexGuard<'static, ()>,
}

impl Viewer {
    fn new(name: &str) -> Viewer {
        Viewer::with(name, 1000, None)
    }

    fn with(name: &str, room: usize, only: Option<u32>) -> Viewer {
        Viewer::after(name, room, only, |_, _| {})
    }

    /// Does something with the token and the path of the socket before the viewer starts to listen.
    fn after(name: &str, room: usize, only: Option<u32>, before: impl FnOnce(u64, &Path)) -> Viewer {
        let alone = ONE_VIEWER.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = std::env::temp_dir().join(format!("sigtop-listener-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let listener = Listener::bind(&directory).unwrap();
        let (token, path) = read_link(&listener);
        assert!(listener.accepts_knocked_agents());
        before(token, &path);
        let (sender, arrivals) = bounded(room);
        let handle = listener.start(sender, FIRST, only.map(|pid| vec![pid])).unwrap();
        Viewer { handle, arrivals, rest: RefCell::default(), directory, path, token, _alone: alone }
    }

    fn next(&self) -> Arrival {
        let mut rest = self.rest.borrow_mut();
        while rest.is_empty() {
            rest.extend(self.arrivals.recv_timeout(LONG).unwrap());
        }
        rest.pop_front().expect("not empty")
    }

    /// Returns whether no event is left.
    fn has_no_event(&self) -> bool {
        self.rest.borrow().is_empty() && self.arrivals.is_empty()
    }

    /// Connects an agent, which sends a Hello with the token and is accepted.
    fn agent(&self) -> (UnixStream, SourceId) {
        let mut agent = UnixStream::connect(&self.path).unwrap();
        agent.write_all(&hello(self.token)).unwrap();
        let arrival = self.next();
        assert!(matches!(arrival.event, ConnectionEvent::Received(Message::Hello(_))), "{arrival:?}");
        assert_eq!(arrival.pid, std::process::id());
        (agent, arrival.source)
    }

    /// Waits until the numbers of refused connections are as expected, in the order of
    /// [`RefusedConnections`](sigtop::link::listener::RefusedConnections).
    fn await_refusals(&self, expected: [u64; 5]) {
        loop {
            let seen = self.handle.refused();
            let counts = [seen.other_user, seen.wrong_token, seen.no_hello, seen.over_limit, seen.other_version];
            if counts == expected {
                return;
            }
            assert!(counts.iter().zip(expected).all(|(seen, expected)| *seen <= expected), "{seen:?}");
            std::thread::yield_now();
        }
    }
}

impl Drop for Viewer {
    fn drop(&mut self) {
        self.handle.close();
        drop(fs::remove_dir_all(&self.directory));
    }
}

/// Starts a process while there is no viewer. Until it has executed its program, it holds what is
/// open here, including the socket of a viewer that ends meanwhile.
fn spawn_alone(command: &mut Command) -> Child {
    let _alone = ONE_VIEWER.lock().unwrap_or_else(PoisonError::into_inner);
    command.spawn().unwrap()
}

/// Reads the link variable as an agent does.
fn read_link(listener: &Listener) -> (u64, PathBuf) {
    let link = listener.link_variable(Clock::Real, 10_000_000).into_string().unwrap();
    let parts: Vec<&str> = link.splitn(5, ':').collect();
    assert_eq!(parts[1..4], [std::process::id().to_string().as_str(), "10000000", "1"]);
    assert_eq!(listener.path(), Path::new(parts[4]));
    (parts[0].parse().unwrap(), PathBuf::from(parts[4]))
}

fn encode(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
    let mut buffer = vec![0; 64 * 1024];
    let mut writer = Writer::new(&mut buffer, 0);
    write(&mut writer);
    let length = writer.length();
    buffer.truncate(length);
    buffer
}

fn hello(token: u64) -> Vec<u8> {
    let hello = Hello {
        token,
        pid: 7,
        parent: 1,
        start_ticks: 1,
        monotonic_ns: 1,
        cpu_ns: 1,
        spawn_cause: SpawnCause::Tick,
        executable: &b"/bin/app"[..],
        argv: &b"app\0"[..],
    };
    encode(|writer| writer.write_hello(&hello).unwrap())
}

fn thread(tid: u32) -> Vec<u8> {
    encode(|writer| writer.write_thread(&Thread { tid, name: &b"worker"[..] }).unwrap())
}

/// Reads the next request of the viewer; `None` if it has closed the connection.
fn read_request(agent: &mut UnixStream) -> Option<Request> {
    agent.set_read_timeout(Some(LONG)).unwrap();
    let mut bytes = Vec::new();
    loop {
        if let Some(framed) = split_frame(&bytes).unwrap() {
            return Some(decode_request(framed.kind, framed.body).unwrap());
        }
        let mut byte = [0];
        match agent.read(&mut byte) {
            Ok(0) => return None,
            Ok(_) => bytes.extend(byte),
            Err(error) if error.kind() == ErrorKind::ConnectionReset => return None,
            Err(error) => panic!("{error}"),
        }
    }
}

fn connect_abstract() -> UnixStream {
    let address = SocketAddr::from_abstract_name(format!("sigtop/{}", std::process::id())).unwrap();
    UnixStream::connect_addr(&address).unwrap()
}

#[test]
fn a_launched_agents_messages_arrive_from_hello_to_close() {
    let viewer = Viewer::new("heard");
    let (mut agent, source) = viewer.agent();
    for byte in thread(70) {
        agent.write_all(&[byte]).unwrap();
    }
    let first = viewer.next();
    assert!(
        matches!(&first.event, ConnectionEvent::Received(Message::Thread(thread)) if thread.tid == 70),
        "{first:?}"
    );
    agent.write_all(&[thread(71), thread(72), thread(73)[..5].to_vec()].concat()).unwrap();
    drop(agent);
    let rest: Vec<Arrival> = (0..3).map(|_| viewer.next()).collect();
    assert!(rest.iter().all(|arrival| arrival.source == source && arrival.at_ns >= first.at_ns));
    assert_eq!(rest[2].event, ConnectionEvent::Closed);
    assert_ne!(viewer.agent().1, source);
}

/// Regression test: what an agent had sent with its Hello was lost if it had left before the
/// request was sent to it, as it does after it has named another viewer.
#[test]
fn the_messages_of_an_agent_that_does_not_wait_arrive() {
    let viewer = Viewer::after("left", 1000, None, |token, path| {
        let busy = encode(|writer| writer.write_busy(71).unwrap());
        let mut agent = UnixStream::connect(path).unwrap();
        agent.write_all(&[hello(token), thread(70), busy].concat()).unwrap();
    });
    let events: Vec<ConnectionEvent> = (0..4).map(|_| viewer.next().event).collect();
    assert!(
        matches!(
            &events[..],
            [
                ConnectionEvent::Received(Message::Hello(_)),
                ConnectionEvent::Received(Message::Thread(_)),
                ConnectionEvent::Received(Message::Busy { viewer: 71 }),
                ConnectionEvent::Closed
            ]
        ),
        "{events:?}"
    );
}

/// When a flush is answered, everything that was sent before it has arrived, even from an agent
/// that connected, wrote more than is read in one iteration, and closed the connection before it
/// was accepted.
#[test]
fn a_flush_delivers_everything_sent_before_it() {
    const MESSAGES: u32 = 20_000;
    let viewer = Viewer::new("flush");
    for _ in 0..5 {
        let mut bytes = hello(viewer.token);
        bytes.extend((0..MESSAGES).flat_map(thread));
        let mut agent = UnixStream::connect(&viewer.path).unwrap();
        let writer = std::thread::spawn(move || agent.write_all(&bytes));
        writer.join().unwrap().unwrap();
        viewer.handle.flush().recv_timeout(LONG).unwrap();
        let arrived: Vec<Arrival> = viewer.arrivals.try_iter().flatten().collect();
        assert_eq!(arrived.len(), 1 + MESSAGES as usize + 1);
        assert_eq!(arrived.last().map(|arrival| &arrival.event), Some(&ConnectionEvent::Closed));
    }
    assert!(viewer.handle.flush().recv_timeout(LONG).is_ok(), "nothing to hand over");
}

#[test]
fn each_agent_receives_the_current_request() {
    let viewer = Viewer::new("asked");
    let ((mut one, _), (mut two, _)) = (viewer.agent(), viewer.agent());
    assert_eq!((read_request(&mut one), read_request(&mut two)), (Some(FIRST), Some(FIRST)));
    viewer.handle.engage(SECOND);
    assert_eq!((read_request(&mut one), read_request(&mut two)), (Some(SECOND), Some(SECOND)));
    let (mut three, _) = viewer.agent();
    assert_eq!(read_request(&mut three), Some(SECOND));
    viewer.handle.engage(Request::Leave);
    assert_eq!(read_request(&mut three), Some(Request::Leave));
}

#[test]
fn only_expected_processes_connect_without_a_token() {
    let viewer = Viewer::new("knocked");
    let mut early = connect_abstract();
    early.write_all(&hello(0)).unwrap();
    assert_eq!(read_request(&mut early), None);
    viewer.handle.expect_process(std::process::id());
    let mut agent = connect_abstract();
    agent.write_all(&hello(0)).unwrap();
    assert_eq!(read_request(&mut agent), Some(FIRST));
    assert!(matches!(viewer.next().event, ConnectionEvent::Received(Message::Hello(_))));
    viewer.await_refusals([0, 1, 0, 0, 0]);
}

#[test]
fn connections_that_are_not_agents_are_closed_and_counted() {
    let viewer = Viewer::new("no-agent");
    let mut foreign = hello(viewer.token);
    foreign[9..11].copy_from_slice(&(VERSION + 1).to_le_bytes());
    for (bytes, expected) in [
        (thread(1), [0, 0, 1, 0, 0]),
        (b"GET / HTTP/1.1\r\n".to_vec(), [0, 0, 2, 0, 0]),
        (vec![0xff; 8], [0, 0, 3, 0, 0]),
        (hello(viewer.token ^ 1), [0, 1, 3, 0, 0]),
        (foreign, [0, 1, 3, 0, 1]),
    ] {
        let mut agent = UnixStream::connect(&viewer.path).unwrap();
        agent.write_all(&bytes).unwrap();
        assert_eq!(read_request(&mut agent), None);
        viewer.await_refusals(expected);
    }
    assert_eq!(viewer.handle.refused().last_other_version, Some((std::process::id(), VERSION + 1)));
    assert!(viewer.has_no_event());
}

#[test]
fn a_malformed_message_closes_only_its_connection() {
    let viewer = Viewer::new("nonsense");
    let ((mut one, first), (mut two, second)) = (viewer.agent(), viewer.agent());
    one.write_all(&[thread(1), vec![0xff; 9]].concat()).unwrap();
    assert!(matches!(viewer.next().event, ConnectionEvent::Received(Message::Thread(_))));
    let cut = viewer.next();
    assert_eq!((cut.source, cut.event), (first, ConnectionEvent::Aborted(Malformed::Length(u32::MAX))));
    assert_eq!((read_request(&mut one), read_request(&mut one)), (Some(FIRST), None));
    two.write_all(&hello(viewer.token)).unwrap();
    let cut = viewer.next();
    assert_eq!((cut.source, cut.event), (second, ConnectionEvent::Aborted(Malformed::Field("position in the stream"))));
}

#[test]
fn connections_without_hello_do_not_block_an_agent() {
    let viewer = Viewer::new("silent");
    let mut silent: Vec<UnixStream> =
        (0..MAX_PENDING + 8).map(|_| UnixStream::connect(&viewer.path).unwrap()).collect();
    silent[0].write_all(&hello(viewer.token)[..20]).unwrap();
    let (mut agent, _) = viewer.agent();
    assert_eq!(read_request(&mut agent), Some(FIRST));
    assert!(silent.iter_mut().all(|agent| read_request(agent).is_none()));
    viewer.await_refusals([0, 0, MAX_PENDING as u64 + 8, 0, 0]);
}

#[test]
fn other_processes_are_dismissed_when_one_is_selected() {
    let viewer = Viewer::with("other", 1000, Some(1));
    let mut child = UnixStream::connect(&viewer.path).unwrap();
    child.write_all(&hello(viewer.token)).unwrap();
    assert_eq!(read_request(&mut child), Some(Request::Leave));
    child.write_all(&thread(1)).unwrap();
    assert_eq!(read_request(&mut child), None);
    assert!(viewer.has_no_event());
    drop(viewer);
    let viewer = Viewer::with("root", 1000, Some(std::process::id()));
    assert_eq!(read_request(&mut viewer.agent().0), Some(FIRST));
}

#[test]
fn a_slow_viewer_delays_the_stream_without_loss() {
    let viewer = Viewer::with("slow", 1, None);
    let (mut agent, _) = viewer.agent();
    agent.set_nonblocking(true).unwrap();
    let mut sent = 0;
    loop {
        match agent.write(&thread(sent)) {
            Ok(count) => {
                if count < thread(sent).len() {
                    agent.set_nonblocking(false).unwrap();
                    agent.write_all(&thread(sent)[count..]).ok();
                }
                sent += 1;
            }
            Err(error) => {
                assert_eq!(error.kind(), ErrorKind::WouldBlock);
                break;
            }
        }
    }
    drop(agent);
    for tid in 0..sent {
        let arrival = viewer.next();
        assert!(
            matches!(&arrival.event, ConnectionEvent::Received(Message::Thread(thread)) if thread.tid == tid),
            "{tid}: {arrival:?}"
        );
    }
    assert_eq!(viewer.next().event, ConnectionEvent::Closed);
}

#[test]
fn the_thread_stops_even_if_the_channel_is_full() {
    let mut viewer = Viewer::with("stops", 0, None);
    let mut agent = UnixStream::connect(&viewer.path).unwrap();
    agent.write_all(&hello(viewer.token)).unwrap();
    assert_eq!(read_request(&mut agent), Some(FIRST));
    viewer.handle.close();
    assert_eq!(read_request(&mut agent), None);
    assert!(!viewer.path.exists());
    assert!(UnixStream::connect(&viewer.path).is_err());
}

#[test]
fn only_socket_files_of_dead_viewers_are_removed() {
    let mut dead = spawn_alone(&mut Command::new("true"));
    dead.wait().unwrap();
    let pid = dead.id();
    let directory = std::env::temp_dir().join(format!("sigtop-listener-{}-stale", std::process::id()));
    fs::create_dir_all(&directory).unwrap();
    let file = |name: &str| directory.join(name);
    let stale = file(&format!("viewer-{pid}-00000001.sock"));
    let listening = file(&format!("viewer-{pid}-00000002.sock"));
    let living = file(&format!("viewer-{}-00000003.sock", std::process::id()));
    let text = file(&format!("viewer-{pid}-00000004.sock"));
    drop(UnixListener::bind(&stale).unwrap());
    let _listens = UnixListener::bind(&listening).unwrap();
    drop(UnixListener::bind(&living).unwrap());
    fs::write(&text, "not a socket").unwrap();
    let viewer = Viewer::new("stale");
    assert!(!stale.exists());
    assert!(listening.exists() && living.exists() && text.exists() && viewer.path.exists());
}

#[test]
fn the_longest_directory_fits_and_a_longer_one_is_an_error() {
    let _alone = ONE_VIEWER.lock().unwrap_or_else(PoisonError::into_inner);
    let base = std::env::temp_dir().join(format!("sigtop-long-{}", std::process::id()));
    let padded = |length: usize| base.join("x".repeat(length - base.as_os_str().len() - 1));
    let fits = padded(MAX_DIRECTORY_BYTES);
    fs::create_dir_all(&fits).unwrap();
    let listener = Listener::bind(&fits).unwrap();
    UnixStream::connect(listener.path()).unwrap();
    drop(listener);
    let long = padded(MAX_DIRECTORY_BYTES + 30);
    fs::create_dir_all(&long).unwrap();
    assert!(Listener::bind(&long).is_err());
    fs::remove_dir_all(&base).unwrap();
}

/// Plays a viewer or an agent of another user in a separate process.
#[test]
fn another_user() {
    match std::env::var("SIGTOP_TEST_PART").as_deref() {
        Ok("viewer") => {
            let directory = std::env::temp_dir().join(format!("sigtop-listener-{}", std::process::id()));
            fs::create_dir(&directory).unwrap();
            let (sender, _arrivals) = bounded(10);
            let handle = Listener::bind(&directory).unwrap().start(sender, FIRST, None).unwrap();
            println!("\nready");
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
            eprintln!("{}", handle.refused().other_user);
            drop(handle);
            fs::remove_dir(&directory).unwrap(); // empty again
        }
        Ok(pid) => {
            let address = SocketAddr::from_abstract_name(format!("sigtop/{pid}")).unwrap();
            assert_eq!(read_request(&mut UnixStream::connect_addr(&address).unwrap()), None);
        }
        Err(_) => {}
    }
}

#[test]
fn connections_of_other_users_are_refused() {
    if !nix::unistd::geteuid().is_root() {
        return; // only root can be others
    }
    // Another user may not be allowed to enter the target directory.
    let program = std::env::temp_dir().join(format!("sigtop-listener-{}-user", std::process::id()));
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let play = |user: &str, part: &str| {
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={user}"), "--clear-groups"]).arg(&program);
        command.args(["--exact", "another_user", "--nocapture"]).env("SIGTOP_TEST_PART", part);
        spawn_alone(command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()))
    };
    let mut viewer = play("60001", "viewer");
    let mut said = String::new();
    while !said.contains("ready") {
        let mut bytes = [0; 64];
        let count = viewer.stdout.as_mut().unwrap().read(&mut bytes).unwrap();
        assert_ne!(count, 0, "{said}");
        said.push_str(&String::from_utf8_lossy(&bytes[..count]));
    }
    let stranger = play("60002", &viewer.id().to_string()).wait_with_output().unwrap();
    assert!(stranger.status.success(), "{stranger:?}");
    drop(viewer.stdin.take());
    let viewer = viewer.wait_with_output().unwrap();
    assert_eq!(String::from_utf8_lossy(&viewer.stderr).trim(), "1");
    fs::remove_file(&program).unwrap();
}
