//! The SQLite extension, packed for its users: the library, and a wheel for Python that holds it.

use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Directory of the Python package.
const PYTHON: &str = "crates/sqlite/python";
/// File name of the library on Linux. SQLite finds the entry point by it.
pub const LIBRARY: &str = "liblogforce_sqlite.so";

/// Builds the extension and its wheel below `target/sqlite`. True, or an error.
pub fn command() -> Result<bool> {
    let workspace = Workspace::find()?;
    let mut build = Command::new(cargo());
    build.current_dir(&workspace.root);
    build.args([
        "build",
        "--release",
        "--locked",
        "-p",
        "logforce-sqlite-extension",
    ]);
    run(&mut build)?;
    let built = workspace.target.join("release").join(LIBRARY);
    let out = workspace.target.join("sqlite");
    let wheel = pack(&workspace, &built, &out)?;
    println!("{}", out.join(LIBRARY).display());
    println!("{}: pip install it", wheel.display());
    Ok(true)
}

/// Copies the library to `out` without what only a debugger reads, and makes the wheel there.
pub fn pack(workspace: &Workspace, library: &Path, out: &Path) -> Result<PathBuf> {
    if out.exists() {
        std::fs::remove_dir_all(out).with_context(|| format!("remove {}", out.display()))?;
    }
    let package = out.join("python");
    let sources = workspace.root.join(PYTHON);
    std::fs::create_dir_all(package.join("logforce_sqlite"))?;
    for file in [
        "pyproject.toml",
        "setup.py",
        "logforce_sqlite/__init__.py",
        "logforce_sqlite/py.typed",
    ] {
        std::fs::copy(sources.join(file), package.join(file)).with_context(|| file.to_owned())?;
    }
    let stripped = out.join(LIBRARY);
    run(Command::new("strip").arg("-o").arg(&stripped).arg(library))?;
    std::fs::copy(&stripped, package.join("logforce_sqlite").join(LIBRARY))?;
    let python = virtual_environment(out)?;
    run(Command::new(&python)
        .args(["-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir"])
        .arg(out)
        .arg(&package))?;
    let mut wheels = std::fs::read_dir(out)?.filter_map(|entry| Some(entry.ok()?.path()));
    wheels
        .find(|path| path.extension().is_some_and(|e| e == "whl"))
        .context("pip has made no wheel")
}

/// Makes a virtual environment for Python in `out`, and returns its Python. Debian's comes first: others may
/// not load extensions.
pub fn virtual_environment(out: &Path) -> Result<PathBuf> {
    let dir = out.join("venv");
    let python = dir.join("bin/python");
    if !python.exists() {
        let system = Path::new("/usr/bin/python3");
        let system = if system.exists() {
            system
        } else {
            Path::new("python3")
        };
        run(Command::new(system).args(["-m", "venv"]).arg(&dir)).context("install python3-venv")?;
    }
    Ok(python)
}

fn run(command: &mut Command) -> Result<()> {
    let status = command
        .status()
        .with_context(|| format!("run {command:?}"))?;
    ensure!(status.success(), "{command:?}: {status}");
    Ok(())
}
