//! Transfers one file over HTTP by the program `curl`, so that sigtop needs no TLS library. The
//! server is not trusted: size and time are limited here, whatever `curl` does. A transfer ends
//! with sigtop: [`RunningTransfer::stop`] kills it, and a pipe without a reader ends it, too.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::AsFd;
use std::process::{Child, ChildStderr, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};

use super::sanitize::sanitize;

/// Interval at which the time limit is checked.
const POLL_MS: u16 = 100;
/// Maximum size of headers and messages that is kept.
const MAX_TEXT_BYTES: usize = 64 << 10;
const CHUNK_BYTES: usize = 64 << 10;
/// Maximum time to connect, in seconds.
const MAX_CONNECT_SECONDS: u64 = 10;
/// Bytes per second below which a transfer counts as stalled.
const STALLED_BYTES_PER_SECOND: &str = "1000";
/// Maximum length of a message of `curl` that is shown, in characters.
const MAX_MESSAGE: usize = 200;

/// The limits of one transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct TransferLimits {
    /// Maximum size.
    pub(super) bytes: u64,
    /// Maximum time.
    pub(super) time: Duration,
    /// Maximum time during which next to nothing arrives.
    pub(super) stall: Duration,
}

/// The reason why a transfer failed.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct TransferError {
    /// A part of a sentence.
    pub(super) message: String,
    /// Whether another request to the same server would fail in the same way.
    pub(super) is_server_down: bool,
}

impl TransferError {
    fn new(message: impl Into<String>) -> TransferError {
        TransferError { message: message.into(), is_server_down: false }
    }
}

/// The process of the current transfer.
#[derive(Debug, Default)]
pub(super) struct RunningTransfer(Mutex<TransferProcess>);

#[derive(Debug, Default)]
struct TransferProcess {
    child: Option<Child>,
    is_stopped: bool,
}

impl RunningTransfer {
    fn lock(&self) -> MutexGuard<'_, TransferProcess> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Kills the current transfer and refuses all later ones.
    pub(super) fn stop(&self) {
        self.lock().is_stopped = true;
        self.kill();
    }

    fn kill(&self) {
        if let Some(mut child) = self.lock().child.take() {
            // This fails only if it has ended.
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    fn start(&self, mut command: Command) -> Result<(ChildStdout, ChildStderr), TransferError> {
        let mut process = self.lock();
        if process.is_stopped {
            return Err(TransferError::new("downloads were stopped"));
        }
        let child = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
        let mut child = child.map_err(|error| TransferError {
            message: match error.kind() {
                ErrorKind::NotFound => "the program curl is not installed, and sigtop needs it to download".to_owned(),
                _ => format!("curl cannot be started: {error}"),
            },
            is_server_down: true,
        })?;
        let streams = (child.stdout.take().expect("a pipe"), child.stderr.take().expect("a pipe"));
        process.child = Some(child);
        Ok(streams)
    }

    /// Waits for the end of the process; `None` if it was stopped.
    fn wait(&self) -> Option<ExitStatus> {
        let child = self.lock().child.take();
        child.and_then(|mut child| child.wait().ok())
    }
}

/// Transfers what is at `url` into a file. `report` gets the bytes so far and, if the server says
/// it, the size.
pub(super) fn transfer(
    url: &str,
    into: &mut File,
    limits: TransferLimits,
    running: &RunningTransfer,
    report: impl FnMut(u64, Option<u64>),
) -> Result<(), TransferError> {
    let (out, text) = running.start(curl(url, limits))?;
    let mut exchange = Exchange { out: Some(out), text: Some(text), said: Vec::new(), bytes: 0 };
    let received = exchange.receive(into, limits, report);
    if received.is_err() {
        running.kill();
    }
    received?;
    let status = running.wait().ok_or_else(|| TransferError::new("it was stopped"))?;
    if status.success() { Ok(()) } else { Err(explain(status.code(), &exchange, limits)) }
}

fn curl(url: &str, limits: TransferLimits) -> Command {
    let mut command = Command::new("curl");
    // The first option makes it ignore the user's .curlrc, which may print into the output.
    command.args([
        "--disable",
        "--silent",
        "--show-error",
        "--fail",
        "--globoff",
        "--path-as-is",
        "--location",
        "--max-redirs",
        "5",
    ]);
    command.args(["--proto", "=http,https", "--proto-redir", "=http,https", "--speed-limit", STALLED_BYTES_PER_SECOND]);
    let connect = limits.stall.as_secs().clamp(1, MAX_CONNECT_SECONDS);
    for (option, value) in [
        ("--connect-timeout", connect),
        ("--speed-time", limits.stall.as_secs().max(1)),
        ("--max-time", limits.time.as_secs().max(1)),
        ("--max-filesize", limits.bytes),
    ] {
        command.arg(option).arg(value.to_string());
    }
    let agent = concat!("sigtop/", env!("CARGO_PKG_VERSION"));
    command.args(["--user-agent", agent, "--dump-header", "/dev/stderr", "--output", "-", "--url", url]);
    command
}

/// The pipes from `curl`: the file, and headers and messages.
struct Exchange {
    out: Option<ChildStdout>,
    text: Option<ChildStderr>,
    said: Vec<u8>,
    bytes: u64,
}

impl Exchange {
    /// Reads both pipes to their ends.
    fn receive(
        &mut self,
        into: &mut File,
        limits: TransferLimits,
        mut report: impl FnMut(u64, Option<u64>),
    ) -> Result<(), TransferError> {
        let started = Instant::now();
        let mut chunk = vec![0; CHUNK_BYTES];
        while self.out.is_some() || self.text.is_some() {
            if started.elapsed() > limits.time {
                return Err(TransferError { message: timed_out(limits), is_server_down: self.said.is_empty() });
            }
            let (is_out_ready, is_text_ready) = self.poll();
            if is_text_ready {
                let count = self.text.as_mut().map_or(0, |pipe| pipe.read(&mut chunk).unwrap_or(0));
                let room = MAX_TEXT_BYTES.saturating_sub(self.said.len());
                self.said.extend_from_slice(&chunk[..count.min(room)]);
                self.text = self.text.take().filter(|_| count > 0);
            }
            if is_out_ready {
                let count = self.out.as_mut().map_or(0, |pipe| pipe.read(&mut chunk).unwrap_or(0));
                self.bytes += count as u64;
                if self.bytes > limits.bytes {
                    return Err(TransferError::new(too_large(limits)));
                }
                let written = into.write_all(&chunk[..count]);
                written.map_err(|error| TransferError::new(format!("the cache cannot be written: {error}")))?;
                self.out = self.out.take().filter(|_| count > 0);
                report(self.bytes, Headers::parse(&self.said).size);
            }
        }
        Ok(())
    }

    /// Waits until one of the pipes can be read, and returns which.
    fn poll(&self) -> (bool, bool) {
        let out = self.out.as_ref().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN));
        let text = self.text.as_ref().map(|pipe| PollFd::new(pipe.as_fd(), PollFlags::POLLIN));
        let has_out = out.is_some();
        let mut fds: Vec<PollFd<'_>> = out.into_iter().chain(text).collect();
        // An interrupted call counts as one in which nothing came.
        if !poll(&mut fds, PollTimeout::from(POLL_MS)).is_ok_and(|ready| ready > 0) {
            return (false, false);
        }
        let is_ready = |index: usize| fds.get(index).is_some_and(|fd| fd.any().unwrap_or(true));
        (has_out && is_ready(0), is_ready(usize::from(has_out)))
    }
}

