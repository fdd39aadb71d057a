//! Search for the field that has the wrong type. Without it, text in place of a number would be
//! ignored silently.

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};

/// Finds the first field that cannot be read. Returns its value and the type that it must have, in words.
pub(super) fn culprit<T: DeserializeOwned>(fields: Map<String, Value>) -> Option<String> {
    fields.into_iter().find_map(|(field, value)| {
        let alone = Value::Object(Map::from_iter([(field.clone(), value.clone())]));
        let error = serde_json::from_value::<T>(alone).err()?.to_string();
        let wanted = match error.split("expected ").nth(1).unwrap_or(&error) {
            of if of.starts_with("a boolean") => "true or false",
            of if of.starts_with("a string") => "text",
            of if of.starts_with("a map") || of.starts_with("struct") => "an object",
            of if of.starts_with("a sequence") => "a list",
            _ => "a number",
        };
        Some(match &value {
            // The error concerns something inside the value.
            Value::Object(_) | Value::Array(_) if !error.starts_with(&kind(&value)) => {
                format!("field '{field}' is {}: {error}", shown(&value))
            }
            _ => format!("field '{field}' is {}, but must be {wanted}", shown(&value)),
        })
    })
}

/// Returns the beginning of an error about the value itself.
fn kind(value: &Value) -> String {
    let of = if value.is_object() { "map" } else { "sequence" };
    format!("invalid type: {of}")
}

/// Returns the value that was found, as text of at most 40 characters.
fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}
