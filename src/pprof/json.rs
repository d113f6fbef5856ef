//! Members that JSON objects of saved and of live profiles share.

use serde_json::{Map, Value, json};

use super::profile::{RecordingFacts, SavedLoss};

/// The members of a JSON object.
pub(super) type JsonObject = Map<String, Value>;

/// Returns the members of an object that `json!` makes.
pub(super) fn members(object: Value) -> JsonObject {
    match object {
        Value::Object(members) => members,
        _ => JsonObject::new(),
    }
}

/// The facts of recordings: command, host, engine and losses.
pub(super) fn recordings(all: &[RecordingFacts]) -> Value {
    let loss =
        |SavedLoss { cause, ticks, weight }: &SavedLoss| json!({"cause": cause, "ticks": ticks, "value": weight});
    let one = |RecordingFacts { command, host, kernel, engine, losses }: &RecordingFacts| {
        json!({
            "command": &**command,
            "host": &**host,
            "kernel": &**kernel,
            "engine": &**engine,
            "losses": losses.iter().map(loss).collect::<Vec<Value>>(),
        })
    };
    all.iter().map(one).collect()
}

/// Inserts a value and its share of the total, not rounded, under two names: `flat` and
/// `flat_percent`.
pub(super) fn insert_share(object: &mut JsonObject, name: &str, value: Value, percent: f64) {
    object.insert(name.to_owned(), value);
    object.insert(format!("{name}_percent"), percent.into());
}
