//! Tests of downloads from debuginfod servers: Debian's own, and servers made here that answer what
//! no server should.

use std::fs::{File, OpenOptions};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use crossbeam_channel::unbounded;
use sigtop::symbols::download::DebuginfodClient;
use sigtop::symbols::source::{self, SourceFinder, SourceRequest};

use crate::skips::are_installed;
use crate::workshop::{Workshop, module};

/// A program whose time is in a function that only its debug file names.
const BUSY: (&str, &str) = (
    "busy.c",
    "#include <time.h>
static volatile unsigned long sink;
__attribute__((noinline)) static void spin_in_debug_file(void) { for (int i = 0; i < 1000; i++) sink += i; }
int main(void) {
    struct timespec used;
    do {
        spin_in_debug_file();
        clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    } while (used.tv_sec * 1000 + used.tv_nsec / 1000000 < 400);
    return 0;
}
",
);

/// A stripped program with a build id, the same with symbols and debug information, which serves as
/// its debug file, and the build id.
fn stripped(shop: &Workshop) -> (PathBuf, PathBuf, String) {
    let id = "5157009a5157009a5157009a5157009a5157009a".to_owned();
    let build_id = format!("-Wl,--build-id=0x{id}");
    std::fs::create_dir(shop.path("served")).unwrap();
    // The stubs of a linkage table have no lines, and a sample may be in the one by which it reads
    // the clock.
    let debug_file = shop.build("gcc", BUSY, &["-O1", "-g", "-fno-plt", &build_id], "served/app.debug");
    (shop.build("gcc", BUSY, &["-O1", "-g", "-s", "-fno-plt", &build_id], "app"), debug_file, id)
}

/// Prepares `sigtop` with a cache in the workshop and these servers.
fn sigtop(shop: &Workshop, servers: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sigtop"));
    command.args(arguments).env("DEBUGINFOD_URLS", servers).env("DEBUGINFOD_CACHE_PATH", shop.path("cache"));
    for variable in ["DEBUGINFOD_TIMEOUT", "DEBUGINFOD_MAXTIME", "DEBUGINFOD_MAXSIZE", "http_proxy", "all_proxy"] {
        command.env_remove(variable);
    }
    command
}

fn text(output: Output) -> String {
    String::from_utf8(output.stdout).expect("text") + &String::from_utf8(output.stderr).expect("text")
}

/// The files in the cache, other than directories.
fn cached(shop: &Workshop) -> Vec<PathBuf> {
    let directories = std::fs::read_dir(shop.path("cache")).into_iter().flatten().flatten();
    let files = directories.flat_map(|directory| std::fs::read_dir(directory.path()).unwrap().flatten());
    files.map(|file| file.path()).collect()
}

/// Debian's server.
struct Debuginfod {
    process: Child,
    url: String,
}

impl Debuginfod {
    /// Starts it on a directory and waits until it serves a file.
    fn start(shop: &Workshop, build_id: &str) -> Debuginfod {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let log = File::create(shop.path("log")).unwrap();
        let process = Command::new("debuginfod")
            .args(["-F", "-p", &port.to_string(), "-d", ":memory:"])
            .arg(shop.path("served"))
            .env_remove("DEBUGINFOD_URLS")
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("debuginfod starts");
        let server = Debuginfod { process, url: format!("http://127.0.0.1:{port}") };
        let url = format!("{}/buildid/{build_id}/debuginfo", server.url);
        let began = Instant::now();
        // It does not say when it has read a file.
        while !Command::new("curl").args(["-sf", "-o", "/dev/null", &url]).status().expect("curl").success() {
            let log = std::fs::read_to_string(shop.path("log")).unwrap_or_default();
            assert!(began.elapsed() < Duration::from_secs(30), "debuginfod does not serve the file: {log}");
            std::thread::sleep(Duration::from_millis(50));
        }
        server
    }
}

impl Drop for Debuginfod {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a server whose connections are answered by `answer`, which gets the requested path.
/// Returns its URL, and a channel of the paths.
fn serve(answer: impl Fn(&str, &mut TcpStream) + Send + Sync + Clone + 'static) -> (String, Receiver<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, requested) = channel();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let (mut stream, answer, tell) = (stream.unwrap(), answer.clone(), tell.clone());
            std::thread::spawn(move || {
                let head: Vec<String> = BufReader::new(stream.try_clone().unwrap())
                    .lines()
                    .map_while(Result::ok)
                    .take_while(|line| !line.is_empty())
                    .collect();
                let path = head.first().and_then(|line| line.split(' ').nth(1)).unwrap_or_default().to_owned();
                let _ = tell.send(path.clone());
                answer(&path, &mut stream);
            });
        }
    });
    (url, requested)
}

