//! Cleaning of text from untrusted files, so that no control character reaches a terminal or a page.

use serde_json::{Map, Value};

/// Returns the text with U+FFFD in place of each control character except line feeds.
pub fn clean(text: &str) -> String {
    let is_control = |c: char| c.is_control() && c != '\n';
    text.replace(is_control, "\u{fffd}")
}

/// Cleans all text in a value, names of fields included.
pub(super) fn clean_all(value: &mut Value) {
    match value {
        Value::String(text) => *text = clean(text),
        Value::Array(all) => all.iter_mut().for_each(clean_all),
        Value::Object(all) => {
            all.values_mut().for_each(clean_all);
            if all.keys().any(|name| clean(name) != *name) {
                let fields = std::mem::take(all).into_iter();
                *all = fields.map(|(k, v)| (clean(&k), v)).collect::<Map<_, _>>();
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn control_characters_are_shown_as_such() {
        let mut value = json!({"a\u{1b}": ["x\u{1b}[31m\ny\r", 3], "é": "\u{9b}ü"});
        clean_all(&mut value);
        assert_eq!(
            value,
            json!({"a\u{fffd}": ["x\u{fffd}[31m\ny\u{fffd}", 3], "é": "\u{fffd}ü"})
        );
    }
}
