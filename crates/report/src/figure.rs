//! What a report shows: sections of figures, each with its table.

use crate::chart::Chart;

/// A part of the report.
#[derive(Debug)]
pub struct Section {
    /// Of its address in the page.
    pub id: &'static str,
    /// Its heading.
    pub title: String,
    /// What it shows, in a sentence or two.
    pub lead: String,
    /// Its charts.
    pub figures: Vec<Figure>,
}

/// A chart and the table of its figures.
#[derive(Debug)]
pub struct Figure {
    /// Of its address in the page, and of its file.
    pub id: String,
    /// What it shows.
    pub title: String,
    /// How to read it.
    pub caption: String,
    /// The drawing.
    pub chart: Chart,
    /// Every figure in it.
    pub table: Table,
}

/// A table of words.
#[derive(Debug, Default)]
pub struct Table {
    /// Of the columns.
    pub heads: Vec<String>,
    /// The first cell names the row.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these heads.
    pub fn new<'a>(heads: impl IntoIterator<Item = &'a str>) -> Table {
        Table {
            heads: heads.into_iter().map(str::to_owned).collect(),
            rows: Vec::new(),
        }
    }

    /// With one more row.
    pub fn push(&mut self, row: impl IntoIterator<Item = String>) {
        self.rows.push(row.into_iter().collect());
    }
}
