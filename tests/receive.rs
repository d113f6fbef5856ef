//! The viewer's end of the sockets, against agents that are played here: proper ones, slow ones, and ones that lie.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fs;
use std::io::{ErrorKind, Read, Write};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crossbeam_channel::{Receiver, bounded};
use sigtop::link::receive::{LONGEST_DIRECTORY, Listener, MAX_NEWCOMERS, Post};
use sigtop::link::wire::{
    Arrival, Birth, Clock, Engine, Event, Hello, Malformed, Message, Request, SourceId, Thread, VERSION, Writer, frame,
    request,
};

/// Longer than anything here takes on a loaded machine.
const LONG: Duration = Duration::from_secs(60);
const FIRST: Request = Request::Engage { clock: Clock::Prof, engine: Engine::Threads, period_ns: 10_000_000 };
const SECOND: Request = Request::Engage { clock: Clock::Real, engine: Engine::Threads, period_ns: 20_000_000 };

/// The abstract socket is named by the pid, so one viewer at a time lives in this process.
static ALONE: Mutex<()> = Mutex::new(());

/// A viewer with a directory of its own.
struct Viewer {
    post: Post,
    arrivals: Receiver<Vec<Arrival>>,
    /// Of the last batch.
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
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let directory = std::env::temp_dir().join(format!("sigtop-receive-{}-{name}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let listener = Listener::bind(&directory).unwrap();
        let (token, path) = read_link(&listener);
        assert!(listener.is_open_to_knocked());
        let (sender, arrivals) = bounded(room);
        let post = listener.start(sender, FIRST, only.map(|pid| vec![pid])).unwrap();
        Viewer { post, arrivals, rest: RefCell::default(), directory, path, token, _alone: alone }
    }

    fn next(&self) -> Arrival {
        let mut rest = self.rest.borrow_mut();
        while rest.is_empty() {
            rest.extend(self.arrivals.recv_timeout(LONG).unwrap());
        }
        rest.pop_front().expect("not empty")
    }

    /// Whether nothing came that was not taken.
    fn has_nothing(&self) -> bool {
        self.rest.borrow().is_empty() && self.arrivals.is_empty()
    }

    /// An agent that has said Hello with our token, and was heard.
    fn agent(&self) -> (UnixStream, SourceId) {
        let mut agent = UnixStream::connect(&self.path).unwrap();
        agent.write_all(&hello(self.token)).unwrap();
        let arrival = self.next();
        assert!(matches!(arrival.event, Event::Said(Message::Hello(_))), "{arrival:?}");
        assert_eq!(arrival.pid, std::process::id());
        (agent, arrival.source)
    }

    /// Waits until as many were refused for each cause: strangers, unexpected, speechless, crowded, foreign.
    fn await_refusals(&self, expected: [u64; 5]) {
        loop {
            let seen = self.post.refusals();
            let counts = [seen.strangers, seen.unexpected, seen.speechless, seen.crowded, seen.foreign];
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
        self.post.close();
        drop(fs::remove_dir_all(&self.directory));
    }
}

/// As an agent reads it.
fn read_link(listener: &Listener) -> (u64, PathBuf) {
    let link = listener.link(Clock::Real, 10_000_000).into_string().unwrap();
    let parts: Vec<&str> = link.splitn(5, ':').collect();
    assert_eq!(parts[1..4], [std::process::id().to_string().as_str(), "10000000", "1"]);
    assert_eq!(listener.path(), Path::new(parts[4]));
    (parts[0].parse().unwrap(), PathBuf::from(parts[4]))
}

fn written(write: impl FnOnce(&mut Writer<'_>)) -> Vec<u8> {
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
        birth: Birth::Tick,
        executable: &b"/bin/app"[..],
        argv: &b"app\0"[..],
    };
    written(|writer| writer.hello(&hello).unwrap())
}

fn thread(tid: u32) -> Vec<u8> {
    written(|writer| writer.thread(&Thread { tid, name: &b"worker"[..] }).unwrap())
}

/// What the viewer asks next; `None` when it has hung up.
fn asked(agent: &mut UnixStream) -> Option<Request> {
    agent.set_read_timeout(Some(LONG)).unwrap();
    let mut bytes = Vec::new();
    loop {
        if let Some(framed) = frame(&bytes).unwrap() {
            return Some(request(framed.kind, framed.body).unwrap());
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

fn nameless() -> UnixStream {
    let address = SocketAddr::from_abstract_name(format!("sigtop/{}", std::process::id())).unwrap();
    UnixStream::connect_addr(&address).unwrap()
}

#[test]
fn a_launched_agent_is_heard_from_hello_to_end() {
    let viewer = Viewer::new("heard");
    let (mut agent, source) = viewer.agent();
    for byte in thread(70) {
        agent.write_all(&[byte]).unwrap();
    }
    let first = viewer.next();
    assert!(matches!(&first.event, Event::Said(Message::Thread(thread)) if thread.tid == 70), "{first:?}");
    agent.write_all(&[thread(71), thread(72), thread(73)[..5].to_vec()].concat()).unwrap();
    drop(agent);
    let rest: Vec<Arrival> = (0..3).map(|_| viewer.next()).collect();
    assert!(rest.iter().all(|arrival| arrival.source == source && arrival.at_ns >= first.at_ns));
    assert_eq!(rest[2].event, Event::Closed);
    assert_ne!(viewer.agent().1, source);
}

/// Everything that was sent before a flush has been handed over when it is answered: also by an
/// agent that connected, wrote more than is read in one turn and hung up before anybody accepted
/// it.
#[test]
fn a_flush_hands_over_everything_sent_before_it() {
    const MESSAGES: u32 = 20_000;
    let viewer = Viewer::new("flush");
    for _ in 0..5 {
        let mut bytes = hello(viewer.token);
        bytes.extend((0..MESSAGES).flat_map(thread));
        let mut agent = UnixStream::connect(&viewer.path).unwrap();
        let writer = std::thread::spawn(move || agent.write_all(&bytes));
        writer.join().unwrap().unwrap();
        viewer.post.flush().recv_timeout(LONG).unwrap();
        let arrived: Vec<Arrival> = viewer.arrivals.try_iter().flatten().collect();
        assert_eq!(arrived.len(), 1 + MESSAGES as usize + 1);
        assert_eq!(arrived.last().map(|arrival| &arrival.event), Some(&Event::Closed));
    }
    assert!(viewer.post.flush().recv_timeout(LONG).is_ok(), "nothing to hand over");
}

#[test]
fn each_agent_is_asked_what_is_current() {
    let viewer = Viewer::new("asked");
    let ((mut one, _), (mut two, _)) = (viewer.agent(), viewer.agent());
    assert_eq!((asked(&mut one), asked(&mut two)), (Some(FIRST), Some(FIRST)));
    viewer.post.engage(SECOND);
    assert_eq!((asked(&mut one), asked(&mut two)), (Some(SECOND), Some(SECOND)));
    let (mut three, _) = viewer.agent();
    assert_eq!(asked(&mut three), Some(SECOND));
    viewer.post.engage(Request::Leave);
    assert_eq!(asked(&mut three), Some(Request::Leave));
}

#[test]
fn a_knocked_agent_needs_no_token_and_no_other_gets_in() {
    let viewer = Viewer::new("knocked");
    let mut early = nameless();
    early.write_all(&hello(0)).unwrap();
    assert_eq!(asked(&mut early), None);
    viewer.post.expect(std::process::id());
    let mut agent = nameless();
    agent.write_all(&hello(0)).unwrap();
    assert_eq!(asked(&mut agent), Some(FIRST));
    assert!(matches!(viewer.next().event, Event::Said(Message::Hello(_))));
    viewer.await_refusals([0, 1, 0, 0, 0]);
}

#[test]
fn what_is_no_agent_is_cut_off_and_counted() {
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
        assert_eq!(asked(&mut agent), None);
        viewer.await_refusals(expected);
    }
    assert_eq!(viewer.post.refusals().last_foreign, Some((std::process::id(), VERSION + 1)));
    assert!(viewer.has_nothing());
}

#[test]
fn an_agent_that_talks_nonsense_is_cut_and_the_others_stay() {
    let viewer = Viewer::new("nonsense");
    let ((mut one, first), (mut two, second)) = (viewer.agent(), viewer.agent());
    one.write_all(&[thread(1), vec![0xff; 9]].concat()).unwrap();
    assert!(matches!(viewer.next().event, Event::Said(Message::Thread(_))));
    let cut = viewer.next();
    assert_eq!((cut.source, cut.event), (first, Event::Cut(Malformed::Length(u32::MAX))));
    assert_eq!((asked(&mut one), asked(&mut one)), (Some(FIRST), None));
    two.write_all(&hello(viewer.token)).unwrap();
    let cut = viewer.next();
    assert_eq!((cut.source, cut.event), (second, Event::Cut(Malformed::Field("place in the stream"))));
}

#[test]
fn the_silent_do_not_keep_an_agent_out() {
    let viewer = Viewer::new("silent");
    let mut silent: Vec<UnixStream> =
        (0..MAX_NEWCOMERS + 8).map(|_| UnixStream::connect(&viewer.path).unwrap()).collect();
    silent[0].write_all(&hello(viewer.token)[..20]).unwrap();
    let (mut agent, _) = viewer.agent();
    assert_eq!(asked(&mut agent), Some(FIRST));
    assert!(silent.iter_mut().all(|agent| asked(agent).is_none()));
    viewer.await_refusals([0, 0, MAX_NEWCOMERS as u64 + 8, 0, 0]);
}

#[test]
fn with_one_process_to_follow_the_others_are_told_to_leave() {
    let viewer = Viewer::with("other", 1000, Some(1));
    let mut child = UnixStream::connect(&viewer.path).unwrap();
    child.write_all(&hello(viewer.token)).unwrap();
    assert_eq!(asked(&mut child), Some(Request::Leave));
    child.write_all(&thread(1)).unwrap();
    assert_eq!(asked(&mut child), None);
    assert!(viewer.has_nothing());
    drop(viewer);
    let viewer = Viewer::with("root", 1000, Some(std::process::id()));
    assert_eq!(asked(&mut viewer.agent().0), Some(FIRST));
}

#[test]
fn a_slow_viewer_holds_the_stream_up_and_loses_nothing() {
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
            matches!(&arrival.event, Event::Said(Message::Thread(thread)) if thread.tid == tid),
            "{tid}: {arrival:?}"
        );
    }
    assert_eq!(viewer.next().event, Event::Closed);
}

#[test]
fn it_stops_even_when_nobody_takes_the_arrivals() {
    let mut viewer = Viewer::with("stops", 0, None);
    let mut agent = UnixStream::connect(&viewer.path).unwrap();
    agent.write_all(&hello(viewer.token)).unwrap();
    assert_eq!(asked(&mut agent), Some(FIRST));
    viewer.post.close();
    assert_eq!(asked(&mut agent), None);
    assert!(!viewer.path.exists());
    assert!(UnixStream::connect(&viewer.path).is_err());
}

#[test]
fn files_of_dead_viewers_are_removed_and_nothing_else() {
    let pid = {
        // Until a new process is another program it holds what is open here: also the name of a viewer that ends meanwhile.
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let mut dead = Command::new("true").spawn().unwrap();
        dead.wait().unwrap();
        dead.id()
    };
    let directory = std::env::temp_dir().join(format!("sigtop-receive-{}-stale", std::process::id()));
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
    let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
    let base = std::env::temp_dir().join(format!("sigtop-long-{}", std::process::id()));
    let padded = |length: usize| base.join("x".repeat(length - base.as_os_str().len() - 1));
    let fits = padded(LONGEST_DIRECTORY);
    fs::create_dir_all(&fits).unwrap();
    let listener = Listener::bind(&fits).unwrap();
    UnixStream::connect(listener.path()).unwrap();
    drop(listener);
    let long = padded(LONGEST_DIRECTORY + 30);
    fs::create_dir_all(&long).unwrap();
    assert!(Listener::bind(&long).is_err());
    fs::remove_dir_all(&base).unwrap();
}

/// Plays a viewer or an agent of another user, in a process of its own.
#[test]
fn another_user() {
    match std::env::var("SIGTOP_TEST_PART").as_deref() {
        Ok("viewer") => {
            let directory = std::env::temp_dir().join(format!("sigtop-receive-{}", std::process::id()));
            fs::create_dir(&directory).unwrap();
            let (sender, _arrivals) = bounded(10);
            let post = Listener::bind(&directory).unwrap().start(sender, FIRST, None).unwrap();
            println!("\nready");
            std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
            eprintln!("{}", post.refusals().strangers);
            drop(post);
            fs::remove_dir(&directory).unwrap(); // empty again
        }
        Ok(pid) => {
            let address = SocketAddr::from_abstract_name(format!("sigtop/{pid}")).unwrap();
            assert_eq!(asked(&mut UnixStream::connect_addr(&address).unwrap()), None);
        }
        Err(_) => {}
    }
}

#[test]
fn strangers_are_refused() {
    if !nix::unistd::geteuid().is_root() {
        return; // only root can be others
    }
    // Under the target directory, which another user may not be allowed to enter.
    let program = std::env::temp_dir().join(format!("sigtop-receive-{}-user", std::process::id()));
    fs::copy(std::env::current_exe().unwrap(), &program).unwrap();
    let play = |user: &str, part: &str| {
        let mut command = Command::new("setpriv");
        command.args([&format!("--reuid={user}"), "--clear-groups"]).arg(&program);
        command.args(["--exact", "another_user", "--nocapture"]).env("SIGTOP_TEST_PART", part);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
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
