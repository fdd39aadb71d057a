//! A release: the command for one system, below `target/dist/TARGET`.
//!
//! It is made from a tagged commit without changes. `docs/policies.md` has the steps before and after.

mod static_file;

use crate::flagged;
use crate::workspace::{Workspace, cargo};
use anyhow::{Context, Result, bail, ensure};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files of the repository that an archive gets.
const FILES: [&str; 4] = ["CHANGELOG.md", "LICENSE-APACHE", "LICENSE-MIT", "README.md"];

/// File that the tool for bills of materials makes in the folder of each crate. Git ignores it, because an
/// interrupted run leaves some behind.
const BILL: &str = "logforce-bill";

/// Makes a release of the command for one system: the command as one file, an archive with its manual pages,
/// completions and bill of materials (CycloneDX), and the SHA-256 checksum of both.
///
/// On Linux the command is static: it needs no library and no loader of the system that it runs on.
#[derive(Debug, PartialEq, Eq, clap::Args)]
pub struct Options {
    /// The system; on Linux that of this machine, with musl if its library is installed, else with glibc.
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
        None => default_target(&host),
    };
    // Before the build, which takes minutes.
    let has_tool = output(Command::new(cargo()).args(["cyclonedx", "--version"]))
        .context("install the tool for bills of materials: cargo install --locked cargo-cyclonedx");
    let has_tool = match (has_tool, options.trial) {
        (Err(e), true) => {
            println!("a trial without a bill of materials: {e:#}");
            false
        }
        (has_tool, _) => has_tool.map(|_| true)?,
    };
    let program = build(&workspace, &target)?;

    // What an earlier run has made stays until this one has succeeded.
    let out = workspace.target.join("dist").join(&target);
    let partial = out.with_extension("partial");
    remove(&partial)?;
    let name = format!("logforce-{version}-{}", system(&target));
    let dir = partial.join(&name);
    std::fs::create_dir_all(&dir).with_context(|| format!("create {}", dir.display()))?;
    let copied = dir.join(program.file_name().context("a program without a name")?);
    std::fs::copy(&program, &copied).with_context(|| format!("copy {}", program.display()))?;
    for file in FILES {
        std::fs::copy(workspace.root.join(file), dir.join(file))
            .with_context(|| file.to_owned())?;
    }
    if target.split('-').next() == host.split('-').next() && target.contains(std::env::consts::OS) {
        described(&copied, &dir, &version)?;
        if target.contains("linux") {
            println!("{}", static_file::check(&copied)?);
        }
    } else {
        println!(
            "{target} is another system: no manual pages or completions, and the command was not run"
        );
    }
    if has_tool {
        bill_of_materials(&workspace, &target, &dir.join("sbom.cdx.json"))?;
    }

    let archive = format!("{name}.tar.gz");
    run(Command::new("tar")
        .current_dir(&partial)
        .args(["-czf", &archive, &name]))?;
    // The command by itself, for a machine that only needs it.
    let alone = format!("{name}{}", suffix(&target));
    let moved = partial.join("moved");
    std::fs::rename(&copied, &moved).with_context(|| format!("move {}", copied.display()))?;
    std::fs::remove_dir_all(&dir)?;
    std::fs::rename(&moved, partial.join(&alone)).with_context(|| format!("name {alone}"))?;
    let mut sums = String::new();
    for file in [&archive, &alone] {
        let sum = checksum(&partial, file)?;
        std::fs::write(partial.join(format!("{file}.sha256")), &sum)?;
        sums += &sum;
    }
    remove(&out)?;
    std::fs::rename(&partial, &out).with_context(|| format!("name {}", out.display()))?;
    println!("{sums}in {}", out.display());
    Ok(true)
}

/// Returns the system to build for if none is named.
fn default_target(host: &str) -> String {
    let musl = host.replace("-linux-gnu", "-linux-musl");
    let libraries =
        output(Command::new("rustc").args(["--print", "target-libdir", "--target", &musl]));
    match libraries {
        Ok(dir) if Path::new(dir.trim()).is_dir() => musl,
        _ => host.to_owned(),
    }
}

/// Returns the name of the system in names of files. A static file with glibc is not what its triple alone
/// suggests.
fn system(target: &str) -> String {
    match target.ends_with("-linux-gnu") {
        true => format!("{target}-static"),
        false => target.to_owned(),
    }
}

fn suffix(target: &str) -> &'static str {
    match target.contains("windows") {
        true => ".exe",
        false => "",
    }
}

fn remove(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            Err(e).with_context(|| format!("remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}

/// Asks the program for SHA-256 that the system has.
fn checksum(dir: &Path, file: &str) -> Result<String> {
    let gnu = output(Command::new("sha256sum").current_dir(dir).arg(file));
    gnu.or_else(|_| {
        let mut perl = Command::new("shasum");
        output(perl.current_dir(dir).args(["-a", "256", file]))
    })
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
        "the sources are changed: commit or remove\n{changes}"
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

/// Builds the command. No path of this machine gets into it, and no debug information, which is two thirds
/// of the file.
fn build(workspace: &Workspace, target: &str) -> Result<PathBuf> {
    let home = std::env::var_os("CARGO_HOME").map(PathBuf::from);
    let home = home.or_else(|| Some(std::env::home_dir()?.join(".cargo")));
    let mut flags = format!("--remap-path-prefix={}=.", workspace.root.display());
    if let Some(home) = home {
        flags += &format!("\x1f--remap-path-prefix={}=cargo", home.display());
    }
    // The default with musl.
    if target.ends_with("-linux-gnu") {
        flags += "\x1f-Ctarget-feature=+crt-static";
    }
    let mut cargo = Command::new(cargo());
    cargo
        .current_dir(&workspace.root)
        .env("CARGO_PROFILE_RELEASE_STRIP", "debuginfo")
        .env("CARGO_ENCODED_RUSTFLAGS", flags)
        .args(["build", "--release", "--locked"])
        .args(["--package", "logforce-cli", "--target", target]);
    run(&mut cargo)
        .with_context(|| format!("if the system is missing: rustup target add {target}"))?;
    let built = workspace.target.join(target).join("release");
    Ok(built.join(format!("logforce{}", suffix(target))))
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
    run(Command::new(cargo())
        .current_dir(&workspace.root)
        .args(["cyclonedx", "--manifest-path", "crates/cli/Cargo.toml"])
        .args(["--format", "json", "--spec-version", "1.5"])
        .args(["--target", target, "--override-filename", BILL]))?;
    // The tool describes every crate of the workspace, each in its own folder.
    for c in &workspace.crates {
        let file = c.dir.join(format!("{BILL}.json"));
        if c.name == "logforce-cli" {
            std::fs::copy(&file, to).with_context(|| format!("copy {}", file.display()))?;
        }
        if file.exists() {
            std::fs::remove_file(&file).with_context(|| format!("remove {}", file.display()))?;
        }
    }
    Ok(())
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
