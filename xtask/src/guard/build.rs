//! Build of a commit's program.

use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result, bail};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Program of one commit.
pub struct Built {
    /// Abbreviated commit id.
    pub id: String,
    pub program: PathBuf,
}

/// Builds the program of a commit below `home`, unless an earlier call has. All commits are built in the
/// same directory: the compiler stores paths in the program, which shift its code.
pub fn build(workspace: &Workspace, home: &Path, commit: &str) -> Result<Built> {
    let name = format!("{commit}^{{commit}}");
    let id = git(
        &workspace.root,
        &["rev-parse", "--short=12", "--verify", &name],
    )
    .with_context(|| format!("no such commit: {commit}"))?;
    let program = home.join(format!("logforce-{id}"));
    if program.exists() {
        return Ok(Built { id, program });
    }
    let source = home.join("source");
    remove(&workspace.root, &source)?;
    let path = source.as_os_str();
    git(
        &workspace.root,
        &[
            OsStr::new("worktree"),
            "add".as_ref(),
            "--detach".as_ref(),
            path,
            id.as_ref(),
        ],
    )?;
    let built = compile(&source, &home.join("build"));
    remove(&workspace.root, &source)?;
    let built = built.with_context(|| format!("build {commit} ({id})"))?;
    // Only a complete copy gets the name that later calls trust.
    let copy = home.join("copy");
    std::fs::copy(&built, &copy).with_context(|| format!("copy {}", built.display()))?;
    std::fs::rename(&copy, &program).with_context(|| format!("name {}", program.display()))?;
    Ok(Built { id, program })
}

fn compile(source: &Path, target: &Path) -> Result<PathBuf> {
    let mut command = Command::new(cargo());
    command.args([
        "build",
        "--release",
        "--locked",
        "--package",
        "logforce-cli",
    ]);
    command.current_dir(source).env("CARGO_TARGET_DIR", target);
    let status = command.status().context("start cargo")?;
    if !status.success() {
        bail!("cargo build: {status}");
    }
    Ok(target.join("release").join("logforce"))
}

/// Removes the work tree of an earlier call, if there is one.
fn remove(root: &Path, source: &Path) -> Result<()> {
    if source.exists() {
        std::fs::remove_dir_all(source).with_context(|| format!("remove {}", source.display()))?;
    }
    git(root, &["worktree", "prune"]).map(drop)
}

/// Runs git and returns the first line of its output.
fn git(root: &Path, words: &[impl AsRef<OsStr>]) -> Result<String> {
    let mut command = Command::new("git");
    command.arg("-C").arg(root).args(words);
    let out = command.output().context("start git")?;
    if !out.status.success() {
        bail!("git: {}", String::from_utf8_lossy(&out.stderr).trim());
    }
    let text = String::from_utf8_lossy(&out.stdout);
    Ok(text.lines().next().unwrap_or_default().to_owned())
}
