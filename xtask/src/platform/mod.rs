//! `cargo xtask platform`: what this system makes of the tests and of the disk, written down for
//! people who have no such system. Runs wherever the project compiles.

mod options;
mod private;
mod report;
mod steps;

use crate::workspace::Workspace;
use anyhow::{Context, Result, bail};
pub use options::Options;
use private::Private;
use report::PlatformReport;
use std::path::{Path, PathBuf};

/// The command. True if no test failed and everything could be asked and measured.
pub fn command(options: &Options) -> Result<bool> {
    let workspace = Workspace::find()?;
    // First, so that a wrong option is reported before the tests run.
    let dir = measured(options, &workspace)?;
    let logs = workspace.target.join("xtask");
    std::fs::create_dir_all(&logs).with_context(|| logs.display().to_string())?;
    crate::test::end_all_on_ctrl_c(|| {})?;

    let mut report = PlatformReport::new(steps::commit(&workspace), steps::compiler());
    if !options.without_tests {
        println!("running the tests; that takes some minutes …");
        let tests = steps::tests(&workspace, &logs)?;
        println!("    {}", tests.counts);
        report.tests = Some(tests);
    }
    println!("building the command …");
    match steps::build(&workspace, &logs)? {
        Ok(program) => {
            println!("asking the system about {} …", dir.display());
            report.facts = Some(steps::facts(&program, &dir, &logs)?);
            println!(
                "measuring there for about {} seconds …",
                options.seconds.ceil()
            );
            report.bench = Some(steps::bench(&program, &dir, options.seconds, &logs)?);
        }
        Err(why) => report.build = Some(why),
    }

    let file = workspace.target.join(report.file_name());
    let mut value = report.to_json();
    Private::of(&workspace).hide(&mut value);
    let text = serde_json::to_string_pretty(&value)?;
    std::fs::write(&file, text + "\n").with_context(|| file.display().to_string())?;
    for line in report.wrong() {
        println!("{line}");
    }
    println!(
        "\nWritten to {}\nRead it, and send it to those who gave you Logforce.\nPaths of this checkout and of your home folder are left out; the names of disk, volume and mount point\nare in it, and --dir as you gave it.",
        file.display()
    );
    Ok(report.wrong().is_empty())
}

/// The folder whose disk is measured: the one that was named, else the build's, since the tests
/// write there as well.
fn measured(options: &Options, workspace: &Workspace) -> Result<PathBuf> {
    let dir: &Path = options.dir.as_deref().unwrap_or(&workspace.target);
    let found = dir
        .canonicalize()
        .with_context(|| format!("{}: cannot be measured", dir.display()))?;
    if !found.is_dir() {
        bail!(
            "{} is no folder: nothing can be measured there",
            dir.display()
        );
    }
    Ok(found)
}
