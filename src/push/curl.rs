//! Sends requests by the program `curl`, so that sigtop needs no TLS library: those of Rust need a
//! C compiler to build, or are young. `curl` has the proxies and the certificates of the system.
//!
//! Its options, which have credentials, come on its standard input, and the body in a file in
//! memory, so that other users see neither in a list of processes or in a directory.

use std::fs::File;
use std::io::{self, ErrorKind, Read, Seek, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use command_fds::{CommandFdExt, FdMapping};
use nix::sys::memfd::{MFdFlags, memfd_create};

use super::headers::VARIABLES;
use super::parts::PushPart;
use super::request::StoreRequest;
use super::response::{RequestOutcome, Response};
use super::store::{Store, StoreKind};
use super::{datadog, otlp, parca, pyroscope};
use crate::symbols::sanitize::sanitize;

/// The descriptor of the body.
const BODY: i32 = 3;
/// Maximum time to connect.
const MAX_CONNECT: Duration = Duration::from_secs(5);
/// Maximum time of a request.
const MAX_REQUEST: Duration = Duration::from_secs(30);
/// Maximum size of a response that is read.
const MAX_RESPONSE: u64 = 64 << 10;
/// Maximum size of an error message that is read.
const MAX_ERROR: u64 = 4 << 10;
/// Exit statuses of `curl`: the certificate is not trusted, or the file of authorities is no such.
const UNTRUSTED: [i32; 2] = [60, 77];
/// Maximum length of an error message that is shown, in characters.
const MAX_MESSAGE: usize = 200;

/// Sends one request at a time.
#[derive(Debug, Default)]
pub struct Curl(Mutex<CurlProcess>);

#[derive(Debug, Default)]
struct CurlProcess {
    child: Option<Child>,
    is_stopped: bool,
}

impl Curl {
    /// Sends a part to a store, and waits for the result.
    pub fn send(&self, store: &Store, part: &PushPart) -> RequestOutcome {
        let request = encode(store, part);
        match self.post(store, &request) {
            Ok(CurlRun { response, .. }) if response.is_some() => {
                response.unwrap_or_default().outcome(store.kind, SystemTime::now())
            }
            Ok(CurlRun { error, is_untrusted: true, .. }) => RequestOutcome::Refused(error),
            Ok(CurlRun { error, .. }) => RequestOutcome::Retry(None, error),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                RequestOutcome::Refused("the program curl is not installed, and sigtop needs it to push".to_owned())
            }
            Err(error) => RequestOutcome::Retry(None, format!("curl cannot be started: {error}")),
        }
    }

    /// Kills the current request and refuses all later ones.
    pub fn stop(&self) {
        self.lock().is_stopped = true;
        self.end(true);
    }

    fn lock(&self) -> MutexGuard<'_, CurlProcess> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits for the process after it was killed or has closed its output. Returns its status.
    fn end(&self, kill: bool) -> Option<i32> {
        let mut child = self.lock().child.take()?;
        if kill {
            // This fails only if it has ended.
            let _ = child.kill();
        }
        child.wait().ok()?.code()
    }

    fn post(&self, store: &Store, request: &StoreRequest) -> io::Result<CurlRun> {
        let mut body = File::from(memfd_create("sigtop-push", MFdFlags::MFD_CLOEXEC)?);
        body.write_all(&request.body)?;
        body.rewind()?;
        let mut command = Command::new("curl");
        // The first option makes it ignore the user's .curlrc.
        command.args(["--disable", "--config", "-"]);
        for variable in VARIABLES {
            command.env_remove(variable);
        }
        // Ctrl-C ends the program that is profiled, and its last samples are sent after that.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let body = FdMapping { parent_fd: body.into(), child_fd: BODY };
        command.fd_mappings(vec![body]).map_err(io::Error::other)?;
        let mut process = self.lock();
        if process.is_stopped {
            return Ok(CurlRun { response: None, error: "it was stopped".to_owned(), is_untrusted: false });
        }
        let mut child = command.spawn()?;
        let (input, out, err) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        process.child = Some(child);
        drop(process);
        // A failure shows in its answer.
        let _ = input.map(|mut input| input.write_all(options(store, request).as_bytes()));
        let read = |from: &mut dyn Read, limit: u64| {
            let mut bytes = Vec::new();
            // What came before a failure counts.
            let _ = from.take(limit).read_to_end(&mut bytes);
            bytes
        };
        let response = out.map(|mut out| read(&mut out, MAX_RESPONSE)).unwrap_or_default();
        let error = match response.len() as u64 {
            // It goes on writing what nothing reads.
            MAX_RESPONSE => Vec::new(),
            _ => err.map(|mut err| read(&mut err, MAX_ERROR)).unwrap_or_default(),
        };
        let status = self.end(response.len() as u64 == MAX_RESPONSE);
        let error = String::from_utf8_lossy(&error);
        let error = error.lines().rev().find_map(|line| line.strip_prefix("curl: ")).unwrap_or("no answer");
        // Its own number of the error, in parentheses, says nothing to others.
        let error = error.split_once(") ").filter(|_| error.starts_with('(')).map_or(error, |(_, words)| words);
        let error = sanitize(&error.chars().take(MAX_MESSAGE).collect::<String>());
        let is_untrusted = status.is_some_and(|status| UNTRUSTED.contains(&status));
        Ok(CurlRun { response: Response::parse(&response), error, is_untrusted })
    }
}

