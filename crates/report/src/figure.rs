//! Contents of a report: sections of figures, each with its table.

use crate::chart::Chart;

/// A part of the report.
#[derive(Debug)]
pub struct Section {
    /// Identifier for the address in the page.
    pub id: &'static str,
    /// Heading.
    pub title: String,
    /// Introduction, in a sentence or two.
    pub lead: String,
    /// Charts, each with its table.
    pub figures: Vec<Figure>,
}

/// A chart and the table of its figures.
#[derive(Debug)]
pub struct Figure {
    /// Identifier for the address in the page and for the file name.
    pub id: String,
    /// Title.
    pub title: String,
    /// Explanation for the reader.
    pub caption: String,
    /// The drawing.
    pub chart: Chart,
    /// Table of every figure in the chart.
    pub table: Table,
}

/// A table of texts.
#[derive(Debug, Default)]
pub struct Table {
    /// Heads of the columns.
    pub heads: Vec<String>,
    /// Rows; the first cell names the row.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates an empty table with these heads.
    pub fn new<'a>(heads: impl IntoIterator<Item = &'a str>) -> Table {
        Table {
            heads: heads.into_iter().map(str::to_owned).collect(),
            rows: Vec::new(),
        }
    }

    /// Adds a row.
    pub fn push(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().collect());
    }
}