/// Answers with a body of this size, if it is said.
fn head(size: Option<u64>) -> String {
    let size = size.map_or(String::new(), |size| format!("Content-Length: {size}\r\n"));
    format!("HTTP/1.1 200 OK\r\n{size}Connection: close\r\n\r\n")
}

#[test]
fn debian_server_gives_the_debug_file_to_the_cache() {
    if !are_installed(&["debuginfod", "curl"]) {
        return;
    }
    let shop = Workshop::new();
    let (app, debug_file, id) = stripped(&shop);
    let server = Debuginfod::start(&shop, &id);
    let app = app.to_str().unwrap();
    let without = text(sigtop(&shop, &server.url, &["symbols", app]).output().unwrap());
    assert!(without.contains("none was found") && !shop.path("cache").exists(), "nothing is asked: {without}");

    let with = text(sigtop(&shop, &server.url, &["symbols", "--debuginfod", app]).output().unwrap());
    let place = shop.path(&format!("cache/{id}/debuginfo"));
    for part in [place.to_str().unwrap(), "the line tables of its debug file"] {
        assert!(with.contains(part), "{part}: {with}");
    }
    assert_eq!(cached(&shop), std::slice::from_ref(&place), "no temporary file is left");
    assert_eq!(std::fs::read(&place).unwrap(), std::fs::read(debug_file).unwrap());

    // Debuginfod's own client finds it there.
    if are_installed(&["debuginfod-find"]) {
        let mut find = Command::new("debuginfod-find");
        find.args(["debuginfo", &id]).env("DEBUGINFOD_URLS", "http://127.0.0.1:1");
        let found = find.env("DEBUGINFOD_CACHE_PATH", shop.path("cache")).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&found.stdout).trim(), place.to_str().unwrap());
    }

    // It is not asked again.
    drop(server);
    let again = text(sigtop(&shop, "http://127.0.0.1:1", &["symbols", "--debuginfod", app]).output().unwrap());
    assert!(again.contains("the line tables of its debug file"), "{again}");
}

#[test]
fn names_change_when_the_debug_file_has_arrived() {
    if !are_installed(&["debuginfod", "curl"]) {
        return;
    }
    let shop = Workshop::new();
    let (app, _, id) = stripped(&shop);
    let server = Debuginfod::start(&shop, &id);
    let table = |arguments: &[&str]| {
        let all = [&["--batch", "--no-config", "--hz", "499"], arguments, &["--", app.to_str().unwrap()]].concat();
        text(sigtop(&shop, &server.url, &all).output().unwrap())
    };
    let without = table(&[]);
    assert!(!without.contains("spin_in_debug_file"), "{without}");
    let with = table(&["--debuginfod"]);
    assert!(with.contains("spin_in_debug_file"), "{with}");
    // The config file may allow it, too.
    std::fs::remove_dir_all(shop.path("cache")).unwrap();
    std::fs::write(shop.path("config.toml"), "[defaults]\ndebuginfod = true\n").unwrap();
    let configured = shop.path("config.toml");
    let arguments = ["--batch", "--hz", "499", "--config", configured.to_str().unwrap(), "--", app.to_str().unwrap()];
    let with = text(sigtop(&shop, &server.url, &arguments).output().unwrap());
    assert!(with.contains("spin_in_debug_file"), "{with}");
}

