//! The document of every scenario: `--json` writes it, `report` and `compare` read it.

mod clean;
mod culprit;

use super::kind::Kind;
use super::machine::Machine;
use super::name::{Name, optional};
use super::row::{Quantity, Row, ordered};
use crate::run::CpuLoad;
pub use clean::clean;
use clean::clean_all;
use culprit::culprit;
use logforce_device::{Guarantee, Verdict};
use serde::ser::{Error, SerializeMap};
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};
use std::path::Path;

/// The result of one run of a scenario.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
#[serde(default, remote = "Self")]
pub struct Document {
    #[serde(skip)]
    kind: Kind,
    schema: String,
    version: u64,
    /// The command line.
    pub command: String,
    /// Start time: RFC 3339, UTC.
    pub started: String,
    /// True if the user stopped the run: the rows hold what was measured before that.
    pub interrupted: bool,
    /// The machine.
    pub machine: Machine,
    /// Contention for the processors during the run; `None` if it is unknown.
    pub cpu: Option<CpuLoad>,
    /// Commit method, if all rows have the same one.
    pub method: Name,
    /// Guarantee of a force by that method.
    #[serde(with = "optional")]
    pub guarantee: Option<Guarantee>,
    /// Verdict on that guarantee.
    #[serde(with = "optional")]
    pub verdict: Option<Verdict>,
    /// Conclusions, in sentences.
    pub conclusion: String,
    /// The method that the conclusion names.
    pub recommended: Name,
    /// Notes on the method, for the reader, in sentences.
    pub notes: Vec<String>,
    /// Chunk size at which a sweep compares methods, bytes.
    pub usual_chunk_bytes: u64,
    /// Ways to keep writes in flight in a sweep, each with its guarantee and verdict.
    pub methods: Vec<Row>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Number of writes in flight above which more no longer pay, for each way and chunk size of a sweep.
    pub knees: Vec<Row>,
}

/// Reason why a file cannot be used as the result of a measurement.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// The file cannot be read.
    #[error("cannot read {name}: {source}")]
    Read {
        /// The file.
        name: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// The file is something else, or one of its fields has the wrong type.
    #[error("{name} is not a result of `logforce bench --json`: {why}")]
    NoResult {
        /// The file.
        name: String,
        /// Reason, as the end of a sentence.
        why: String,
    },
    /// A newer program wrote it.
    #[error(
        "{name} has version {version} of {schema}, but this program reads versions up to {known}: use a newer logforce"
    )]
    Newer {
        /// The file.
        name: String,
        /// Schema of the document.
        schema: String,
        /// Version of the schema in the file.
        version: u64,
        /// Highest version that this program reads.
        known: u64,
    },
}

impl Document {
    /// Returns an empty document of a run of `kind`.
    pub fn new(kind: Kind, command: String, started: String, machine: Machine) -> Document {
        Document {
            kind,
            schema: kind.schema().to_owned(),
            version: kind.version(),
            command,
            started,
            machine,
            ..Document::default()
        }
    }

    /// Reads a file.
    ///
    /// # Errors
    /// The file cannot be read, or is not a result that this program can use.
    pub fn read(path: &Path) -> Result<Document, ReportError> {
        let name = path.display().to_string();
        let text = std::fs::read(path).map_err(|source| ReportError::Read {
            name: name.clone(),
            source,
        })?;
        let value = serde_json::from_slice(&text).map_err(|e| ReportError::NoResult {
            name: name.clone(),
            why: format!("not JSON: {e}"),
        })?;
        Document::from_value(value, &name)
    }

