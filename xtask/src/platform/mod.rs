//! `cargo xtask platform`: results of the tests and of the disk on this system, for developers who do
//! not have such a system. Runs on every system for which the project compiles.

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

/// Runs the command. Returns true if no test failed and every step gave a result.
pub fn command(options: &Options) -> Result<bool> {
    let workspace = Workspace::find()?;
    // First, so that a wrong option is reported before the tests run.
    let dir = measured(options, &workspace)?;
    let logs = workspace.target.join("xtask");
    std::fs::create_dir_all(&logs).with_context(|| logs.display().to_string())?;
    crate::test::end_all_on_ctrl_c(|| {})?;

    let mut report = PlatformReport::new(steps::commit(&workspace), steps::compiler());
    if !options.without_tests {
        println!("running the tests; this takes some minutes …");
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
        "\nWritten to {}\nPlease read it, and send it to the people who gave you Logforce.\nPaths of this checkout and of your home folder are replaced. It contains the names of the disk, the volume\nand the mount point, and --dir as you gave it.",
        file.display()
    );
    Ok(report.wrong().is_empty())
}

/// Returns the folder whose disk is measured: the given one, or else the target folder, where the tests
/// write as well.
fn measured(options: &Options, workspace: &Workspace) -> Result<PathBuf> {
    let dir: &Path = options.dir.as_deref().unwrap_or(&workspace.target);
    let found = dir
        .canonicalize()
        .with_context(|| format!("cannot measure {}", dir.display()))?;
    if !found.is_dir() {
        bail!(
            "{} is not a folder: nothing can be measured there",
            dir.display()
        );
    }
    Ok(found)
}
