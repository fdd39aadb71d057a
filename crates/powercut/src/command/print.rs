//! Output of the suite.

use comfy_table::{Table, presets};
use logforce_powercut::own::OwnRun;
use logforce_powercut::report::{CellRow, Counts, Coverage};
use logforce_powercut::selfcheck::Checked;
use serde::Serialize;

/// Counts of one kind of cuts.
#[derive(Debug, Serialize)]
pub struct Section {
    /// The sum.
    pub total: Counts,
    /// By filesystem and method.
    pub rows: Vec<CellRow>,
    /// Events in the sessions that were cut.
    pub coverage: Coverage,
    /// The least that each row had to reach.
    pub least: u64,
    /// Number of threads.
    pub threads: usize,
    /// Duration, seconds.
    pub seconds: f64,
}

/// Returns a self-check as a line.
pub fn checked(c: &Checked) -> String {
    let verdict = match (c.is_as_it_should_be(), c.wrong) {
        (true, true) => "caught",
        (true, false) => "kept all",
        (false, true) => "NOT CAUGHT",
        (false, false) => "ACCUSED",
    };
    let filesystem = match c.filesystem_lost {
        0 => String::new(),
        n => format!(", the filesystem itself {n} times"),
    };
    format!(
        "{verdict:<10} {:<16} {}: lost {} of {} in {} cuts{filesystem}",
        c.filesystem, c.planted, c.lost, c.acknowledged, c.cycles
    )
}

/// Returns the reason for which a self-check fails the suite.
pub fn unexpected(c: &Checked) -> String {
    if c.wrong {
        format!(
            "self-check: nothing was lost by what has to lose something: {}",
            checked(c)
        )
    } else {
        format!(
            "self-check: something was lost by what does it right: {}",
            checked(c)
        )
    }
}

/// Returns the reason for which a count fails the suite.
pub fn too_few(name: &str, row: &CellRow, least: u64) -> String {
    format!(
        "{name}: {} {}: {} count, fewer than {least}",
        row.filesystem, row.method, row.counts.cycles
    )
}

/// Returns the reason for which lost filesystems fail the suite.
pub fn too_many_lost(name: &str, row: &CellRow) -> String {
    format!(
        "{name}: {} {}: the filesystem itself was lost {} times of {}",
        row.filesystem, row.method, row.counts.filesystem_lost, row.counts.cycles
    )
}

/// Returns a sum as a line.
pub fn total(t: &Counts) -> String {
    format!(
        "{} count ({} met nothing unflushed or acknowledged, {} tore the filesystem itself), {} acknowledged, {} lost; \
         at the cut {} sectors unflushed and {} writes in flight (medians)",
        t.cycles,
        t.empty,
        t.filesystem_lost,
        t.acknowledged,
        t.lost,
        t.median_unflushed_sectors,
        t.median_held_writes
    )
}

/// Prints all rows of a section.
pub fn section(name: &str, section: &Section) {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_header([
        "filesystem",
        "method",
        "cuts",
        "empty",
        "fs lost",
        "acknowledged",
        "lost",
        "unflushed",
        "in flight",
    ]);
    for row in &section.rows {
        let t = &row.counts;
        table.add_row([
            row.filesystem.to_owned(),
            row.method.to_owned(),
            t.cycles.to_string(),
            t.empty.to_string(),
            t.filesystem_lost.to_string(),
            t.acknowledged.to_string(),
            t.lost.to_string(),
            t.median_unflushed_sectors.to_string(),
            t.median_held_writes.to_string(),
        ]);
    }
    println!("{name}:\n{table}");
    println!("{name}: {}", section.coverage);
    println!(
        "{name} in {:.0} s: {}",
        section.seconds,
        total(&section.total)
    );
}

/// Returns a run of `logforce powercut` as a line.
pub fn own(run: &OwnRun) -> String {
    format!(
        "{:<16} {:<11} {}: {}",
        run.filesystem,
        if run.lying_disk {
            "lying disk"
        } else {
            "honest disk"
        },
        run.verdict,
        run.conclusion
    )
}
