//! The request to Pyroscope's `/ingest`, with a profile in pprof's format.

use std::fmt::Write;

use super::parts::PushPart;
use super::request::StoreRequest;
use super::store::label_name;

/// The request for one part. The name of the application and its labels are in the URL.
pub(super) fn request(url: &str, service: &str, labels: &[(String, String)], part: &PushPart) -> StoreRequest {
    let profile = part.profile();
    let pairs: Vec<String> =
        labels.iter().map(|(name, value)| format!("{}={}", label_name(name), label_value(value))).collect();
    let name = format!("{}{{{}}}", label_value(service), pairs.join(","));
    let from = profile.time_ns.max(0) / 1_000_000_000;
    let until = profile.time_ns.max(0).saturating_add(profile.duration_ns.max(0)) / 1_000_000_000;
    let separator = if url.contains('?') { '&' } else { '?' };
    let query = format!("name={}&from={from}&until={}&format=pprof&spyName=sigtop", escape(&name), until.max(from + 1));
    StoreRequest {
        url: format!("{url}{separator}{query}"),
        content_type: "application/octet-stream".to_owned(),
        is_gzipped: false,
        body: part.pprof.clone(),
    }
}

/// A value without the characters that divide labels.
fn label_value(value: &str) -> String {
    value.replace(['{', '}', ',', '=', '"'], "_")
}

/// Escapes what may not stand in a query.
fn escape(text: &str) -> String {
    text.bytes().fold(String::new(), |mut escaped, byte| {
        match byte {
            b'-' | b'.' | b'_' | b'~' => escaped.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => escaped.push(char::from(byte)),
            _ => {
                let _ = write!(escaped, "%{byte:02X}");
            }
        }
        escaped
    })
}
