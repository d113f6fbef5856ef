//! An HTTP server that keeps what it receives and answers what a test says.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

/// The longest that a test waits for a request.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A request that was received.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// The first line, such as `POST /ingest HTTP/1.1`.
    pub(crate) line: String,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

impl Received {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }
}

/// An answer with this status and body.
pub(crate) fn answer(status: &str, body: &str) -> String {
    format!("HTTP/1.1 {status}\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}", body.len())
}

/// Reads a request with its body.
fn receive(stream: &TcpStream) -> Option<Received> {
    let mut from = BufReader::new(stream);
    let mut lines = Vec::new();
    loop {
        let mut line = String::new();
        from.read_line(&mut line).ok().filter(|&bytes| bytes > 0)?;
        match line.trim_end() {
            "" => break,
            line => lines.push(line.to_owned()),
        }
    }
    let headers = lines.iter().skip(1).filter_map(|line| line.split_once(": "));
    let headers: Vec<(String, String)> = headers.map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    let mut received = Received { line: lines.first()?.clone(), headers, body: Vec::new() };
    let length = received.header("Content-Length")?.parse().ok()?;
    from.take(length).read_to_end(&mut received.body).ok()?;
    Some(received)
}

/// Starts a server. `respond` gets the number of earlier requests, the request and the connection.
/// Returns its URL without a path, and the requests.
pub(crate) fn serve(
    mut respond: impl FnMut(usize, &Received, &mut TcpStream) + Send + 'static,
) -> (String, Receiver<Received>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let (requests, received) = channel();
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let Ok(mut stream) = stream else { continue };
            let Some(request) = receive(&stream) else { continue };
            // A client that has its answer may end, and the test then reads what was received.
            if requests.send(request.clone()).is_err() {
                return;
            }
            respond(number, &request, &mut stream);
        }
    });
    (url, received)
}

/// Starts a server that accepts everything.
pub(crate) fn accept_all() -> (String, Receiver<Received>) {
    serve(|_, _, stream| drop(stream.write_all(answer("200 OK", "").as_bytes())))
}

/// A profile that is in the repository.
pub(crate) fn profile(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profiles").join(name)
}

/// `sigtop` without the user's settings.
pub(crate) fn sigtop(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sigtop"));
    command.args(arguments);
    for variable in ["OTEL_EXPORTER_OTLP_HEADERS", "http_proxy", "https_proxy", "all_proxy", "DEBUGINFOD_URLS"] {
        command.env_remove(variable);
    }
    command
}

/// Pushes a file. Returns the exit status and what is printed.
pub(crate) fn push(file: &Path, url: &str, options: &[&str]) -> (i32, String) {
    let file = file.to_str().expect("UTF-8");
    let arguments = [&["push", "--no-config", file, url], options].concat();
    let output = sigtop(&arguments).output().expect("sigtop runs");
    assert_eq!(output.stdout, b"", "nothing is printed to stdout");
    (output.status.code().expect("not killed"), String::from_utf8(output.stderr).expect("text"))
}

/// Unpacks a gzipped body.
pub(crate) fn gunzip(body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    flate2::read::GzDecoder::new(body).read_to_end(&mut bytes).expect("gzip");
    bytes
}
