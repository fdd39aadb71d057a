//! What a scenario wrote as JSON.

mod clean;
mod types;

pub use clean::clean;
use clean::clean_all;
use logforce_measure::distribution::FIELD;
use serde::Serialize;
use serde_json::{Map, Value};
use std::path::Path;

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
        /// What is wrong with it.
        why: String,
    },
    /// A newer program wrote it.
    #[error(
        "{name} has version {version} of {schema}, and this program reads version {known}: use a newer one"
    )]
    Newer {
        /// The file.
        name: String,
        /// What it is.
        schema: String,
        /// Its version.
        version: u64,
        /// What is known.
        known: u64,
    },
}

/// A scenario of `logforce bench`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A commit per chunk, by each method.
    Journal,
    /// Commits to one log by many threads.
    Group,
    /// Pages and a header.
    Pages,
    /// Small commits to a large file.
    Map,
    /// Writes in flight by size.
    Sweep,
    /// Inserts at a till.
    Inserts,
}

/// What rows are compared by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Metric {
    /// The field.
    pub field: &'static str,
    /// Its unit, for people.
    pub unit: &'static str,
    /// More is better.
    pub more_is_better: bool,
    /// Behind the row's name, where it is not what the row is mainly judged by.
    pub of: &'static str,
    /// The flag that says how much this is the time of, and its usual number.
    pub amount: Option<(&'static str, u64)>,
}

const fn metric(field: &'static str, unit: &'static str, more_is_better: bool) -> Metric {
    Metric {
        field,
        unit,
        more_is_better,
        of: "",
        amount: None,
    }
}

const RATE: Metric = metric("commits_per_s", "commits/s", true);
const CHUNKS: Metric = metric("chunks_per_s", "chunks/s", true);
const TIME: Metric = metric("ms_per_commit", "ms a commit", false);
const PAIRS: Metric = Metric {
    of: "pairs in s",
    amount: Some(("--pairs", logforce_measure::inserts::PAIRS)),
    ..metric("pairs_s", "s", false)
};

impl Kind {
    /// All of them.
    pub const ALL: [Kind; 6] = [
        Kind::Journal,
        Kind::Group,
        Kind::Pages,
        Kind::Map,
        Kind::Sweep,
        Kind::Inserts,
    ];

    /// `schema` in its JSON.
    pub fn schema(self) -> &'static str {
        match self {
            Kind::Journal => logforce_measure::report::SCHEMA,
            Kind::Group => logforce_measure::group::report::SCHEMA,
            Kind::Pages => logforce_measure::pages::report::SCHEMA,
            Kind::Map => logforce_measure::map::report::SCHEMA,
            Kind::Sweep => logforce_measure::sweep::report::SCHEMA,
            Kind::Inserts => logforce_measure::inserts::report::SCHEMA,
        }
    }

    fn version(self) -> u64 {
        let version = match self {
            Kind::Journal => logforce_measure::report::VERSION,
            Kind::Group => logforce_measure::group::report::VERSION,
            Kind::Pages => logforce_measure::pages::report::VERSION,
            Kind::Map => logforce_measure::map::report::VERSION,
            Kind::Sweep => logforce_measure::sweep::report::VERSION,
            Kind::Inserts => logforce_measure::inserts::report::VERSION,
        };
        version.into()
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Journal => "journal",
            Kind::Group => "group",
            Kind::Pages => "pages",
            Kind::Map => "map",
            Kind::Sweep => "journal --sweep",
            Kind::Inserts => "inserts",
        }
    }

    /// Of the page.
    pub fn title(self) -> &'static str {
        match self {
            Kind::Journal => "What a commit costs on this disk",
            Kind::Group => "Commits to one log by many threads",
            Kind::Pages => "Commits of N pages and a header",
            Kind::Map => "Small commits to a large file",
            Kind::Sweep => "How many writes in flight, and of what size",
            Kind::Inserts => "What durability costs at a till",
        }
    }

    /// The fields that say which row it is.
    pub fn key(self) -> &'static [&'static str] {
        match self {
            Kind::Journal => &["subject", "method", "file_state", "threads", "bytes"],
            Kind::Group => &["threads", "record_bytes"],
            Kind::Pages => &["layout", "way", "pages"],
            Kind::Map => &["file_bytes", "method"],
            Kind::Sweep => &["method", "queue", "chunk_bytes", "depth"],
            Kind::Inserts => &["system", "settings", "clients"],
        }
    }

    /// What rows are compared by, the main one first.
    pub fn metrics(self) -> &'static [Metric] {
        match self {
            Kind::Journal | Kind::Map => &[TIME],
            Kind::Group | Kind::Pages => &[RATE],
            Kind::Inserts => &[RATE, PAIRS],
            Kind::Sweep => &[CHUNKS],
        }
    }

    /// The main one.
    pub fn metric(self) -> &'static Metric {
        &self.metrics()[0]
    }
}

/// One row.
#[derive(Debug, Clone)]
pub struct Row(Map<String, Value>);

impl Row {
    /// A number that was measured.
    pub fn number(&self, field: &str) -> Option<f64> {
        self.0.get(field)?.as_f64()
    }

    /// A whole number that says which row it is.
    pub fn count(&self, field: &str) -> u64 {
        self.0.get(field).and_then(Value::as_u64).unwrap_or(0)
    }

    /// A word; empty if there is none.
    pub fn text(&self, field: &str) -> &str {
        self.0.get(field).and_then(Value::as_str).unwrap_or("")
    }

