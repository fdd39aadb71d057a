//! A release: everything that is published for one system, below `target/dist`.
//!
//! It is made from a tagged commit without changes. `docs/policies.md` has the steps before and after.

use crate::flagged;
use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of the repository that an archive gets.
const FILES: [&str; 4] = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// Makes a release for one system: the archive with the command, its manual pages, completions and bill of
/// materials (CycloneDX), the packages of the published crates, and the checksums of all.
#[derive(Debug, PartialEq, Eq, clap::Args)]
pub struct Options {
    /// The system; on Linux that of this machine with musl, so that the command is one static file.
    #[arg(long, value_name = "TRIPLE")]
    target: Option<String>,
    /// Tries the recipe on any commit and any state of the sources. Not for publishing.
    #[arg(long)]
    trial: bool,
}

/// The command. True, or an error.
pub fn command(options: &Options) -> Result<bool> {
    let workspace = Workspace::find()?;
    let version = version(&workspace)?;
    let is_ready = ready(&workspace.root, &version);
    match options.trial {
        true => is_ready.unwrap_or_else(|e| println!("a trial, not for publishing: {e:#}")),
        false => is_ready?,
    }
    let host = flagged::host()?;
    let target = match &options.target {
        Some(target) => target.clone(),
        None => host.replace("-linux-gnu", "-linux-musl"),
    };
    let out = workspace.target.join("dist");
    let name = format!("logforce-{version}-{target}");
    let dir = out.join(&name);
    if out.exists() {
        std::fs::remove_dir_all(&out).with_context(|| format!("remove {}", out.display()))?;
    }
    std::fs::create_dir_all(&dir).with_context(|| format!("make {}", dir.display()))?;

    let program = build(&workspace, &target)?;
    let copied = dir.join(program.file_name().context("a program without a name")?);
    std::fs::copy(&program, &copied).with_context(|| format!("copy {}", program.display()))?;
    for file in FILES {
        std::fs::copy(workspace.root.join(file), dir.join(file))
            .with_context(|| file.to_owned())?;
    }
    if target.split('-').next() == host.split('-').next() && target.contains(std::env::consts::OS) {
        described(&copied, &dir, &version)?;
    } else {
        println!(
            "{target} is another system: no manual pages or completions, and the command was not run"
        );
    }
    let bill = dir.join("sbom.cdx.json");
    bill_of_materials(&workspace, &target, &bill)?;

    let archive = format!("{name}.tar.gz");
    run(Command::new("tar")
        .current_dir(&out)
        .args(["-czf", &archive, &name]))?;
    std::fs::remove_dir_all(&dir)?;
    let mut made = vec![archive];
    made.extend(packages(&workspace, &version, &out)?);
    made.sort();
    let sums = output(Command::new("sha256sum").current_dir(&out).args(&made))?;
    std::fs::write(out.join(format!("SHA256SUMS-{target}")), &sums)?;
    println!("{}below {}", sums, out.display());
    Ok(true)
}

fn version(workspace: &Workspace) -> Result<String> {
    let id = output(Command::new(cargo()).current_dir(&workspace.root).args([
        "pkgid",
        "--package",
        "logforce",
    ]))?;
    let (_, version) = id
        .trim()
        .rsplit_once(['#', '@'])
        .context("cargo pkgid names no version")?;
    Ok(version.to_owned())
}

/// Refuses a commit that is not the one of this version's tag, and a changelog without it.
fn ready(root: &Path, version: &str) -> Result<()> {
    let git = |words: &[&str]| output(Command::new("git").current_dir(root).args(words));
    let changes = git(&["status", "--porcelain"])?;
    ensure!(
        changes.is_empty(),
        "the sources are changed: commit\n{changes}"
    );
    let tag = format!("v{version}");
    let tags = git(&["tag", "--points-at", "HEAD"])?;
    ensure!(
        tags.lines().any(|t| t == tag),
        "this commit has no tag {tag}: git tag --sign {tag}"
    );
    let changelog = std::fs::read_to_string(root.join("CHANGELOG.md")).context("CHANGELOG.md")?;
    newest_is(&changelog, version)
}

/// Refuses a changelog whose first section is not this version, with a date.
fn newest_is(changelog: &str, version: &str) -> Result<()> {
    let newest = changelog.lines().find_map(|line| line.strip_prefix("## "));
    let newest = newest.unwrap_or("none");
    let is_it = newest
        .strip_prefix(version)
        .is_some_and(|date| date.starts_with(" (2") && date.ends_with(')'));
    ensure!(
        is_it,
        "CHANGELOG.md begins with {newest:?}: name {version} and its date, \"## {version} (YYYY-MM-DD)\""
    );
    Ok(())
}