/// The status and the size in the headers of the last response.
#[derive(Debug, Default, PartialEq, Eq)]
struct Headers {
    status: Option<u16>,
    size: Option<u64>,
}

impl Headers {
    fn parse(text: &[u8]) -> Headers {
        let mut headers = Headers::default();
        for line in text.split(|&byte| byte == b'\n') {
            let Ok(line) = std::str::from_utf8(line) else { continue };
            if line.starts_with("HTTP/") {
                // Headers of a redirection come first.
                headers = Headers {
                    status: line.split_ascii_whitespace().nth(1).and_then(|code| code.parse().ok()),
                    size: None,
                };
            } else if let Some((name, value)) = line.split_once(':') {
                let is_size =
                    ["content-length", "x-debuginfod-size"].iter().any(|size| name.eq_ignore_ascii_case(size));
                headers.size = headers.size.or_else(|| value.trim().parse().ok().filter(|_| is_size));
            }
        }
        headers
    }
}

fn too_large(limits: TransferLimits) -> String {
    format!("it is larger than {} MB, the limit (DEBUGINFOD_MAXSIZE)", limits.bytes >> 20)
}

fn timed_out(limits: TransferLimits) -> String {
    format!("it took longer than {} s, the limit (DEBUGINFOD_MAXTIME)", limits.time.as_secs())
}

/// Says why `curl` failed. See EXIT CODES in its manual page.
fn explain(code: Option<i32>, exchange: &Exchange, limits: TransferLimits) -> TransferError {
    let text = String::from_utf8_lossy(&exchange.said);
    let said = text.lines().rev().find_map(|line| line.strip_prefix("curl: ")).unwrap_or("curl failed");
    let message = match (code, Headers::parse(&exchange.said).status) {
        (Some(22), Some(404)) => "it does not have it".to_owned(),
        (Some(22), Some(status)) => format!("HTTP status {status}"),
        (Some(63), _) => too_large(limits),
        (Some(28), _) if said.contains("Operation timed out") => timed_out(limits),
        _ => sanitize(&said.chars().take(MAX_MESSAGE).collect::<String>()),
    };
    // No proxy, no such host, no connection, no TLS connection, a certificate that is refused; or
    // silence.
    let is_server_down =
        matches!(code, Some(5..=7 | 35 | 60)) || code == Some(28) && exchange.said.starts_with(b"curl: ");
    TransferError { message, is_server_down }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn size_and_status_are_those_of_the_last_response() {
        let text =
            b"HTTP/1.1 302 Found\r\nContent-Length: 9\r\n\r\nHTTP/2 200\r\nx-debuginfod-size: 70\r\n\r\ncurl: (18) x\n";
        assert_eq!(Headers::parse(text), Headers { status: Some(200), size: Some(70) });
        assert_eq!(Headers::parse(b"\xff\nHTTP/x\ncontent-length: -1"), Headers::default());
    }
}