    /// Yes or no; `None` if that is not said.
    pub fn flag(&self, field: &str) -> Option<bool> {
        self.0.get(field)?.as_bool()
    }

    /// Why there are no numbers.
    pub fn error(&self) -> Option<&str> {
        self.0.get("error")?.as_str()
    }

    /// How latencies are distributed: so many percent took no longer than so many microseconds,
    /// ascending. Empty if that is not known.
    pub fn distribution(&self) -> Vec<(f64, f64)> {
        let points = self.0.get(FIELD).and_then(Value::as_object);
        let points = points.into_iter().flatten().filter_map(|(percent, us)| {
            let percent = percent.parse::<f64>().ok()?;
            Some((percent, us.as_f64()?))
        });
        // Anybody may have written the file.
        let is_one = |(percent, us): &(f64, f64)| {
            (0.0..=100.0).contains(percent) && *us > 0.0 && us.is_finite()
        };
        let mut points: Vec<(f64, f64)> = points.filter(is_one).collect();
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        points
    }

    /// All fields, in the order in which they were written.
    pub fn fields(&self) -> impl Iterator<Item = (&str, &Value)> {
        self.0.iter().map(|(name, value)| (name.as_str(), value))
    }
}

/// The result of one run.
#[derive(Debug, Clone)]
pub struct Document {
    kind: Kind,
    head: Map<String, Value>,
    rows: Vec<Row>,
}

impl Document {
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
        let no_result = |why: String| ReportError::NoResult {
            name: name.clone(),
            why,
        };
        let value =
            serde_json::from_slice(&text).map_err(|e| no_result(format!("no JSON: {e}")))?;
        Document::from_value(value, &name)
    }

    /// Of what was measured just now.
    ///
    /// # Errors
    /// It is no result that is known here.
    pub fn of(report: &impl Serialize) -> Result<Document, ReportError> {
        let name = "this result";
        let value = serde_json::to_value(report).map_err(|e| ReportError::NoResult {
            name: name.to_owned(),
            why: e.to_string(),
        })?;
        Document::from_value(value, name)
    }

    /// Of JSON that was called `name`.
    ///
    /// # Errors
    /// It is no result that is known here.
    pub fn from_value(value: Value, name: &str) -> Result<Document, ReportError> {
        let no_result = |why: &str| ReportError::NoResult {
            name: name.to_owned(),
            why: why.to_owned(),
        };
        let mut value = value;
        clean_all(&mut value);
        let Value::Object(mut head) = value else {
            return Err(no_result("it is no JSON object"));
        };
        let schema = head.get("schema").and_then(Value::as_str);
        let Some(schema) = schema.map(str::to_owned) else {
            return Err(no_result("it has no 'schema'"));
        };
        let Some(kind) = Kind::ALL.into_iter().find(|k| k.schema() == schema) else {
            return Err(no_result(&format!("its schema is '{schema}'")));
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
        let Some(Value::Array(rows)) = head.remove("rows") else {
            return Err(no_result("it has no 'rows'"));
        };
        let rows = rows.into_iter().enumerate().map(|(n, row)| match row {
            Value::Object(row) => Ok(Row(row)),
            _ => Err(no_result(&format!("row {} is no object", n + 1))),
        });
        let rows = rows.collect::<Result<Vec<Row>, _>>()?;
        types::check(kind, &head, &rows).map_err(|why| no_result(&why))?;
        Ok(Document { kind, head, rows })
    }

    /// Which scenario it is.
    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// What was measured.
    pub fn rows(&self) -> &[Row] {
        &self.rows
    }

    /// Those with numbers.
    pub fn measured(&self) -> impl Iterator<Item = &Row> {
        let is_measured = |r: &&Row| r.error().is_none() && !self.made_nothing(r);
        self.rows.iter().filter(is_measured)
    }

    /// It ended without an error and without a commit: ratios to a figure of 0 say nothing.
    pub fn made_nothing(&self, row: &Row) -> bool {
        let figure = row.number(self.kind.metric().field);
        row.error().is_none() && figure.is_some_and(|v| v <= 0.0)
    }

    /// A sentence or a word of the head; empty if there is none.
    pub fn text(&self, field: &str) -> &str {
        self.head.get(field).and_then(Value::as_str).unwrap_or("")
    }

    /// Sentences of the head.
    pub fn sentences(&self, field: &str) -> Vec<&str> {
        let all = self.head.get(field).and_then(Value::as_array);
        all.into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .collect()
    }

    /// A whole number of the head; 0 if there is none.
    pub fn count(&self, field: &str) -> u64 {
        self.head.get(field).and_then(Value::as_u64).unwrap_or(0)
    }

    /// Objects of the head beside its rows.
    pub fn objects(&self, field: &str) -> Vec<Row> {
        let all = self.head.get(field).and_then(Value::as_array);
        let all = all.into_iter().flatten().filter_map(Value::as_object);
        all.cloned().map(Row).collect()
    }

    /// The user stopped it.
    pub fn is_interrupted(&self) -> bool {
        self.head.get("interrupted").and_then(Value::as_bool) == Some(true)
    }

    /// A field of what it ran on.
    pub fn machine(&self, field: &str) -> Option<&Value> {
        self.head.get("machine")?.get(field)
    }

    /// What it ran on, as words; empty if that is not known.
    pub fn machine_text(&self, field: &str) -> String {
        match self.machine(field) {
            Some(Value::String(text)) => text.clone(),
            Some(Value::Null) | None => String::new(),
            Some(other) => other.to_string(),
        }
    }
}
