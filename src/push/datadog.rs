//! The request to the intake of Datadog's agent: a form with a description in JSON and a profile in
//! pprof's format, whose quantities have Datadog's names.

use jiff::Timestamp;
use serde_json::json;

use super::parts::PushPart;
use super::request::StoreRequest;
use crate::pprof::format::proto;
use crate::pprof::profile::Label;
use crate::tally::text::Text;

/// The name of the profile's part of the form.
const ATTACHMENT: &str = "auto.pprof";

/// The request for one part.
pub(super) fn request(url: &str, service: &str, labels: &[(String, String)], part: &PushPart) -> StoreRequest {
    let mut profile = part.profile();
    let value = profile.default_sample_type.clone();
    for of in &mut profile.sample_types {
        of.kind = quantity(&of.kind, &value);
    }
    profile.default_sample_type = quantity(&value, &value);
    for set in &mut profile.labels {
        *set = set.iter().map(|label| Label { key: label_key(&label.key), ..label.clone() }).collect();
    }
    let mut pprof = Vec::new();
    proto::write(&mut pprof, &profile).expect("memory can be written");
    let time = |ns: i64| Timestamp::from_nanosecond(ns.into()).unwrap_or(Timestamp::UNIX_EPOCH).to_string();
    let own = [("service", service), ("runtime", "native"), ("language", "native")];
    let tags = own.into_iter().chain(labels.iter().map(|(key, value)| (key.as_str(), value.as_str())));
    let tags: Vec<String> = tags.map(|(key, value)| format!("{key}:{}", value.replace(',', "_"))).collect();
    let event = json!({
        "attachments": [ATTACHMENT],
        "tags_profiler": tags.join(","),
        "start": time(profile.time_ns),
        "end": time(profile.time_ns.saturating_add(profile.duration_ns)),
        "family": "native",
        "version": "4",
    });
    let event = event.to_string();
    let boundary = boundary(&[event.as_bytes(), &pprof]);
    let mut body = Vec::new();
    for (name, file, kind, bytes) in [
        ("event", "event.json", "application/json", event.as_bytes()),
        (ATTACHMENT, ATTACHMENT, "application/octet-stream", &pprof),
    ] {
        let head = format!(
            "--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"; filename=\"{file}\"\r\n\
             Content-Type: {kind}\r\n\r\n"
        );
        body.extend_from_slice(head.as_bytes());
        body.extend_from_slice(bytes);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    let content_type = format!("multipart/form-data; boundary={boundary}");
    StoreRequest { url: url.to_owned(), content_type, is_gzipped: false, body }
}

/// A boundary that does not occur in the parts.
fn boundary(parts: &[&[u8]]) -> String {
    let occurs = |boundary: &String| parts.iter().any(|part| memchr::memmem::find(part, boundary.as_bytes()).is_some());
    (0u64..).map(|number| format!("sigtop-{number}")).find(|boundary| !occurs(boundary)).unwrap_or_default()
}

/// Datadog's name of a quantity; `value` is the one that the samples count.
fn quantity(kind: &str, value: &str) -> Text {
    match (kind, value) {
        ("samples", "wall") => "wall-samples",
        ("samples", _) => "cpu-samples",
        ("cpu", _) => "cpu-time",
        ("wall", _) => "wall-time",
        ("alloc_objects", _) => "alloc-samples",
        ("alloc_space", _) => "alloc-space",
        ("inuse_objects", _) => "inuse-objects",
        ("inuse_space", _) => "inuse-space",
        (other, _) => other,
    }
    .into()
}

/// Datadog's key of a label.
fn label_key(key: &Text) -> Text {
    match key.as_str() {
        "tid" => "thread id".into(),
        "thread" => "thread name".into(),
        _ => key.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_boundary_is_not_in_the_form() {
        assert_eq!(boundary(&[b"a sigtop-0 b", b"sigtop-1"]), "sigtop-2");
    }
}
