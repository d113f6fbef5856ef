//! A profile that a server makes: `http://host:6060/debug/pprof/profile?seconds=5`, fetched with one GET and read like a file. It is
//! HTTP/1.1 in the clear, as such servers speak it to their own machine; for anything else there is curl.

use std::fmt;
use std::io::{self, BufRead, BufReader, Read, Take, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::Duration;

/// To find a server, for each of its addresses.
const CONNECT: Duration = Duration::from_secs(10);
/// Beyond the seconds that the profile takes: between two pieces of the answer, at most.
const PATIENCE: Duration = Duration::from_secs(60);
/// Seconds that a profile takes, at most: a day.
const MAX_SECONDS: u64 = 24 * 60 * 60;
/// Seconds that a server takes for a profile when nobody says.
const USUAL_SECONDS: u64 = 30;
/// Bytes of the head of an answer, and of the words of a refusal.
const MAX_HEAD: u64 = 64 << 10;
const MAX_WORDS: u64 = 200;
/// From one address to the next, at most.
const MAX_REDIRECTS: usize = 5;

/// Why nothing was fetched.
#[derive(Debug)]
pub enum FetchError {
    /// It is spoken otherwise there.
    Https,
    /// It is no address of a server.
    Address(&'static str),
    /// Nobody answers.
    Connect(io::Error),
    /// It broke off.
    Broken(io::Error),
    /// The server does not speak HTTP.
    Nonsense(&'static str),
    /// The server refuses: its status, and its words.
    Refused(String),
}

impl fmt::Display for FetchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FetchError::Https => write!(f, "https is not spoken here: curl -o a.pb.gz URL, and then name a.pb.gz"),
            FetchError::Address(why) => write!(f, "{why}; it is http://HOST:PORT/PATH?seconds=N"),
            FetchError::Connect(error) => write!(f, "nobody answers: {error}"),
            FetchError::Broken(error) => write!(f, "the answer broke off: {error}"),
            FetchError::Nonsense(what) => write!(f, "the server does not speak HTTP: {what}"),
            FetchError::Refused(words) => write!(f, "the server says: {words}"),
        }
    }
}

impl std::error::Error for FetchError {}

/// Whether a name is to be fetched.
pub fn is_address(name: &str) -> bool {
    name.starts_with("http://") || name.starts_with("https://")
}

/// The parts of an address.
struct Address<'a> {
    /// With the port.
    host: String,
    /// As the server is to know itself.
    authority: &'a str,
    path: String,
}

impl Address<'_> {
    fn new(url: &str) -> Result<Address<'_>, FetchError> {
        if url.starts_with("https://") {
            return Err(FetchError::Https);
        }
        let rest = url.strip_prefix("http://").ok_or(FetchError::Address("it is no address"))?;
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.is_empty() || authority.contains('@') {
            return Err(FetchError::Address("it names no server, or a user"));
        }
        if rest.bytes().any(|byte| byte <= b' ' || byte >= 0x7f) {
            return Err(FetchError::Address("there is a character in it that is to be written as %XX"));
        }
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let host = if has_port { authority.to_owned() } else { format!("{authority}:80") };
        let path = match path {
            "" | "/" => format!("/debug/pprof/profile?seconds={USUAL_SECONDS}"),
            path if path.starts_with('?') => format!("/{path}"),
            path => path.to_owned(),
        };
        Ok(Address { host, authority, path })
    }

    /// How long the server takes.
    fn seconds(&self) -> u64 {
        let query = self.path.split_once('?').map_or("", |(_, query)| query);
        let said = query.split('&').find_map(|part| part.strip_prefix("seconds="));
        said.and_then(|seconds| seconds.parse::<f64>().ok()).map_or(USUAL_SECONDS, |seconds| seconds.ceil() as u64)
    }

    fn connect(&self) -> Result<TcpStream, FetchError> {
        let mut failed = None;
        for address in self.host.to_socket_addrs().map_err(FetchError::Connect)? {
            match TcpStream::connect_timeout(&address, CONNECT) {
                Ok(stream) => return Ok(stream),
                Err(error) => failed = Some(error),
            }
        }
        Err(FetchError::Connect(failed.unwrap_or_else(|| io::ErrorKind::NotFound.into())))
    }
}

type Answer = BufReader<TcpStream>;

/// What an answer's head says of its body.
#[derive(Default)]
struct Head {
    status: u16,
    reason: String,
    length: Option<u64>,
    is_chunked: bool,
    location: Option<String>,
}

/// The bytes of a profile, as the server sends them.
///
/// # Errors
/// Why there are none.
pub fn fetch(url: &str) -> Result<Box<dyn Read + Send>, FetchError> {
    let mut url = url.to_owned();
    for _ in 0..=MAX_REDIRECTS {
        let (head, mut body) = ask(&Address::new(&url)?)?;
        match (head.status, head.location) {
            (200, _) => return Ok(body),
            (301 | 302 | 303 | 307 | 308, Some(location)) => {
                url = if location.starts_with('/') {
                    format!("http://{}{location}", Address::new(&url)?.authority)
                } else {
                    location
                };
            }
            (status, _) => {
                let mut words = Vec::new();
                // A refusal without words is one too.
                let _ = body.by_ref().take(MAX_WORDS).read_to_end(&mut words);
                let words = String::from_utf8_lossy(&words);
                let words = words.lines().next().unwrap_or_default().replace(char::is_control, " ");
                let words = if words.is_empty() { String::new() } else { format!(": {words}") };
                return Err(FetchError::Refused(format!("{status} {}{words}", head.reason)));
            }
        }
    }
    Err(FetchError::Nonsense("it sends us from one address to the next"))
}

