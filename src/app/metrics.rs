//! `sigtop record --metrics`: answers Prometheus with the rate of samples, losses, costs and the time
//! of the hottest functions.

use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Read, Write as _};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use super::failure::Failure;
use crate::profile::Clock;
use crate::profile::loss::LossCause;
use crate::session::Answer;

/// Maximum number of functions that have a series of their own. One that has it keeps it.
const MAX_FUNCTIONS: usize = 100;
/// Number of the hottest functions that get a series, as far as there is room.
const HOTTEST: usize = 20;
/// Maximum time for a request and for its answer.
const MAX_TIME: Duration = Duration::from_secs(2);
/// Maximum size of a request in bytes.
const MAX_REQUEST: usize = 8 << 10;
/// The series of all functions without one of their own.
const OTHER: &str = "other";

/// Parses an address; a port alone is one of this machine alone.
///
/// # Errors
/// A sentence that says what is expected.
pub(super) fn parse_address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text).parse().ok();
    let address = port.map(|port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port));
    let address = address.or_else(|| text.replacen("localhost:", "127.0.0.1:", 1).parse().ok());
    address
        .ok_or_else(|| "expected a port of this machine, such as 9100, or an address such as 0.0.0.0:9100".to_owned())
}

/// The page, and the thread that serves it.
pub(super) struct MetricsServer {
    functions: FunctionTimes,
    page: Arc<Mutex<String>>,
}

impl MetricsServer {
    /// Listens at an address.
    ///
    /// # Errors
    /// If it is not free, or the thread cannot be started.
    pub(super) fn start(address: SocketAddr) -> Result<MetricsServer, Failure> {
        let failure = |error| Failure::internal(&format!("cannot serve metrics at {address}"), error);
        let listener = TcpListener::bind(address).map_err(failure)?;
        let page = Arc::new(Mutex::new(String::new()));
        let own = Arc::clone(&page);
        let serve = move || {
            for stream in listener.incoming().flatten() {
                // A client that fails comes again.
                let _ = answer(&stream, &own);
            }
        };
        std::thread::Builder::new().name("metrics".to_owned()).spawn(serve).map_err(failure)?;
        Ok(MetricsServer { functions: FunctionTimes::default(), page })
    }

    /// Updates the page.
    pub(super) fn update(&mut self, answer: &Answer) {
        // Until all names are known, time moves from addresses to functions.
        if answer.facts.symbolizing.0 == 0 {
            let rows = answer.total.rows.iter().map(|row| (row.full.as_str(), row.flat_ns));
            self.functions.update(rows, answer.total.total_ns, answer.facts.clock == Clock::Live);
        }
        let page = write_page(answer, &self.functions);
        *self.page.lock().unwrap_or_else(PoisonError::into_inner) = page;
    }
}

/// Answers one request.
fn answer(mut stream: &TcpStream, page: &Mutex<String>) -> io::Result<()> {
    let request = read_request(stream)?;
    let path = request.strip_prefix("GET ").and_then(|rest| rest.split([' ', '?']).next());
    let (status, body) = match path {
        Some("/metrics") => ("200 OK", page.lock().unwrap_or_else(PoisonError::into_inner).clone()),
        Some(_) => ("404 Not Found", "the metrics are at /metrics\n".to_owned()),
        None => ("405 Method Not Allowed", String::new()),
    };
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n\
         Connection: close\r\n\r\n",
        body.len()
    );
    stream.set_write_timeout(Some(MAX_TIME))?;
    stream.write_all((head + &body).as_bytes())
}

/// Reads a request up to the empty line behind its headers.
fn read_request(mut stream: &TcpStream) -> io::Result<String> {
    let deadline = Instant::now() + MAX_TIME;
    let (mut request, mut chunk) = (Vec::new(), [0; 1024]);
    while request.len() < MAX_REQUEST && !request.windows(4).any(|end| end == b"\r\n\r\n") {
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut chunk)? {
            0 => break,
            length => request.extend_from_slice(&chunk[..length]),
        }
    }
    Ok(String::from_utf8_lossy(&request).into_owned())
}

/// The weights of functions as counters: a series begins at 0 when its function becomes one of the
/// hottest, and all weight is in one series.
#[derive(Debug, Default)]
struct FunctionTimes {
    /// The counter of each function, and its weight at the last update, ns or bytes.
    counters: HashMap<String, (u64, u64)>,
    other: u64,
    total: u64,
}

impl FunctionTimes {
    /// Updates the counters to the weights of all functions, the heaviest first. A gauge is the
    /// weight.
    fn update<'r>(&mut self, rows: impl Iterator<Item = (&'r str, u64)>, total: u64, is_gauge: bool) {
        let mut counted = 0;
        if is_gauge {
            self.counters.values_mut().for_each(|counter| *counter = (0, 0));
        }
        for (index, (name, weight)) in rows.enumerate() {
            let is_known = self.counters.contains_key(name);
            if !is_known && (index >= HOTTEST || self.counters.len() >= MAX_FUNCTIONS) {
                continue;
            }
            let (counter, last) = self.counters.entry(name.to_owned()).or_insert((0, weight));
            let new = weight.saturating_sub(*last);
            *counter = if is_gauge { weight } else { *counter + new };
            *last = weight;
            counted += if is_gauge { weight } else { new };
        }
        let all = if is_gauge { total } else { total.saturating_sub(self.total) };
        self.other = all.saturating_sub(counted) + if is_gauge { 0 } else { self.other };
        self.total = total;
    }
}

