//! Table of the results.

use super::ChildReport;
use comfy_table::{Table, presets};

/// Prints the reports of the four processes side by side.
pub(super) fn print(seen: &[ChildReport]) {
    let of = |name: &str| seen.iter().find(|s| s.part == name);
    let (Some(alone), Some(shared)) = (of("alone"), of("shared")) else {
        return;
    };
    let again = |name: &str| of(name).map_or(f64::NAN, |s| s.opening);
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table.set_header(["", "alone", "in one environment"]);
    let mib = |bytes: u64| format!("{:.0} MiB", bytes as f64 / f64::from(1 << 20));
    let mut row = |what: &str, of: &dyn Fn(&ChildReport) -> String| {
        table.add_row([what.to_owned(), of(alone), of(shared)]);
    };
    row("threads", &|s| s.threads.to_string());
    row("descriptors, committing", &|s| s.descriptors.to_string());
    row("descriptors, idle", &|s| s.idle_descriptors.to_string());
    row("resident memory", &|s| mib(s.memory));
    row("files", &|s| mib(s.bytes));
    row("processor", &|s| format!("{:.0} %", 100.0 * s.processor));
    row("device writes a commit", &|s| format!("{:.2}", s.writes));
    row("syncs a commit", &|s| format!("{:.2}", s.barriers));
    row("opened new", &|s| format!("{:.1} s", s.opening));
    table.add_row([
        "opened after a kill".to_owned(),
        format!("{:.1} s", again("reopen-alone")),
        format!("{:.1} s", again("reopen-shared")),
    ]);
    println!("\n{table}");
}