fn ask(address: &Address<'_>) -> Result<(Head, Box<dyn Read + Send>), FetchError> {
    let stream = address.connect()?;
    let patience = PATIENCE + Duration::from_secs(address.seconds().min(MAX_SECONDS));
    stream.set_read_timeout(Some(patience)).map_err(FetchError::Broken)?;
    stream.set_write_timeout(Some(PATIENCE)).map_err(FetchError::Broken)?;
    let (path, authority, version) = (&address.path, address.authority, env!("CARGO_PKG_VERSION"));
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: sigtop/{version}\r\nAccept: */*\r\n\
         Accept-Encoding: identity\r\nConnection: close\r\n\r\n"
    );
    (&stream).write_all(request.as_bytes()).map_err(FetchError::Broken)?;
    let mut answer = BufReader::new(stream);
    let head = head(&mut answer)?;
    let body: Box<dyn Read + Send> = match head.length {
        _ if head.is_chunked => Box::new(Chunks { answer, left: 0, is_begun: false, is_over: false }),
        Some(length) => Box::new(Whole(answer.take(length))),
        None => Box::new(answer),
    };
    Ok((head, body))
}

fn head(answer: &mut Answer) -> Result<Head, FetchError> {
    let mut lines = answer.by_ref().take(MAX_HEAD);
    let mut line = || -> Result<String, FetchError> {
        let mut line = Vec::new();
        lines.read_until(b'\n', &mut line).map_err(FetchError::Broken)?;
        match line.pop() {
            Some(b'\n') => Ok(String::from_utf8_lossy(&line).trim_end().to_owned()),
            _ => Err(FetchError::Nonsense("the head of its answer does not end")),
        }
    };
    let first = line()?;
    let mut words = first.splitn(3, ' ');
    let is_http = words.next().is_some_and(|version| version.starts_with("HTTP/1."));
    let status = words.next().and_then(|status| status.parse().ok()).filter(|_| is_http);
    let status = status.ok_or(FetchError::Nonsense("its answer has no status"))?;
    let reason = words.next().unwrap_or_default().replace(char::is_control, " ");
    let mut head = Head { status, reason, ..Head::default() };
    loop {
        let line = line()?;
        if line.is_empty() {
            return Ok(head);
        }
        let Some((name, value)) = line.split_once(':') else { continue };
        let value = value.trim();
        match name.to_ascii_lowercase().as_str() {
            "content-length" => {
                let wrong = |_| FetchError::Nonsense("its length is no number");
                head.length = Some(value.parse().map_err(wrong)?);
            }
            "transfer-encoding" => head.is_chunked = value.to_ascii_lowercase().ends_with("chunked"),
            "location" => head.location = Some(value.to_owned()),
            _ => {}
        }
    }
}

/// A body whose length was said.
struct Whole(Take<Answer>);

impl Read for Whole {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let count = self.0.read(buffer)?;
        if count == 0 && !buffer.is_empty() && self.0.limit() > 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        Ok(count)
    }
}

/// A body in pieces, each with its length before it.
struct Chunks {
    answer: Answer,
    /// Of the piece at hand.
    left: u64,
    is_begun: bool,
    is_over: bool,
}

impl Chunks {
    fn line(&mut self) -> io::Result<String> {
        const MAX_LINE: u64 = 1024;
        let mut line = Vec::new();
        self.answer.by_ref().take(MAX_LINE).read_until(b'\n', &mut line)?;
        match line.pop() {
            Some(b'\n') => Ok(String::from_utf8_lossy(&line).trim().to_owned()),
            _ => Err(io::ErrorKind::UnexpectedEof.into()),
        }
    }

    fn next(&mut self) -> io::Result<()> {
        let wrong = |what: &str| io::Error::other(format!("{what} of a piece of the answer"));
        if self.is_begun && !self.line()?.is_empty() {
            return Err(wrong("something stands behind the end"));
        }
        self.is_begun = true;
        let line = self.line()?;
        let digits = line.split(';').next().unwrap_or_default().trim();
        self.left = u64::from_str_radix(digits, 16).map_err(|_| wrong("no number is the length"))?;
        self.is_over = self.left == 0;
        Ok(())
    }
}

impl Read for Chunks {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.left == 0 && !self.is_over {
            self.next()?;
        }
        let most = buffer.len().min(usize::try_from(self.left).unwrap_or(usize::MAX));
        if self.is_over || most == 0 {
            return Ok(0);
        }
        let count = self.answer.read(&mut buffer[..most])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        self.left -= count as u64;
        Ok(count)
    }
}
