//! Tables that fit: columns with headings, and sections with titles. On a narrow terminal the least needed
//! columns are left out.

use comfy_table::presets;
use comfy_table::{CellAlignment, ContentArrangement, LineStyle, Table, TableStyle};

/// Width of a report if the terminal's width is unknown, in characters.
pub const WIDTH: usize = 120;

/// Style without borders, except a thin line under the headings.
const STYLE: TableStyle = presets::NOTHING.header_separator(LineStyle::none().fill('─'));

/// Marker of a title's row while a table is being laid out.
const TITLE: char = '\u{a7}';

/// Column of rows of type `R`.
pub struct Column<R> {
    /// Heading; lines are separated by `
    /// `.
    pub heading: &'static str,
    /// Rank for leaving the column out on a narrow terminal, the highest first; 0 for never.
    pub expendable: u8,
    /// True for a column of words, false for numbers.
    pub is_text: bool,
    /// Function that returns the text of a row's cell.
    pub cell: fn(&R) -> String,
}

impl<R> Column<R> {
    /// Makes a column of numbers.
    pub const fn number(
        heading: &'static str,
        expendable: u8,
        cell: fn(&R) -> String,
    ) -> Column<R> {
        Column {
            heading,
            expendable,
            is_text: false,
            cell,
        }
    }

    /// Makes a column of words.
    pub const fn text(heading: &'static str, expendable: u8, cell: fn(&R) -> String) -> Column<R> {
        Column {
            heading,
            expendable,
            is_text: true,
            cell,
        }
    }
}

/// Rows under a title, which may be wider than the first column.
pub struct Section<R> {
    /// Title of the section.
    pub title: String,
    /// Rows of the section.
    pub rows: Vec<R>,
}

/// Puts each row into the section of its title, in the order in which titles first appear.
pub fn sections<R>(rows: impl IntoIterator<Item = (String, R)>) -> Vec<Section<R>> {
    let mut sections: Vec<Section<R>> = Vec::new();
    for (title, row) in rows {
        match sections.iter_mut().find(|s| s.title == title) {
            Some(section) => section.rows.push(row),
            None => sections.push(Section {
                title,
                rows: vec![row],
            }),
        }
    }
    sections
}

/// Returns the table, at most `width` characters wide if leaving out columns suffices. Also returns the
/// headings of the columns that were left out.
pub fn fitted<R>(
    columns: &[Column<R>],
    sections: &[Section<R>],
    width: usize,
) -> (String, Vec<String>) {
    let mut columns: Vec<&Column<R>> = columns.iter().collect();
    let mut left_out = Vec::new();
    loop {
        let fits = |gap| {
            let table = render(&columns, sections, gap);
            Some(table).filter(|table| widest(table) <= width)
        };
        if let Some(table) = fits(2).or_else(|| fits(1)) {
            return (table, left_out);
        }
        let next = columns.iter().enumerate().max_by_key(|(_, c)| c.expendable);
        match next.filter(|(_, c)| c.expendable > 0) {
            Some((index, column)) => {
                left_out.push(column.heading.replace('\n', " "));
                columns.remove(index);
            }
            None => return (render(&columns, sections, 1), left_out),
        }
    }
}

/// Returns the number of characters of the longest line.
pub fn widest(text: &str) -> usize {
    text.lines()
        .map(|line| line.chars().count())
        .max()
        .unwrap_or(0)
}

/// Makes an empty table in the common style.
pub fn empty_table() -> Table {
    let mut table = Table::new();
    table
        .load_style(STYLE)
        .set_content_arrangement(ContentArrangement::Disabled);
    table
}

/// Returns the table as text, with `gap` spaces between columns.
pub fn finish(mut table: Table, left_aligned: &[usize], gap: u16) -> String {
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, gap));
        if !left_aligned.contains(&index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let text = table.to_string();
    text.lines()
        .map(|line| line.trim_end().to_owned() + "\n")
        .collect()
}

