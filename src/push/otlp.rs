//! The body of a request by OTLP 1.10 (`opentelemetry/proto/profiles/v1development`), which is in
//! development: 1.8, 1.9 and 1.10 have different layouts, and a server accepts the wrong one and
//! shows an empty profile.
//!
//! The dictionary is a set of tables. Element 0 of each is empty, and every other one is there once
//! and is used. So an element is encoded first, and its bytes are its identity.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::parts::PushPart;
use super::request::StoreRequest;
use super::store::SERVICE_NAME;
use crate::pprof::error::ReadError;
use crate::pprof::format::proto::wire::{FieldValue, put, put_bytes, put_number, read_field};
use crate::pprof::profile::{Label, LabelValue, Location, Mapping, SavedProfile, ValueType};
use crate::wire::varint;

/// The attribute of a mapping that has its GNU build id.
const BUILD_ID: &str = "process.executable.build_id.gnu";

/// The request for one part, gzipped.
pub(super) fn request(url: &str, service: &str, labels: &[(String, String)], part: &PushPart) -> StoreRequest {
    let own = (SERVICE_NAME.to_owned(), service.to_owned());
    let resource: Vec<(String, String)> = [own].into_iter().chain(labels.iter().cloned()).collect();
    let mut body = GzEncoder::new(Vec::new(), Compression::default());
    let written =
        body.write_all(&encode(&part.profile(), profile_id(&part.pprof), &resource)).and_then(|()| body.finish());
    StoreRequest {
        url: url.to_owned(),
        content_type: "application/x-protobuf".to_owned(),
        is_gzipped: true,
        body: written.expect("memory can be written"),
    }
}

/// The id of a profile. It is the same in each attempt to send it.
fn profile_id(pprof: &[u8]) -> [u8; 16] {
    let hash = |seed: u64| {
        let mut hasher = DefaultHasher::new();
        (seed, pprof).hash(&mut hasher);
        u128::from(hasher.finish())
    };
    (hash(0) << 64 | hash(1)).to_le_bytes()
}

/// Encodes an `ExportProfilesServiceRequest` with one profile of the last quantity. `resource` are
/// the attributes of the program that was profiled.
fn encode(profile: &SavedProfile, id: [u8; 16], resource: &[(String, String)]) -> Vec<u8> {
    let mut dictionary = Dictionary::default();
    let encoded = dictionary.encode_profile(profile, id);
    let mut scope = Vec::new();
    put_bytes(&mut scope, 1, b"sigtop");
    put_bytes(&mut scope, 2, env!("CARGO_PKG_VERSION").as_bytes());
    let mut scope_profiles = Vec::new();
    put_bytes(&mut scope_profiles, 1, &scope);
    put_bytes(&mut scope_profiles, 2, &encoded);
    let mut attributes = Vec::new();
    for (key, value) in resource {
        let mut attribute = Vec::new();
        put_bytes(&mut attribute, 1, key.as_bytes());
        put_bytes(&mut attribute, 2, &any_value(value));
        put_bytes(&mut attributes, 1, &attribute);
    }
    let mut resource_profiles = Vec::new();
    put_bytes(&mut resource_profiles, 1, &attributes);
    put_bytes(&mut resource_profiles, 2, &scope_profiles);
    let mut request = Vec::new();
    put_bytes(&mut request, 1, &resource_profiles);
    put_bytes(&mut request, 2, &dictionary.encode());
    request
}

/// Reads an `ExportProfilesServiceResponse`. Returns the number of profiles that the server rejects
/// and the reason.
pub(super) fn rejected(mut response: &[u8]) -> Result<(u64, String), ReadError> {
    let (mut count, mut reason) = (0, String::new());
    while let Some((field, value)) = read_field(&mut response)? {
        let (1, FieldValue::Bytes(mut partial)) = (field, value) else { continue };
        while let Some((field, value)) = read_field(&mut partial)? {
            match field {
                1 => count = value.number()?,
                2 => reason = String::from_utf8_lossy(value.bytes()?).into_owned(),
                _ => {}
            }
        }
    }
    Ok((count, reason))
}

/// An `AnyValue` with a string.
fn any_value(text: &str) -> Vec<u8> {
    let mut value = Vec::new();
    put_bytes(&mut value, 1, text.as_bytes());
    value
}

fn put_packed(out: &mut Vec<u8>, field: u64, numbers: impl IntoIterator<Item = u64>) {
    let mut packed = Vec::new();
    numbers.into_iter().for_each(|number| varint::push(&mut packed, number));
    if !packed.is_empty() {
        put_bytes(out, field, &packed);
    }
}

/// A table of the dictionary: encoded elements without the first one, which is empty.
#[derive(Default)]
struct DictionaryTable {
    elements: Vec<Vec<u8>>,
    indices: HashMap<Vec<u8>, u64>,
}

impl DictionaryTable {
    /// The index of an element, which is added if it is new.
    fn intern(&mut self, element: Vec<u8>) -> u64 {
        if element.is_empty() {
            return 0;
        }
        let all = &mut self.elements;
        *self.indices.entry(element).or_insert_with_key(|element| {
            all.push(element.clone());
            all.len() as u64
        })
    }
}

/// The tables that all profiles of a request share.
#[derive(Default)]
struct Dictionary {
    mappings: DictionaryTable,
    locations: DictionaryTable,
    functions: DictionaryTable,
    strings: DictionaryTable,
    attributes: DictionaryTable,
    stacks: DictionaryTable,
}