/// Builds the command.
fn build(workspace: &Workspace, target: &str) -> Result<PathBuf> {
    let mut cargo = Command::new(cargo());
    // Debug information is two thirds of the file.
    cargo.env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo");
    run(cargo.current_dir(&workspace.root).args([
        "build",
        "--release",
        "--locked",
        "--package",
        "logforce-cli",
        "--target",
        target,
    ]))
    .with_context(|| format!("if the system is missing: rustup target add {target}"))?;
    let suffix = if target.contains("windows") {
        ".exe"
    } else {
        ""
    };
    let program = workspace
        .target
        .join(target)
        .join("release")
        .join(format!("logforce{suffix}"));
    Ok(program)
}

/// Runs the command for its version, its manual pages and its completions.
fn described(program: &Path, dir: &Path, version: &str) -> Result<()> {
    let said = output(Command::new(program).arg("--version"))?;
    ensure!(said.contains(version), "the command says that it is {said}");
    run(Command::new(program).arg("man").arg(dir.join("man")))?;
    let completions = dir.join("completions");
    std::fs::create_dir(&completions)?;
    for shell in ["bash", "fish", "zsh"] {
        let text = output(Command::new(program).args(["completions", shell]))?;
        std::fs::write(completions.join(format!("logforce.{shell}")), text)?;
    }
    Ok(())
}

/// Writes the bill of materials of the command.
fn bill_of_materials(workspace: &Workspace, target: &str, to: &Path) -> Result<()> {
    const NAME: &str = "logforce-bill";
    let made = run(Command::new(cargo())
        .current_dir(&workspace.root)
        .args(["cyclonedx", "--manifest-path", "crates/cli/Cargo.toml"])
        .args(["--format", "json", "--spec-version", "1.5"])
        .args(["--target", target, "--override-filename", NAME]))
    .context("if the command is missing: cargo install cargo-cyclonedx");
    // The tool describes every crate of the workspace, each in its own folder.
    for c in &workspace.crates {
        let file = c.dir.join(format!("{NAME}.json"));
        if c.name == "logforce-cli" && made.is_ok() {
            std::fs::copy(&file, to).with_context(|| format!("copy {}", file.display()))?;
        }
        if file.exists() {
            std::fs::remove_file(&file).with_context(|| format!("remove {}", file.display()))?;
        }
    }
    made
}

/// Packs the published crates, compiled by themselves. Returns their names.
fn packages(workspace: &Workspace, version: &str, out: &Path) -> Result<Vec<String>> {
    let mut command = Command::new(cargo());
    command
        .current_dir(&workspace.root)
        .args(["package", "--locked", "--allow-dirty"]);
    let published = workspace.crates.iter().filter(|c| c.is_published);
    let names: Vec<_> = published.map(|c| c.name.as_str()).collect();
    for name in &names {
        command.args(["--package", name]);
    }
    run(&mut command)?;
    names
        .iter()
        .map(|name| {
            let file = format!("{name}-{version}.crate");
            let made = workspace.target.join("package").join(&file);
            std::fs::copy(&made, out.join(&file))
                .with_context(|| format!("copy {}", made.display()))?;
            Ok(file)
        })
        .collect()
}

fn run(command: &mut Command) -> Result<()> {
    let status = command.status().with_context(|| format!("{command:?}"))?;
    match status.success() {
        true => Ok(()),
        false => bail!("{command:?}: {status}"),
    }
}

fn output(command: &mut Command) -> Result<String> {
    let out = command.output().with_context(|| format!("{command:?}"))?;
    ensure!(
        out.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&out.stderr)
    );
    Ok(String::from_utf8_lossy(&out.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_changelog_has_to_begin_with_the_version() {
        newest_is(
            "# Changelog\n\n## 0.1.0 (2026-12-01)\n\n## 0.0.9 (2026-11-01)\n",
            "0.1.0",
        )
        .unwrap();
        for wrong in [
            "## Unreleased\n\n## 0.1.0 (2026-12-01)\n",
            "## 0.1.0\n",
            "## 0.1.0 (date)\n",
            "",
        ] {
            newest_is(wrong, "0.1.0").unwrap_err();
        }
    }
}
