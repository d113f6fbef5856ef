//! The request to Pyroscope's `/ingest`, with a profile in pprof's format.

use std::fmt::Write;

use super::parts::PushPart;
use super::request::StoreRequest;
use super::store::label_name;

/// Characters of an application's name, besides letters and digits of ASCII. Pyroscope refuses a
/// profile whose name has another one.
const NAME_CHARACTERS: &[char] = &['_', '.', '-', '/'];
/// The name of a program that has none.
const UNKNOWN: &str = "unknown";
const NS_PER_SECOND: i64 = 1_000_000_000;

/// The request for one part. The name of the application and its labels are in the URL.
pub(super) fn request(url: &str, service: &str, labels: &[(String, String)], part: &PushPart) -> StoreRequest {
    let profile = part.profile();
    let pairs: Vec<String> =
        labels.iter().map(|(name, value)| format!("{}={}", label_name(name), label_value(value))).collect();
    let name = format!("{}{{{}}}", application_name(service), pairs.join(","));
    // Numbers of 19 digits are nanoseconds, those of ten are seconds.
    let from = profile.time_ns.max(0);
    let until = from.saturating_add(profile.duration_ns.max(1));
    let separator = if url.contains('?') { '&' } else { '?' };
    let mut query = format!("name={}&from={from:019}&until={until:019}&format=pprof&spyName=sigtop", escape(&name));
    if profile.period > 0 && &*profile.period_type.unit == "nanoseconds" {
        // Writing to a String cannot fail.
        let _ = write!(query, "&sampleRate={}", (NS_PER_SECOND / profile.period).max(1));
    }
    StoreRequest {
        url: format!("{url}{separator}{query}"),
        content_type: "application/octet-stream".to_owned(),
        is_gzipped: false,
        body: part.pprof.clone(),
    }
}

/// A name of the program in Pyroscope's alphabet.
fn application_name(service: &str) -> String {
    let is_allowed = |of: char| of.is_ascii_alphanumeric() || NAME_CHARACTERS.contains(&of);
    let name: String = service.chars().map(|of| if is_allowed(of) { of } else { '_' }).collect();
    if name.is_empty() { UNKNOWN.to_owned() } else { name }
}

/// A value without the characters that end it.
fn label_value(value: &str) -> String {
    value.replace(['}', ','], "_")
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_in_the_alphabet_of_the_store() {
        assert_eq!(application_name("check out/b.c-d_e"), "check_out/b.c-d_e");
        assert_eq!((application_name("g++").as_str(), application_name("").as_str()), ("g__", "unknown"));
        assert_eq!(label_value("a=b,{c}"), "a=b_{c_");
    }
}