impl Dictionary {
    fn encode(&self) -> Vec<u8> {
        let mut out = Vec::new();
        let links = DictionaryTable::default();
        let tables = [&self.mappings, &self.locations, &self.functions, &links, &self.strings];
        for (field, table) in (1..).zip(tables.into_iter().chain([&self.attributes, &self.stacks])) {
            put_bytes(&mut out, field, &[]);
            table.elements.iter().for_each(|element| put_bytes(&mut out, field, element));
        }
        out
    }

    fn string(&mut self, text: &str) -> u64 {
        self.strings.intern(text.as_bytes().to_vec())
    }

    fn attribute(&mut self, key: &str, value: &str) -> u64 {
        let mut attribute = Vec::new();
        put(&mut attribute, 1, self.string(key));
        put_bytes(&mut attribute, 2, &any_value(value));
        self.attributes.intern(attribute)
    }

    fn value_type(&mut self, of: &ValueType) -> Vec<u8> {
        let mut bytes = Vec::new();
        put(&mut bytes, 1, self.string(&of.kind));
        put(&mut bytes, 2, self.string(&of.unit));
        bytes
    }

    fn encode_profile(&mut self, profile: &SavedProfile, id: [u8; 16]) -> Vec<u8> {
        let Some(value) = profile.sample_types.len().checked_sub(1) else { return Vec::new() };
        let locations: Vec<u64> = profile.locations.iter().map(|of| self.location(profile, of)).collect();
        let labels: Vec<Vec<u64>> =
            profile.labels.iter().map(|set| set.iter().map(|label| self.label(label)).collect()).collect();
        let mut out = Vec::new();
        let sample_type = self.value_type(&profile.sample_types[value]);
        put_bytes(&mut out, 1, &sample_type);
        profile.samples.for_each(|sample| {
            let number = sample.values[value];
            if number <= 0 {
                return;
            }
            let mut stack = Vec::new();
            put_packed(&mut stack, 1, sample.stack.iter().map(|&location| locations[location as usize]));
            let mut bytes = Vec::new();
            put(&mut bytes, 1, self.stacks.intern(stack));
            put_packed(&mut bytes, 2, labels.get(sample.labels as usize).into_iter().flatten().copied());
            put_packed(&mut bytes, 4, [number as u64]);
            put_bytes(&mut out, 2, &bytes);
        });
        // A fixed64.
        varint::push(&mut out, 3 << 3 | 1);
        out.extend_from_slice(&profile.time_ns.to_le_bytes());
        put(&mut out, 4, profile.duration_ns.max(0) as u64);
        let period_type = self.value_type(&profile.period_type);
        put_bytes(&mut out, 5, &period_type);
        put_number(&mut out, 6, profile.period as u64);
        put_bytes(&mut out, 7, &id);
        out
    }

    fn label(&mut self, label: &Label) -> u64 {
        match &label.value {
            LabelValue::Text(text) => self.attribute(&label.key, text),
            LabelValue::Number(number, _) => self.attribute(&label.key, &number.to_string()),
        }
    }

    fn mapping(&mut self, of: &Mapping) -> u64 {
        let mut bytes = Vec::new();
        put(&mut bytes, 1, of.start);
        put(&mut bytes, 2, of.limit);
        put(&mut bytes, 3, of.offset);
        put(&mut bytes, 4, self.string(&of.file));
        if !of.build_id.is_empty() {
            put_packed(&mut bytes, 5, [self.attribute(BUILD_ID, &of.build_id)]);
        }
        self.mappings.intern(bytes)
    }

    fn location(&mut self, profile: &SavedProfile, of: &Location) -> u64 {
        let mut bytes = Vec::new();
        let mapping = of.mapping.map_or(0, |mapping| self.mapping(&profile.mappings[mapping as usize]));
        put(&mut bytes, 1, mapping);
        put(&mut bytes, 2, of.address);
        for line in &of.lines {
            let function = &profile.functions[line.function as usize];
            let mut own = Vec::new();
            put(&mut own, 1, self.string(&function.name));
            put(&mut own, 2, self.string(&function.system_name));
            put(&mut own, 3, self.string(&function.file));
            put(&mut own, 4, function.start_line as u64);
            let function = self.functions.intern(own);
            let mut own = Vec::new();
            put(&mut own, 1, function);
            put(&mut own, 2, line.line as u64);
            put(&mut own, 3, line.column as u64);
            put_bytes(&mut bytes, 3, &own);
        }
        self.locations.intern(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejections_are_read_and_damaged_responses_are_refused() {
        let mut partial = Vec::new();
        put(&mut partial, 1, 3);
        put_bytes(&mut partial, 2, b"too old");
        let mut response = Vec::new();
        put_bytes(&mut response, 1, &partial);
        assert_eq!(rejected(&response).expect("read"), (3, "too old".to_owned()));
        assert_eq!(rejected(&[]).expect("read"), (0, String::new()));
        assert!(rejected(&response[..response.len() - 1]).is_err());
    }

    #[test]
    fn an_element_is_in_its_table_once_and_the_empty_one_is_the_first() {
        let mut table = DictionaryTable::default();
        assert_eq!([b"a".to_vec(), b"b".to_vec(), b"a".to_vec(), Vec::new()].map(|of| table.intern(of)), [1, 2, 1, 0]);
        assert_eq!(table.elements, [b"a", b"b"]);
    }
}