    /// Reads a document from JSON; errors call it `name`.
    ///
    /// # Errors
    /// The value is not a result that this program can use.
    pub fn from_value(value: Value, name: &str) -> Result<Document, ReportError> {
        let no_result = |why: String| ReportError::NoResult {
            name: name.to_owned(),
            why,
        };
        let mut value = value;
        clean_all(&mut value);
        let Value::Object(mut head) = value else {
            return Err(no_result("it is not a JSON object".to_owned()));
        };
        let schema = head.get("schema").and_then(Value::as_str);
        let Some(schema) = schema.map(str::to_owned) else {
            return Err(no_result("it has no 'schema'".to_owned()));
        };
        let Some(kind) = Kind::ALL.into_iter().find(|k| k.schema() == schema) else {
            return Err(no_result(format!("unknown schema '{schema}'")));
        };
        let version = head.get("version").and_then(Value::as_u64).unwrap_or(0);
        if version > kind.version() {
            return Err(ReportError::Newer {
                name: name.to_owned(),
                schema,
                version,
                known: kind.version(),
            });
        }
        let Some(Value::Array(values)) = head.remove("rows") else {
            return Err(no_result("it has no 'rows'".to_owned()));
        };
        head.retain(|_, value| !value.is_null());
        let mut document = match Document::deserialize(&Value::Object(head.clone())) {
            Ok(document) => document,
            Err(e) => {
                let told = culprit::<Whole>(head).unwrap_or_else(|| e.to_string());
                return Err(no_result(format!("its {told}")));
            }
        };
        document.kind = kind;
        for (n, value) in values.into_iter().enumerate() {
            let row = n + 1;
            let Value::Object(fields) = value else {
                return Err(no_result(format!("row {row} is not an object")));
            };
            document
                .rows
                .push(read_row(kind, fields).map_err(|why| no_result(format!("row {row}{why}")))?);
        }
        for (rows, fields) in [
            (&mut document.methods, Kind::METHODS),
            (&mut document.knees, Kind::KNEES),
        ] {
            rows.iter_mut().for_each(|row| row.fields = fields);
        }
        Ok(document)
    }

    /// Returns the scenario.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// Returns the rows that have numbers.
    pub fn measured(&self) -> impl Iterator<Item = &Row> {
        let is_measured = |r: &&Row| r.error.is_none() && !self.made_nothing(r);
        self.rows.iter().filter(is_measured)
    }

    /// Returns whether a row ended without an error but also without a commit. Ratios to its figure of
    /// 0 would be meaningless.
    pub fn made_nothing(&self, row: &Row) -> bool {
        let [figure, ..] = row.triple(self.kind.quantity());
        row.error.is_none() && figure.is_some_and(|v| v <= 0.0)
    }
}

impl Kind {
    /// Returns the quantity by which the rows are mainly judged.
    pub fn quantity(self) -> Quantity {
        match self {
            Kind::Journal | Kind::Map => Quantity::MsPerCommit,
            Kind::Group | Kind::Pages | Kind::Inserts => Quantity::CommitsPerS,
            Kind::Sweep => Quantity::ChunksPerS,
        }
    }
}

/// Reads a row. An error names the row and the field that has the wrong type.
fn read_row(kind: Kind, fields: Map<String, Value>) -> Result<Row, String> {
    let read = |fields: &Map<String, Value>| Row::deserialize(&Value::Object(fields.clone()));
    match read(&fields) {
        Ok(row) => Ok(Row {
            fields: kind.row(),
            ..row
        }),
        Err(e) => {
            let mut whole = fields.clone();
            whole.retain(|name, value| {
                read(&Map::from_iter([(name.clone(), value.clone())])).is_ok()
            });
            let name = read(&whole).map_or_else(|_| String::new(), |row| row.name(kind));
            let name = Some(name).filter(|name| !name.is_empty());
            let name = name.map_or_else(String::new, |name| format!(" ({name})"));
            let told = culprit::<Row>(fields).unwrap_or_else(|| e.to_string());
            Err(format!("{name}: its {told}"))
        }
    }
}

/// A document without its rows, for reading.
#[derive(Deserialize)]
struct Whole(
    #[serde(with = "Document")]
    #[allow(dead_code)]
    Document,
);

impl Serialize for Document {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let all = Document::serialize(self, serde_json::value::Serializer);
        let values = all.and_then(|all| ordered(all, self.kind.document()));
        let values = values.map_err(S::Error::custom)?;
        let mut map = serializer.serialize_map(Some(values.len()))?;
        for (name, value) in &values {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}
