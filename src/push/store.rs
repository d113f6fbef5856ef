//! A store: its kind, its address, and the attributes of the program that it gets.

use std::path::PathBuf;

use super::headers::RequestHeaders;
use crate::keyword::{Keyword, Word};

/// The body of requests that a store understands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StoreKind {
    /// An OpenTelemetry collector, or what receives its protocol.
    Otlp,
    /// Pyroscope.
    Pyroscope,
    /// Parca.
    Parca,
    /// Datadog's agent.
    Datadog,
}

impl Keyword for StoreKind {
    const ALL: &'static [StoreKind] = &[StoreKind::Otlp, StoreKind::Pyroscope, StoreKind::Parca, StoreKind::Datadog];

    fn word(self) -> Word {
        match self {
            StoreKind::Otlp => Word::new("otlp", "OTLP 1.10 over HTTP: an OpenTelemetry Collector and many stores"),
            StoreKind::Pyroscope => Word::new("pyroscope", "pprof for Pyroscope's /ingest"),
            StoreKind::Parca => Word::new("parca", "pprof for Parca's WriteRaw"),
            StoreKind::Datadog => Word::new("datadog", "pprof for Datadog's agent"),
        }
    }
}

impl StoreKind {
    /// The path of its endpoint.
    fn path(self) -> &'static str {
        match self {
            StoreKind::Otlp => "/v1development/profiles",
            StoreKind::Pyroscope => "/ingest",
            StoreKind::Parca => "/profiles/writeraw",
            StoreKind::Datadog => "/profiling/v1/input",
        }
    }

    /// Maximum number of entries of a profile: Pyroscope refuses larger ones by default.
    pub(super) fn max_entries(self) -> usize {
        if self == StoreKind::Pyroscope { 16_000 } else { usize::MAX }
    }
}

/// A store and the attributes of the program that it gets.
#[derive(Clone, Debug)]
pub struct Store {
    /// The kind.
    pub kind: StoreKind,
    /// The URL of the endpoint.
    pub(super) url: String,
    /// The headers of requests.
    pub(super) headers: RequestHeaders,
    /// A file with certificates of authorities to trust besides those of the system.
    pub(super) authorities: Option<PathBuf>,
    /// The name of the program: the attribute `service.name`.
    pub(super) service: String,
    /// Other attributes of the program.
    pub(super) labels: Vec<(String, String)>,
}

impl Store {
    /// A store at a URL. Without a path, the URL gets that of the endpoint; without a kind, the
    /// path tells it.
    ///
    /// # Errors
    /// A sentence about the URL, without it.
    pub fn new(url: &str, kind: Option<StoreKind>) -> Result<Store, String> {
        let rest = url.strip_prefix("http://").or_else(|| url.strip_prefix("https://"));
        let rest = rest.filter(|rest| !rest.is_empty() && rest.bytes().all(|byte| byte.is_ascii_graphic()));
        let rest = rest.ok_or("expected a URL that starts with http:// or https://")?;
        let (host, path) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
        if host.contains('@') {
            let remedy = "put an Authorization header into a file for --header-file, as every user can read arguments";
            return Err(format!("a URL with credentials is not accepted: {remedy}"));
        }
        let by_path =
            |kind: &&StoreKind| format!("/{path}").split('?').next().is_some_and(|path| path.ends_with(kind.path()));
        let kind = kind.or_else(|| StoreKind::ALL.iter().find(by_path).copied()).unwrap_or(StoreKind::Otlp);
        let url = if path.is_empty() { url.trim_end_matches('/').to_owned() + kind.path() } else { url.to_owned() };
        let (headers, authorities, service, labels) = Default::default();
        Ok(Store { kind, url, headers, authorities, service, labels })
    }

    /// Sets the headers of requests, and the file of certificates to trust.
    pub fn set_credentials(&mut self, headers: RequestHeaders, authorities: Option<PathBuf>) {
        (self.headers, self.authorities) = (headers, authorities);
    }

    /// Sets the attributes of the program.
    pub fn set_labels(&mut self, labels: &[(String, String)]) {
        let own = labels.iter().rev().find(|(key, _)| key == SERVICE_NAME);
        self.service = own.map(|(_, value)| value.clone()).unwrap_or_default();
        self.labels = labels.iter().filter(|(key, _)| key != SERVICE_NAME).cloned().collect();
    }

    /// Sets the name of the program, unless its attributes have one.
    pub fn name_program(&mut self, program: &str) {
        if self.service.is_empty() {
            program.clone_into(&mut self.service);
        }
    }
}

/// The attribute of the program's name.
pub(super) const SERVICE_NAME: &str = "service.name";

/// The name of a profile's quantity, as Pyroscope and Parca group them.
pub(super) fn metric(value: &str) -> String {
    match value {
        "cpu" | "cpu-clock" | "task-clock" => "process_cpu".to_owned(),
        "alloc_space" | "inuse_space" => "memory".to_owned(),
        "delay" => "mutex".to_owned(),
        other => label_name(other),
    }
}

/// A label's name in the alphabet of Prometheus.
pub(super) fn label_name(name: &str) -> String {
    let name: String = name.chars().map(|of| if of.is_ascii_alphanumeric() { of } else { '_' }).collect();
    if name.starts_with(|first: char| first.is_ascii_digit()) { format!("_{name}") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_tells_the_kind_and_a_kind_tells_the_path() {
        let new = |url, kind| Store::new(url, kind).map(|store| (store.kind, store.url));
        let own = |kind, url: &str| Ok((kind, url.to_owned()));
        assert_eq!(new("http://a:4318", None), own(StoreKind::Otlp, "http://a:4318/v1development/profiles"));
        assert_eq!(new("https://a/", Some(StoreKind::Parca)), own(StoreKind::Parca, "https://a/profiles/writeraw"));
        assert_eq!(new("http://a/x/ingest?b=c", None), own(StoreKind::Pyroscope, "http://a/x/ingest?b=c"));
        assert_eq!(new("http://a/own", Some(StoreKind::Datadog)), own(StoreKind::Datadog, "http://a/own"));
        for bad in ["", "a:4318", "file:///etc/passwd", "http://", "http://a b", "http://a\n"] {
            assert!(new(bad, None).is_err_and(|why| why.contains("http://")), "{bad}");
        }
        let why = new("http://user:secret@a", None).expect_err("credentials");
        assert!(why.contains("--header-file") && !why.contains("secret"), "{why}");
    }

    #[test]
    fn names_of_quantities_are_in_the_alphabet_of_prometheus() {
        let all = ["cpu", "task-clock", "inuse_space", "page-faults"].map(metric);
        assert_eq!(all, ["process_cpu", "process_cpu", "memory", "page_faults"]);
    }

    #[test]
    fn the_last_service_name_is_that_of_the_program() {
        let mut store = Store::new("http://a", None).expect("a store");
        let label = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        store.set_labels(&[]);
        store.name_program("app");
        assert_eq!(store.service, "app");
        store.set_labels(&[label("service.name", "x"), label("a", "b"), label("service.name", "y")]);
        store.name_program("app");
        assert_eq!((store.service.as_str(), store.labels), ("y", vec![label("a", "b")]));
    }
}