/// Recordings and profiles of addresses have names that come from the servers, if that is allowed.
#[test]
fn reports_download_what_they_lack() {
    if !are_installed(&["debuginfod", "curl"]) {
        return;
    }
    let shop = Workshop::new();
    let (app, _, id) = stripped(&shop);
    let server = Debuginfod::start(&shop, &id);
    let app = app.to_str().unwrap();
    let path = |name: &str| shop.path(name).to_str().unwrap().to_owned();
    let (recording, profile) = (path("app.sigtop"), path("app.prof"));
    let recorded = text(sigtop(&shop, "", &["record", "--no-config", "-o", &recording, "--", app]).output().unwrap());
    let agent = text(sigtop(&shop, "", &["env", "--path"]).output().unwrap());
    let profiled = Command::new(app).env("LD_PRELOAD", agent.trim()).env("CPUPROFILE", &profile).status().unwrap();
    assert!(profiled.success() && Path::new(&recording).exists(), "{recorded}");
    std::fs::write(shop.path("config.toml"), "[defaults]\ndebuginfod = true\n").unwrap();
    let config = path("config.toml");
    for file in [&recording, &profile] {
        let report = |arguments: &[&str]| {
            let all = [&["report", file.as_str()], arguments].concat();
            text(sigtop(&shop, &server.url, &all).output().unwrap())
        };
        for off in [&["--no-config"][..], &["--config", &config, "--no-debuginfod"]] {
            let without = report(off);
            assert!(!without.contains("spin_in_debug_file") && !shop.path("cache").exists(), "{file}: {without}");
        }
        for on in [&["--no-config", "--debuginfod"][..], &["--config", &config]] {
            let with = report(on);
            assert!(with.contains("spin_in_debug_file") && !with.contains('\x1b'), "{file}: {with}");
            assert_eq!(cached(&shop).len(), 1, "{file}: no temporary file is left");
            std::fs::remove_dir_all(shop.path("cache")).unwrap();
        }
    }
    let shares = text(sigtop(&shop, &server.url, &["symbols", "--debuginfod", &recording]).output().unwrap());
    let line = shares.lines().rfind(|line| line.ends_with("  app")).unwrap_or_default();
    let fields: Vec<&str> = line.split_whitespace().collect();
    assert!(fields.first() == fields.get(1) && fields.len() == 5, "all samples have lines: {shares}");

    // Nothing that fails keeps a report back, and it is one sentence.
    std::fs::remove_dir_all(shop.path("cache")).unwrap();
    let refused = sigtop(&shop, "http://127.0.0.1:1", &["report", "--debuginfod", &recording]).output().unwrap();
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(refused.status.success() && !refused.stdout.is_empty(), "{said}");
    assert!(said.contains("sigtop: debug information of ") && said.lines().count() == 1, "{said}");
    let nowhere = sigtop(&shop, "file:///etc", &["report", "--debuginfod", &recording]).output().unwrap();
    assert_eq!(nowhere.status.code(), Some(125), "{}", text(nowhere));
}

/// Asks for a source file as the Source pane does, and prints what it shows at last. The client
/// reads the environment, so the tests below start this one as a process with the right one.
#[test]
fn a_source_is_asked_for() {
    let Some(asked) = std::env::var_os("SIGTOP_TEST_SOURCE") else { return };
    let asked = asked.into_string().unwrap();
    let (app, file) = asked.split_once(':').unwrap();
    let servers = std::env::var_os("DEBUGINFOD_URLS").map(|_| DebuginfodClient::from_environment());
    let has_servers = servers.is_some();
    let (ask, requests) = unbounded();
    let (replies, answers) = unbounded();
    source::spawn(SourceFinder::default(), servers, requests, replies).unwrap();
    let module = Some(module(Path::new(app)));
    ask.send(SourceRequest { file: file.to_owned(), pid: std::process::id(), module }).unwrap();
    let mut reply = answers.recv().unwrap();
    if has_servers && reply.source.as_ref().is_err_and(|why| why.contains("a debuginfod server is asked")) {
        reply = answers.recv().unwrap();
    }
    match reply.source {
        Ok(source) => println!("SHOWN {} {}: {:?}", source.path, source.lines.len(), source.line(1)),
        Err(why) => println!("REFUSED {why}"),
    }
}

/// Runs the test above; without servers if `servers` is empty.
fn ask_for_source(shop: &Workshop, servers: &str, file: &Path) -> String {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "downloads::a_source_is_asked_for", "--nocapture"]);
    let asked = format!("{}:{}", shop.path("app").display(), file.display());
    command.env("SIGTOP_TEST_SOURCE", asked).env("DEBUGINFOD_CACHE_PATH", shop.path("cache"));
    match servers {
        "" => command.env_remove("DEBUGINFOD_URLS"),
        servers => command.env("DEBUGINFOD_URLS", servers),
    };
    command.env("DEBUGINFOD_MAXSIZE", "1048576").env("DEBUGINFOD_MAXTIME", "3");
    let said = text(command.output().unwrap());
    let line = said.lines().find(|line| line.starts_with("SHOWN") || line.starts_with("REFUSED"));
    line.unwrap_or_else(|| panic!("{said}")).to_owned()
}