/// Encodes the request for one part.
fn encode(store: &Store, part: &PushPart) -> StoreRequest {
    let Store { kind, url, service, labels, .. } = store;
    match kind {
        StoreKind::Otlp => otlp::request(url, service, labels, part),
        StoreKind::Pyroscope => pyroscope::request(url, service, labels, part),
        StoreKind::Parca => parca::request(url, service, labels, part),
        StoreKind::Datadog => datadog::request(url, service, labels, part),
    }
}

/// The result of one run of `curl`: the response, or the reason why there is none.
struct CurlRun {
    response: Option<Response>,
    error: String,
    /// Whether the server's certificate is not trusted.
    is_untrusted: bool,
}

/// The file of options for one request.
fn options(store: &Store, request: &StoreRequest) -> String {
    let mut options = String::from(
        "silent\nshow-error\ngloboff\npath-as-is\ninclude\nsuppress-connect-headers\nproto = \"=http,https\"\n",
    );
    let mut set = |option: &str, value: &str| options += &format!("{option} = \"{}\"\n", quote(value));
    set("connect-timeout", &MAX_CONNECT.as_secs().to_string());
    set("max-time", &MAX_REQUEST.as_secs().to_string());
    set("user-agent", concat!("sigtop/", env!("CARGO_PKG_VERSION")));
    set("header", &format!("Content-Type: {}", request.content_type));
    if request.is_gzipped {
        set("header", "Content-Encoding: gzip");
    }
    // It would wait a second for permission to send a large body.
    set("header", "Expect:");
    for (name, value) in store.headers.iter() {
        // Without a value, curl takes a semicolon for the colon.
        set("header", &if value.is_empty() { format!("{name};") } else { format!("{name}: {value}") });
    }
    if let Some(authorities) = &store.authorities {
        set("cacert", &authorities.to_string_lossy());
    }
    set("data-binary", &format!("@/dev/fd/{BODY}"));
    set("url", &request.url);
    options
}

/// Quotes a value for a file of options. No value has a line break.
fn quote(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::headers::RequestHeaders;

    #[test]
    fn values_cannot_add_options() {
        let mut store = Store::new("http://a", None).expect("a store");
        let mut headers = RequestHeaders::default();
        headers.add_from_variable("V", "a=\"%22x\\").expect("headers");
        store.set_credentials(headers, None);
        let request = StoreRequest {
            url: "http://a/\"b".to_owned(),
            content_type: String::new(),
            is_gzipped: false,
            body: Vec::new(),
        };
        let options = options(&store, &request);
        assert!(options.contains("header = \"a: \\\"\\\"x\\\\\"\n"), "{options}");
        assert!(options.ends_with("url = \"http://a/\\\"b\"\n"), "{options}");
    }
}