/// Makes a table in the common style; the columns `left_aligned` hold words.
pub fn plain(
    headings: &[String],
    rows: impl IntoIterator<Item = Vec<String>>,
    left_aligned: &[usize],
) -> String {
    let mut table = empty_table();
    table.set_header(headings);
    for row in rows {
        table.add_row(row);
    }
    finish(table, left_aligned, 2)
}

fn render<R>(columns: &[&Column<R>], sections: &[Section<R>], gap: u16) -> String {
    let mut table = empty_table();
    table.set_header(columns.iter().map(|c| c.heading));
    for (number, section) in sections.iter().enumerate() {
        // Marks the row of a title, which may be wider than the column.
        let mut heading = vec![format!("{TITLE}{number}")];
        heading.resize(columns.len(), String::new());
        table.add_row(heading);
        for row in &section.rows {
            table.add_row(columns.iter().enumerate().map(|(i, c)| {
                let cell = (c.cell)(row);
                if i == 0 { format!("  {cell}") } else { cell }
            }));
        }
    }
    let left: Vec<usize> = columns
        .iter()
        .enumerate()
        .filter(|(_, c)| c.is_text)
        .map(|(i, _)| i)
        .collect();
    let titled = |line: &str| {
        let number = line
            .strip_prefix(TITLE)
            .and_then(|n| n.parse::<usize>().ok());
        let section = number.and_then(|n| sections.get(n));
        section.map_or(line, |s| &s.title).to_owned() + "\n"
    };
    finish(table, &left, gap).lines().map(titled).collect()
}

/// Breaks `text` between words into lines of at most `width` characters. All lines but the first are indented
/// by `indent`.
pub fn wrap(text: &str, width: usize, indent: usize) -> String {
    let mut out = String::new();
    let mut column = 0;
    for word in text.split_whitespace() {
        let length = word.chars().count();
        if column > 0 && column + 1 + length > width {
            out.push('\n');
            out.push_str(&" ".repeat(indent));
            column = indent;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += length;
    }
    out.push('\n');
    out
}

/// Returns a line with a label, whose value begins at column `indent` and is wrapped to `width` characters.
pub fn labelled(label: &str, value: &str, indent: usize, width: usize) -> String {
    // Several spaces separate the two; wrapping would leave only one.
    let value = wrap(value, width.max(indent + 20) - indent, 0);
    let value = value.trim_end().replace('\n', &format!("\n{:indent$}", ""));
    format!("{label:<indent$}{value}\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wraps_between_words() {
        assert_eq!(wrap("one two three", 7, 2), "one two\n  three\n");
        assert_eq!(wrap("µµµ µµµ", 7, 0), "µµµ µµµ\n");
        assert_eq!(wrap("longerthanwidth x", 4, 0), "longerthanwidth\nx\n");
    }

    #[test]
    fn a_value_stays_in_its_column() {
        assert_eq!(
            labelled("a", "one two three four five six", 4, 24),
            "a   one two three four\n    five six\n"
        );
        assert_eq!(labelled("", "x", 4, 1), "    x\n");
    }

    #[test]
    fn rows_stand_under_their_titles_and_columns_go_by_need() {
        let rows = [("a title:", 1), ("another:", 2), ("a title:", 3)];
        let sections = sections(rows.map(|(t, n)| (t.to_owned(), n)));
        let columns = [
            Column::text("name", 0, |n: &i32| format!("n{n}")),
            Column::number("first", 2, |n: &i32| (n * 1000).to_string()),
            Column::number("second", 1, |n: &i32| (n * 1000).to_string()),
        ];
        let (table, left_out) = fitted(&columns, &sections, 80);
        let at = |text: &str| table.find(text).unwrap();
        assert!(at("n1") < at("n3") && at("n3") < at("another:") && at("another:") < at("n2"));
        assert!(left_out.is_empty());
        let (table, left_out) = fitted(&columns, &sections, 16);
        assert!(widest(&table) <= 16, "{table}");
        assert_eq!(left_out, ["first"]);
    }
}
