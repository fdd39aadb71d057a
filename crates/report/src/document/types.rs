//! Which type each field has. A figure that is a word would be passed over in silence: a comparison would
//! have nothing to compare, and a chart nothing to draw.

use super::{Kind, Row};
use logforce_measure::distribution::FIELD;
use serde_json::{Map, Value};

/// What a field holds; null is allowed in each of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Type {
    Text,
    Number,
    Flag,
    Object,
}

impl Type {
    fn holds(self, value: &Value) -> bool {
        match self {
            Type::Text => value.is_string(),
            Type::Number => value.is_number(),
            Type::Flag => value.is_boolean(),
            Type::Object => value.is_object(),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Type::Text => "text",
            Type::Number => "a number",
            Type::Flag => "true or false",
            Type::Object => "an object",
        }
    }
}

const TEXTS: [&str; 14] = [
    "scenario",
    "subject",
    "method",
    "file_state",
    "layout",
    "way",
    "queue",
    "system",
    "system_version",
    "settings",
    "guarantee",
    "verdict",
    "evidence",
    "error",
];
const COUNTS: [&str; 17] = [
    "threads",
    "clients",
    "depth",
    "pages",
    "bytes",
    "record_bytes",
    "chunk_bytes",
    "file_bytes",
    "commits",
    "chunks",
    "slices",
    "rounds",
    "policy",
    "rows_checked",
    "redone",
    "seconds",
    "ratio",
];
/// How the names of figures end.
const FIGURES: [&str; 10] = [
    "_us",
    "_ms",
    "_s",
    "_per_commit",
    "_per_chunk",
    "_per_write",
    "_p10",
    "_p90",
    "_ratio",
    "ms_per_commit",
];

/// Of a field of a row; `None` for what this program does not know, which a newer one may write.
fn of_row(field: &str) -> Option<Type> {
    match field {
        FIELD => Some(Type::Object),
        "second_log" => Some(Type::Flag),
        _ if TEXTS.contains(&field) => Some(Type::Text),
        _ if COUNTS.contains(&field) => Some(Type::Number),
        _ if FIGURES.iter().any(|end| field.ends_with(end)) => Some(Type::Number),
        _ => None,
    }
}

fn of_head(field: &str) -> Option<Type> {
    match field {
        "command" | "started" | "conclusion" => Some(Type::Text),
        "version" => Some(Type::Number),
        "interrupted" => Some(Type::Flag),
        "machine" => Some(Type::Object),
        _ => None,
    }
}

/// What is there instead.
fn found(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(40) {
        Some((at, _)) => format!("{}…", &text[..at]),
        None => text,
    }
}

/// Why it is no result: the first field that is of another type.
pub(super) fn check(kind: Kind, head: &Map<String, Value>, rows: &[Row]) -> Result<(), String> {
    let wrong = |of: Option<Type>, value: &Value| {
        let of = of.filter(|of| !value.is_null() && !of.holds(value))?;
        Some(format!("is {}, and has to be {}", found(value), of.words()))
    };
    for (field, value) in head {
        if let Some(what) = wrong(of_head(field), value) {
            return Err(format!("its field '{field}' {what}"));
        }
    }
    for (n, row) in rows.iter().enumerate() {
        for (field, value) in row.fields() {
            if let Some(what) = wrong(of_row(field), value) {
                let name = name(kind, row);
                return Err(format!("row {}{name}: its field '{field}' {what}", n + 1));
            }
        }
    }
    Ok(())
}

/// Which row that is, by what says so.
fn name(kind: Kind, row: &Row) -> String {
    let parts = kind.key().iter().filter_map(|key| {
        let value = row.fields().find(|(field, _)| field == key)?.1;
        match value {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) => Some(format!("{key} {number}")),
            _ => None,
        }
    });
    let parts: Vec<String> = parts.collect();
    match parts.is_empty() {
        true => String::new(),
        false => format!(" ({})", parts.join(", ")),
    }
}
