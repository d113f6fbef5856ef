//! Makes screenshots/*.png and the film from real runs: pty, screen model, SVG, and PNG by
//! rsvg-convert. One command:
//!
//! ```text
//! apt-get install librsvg2-bin fonts-jetbrains-mono fonts-dejavu-core pngquant webp
//! SIGTOP_SCREENSHOTS=1 cargo test --release --test screenshots
//! ```
//!
//! `SIGTOP_SCREENSHOTS=film` makes the film alone. Nothing is done unless the variable is set, so it
//! costs nothing in a run of all tests. pngquant is optional: it makes the files ten times smaller.

#[path = "screenshots/film.rs"]
mod film;
#[expect(dead_code, reason = "the pictures use a part of what the tests share")]
mod harness;
#[path = "screenshots/svg.rs"]
mod svg;

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use harness::run::{SIGTOP, text};
use harness::targets;
use harness::terminal::Terminal;

/// The folder of the pictures.
const FOLDER: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/screenshots");

fn main() {
    let Some(what) = std::env::var_os("SIGTOP_SCREENSHOTS") else {
        println!("screenshots: nothing done; SIGTOP_SCREENSHOTS=1 makes them");
        return;
    };
    film_of_a_server();
    if what == "film" {
        return;
    }
    // The demo of sigtop, after a while, with a selected function.
    let demo = |options: &[&str]| {
        let mut command = Command::new(SIGTOP);
        command.args(["demo", "--no-config", "--hz", "250"]).args(options);
        command
    };
    let dashboard = Picture { name: "dashboard", columns: 140, rows: 45, own: &svg::DARK };
    dashboard.take(&demo(&[]), |terminal| settle(terminal, "jj"));
    Picture { name: "light", own: &svg::LIGHT, ..dashboard }
        .take(&demo(&["--theme", "light"]), |terminal| settle(terminal, "jj"));
    Picture { name: "small", columns: 60, rows: 12, ..dashboard }.take(&demo(&[]), |terminal| settle(terminal, "j"));
    let pane = Picture { columns: 120, rows: 32, ..dashboard };
    // Threads that wait in many ways, under a path that is short.
    let waits = targets::scratch("waits");
    std::fs::copy(targets::c("waits_for"), waits.join("server")).expect("writable");
    let mut server = Command::new(SIGTOP);
    server.args(["--no-config", "--clock", "wall", "--", "./server", "60", "deadlock"]).current_dir(&waits);
    Picture { name: "threads", ..pane }.take(&server, |terminal| settle(terminal, "5Z"));
    let cpp = compile("work.cpp", "work");
    let program = || {
        let mut command = Command::new(SIGTOP);
        command.args(["--no-config", "--hz", "500", "--", "./work", "100000000"]).current_dir(&cpp);
        command
    };
    Picture { name: "source", ..pane }.take(&program(), |terminal| {
        settle(terminal, ":list ^share\r");
        watch(terminal, 3);
    });
    Picture { name: "assembly", ..pane }.take(&program(), |terminal| {
        settle(terminal, ":disasm ^share\r");
        watch(terminal, 3);
    });
    // A program with deep stacks, through two languages.
    let python = |options: &[&str]| {
        let mut command = Command::new(SIGTOP);
        command.args(["--no-config", "--hz", "500"]).args(options).args(["--", "python3", "-c", PYTHON]);
        command
    };
    Picture { name: "callers", ..pane }.take(&python(&[]), |terminal| settle(terminal, ":peek ^raw_decode\r"));
    Picture { name: "flame", ..pane }.take(&python(&[]), |terminal| settle(terminal, "3"));
    // The demo changes its phase every ten seconds: the change appears in the history and as a
    // diff.
    Picture { name: "timeline", ..dashboard }.take(&demo(&["--window", "2s"]), |terminal| {
        settle(terminal, "");
        watch(terminal, 14);
        terminal.keys(" ");
        watch(terminal, 1);
        terminal.keys("[m[[m");
        watch(terminal, 8);
    });
    Picture { name: "diff", ..dashboard }.take(&demo(&["--window", "2s"]), |terminal| {
        settle(terminal, "d");
        watch(terminal, 6);
    });
}

