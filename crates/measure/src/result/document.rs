//! The document of every scenario: what `--json` writes, and `report` and `compare` read.

mod clean;
mod culprit;

use super::kind::Kind;
use super::machine::Machine;
use super::name::{Name, optional};
use super::row::{Quantity, Row, ordered};
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
    /// The user stopped it: rows hold what was measured until then.
    pub interrupted: bool,
    /// The machine.
    pub machine: Machine,
    /// Commit method, where all rows have the same.
    pub method: Name,
    /// Guarantee of a force, in that case.
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
    /// Chunks by which methods are held against each other in a sweep, bytes.
    pub usual_chunk_bytes: u64,
    /// Each way to have writes in flight in a sweep, and what it is worth.
    pub methods: Vec<Row>,
    /// The rows.
    pub rows: Vec<Row>,
    /// Number of writes in flight up to which more of them pay, for each way and chunk of a sweep.
    pub knees: Vec<Row>,
}

/// Why a file is no result of a measurement that this program can use.
#[derive(Debug, thiserror::Error)]
pub enum ReportError {
    /// It cannot be read.
    #[error("cannot read {name}: {source}")]
    Read {
        /// The file.
        name: String,
        /// The system's error.
        source: std::io::Error,
    },
    /// It is something else.
    #[error("{name} is no result of `logforce bench --json`: {why}")]
    NoResult {
        /// The file.
        name: String,
        /// The mistake.
        why: String,
    },
    /// A newer program wrote it.
    #[error(
        "{name} has version {version} of {schema}, and this program reads version {known}: use a newer one"
    )]
    Newer {
        /// The file.
        name: String,
        /// Kind of the value.
        schema: String,
        /// Its version.
        version: u64,
        /// Known values.
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
    /// It cannot be read, or is no result that is known here.
    pub fn read(path: &Path) -> Result<Document, ReportError> {
        let name = path.display().to_string();
        let text = std::fs::read(path).map_err(|source| ReportError::Read {
            name: name.clone(),
            source,
        })?;
        let value = serde_json::from_slice(&text).map_err(|e| ReportError::NoResult {
            name: name.clone(),
            why: format!("no JSON: {e}"),
        })?;
        Document::from_value(value, &name)
    }

    /// Reads JSON that was called `name`.
    ///
    /// # Errors
    /// It is no result that is known here.
    pub fn from_value(value: Value, name: &str) -> Result<Document, ReportError> {
        let no_result = |why: String| ReportError::NoResult {
            name: name.to_owned(),
            why,
        };
        let mut value = value;
        clean_all(&mut value);
        let Value::Object(mut head) = value else {
            return Err(no_result("it is no JSON object".to_owned()));
        };
        let schema = head.get("schema").and_then(Value::as_str);
        let Some(schema) = schema.map(str::to_owned) else {
            return Err(no_result("it has no 'schema'".to_owned()));
        };
        let Some(kind) = Kind::ALL.into_iter().find(|k| k.schema() == schema) else {
            return Err(no_result(format!("its schema is '{schema}'")));
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
                return Err(no_result(format!("row {row} is no object")));
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

    /// Returns the rows with numbers.
    pub fn measured(&self) -> impl Iterator<Item = &Row> {
        let is_measured = |r: &&Row| r.error.is_none() && !self.made_nothing(r);
        self.rows.iter().filter(is_measured)
    }

    /// Returns whether a row ended without an error and without a commit: ratios to a figure of 0 say
    /// nothing.
    pub fn made_nothing(&self, row: &Row) -> bool {
        let [figure, ..] = row.triple(self.kind.quantity());
        row.error.is_none() && figure.is_some_and(|v| v <= 0.0)
    }
}

impl Kind {
    /// Returns what rows are mainly judged by.
    pub fn quantity(self) -> Quantity {
        match self {
            Kind::Journal | Kind::Map => Quantity::MsPerCommit,
            Kind::Group | Kind::Pages | Kind::Inserts => Quantity::CommitsPerS,
            Kind::Sweep => Quantity::ChunksPerS,
        }
    }
}

/// Reads a row; says which row it is and which of its fields has another type.
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

/// A document without its rows, as it is read.
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
