//! The request to Parca's `WriteRaw` by its HTTP gateway: JSON that has a profile in pprof's format
//! in base64.

use data_encoding::BASE64;
use serde_json::{Value, json};

use super::parts::PushPart;
use super::request::StoreRequest;
use super::store::{label_name, metric};

/// The request for one part.
pub(super) fn request(url: &str, service: &str, labels: &[(String, String)], part: &PushPart) -> StoreRequest {
    let value = part.profile().default_sample_type;
    let label = |name: &str, value: &str| json!({"name": name, "value": value});
    let own = [label("__name__", &metric(&value)), label("service_name", service)];
    let others = labels.iter().map(|(name, value)| label(&label_name(name), value));
    let labels: Vec<Value> = own.into_iter().chain(others).collect();
    let series = json!({"labels": {"labels": labels}, "samples": [{"rawProfile": BASE64.encode(&part.pprof)}]});
    StoreRequest {
        url: url.to_owned(),
        content_type: "application/json".to_owned(),
        is_gzipped: false,
        body: json!({"series": [series], "normalized": false}).to_string().into_bytes(),
    }
}
