//! The meaning of a server's answer: what was delivered, what may be tried again and when, and what
//! never succeeds.

use std::time::{Duration, SystemTime};

use jiff::Timestamp;
use jiff::fmt::rfc2822;

use super::otlp;
use super::store::StoreKind;
use crate::symbols::sanitize::sanitize;

/// Maximum time that a server may make a request wait.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(300);
/// Maximum length of a server's message that is shown, in characters.
const MAX_MESSAGE: usize = 200;

/// The result of one request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RequestOutcome {
    /// The store has it.
    Delivered,
    /// It may succeed later: not before this time has passed, if the server says one.
    Retry(Option<Duration>, String),
    /// It is too large for the server.
    TooLarge(String),
    /// It never succeeds.
    Refused(String),
}

/// An HTTP response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u16,
    /// The names and values of the headers.
    headers: Vec<(String, String)>,
    /// The body, or its beginning.
    body: Vec<u8>,
}

impl Response {
    /// Parses a response with its headers. Interim ones (`100 Continue`) are skipped; `None` if it
    /// is not HTTP.
    pub(super) fn parse(mut bytes: &[u8]) -> Option<Response> {
        loop {
            let (head, body) = split_head(bytes)?;
            let head = String::from_utf8_lossy(head);
            let mut lines = head.lines();
            let status = lines.next()?.strip_prefix("HTTP/")?.split(' ').nth(1)?.parse().ok()?;
            if (100..200).contains(&status) {
                bytes = body;
                continue;
            }
            let headers = lines.filter_map(|line| line.split_once(':'));
            let headers = headers.map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned())).collect();
            return Some(Response { status, headers, body: body.to_vec() });
        }
    }

    fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
    }

    /// The time that the server asks to wait. A date counts from the server's own time, or from
    /// `now` if it does not say that.
    fn retry_after(&self, now: SystemTime) -> Option<Duration> {
        let text = self.header("Retry-After")?;
        let wait = match text.parse() {
            Ok(seconds) => Duration::from_secs(seconds),
            Err(_) => {
                let parse = |date: &str| Some(rfc2822::parse(date).ok()?.timestamp());
                let now = self.header("Date").and_then(parse).or_else(|| Timestamp::try_from(now).ok())?;
                Duration::try_from(parse(text)?.duration_since(now)).unwrap_or_default()
            }
        };
        Some(wait.min(MAX_RETRY_AFTER))
    }

    /// The first line of a message in the body, safe to print.
    fn message(&self) -> String {
        let text = String::from_utf8_lossy(&self.body);
        let line = text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default();
        sanitize(&line.chars().take(MAX_MESSAGE).collect::<String>())
    }

    /// The meaning for a request to this kind of store. `now` is the time in UTC.
    pub fn outcome(&self, kind: StoreKind, now: SystemTime) -> RequestOutcome {
        let why = || match self.message() {
            message if message.is_empty() || kind == StoreKind::Otlp => format!("HTTP status {}", self.status),
            message => format!("HTTP status {}: {message}", self.status),
        };
        match self.status {
            200..=299 if kind == StoreKind::Otlp => match otlp::rejected(&self.body) {
                Ok((count, reason)) if count > 0 => {
                    RequestOutcome::Refused(format!("the collector rejected it: {}", sanitize(&reason)))
                }
                _ => RequestOutcome::Delivered,
            },
            200..=299 => RequestOutcome::Delivered,
            413 => RequestOutcome::TooLarge(why()),
            408 | 429 | 502..=504 => RequestOutcome::Retry(self.retry_after(now), why()),
            // By the specification of OTLP, no other status may be tried again.
            500..=599 if kind != StoreKind::Otlp => RequestOutcome::Retry(self.retry_after(now), why()),
            _ => RequestOutcome::Refused(why()),
        }
    }
}

/// Splits a response at the first empty line.
fn split_head(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let at = |end: &[u8]| bytes.windows(end.len()).position(|window| window == end).map(|at| (at, at + end.len()));
    let (head, body) = at(b"\r\n\r\n").into_iter().chain(at(b"\n\n")).min()?;
    Some((&bytes[..head], &bytes[body..]))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outcome(text: &str, kind: StoreKind) -> RequestOutcome {
        // 2026-11-28 19:00:00 UTC.
        let now = SystemTime::UNIX_EPOCH + Duration::from_secs(1_795_892_400);
        Response::parse(text.as_bytes()).expect("a response").outcome(kind, now)
    }

    #[test]
    fn waits_are_seconds_or_dates_and_have_a_maximum() {
        let wait = |headers: &str| match outcome(&format!("HTTP/1.1 429 No\r\n{headers}\r\n\r\n"), StoreKind::Otlp) {
            RequestOutcome::Retry(wait, _) => wait.map(|wait| wait.as_secs()),
            other => panic!("{other:?}"),
        };
        assert_eq!(wait("Retry-After: 7"), Some(7));
        assert_eq!(wait("retry-after: Sat, 28 Nov 2026 19:00:30 GMT"), Some(30));
        let date = "Date: Sat, 28 Nov 2026 10:00:00 GMT\r\nRetry-After: Sat, 28 Nov 2026 10:00:09 GMT";
        assert_eq!(wait(date), Some(9), "the clock of this machine does not matter");
        assert_eq!(wait("Retry-After: Sat, 28 Nov 2020 19:00:30 GMT"), Some(0));
        assert_eq!(wait("Retry-After: 99999999"), Some(300));
        assert_eq!((wait("Retry-After: soon"), wait("A: b")), (None, None));
    }

    #[test]
    fn statuses_mean_what_the_specifications_say() {
        let kind = |status: u16, of| match outcome(
            &format!("HTTP/1.1 100 Continue\r\n\r\nHTTP/2 {status}\r\n\r\n\x1b[2Jwhy\nmore"),
            of,
        ) {
            RequestOutcome::Delivered => "delivered".to_owned(),
            RequestOutcome::Retry(_, why) => format!("retry {why}"),
            RequestOutcome::TooLarge(_) => "too large".to_owned(),
            RequestOutcome::Refused(why) => format!("refused {why}"),
        };
        assert_eq!(kind(204, StoreKind::Parca), "delivered");
        assert_eq!(kind(413, StoreKind::Otlp), "too large");
        assert_eq!(kind(500, StoreKind::Otlp), "refused HTTP status 500");
        assert_eq!(kind(500, StoreKind::Pyroscope), "retry HTTP status 500: \u{fffd}[2Jwhy");
        assert_eq!(kind(503, StoreKind::Otlp), "retry HTTP status 503");
        assert_eq!(kind(422, StoreKind::Pyroscope), "refused HTTP status 422: \u{fffd}[2Jwhy");
        assert_eq!(kind(302, StoreKind::Parca), "refused HTTP status 302: \u{fffd}[2Jwhy");
    }

    #[test]
    fn damaged_responses_are_none() {
        for text in ["", "HTTP/1.1 200 OK\r\n", "HTTP/1.1 x\r\n\r\n", "SSH-2.0\r\n\r\n", "HTTP/1.1 100 C\r\n\r\n"] {
            assert_eq!(Response::parse(text.as_bytes()), None, "{text}");
        }
    }
}