/// A server is attached to: its own code, a flame, lines, a lock, and a change.
fn film_of_a_server() {
    let directory = compile("server.cpp", "server");
    let mut server = Command::new("./server").arg("600").current_dir(&directory).spawn().expect("it starts");
    let mut shell = Command::new("sh");
    let path = std::env::var("PATH").unwrap_or_default();
    let own = Path::new(SIGTOP).parent().expect("a folder");
    shell.env("PS1", "$ ").env("HOME", &directory).env("PATH", format!("{}:{path}", own.display()));
    let mut film = film::Film::start("film", 110, 32, shell.current_dir(&directory));
    film.play("sigtop --window 4s --pid server\r", "attach to a process by name", 2_500);
    film.play("3", "3 · flame graph", 1_500);
    film.play("1o", "o · own code, with what it spends in libraries", 2_000);
    film.play(":list ^score\r", ":list · source, line by line", 1_500);
    film.play("\x1br", "r · wall-clock time: who holds the lock", 3_000);
    film.play("p", "p · CPU time", 3_000);
    film.play("d", "d · what changes from here on?", 500);
    let pid = nix::unistd::Pid::from_raw(server.id() as i32);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGUSR1).expect("a child");
    film.play("", "d · render got slower", 3_500);
    println!("{}", film.finish(Path::new(FOLDER)).display());
    server.kill().expect("a child");
    server.wait().expect("a child");
}

/// A directory with a program and its source. Debug information has relative paths, so that the
/// picture contains no path of this machine.
fn compile(source: &str, program: &str) -> std::path::PathBuf {
    let directory = targets::scratch(program);
    let targets = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/targets");
    std::fs::copy(targets.join(source), directory.join(source)).expect("writable");
    let map = format!("-fdebug-prefix-map={}=.", directory.display());
    let mut compiler = Command::new("c++");
    compiler.args(["-O2", "-g", "-pthread", &map, "-o", program, source]);
    let compiled = compiler.current_dir(&directory).status();
    assert!(compiled.is_ok_and(|status| status.success()), "c++ failed");
    directory
}

/// Work of many kinds, in one loop.
const PYTHON: &str = "
import json, re, zlib, hashlib
data = [{'name': 'n%d' % i, 'values': list(range(i % 40))} for i in range(300)]
word = re.compile(r'(n[0-9]+)|([0-9]+)')
while True:
    text = json.dumps(data)
    json.loads(text)
    len(word.findall(text))
    zlib.compress(text.encode(), 6)
    hashlib.sha256(text.encode()).hexdigest()
    sorted(text)
";

/// Waits until the screen has contents, and presses keys.
fn settle(terminal: &mut Terminal, keys: &str) {
    terminal.see(" samples in ");
    watch(terminal, 9);
    terminal.keys(keys);
    watch(terminal, 2);
}

/// Lets time pass in the picture: trends and sparklines need history.
fn watch(terminal: &mut Terminal, seconds: u64) {
    terminal.wait_up_to(Duration::from_secs(seconds), |_| false);
}

#[derive(Clone, Copy)]
struct Picture {
    name: &'static str,
    columns: u16,
    rows: u16,
    own: &'static svg::Own,
}

impl Picture {
    /// Runs a command on a terminal, presses keys in it, and takes the picture.
    fn take(self, command: &Command, play: impl FnOnce(&mut Terminal)) {
        let Picture { name, columns, rows, own } = self;
        let mut terminal = Terminal::start(columns, rows, command);
        play(&mut terminal);
        let scratch = targets::scratch(name);
        let drawing = scratch.join("drawing.svg");
        std::fs::write(&drawing, svg::draw(terminal.screen(), "sigtop", own)).expect("writable");
        terminal.keys("q");
        terminal.keys("e");
        terminal.finish();
        let png = Path::new(FOLDER).join(format!("{name}.png"));
        let convert =
            Command::new("rsvg-convert").args(["--zoom", "2", "--output", text(&png), text(&drawing)]).status();
        assert!(convert.is_ok_and(|status| status.success()), "rsvg-convert (librsvg2-bin) failed");
        let smaller = Command::new("pngquant")
            .args(["--force", "--skip-if-larger", "--output", text(&png), "128", text(&png)])
            .status();
        if !smaller.is_ok_and(|status| status.success()) {
            println!("not made smaller: pngquant is missing or could not");
        }
        println!("{}", png.display());
    }
}
