//! The headers of requests, which may have credentials: they come from the environment or a file,
//! and no message and no command line has them.

use std::fmt;
use std::fs;
use std::path::Path;

/// Environment variables with headers for collectors: those for profiles override the others.
pub const VARIABLES: [&str; 2] = ["OTEL_EXPORTER_OTLP_HEADERS", "OTEL_EXPORTER_OTLP_PROFILES_HEADERS"];

/// Maximum size of a file of headers in bytes.
const MAX_FILE_BYTES: u64 = 64 << 10;

/// Names and values of headers. Their values are not printed.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct RequestHeaders(Vec<(String, String)>);

impl fmt::Debug for RequestHeaders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

impl RequestHeaders {
    /// The names and values.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Adds the headers in the value of an environment variable: `name=value` pairs, separated by
    /// commas, with values in percent-encoding.
    ///
    /// # Errors
    /// The variable is malformed: a sentence without its value.
    pub fn add_from_variable(&mut self, variable: &str, text: &str) -> Result<(), String> {
        for pair in text.split(',').filter(|pair| !pair.trim().is_empty()) {
            let malformed = || format!("{variable}: expected name=value pairs, separated by commas");
            let (name, value) = pair.split_once('=').ok_or_else(malformed)?;
            let value = decode_percent(value.trim()).ok_or_else(malformed)?;
            self.add(name, &value).map_err(|why| format!("{variable}: {why}"))?;
        }
        Ok(())
    }

    /// Adds the headers in a file: lines of `Name: value`. Empty lines and lines that start with
    /// `#` are skipped.
    ///
    /// # Errors
    /// The file cannot be read or is malformed: a sentence without its contents.
    pub fn add_from_file(&mut self, path: &Path) -> Result<(), String> {
        let name = path.display();
        let unreadable = |error| format!("cannot read {name}: {error}");
        if fs::metadata(path).map_err(unreadable)?.len() > MAX_FILE_BYTES {
            return Err(format!("{name}: this file of headers is larger than {} KiB", MAX_FILE_BYTES >> 10));
        }
        let text = fs::read_to_string(path).map_err(unreadable)?;
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let at = |why: &str| format!("{name}:{}: {why}", index + 1);
            let (header, value) = line.split_once(':').ok_or_else(|| at("expected Name: value"))?;
            self.add(header, value).map_err(|why| at(&why))?;
        }
        Ok(())
    }

    /// Adds a header, or replaces the value of one with this name.
    fn add(&mut self, name: &str, value: &str) -> Result<(), String> {
        let (name, value) = (name.trim(), value.trim());
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err("the name of a header has letters, digits and hyphens".to_owned());
        }
        // A line break would begin a header of its own.
        if value.chars().any(char::is_control) {
            return Err(format!("the value of header {name} has a control character"));
        }
        self.0.retain(|(known, _)| !known.eq_ignore_ascii_case(name));
        self.0.push((name.to_owned(), value.to_owned()));
        Ok(())
    }
}

/// Decodes `%20` and its like; `None` if it is malformed.
fn decode_percent(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = std::str::from_utf8(digits).ok().filter(|digits| !digits.starts_with('+'))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn from_variable(text: &str) -> Result<Vec<(String, String)>, String> {
        let mut headers = RequestHeaders::default();
        headers.add_from_variable("V", text).map(|()| headers.0)
    }

    #[test]
    fn variables_are_pairs_in_percent_encoding() {
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(
            from_variable("authorization=Basic%20YTpi , x=1,,X=a=b"),
            Ok(vec![own("authorization", "Basic YTpi"), own("X", "a=b")])
        );
        for malformed in ["secret", "a=%2", "a=%+1", "a=%ff", "a b=secret", "a=secret%0d%0aHost: x", "=secret"] {
            let said = from_variable(malformed).expect_err(malformed);
            assert!(said.starts_with("V: ") && !said.contains("secret"), "{malformed}: {said}");
        }
    }

    #[test]
    fn values_are_not_printed() {
        let mut headers = RequestHeaders::default();
        headers.add("Authorization", "secret").expect("a header");
        assert_eq!(format!("{headers:?}"), "[\"Authorization\"]");
    }
}
