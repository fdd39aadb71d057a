//! Building and finding the programs of the examples.

use super::{SEGMENT, sized};
use logforce::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Returns the path of the example's program. Builds it if it is missing or older than its source.
pub fn program(name: &str) -> PathBuf {
    let test = std::env::current_exe().unwrap();
    let profile_dir = test.parent().and_then(Path::parent).unwrap();
    let file = format!("{name}{}", std::env::consts::EXE_SUFFIX);
    let program = profile_dir.join("examples").join(file);
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("examples/{name}.rs"));
    let age = |p: &Path| p.metadata().and_then(|m| m.modified());
    // `cargo test` has built it; `cargo test --test NAME` does not.
    if !age(&program).is_ok_and(|built| built >= age(&source).unwrap()) {
        let profile = match profile_dir.file_name().and_then(|n| n.to_str()) {
            Some("debug") | None => "dev",
            Some(other) => other,
        };
        let status = Command::new(env!("CARGO"))
            .args([
                "build",
                "--quiet",
                "--package",
                "logforce",
                "--example",
                name,
            ])
            .args(["--profile", profile, "--target-dir"])
            .arg(profile_dir.parent().unwrap())
            .current_dir(env!("CARGO_MANIFEST_DIR"))
            .status();
        assert!(status.unwrap().success(), "cannot build the example {name}");
    }
    program
}

/// Returns true, and skips the test, if nothing in `dir` survives a loss of power. The examples require that.
pub fn too_weak(dir: &Path) -> bool {
    let probe = logforce::create_new(dir.join("probe"), sized(SEGMENT));
    let weak = probe.is_err_and(|e| e.kind() == ErrorKind::Unavailable);
    if weak {
        logforce_testkit::skip!("nothing survives a loss of power in {}", dir.display());
    }
    weak
}