/// Writes the page in Prometheus' text format.
fn write_page(answer: &Answer, functions: &FunctionTimes) -> String {
    let facts = &answer.facts;
    let mut page = String::new();
    let mut metric = |name: &str, kind: &str, help: &str, series: &[(String, f64)]| {
        let _ = writeln!(page, "# HELP {name} {help}\n# TYPE {name} {kind}");
        for (labels, value) in series {
            let _ = writeln!(page, "{name}{labels} {value}");
        }
    };
    let one = |value: f64| vec![(String::new(), value)];
    metric("sigtop_samples_total", "counter", "Samples that were taken.", &one(facts.stacks.samples as f64));
    let lost = LossCause::ALL.into_iter().zip(facts.losses.lost_ticks);
    let lost: Vec<(String, f64)> =
        lost.map(|(cause, ticks)| (format!("{{cause=\"{}\"}}", cause.id()), ticks as f64)).collect();
    metric("sigtop_lost_samples_total", "counter", "Samples that were lost, by cause.", &lost);
    if let Some(hz) = facts.effective_hz {
        metric("sigtop_sampling_hertz", "gauge", "Samples per second of the clock.", &one(hz));
    }
    let cost = facts.losses.handler_cpu_ns.saturating_add(facts.losses.agent_cpu_ns) as f64 / 1e9;
    let help = "CPU time that the agent has used in the profiled processes.";
    metric("sigtop_agent_cpu_seconds_total", "counter", help, &one(cost));
    let help = "CPU time of the profiled processes.";
    metric("sigtop_process_cpu_seconds_total", "counter", help, &one(facts.cpu_used.as_secs_f64()));
    let (name, kind, help, unit) = match facts.clock {
        Clock::Prof => ("sigtop_function_cpu_seconds_total", "counter", "CPU time in the function itself.", 1e9),
        Clock::Real => {
            ("sigtop_function_wall_seconds_total", "counter", "Wall-clock time in the function itself.", 1e9)
        }
        Clock::Virtual => ("sigtop_function_user_seconds_total", "counter", "User time in the function itself.", 1e9),
        Clock::Alloc => ("sigtop_function_allocated_bytes_total", "counter", "Bytes that the function allocated.", 1.0),
        Clock::Live => ("sigtop_function_live_bytes", "gauge", "Bytes of the function that are not freed.", 1.0),
    };
    let mut sorted: Vec<(&String, u64)> =
        functions.counters.iter().map(|(name, (counter, _))| (name, *counter)).collect();
    sorted.sort_by(|a, b| (b.1, a.0).cmp(&(a.1, b.0)));
    let label = |name: &str, value: u64| (format!("{{function=\"{}\"}}", escape(name)), value as f64 / unit);
    let mut series: Vec<(String, f64)> = sorted.into_iter().map(|(name, value)| label(name, value)).collect();
    series.push(label(OTHER, functions.other));
    metric(name, kind, help, &series);
    page
}

/// Escapes the value of a label.
fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_of_this_machine() {
        let parse = |text| parse_address(text).map(|address| address.to_string());
        assert_eq!(parse("9100"), Ok("127.0.0.1:9100".to_owned()));
        assert_eq!((parse(":9100"), parse("localhost:9100")), (parse("9100"), parse("9100")));
        assert_eq!(parse("0.0.0.0:1"), Ok("0.0.0.0:1".to_owned()));
        assert_eq!(parse("[::1]:1"), Ok("[::1]:1".to_owned()));
        assert!(parse("here").is_err() && parse("99999").is_err());
    }

    #[test]
    fn counters_never_fall_and_have_all_time() {
        let mut functions = FunctionTimes::default();
        let (mut last, mut last_other) = (HashMap::new(), 0);
        for step in 1..50u64 {
            let mut rows: Vec<(String, u64)> = (0..200).map(|of| (format!("f{of}"), step * (of + 1))).collect();
            // Other functions are the hottest each time.
            rows.sort_by_key(|row| std::cmp::Reverse(row.1 % 7));
            let total = rows.iter().map(|(_, weight)| weight).sum();
            functions.update(rows.iter().map(|(name, weight)| (name.as_str(), *weight)), total, false);
            let counters: HashMap<String, u64> =
                functions.counters.iter().map(|(name, (counter, _))| (name.clone(), *counter)).collect();
            assert!(counters.len() <= MAX_FUNCTIONS && functions.other >= last_other);
            assert!(last.iter().all(|(name, before)| counters[name] >= *before));
            assert_eq!(counters.values().sum::<u64>() + functions.other, total);
            (last, last_other) = (counters, functions.other);
        }
    }
}