#[test]
fn debian_server_gives_sources_to_the_cache() {
    if !are_installed(&["debuginfod", "curl", "debuginfod-find"]) {
        return;
    }
    let shop = Workshop::new();
    let (_, _, id) = stripped(&shop);
    let server = Debuginfod::start(&shop, &id);
    let file = shop.path("busy.c");
    let url = format!("{}/buildid/{id}/source{}", server.url, file.display());
    let began = Instant::now();
    while !Command::new("curl").args(["-sf", "-o", "/dev/null", &url]).status().unwrap().success() {
        assert!(began.elapsed() < Duration::from_secs(30), "debuginfod does not serve {url}");
        std::thread::sleep(Duration::from_millis(50));
    }
    // The server has it at its path, and the program's user does not. It is read before it moves.
    let find = |servers: &str| {
        let mut find = Command::new("debuginfod-find");
        find.args(["source", &id]).arg(&file).env("DEBUGINFOD_URLS", servers);
        let found = find.env("DEBUGINFOD_CACHE_PATH", shop.path("old")).output().unwrap();
        String::from_utf8(found.stdout).unwrap().trim().to_owned()
    };
    let old = PathBuf::from(find(&server.url));
    let kept = std::fs::read(&file).unwrap();
    assert_eq!(std::fs::read(&old).unwrap(), kept);
    let (proxy, _) = serve({
        let kept = kept.clone();
        move |_, stream| {
            let _ = stream.write_all(&[head(Some(kept.len() as u64)).as_bytes(), &kept].concat());
        }
    });
    std::fs::remove_file(&file).unwrap();

    let shown = format!("SHOWN {} {}: Some(\"#include <time.h>\")", file.display(), BUSY.1.lines().count());
    let refused = ask_for_source(&shop, "", &file);
    assert!(refused.contains("is not here: name the directory") && !shop.path("cache").exists(), "{refused}");
    assert_eq!(ask_for_source(&shop, &proxy, &file), shown);
    let all = cached(&shop);
    assert_eq!(std::fs::read(&all[0]).unwrap(), kept);
    let name = all[0].file_name().unwrap().to_str().unwrap();
    assert!(all.len() == 1 && name.starts_with("source-") && name.ends_with("#busy.c"), "{name}");
    assert_eq!(ask_for_source(&shop, "", &file), shown, "from the cache, without a server");

    // So is what debuginfod's own client has left.
    std::fs::remove_file(&all[0]).unwrap();
    std::fs::rename(old, all[0].with_file_name(format!("source{}", file.to_str().unwrap().replace('/', "##"))))
        .unwrap();
    assert_eq!(ask_for_source(&shop, "", &file), shown);
}

