//! Workspace, as cargo describes it.

use anyhow::{Context, Result, bail};
use serde_json::Value;
use std::ffi::{OsStr, OsString};
use std::path::PathBuf;
use std::process::Command;

/// Path of the manifest of the benchmarks for developers, below the root; they are a separate workspace.
pub const BENCHES: &str = "benches/Cargo.toml";

/// Workspace, as `cargo metadata` describes it.
#[derive(Debug)]
pub struct Workspace {
    pub root: PathBuf,
    /// Target folder of cargo.
    pub target: PathBuf,
    pub crates: Vec<Crate>,
}

/// A crate of the workspace, or of the one of the benchmarks.
#[derive(Debug)]
pub struct Crate {
    pub name: String,
    /// Directory of its manifest.
    pub dir: PathBuf,
    pub dependencies: Vec<Dependency>,
    /// A registry gets it: its manifest does not forbid that.
    pub is_published: bool,
}

/// A dependency in a crate's manifest.
#[derive(Debug, Clone)]
pub struct Dependency {
    pub name: String,
    /// True for tests, examples and benchmarks only.
    pub dev: bool,
}

/// Returns the cargo that runs this program, or else the one in the path.
pub fn cargo() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

impl Workspace {
    /// Asks cargo. The result includes the crate of the benchmarks.
    pub fn find() -> Result<Workspace> {
        let mut workspace = Workspace::of(&[])?;
        let benches = workspace.root.join(BENCHES);
        let of_benches: [&OsStr; 2] = ["--manifest-path".as_ref(), benches.as_ref()];
        workspace.crates.extend(Workspace::of(&of_benches)?.crates);
        Ok(workspace)
    }

    fn of(which: &[&OsStr]) -> Result<Workspace> {
        let out = Command::new(cargo())
            .args(["metadata", "--no-deps", "--format-version", "1"])
            .args(which)
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .output()
            .context("cargo metadata")?;
        if !out.status.success() {
            bail!(
                "cargo metadata: {}\n{}",
                out.status,
                String::from_utf8_lossy(&out.stderr)
            );
        }
        Workspace::parse(&serde_json::from_slice(&out.stdout).context("cargo metadata")?)
    }

    /// Parses the output of `cargo metadata`.
    pub fn parse(metadata: &Value) -> Result<Workspace> {
        let text = |v: &Value, key: &str| {
            v[key]
                .as_str()
                .map(str::to_owned)
                .with_context(|| format!("cargo metadata gives no {key}"))
        };
        let mut crates = Vec::new();
        for package in metadata["packages"].as_array().context("no packages")? {
            let mut dependencies = Vec::new();
            for d in package["dependencies"].as_array().into_iter().flatten() {
                dependencies.push(Dependency {
                    name: text(d, "name")?,
                    dev: d["kind"].as_str() == Some("dev"),
                });
            }
            let mut dir = PathBuf::from(text(package, "manifest_path")?);
            dir.pop();
            crates.push(Crate {
                name: text(package, "name")?,
                dir,
                dependencies,
                is_published: package["publish"].is_null(),
            });
        }
        Ok(Workspace {
            root: text(metadata, "workspace_root")?.into(),
            target: text(metadata, "target_directory")?.into(),
            crates,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_workspace_is_read() {
        let metadata = serde_json::json!({
            "workspace_root": "/w", "target_directory": "/t",
            "packages": [{
                "name": "a", "manifest_path": "/w/crates/a/Cargo.toml",
                "dependencies": [
                    {"name": "b", "kind": null}, {"name": "c", "kind": "dev"},
                    {"name": "d", "kind": "build"},
                ],
                "publish": null,
            }, {
                "name": "e", "manifest_path": "/w/e/Cargo.toml", "dependencies": [], "publish": [],
            }],
        });
        let w = Workspace::parse(&metadata).unwrap();
        assert_eq!(w.crates[0].dir, PathBuf::from("/w/crates/a"));
        let dev: Vec<_> = w.crates[0].dependencies.iter().map(|d| d.dev).collect();
        assert_eq!(dev, [false, true, false]);
        let published: Vec<_> = w.crates.iter().map(|c| c.is_published).collect();
        assert_eq!(published, [true, false]);
        assert!(Workspace::parse(&serde_json::json!({})).is_err());
    }

    #[test]
    fn this_workspace_is_found() {
        let w = Workspace::find().unwrap();
        assert!(w.crates.iter().any(|c| c.name == "xtask"), "{w:?}");
    }
}