#[test]
fn hostile_sources_are_refused_or_made_safe() {
    if !are_installed(&["curl"]) {
        return;
    }
    let shop = Workshop::new();
    let (_, _, id) = stripped(&shop);
    let (url, requested) = serve(move |path, stream| match path.split('/').nth(1).unwrap() {
        "missing" => drop(stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")),
        "endless" => {
            let _ = stream.write_all(head(None).as_bytes());
            while stream.write_all(&[b'a'; 4096]).is_ok() {}
        }
        "huge" => drop(stream.write_all(head(Some(1 << 40)).as_bytes())),
        "local" => drop(stream.write_all(b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n")),
        "garbage" => drop(stream.write_all((head(None) + "\x1b[2J\0\u{202e}x\n").as_bytes())),
        "slow" => {
            let _ = stream.write_all(head(Some(1 << 20)).as_bytes());
            while stream.write_all(b"a").is_ok() {
                std::thread::sleep(Duration::from_millis(50));
            }
        }
        _ => drop(stream.read_to_end(&mut Vec::new())),
    });
    for (kind, words) in [
        ("missing", "it does not have it"),
        ("endless", "larger than 1 MB"),
        ("huge", "larger than 1 MB"),
        ("local", "(1) "),
        ("slow", "longer than 3 s"),
        ("silent", "longer than 3 s"),
    ] {
        let began = Instant::now();
        let said = ask_for_source(&shop, &format!("{url}/{kind}"), Path::new("/src/../a b?c#.c"));
        assert!(said.starts_with("REFUSED") && said.contains("debuginfod: ") && said.contains(words), "{kind}: {said}");
        assert_eq!(requested.recv().unwrap(), format!("/{kind}/buildid/{id}/source/src/../a%20b%3Fc%23.c"));
        assert!(began.elapsed() < Duration::from_secs(20), "{kind} took {:?}", began.elapsed());
        assert_eq!(cached(&shop), [] as [PathBuf; 0], "{kind}");
    }
    let said = ask_for_source(&shop, &format!("{url}/garbage"), Path::new("/src/a.c"));
    assert!(said.starts_with("SHOWN /src/a.c 1: ") && !said.contains(['\x1b', '\0']), "{said}");
    requested.recv().unwrap();
    // A server is asked for no relative path, and not by a program without a build id.
    assert!(ask_for_source(&shop, &url, Path::new("src/a.c")).contains("is not here: name the directory"));
    assert!(requested.try_recv().is_err());
}

#[test]
fn hostile_answers_are_thrown_away() {
    if !are_installed(&["curl"]) {
        return;
    }
    let shop = Workshop::new();
    let (app, _, id) = stripped(&shop);
    shop.build("gcc", BUSY, &["-O2", "-g", "-Wl,--build-id=sha1"], "other");
    shop.build("gcc", BUSY, &["-O2", "-g", "-Wl,--build-id=none"], "nameless");
    let (other, nameless) = (shop.path("other"), shop.path("nameless"));
    let (url, requested) = serve(move |path, stream| {
        let path = path.to_owned();
        let file = |path: &Path, stream: &mut TcpStream| {
            let bytes = std::fs::read(path).unwrap();
            let _ = stream.write_all(head(Some(bytes.len() as u64)).as_bytes());
            let _ = stream.write_all(&bytes);
        };
        let body = |size: Option<u64>, stream: &mut TcpStream| {
            let _ = stream.write_all(head(size).as_bytes());
            // Until the client has enough.
            while stream.write_all(&[0x7f; 4096]).is_ok() {}
        };
        match path.split('/').nth(1).unwrap() {
            "missing" => drop(stream.write_all(b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")),
            "broken" => drop(stream.write_all(b"HTTP/1.1 500 No\r\nContent-Length: 0\r\n\r\n")),
            "endless" => body(None, stream),
            "huge" => body(Some(1 << 40), stream),
            "garbage" => drop(stream.write_all((head(None) + "not an ELF file").as_bytes())),
            "empty" => drop(stream.write_all(head(Some(0)).as_bytes())),
            "other" => file(&other, stream),
            "nameless" => file(&nameless, stream),
            "local" => drop(stream.write_all(b"HTTP/1.1 302 Found\r\nLocation: file:///etc/passwd\r\n\r\n")),
            "slow" => {
                let _ = stream.write_all(head(Some(1 << 20)).as_bytes());
                while stream.write_all(b"\x7f").is_ok() {
                    std::thread::sleep(Duration::from_millis(50));
                }
            }
            // Nothing at all.
            _ => drop(stream.read_to_end(&mut Vec::new())),
        }
    });
    for (kind, words) in [
        ("missing", "it does not have it"),
        ("broken", "HTTP status 500"),
        ("endless", "larger than 1 MB"),
        ("huge", "larger than 1 MB"),
        ("garbage", "thrown away: a table lies outside of the file"),
        ("empty", "thrown away: a table lies outside of the file"),
        ("other", "thrown away: it has build id "),
        ("nameless", "thrown away: it has no build id"),
        ("local", "(1) "),
        ("slow", "longer than 3 s"),
        ("silent", "longer than 3 s"),
    ] {
        let server = format!("{url}/{kind}");
        let mut command = sigtop(&shop, &server, &["symbols", "--debuginfod", app.to_str().unwrap()]);
        command.env("DEBUGINFOD_MAXSIZE", "1048576").env("DEBUGINFOD_MAXTIME", "3");
        let began = Instant::now();
        let text = text(command.output().unwrap());
        assert_eq!(requested.recv().unwrap(), format!("/{kind}/buildid/{id}/debuginfo"));
        assert!(text.contains(&server) && text.contains(words), "{kind}: {text}");
        assert!(text.contains("debug file  none was found"), "{kind}: {text}");
        assert!(began.elapsed() < Duration::from_secs(20), "{kind} took {:?}", began.elapsed());
        assert_eq!(cached(&shop), [] as [PathBuf; 0], "{kind}");
    }

    // The second server is asked if the first does not have it; what is no server is not.
    let servers = format!("file:///etc {url}/missing {url}/broken");
    let text = text(sigtop(&shop, &servers, &["symbols", "--debuginfod", app.to_str().unwrap()]).output().unwrap());
    assert!(text.contains("it does not have it; ") && text.contains("HTTP status 500"), "{text}");
}

#[test]
fn a_missing_curl_or_server_is_said() {
    let shop = Workshop::new();
    let (app, ..) = stripped(&shop);
    let arguments = ["symbols", "--debuginfod", app.to_str().unwrap()];
    let said = text(sigtop(&shop, "http://127.0.0.1:1", &arguments).env("PATH", shop.path("")).output().unwrap());
    assert!(said.contains("the program curl is not installed"), "{said}");
    let refused = sigtop(&shop, "file:///etc", &arguments).output().unwrap();
    assert_eq!(refused.status.code(), Some(125));
    assert!(text(refused).contains("set DEBUGINFOD_URLS"));
}

/// On a terminal the progress is shown, and its line is clear again before the report begins. Once
/// the report began behind it.
#[test]
fn progress_is_cleared_before_the_report() {
    if !are_installed(&["curl", "script"]) {
        return;
    }
    let shop = Workshop::new();
    let (app, debug_file, _) = stripped(&shop);
    let recording = shop.path("app.sigtop").to_str().unwrap().to_owned();
    let arguments = ["record", "--no-config", "-o", &recording, "--", app.to_str().unwrap()];
    assert!(sigtop(&shop, "", &arguments).output().unwrap().status.success());
    let (go_on, waits) = channel::<()>();
    let waits = std::sync::Arc::new(std::sync::Mutex::new(waits));
    let bytes = std::fs::read(debug_file).unwrap();
    let (url, _requested) = serve(move |_, stream| {
        // Until the progress was seen.
        let _ = waits.lock().unwrap().recv();
        let _ = stream.write_all(&[head(Some(bytes.len() as u64)).as_bytes(), &bytes].concat());
    });
    let report = format!("{} report --no-config --debuginfod {recording}", env!("CARGO_BIN_EXE_sigtop"));
    let mut script = Command::new("script");
    script.args(["-qec", &report, "/dev/null"]).env("DEBUGINFOD_URLS", url);
    script.env("DEBUGINFOD_CACHE_PATH", shop.path("cache")).stdin(Stdio::null()).stdout(Stdio::piped());
    let mut script = Started(script.spawn().unwrap());
    let mut screen = script.0.stdout.take().unwrap();
    let (mut shown, mut chunk) = (Vec::new(), [0; 4096]);
    while !String::from_utf8_lossy(&shown).contains("sigtop: downloading debug information of ") {
        let count = screen.read(&mut chunk).unwrap();
        assert!(count > 0, "{}", String::from_utf8_lossy(&shown));
        shown.extend_from_slice(&chunk[..count]);
    }
    // A second request, for files other than the program, is answered at once.
    drop(go_on);
    screen.read_to_end(&mut shown).unwrap();
    let shown = String::from_utf8_lossy(&shown).into_owned();
    let before = shown.split("File: app").next().unwrap();
    assert!(before.len() < shown.len() && before.ends_with("\r\x1b[K"), "{shown:?}");
}

/// Waits for the end of a process that is killed if it outlives the test.
struct Started(Child);

impl Drop for Started {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

#[test]
fn a_download_ends_with_sigtop() {
    if !are_installed(&["curl"]) {
        return;
    }
    let shop = Workshop::new();
    let (app, ..) = stripped(&shop);
    let (closed, is_closed) = channel();
    let (url, requested) = serve(move |_, stream| {
        let _ = stream.write_all(head(Some(1 << 30)).as_bytes());
        // One byte, and then nothing: whoever reads does not learn that sigtop is gone.
        let _ = stream.write_all(b"\x7f");
        let _ = stream.read(&mut [0]);
        let _ = closed.send(());
    });
    let null = || OpenOptions::new().write(true).open("/dev/null").unwrap();
    let output = shop.path("out.sigtop");
    let arguments = ["record", "--no-config", "--debuginfod", "-o", output.to_str().unwrap(), "--"];
    let mut command =
        sigtop(&shop, &url, &[&arguments[..], &["sh", "-c", "\"$0\"; sleep 100", app.to_str().unwrap()]].concat());
    let recorder = Started(command.stdin(Stdio::null()).stdout(null()).stderr(null()).spawn().unwrap());
    requested.recv_timeout(Duration::from_secs(30)).expect("the server is asked while the program runs");
    let own = recorder.0.id().to_string();
    assert!(Command::new("kill").args(["-INT", &own]).status().unwrap().success());
    is_closed.recv_timeout(Duration::from_secs(30)).expect("curl was killed");
}
