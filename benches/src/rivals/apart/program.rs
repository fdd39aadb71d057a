//! The Go program. It is built on first use, so that a machine without Go can run all other rivals.

use std::env;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

/// Directory of its source.
const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/go");
/// Modules that it depends on.
const MODULES: &str = include_str!("../../../go/go.mod");

/// Returns the path of the program, or the reason why it could not be built.
pub fn path() -> Result<&'static Path, String> {
    static PROGRAM: OnceLock<Result<PathBuf, String>> = OnceLock::new();
    let built = PROGRAM.get_or_init(build).as_ref();
    built.map(PathBuf::as_path).map_err(Clone::clone)
}

fn build() -> Result<PathBuf, String> {
    let wanted = required("go ");
    let program = target()?.join("rivals");
    let built = Command::new("go")
        .args(["build", "-trimpath", "-buildvcs=false", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(SOURCE)
        .output();
    match built {
        Ok(output) if output.status.success() => Ok(program),
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr);
            Err(format!(
                "needs Go {wanted} or newer and its modules: `go build` in {SOURCE} failed: {}",
                said.trim()
            ))
        }
        Err(e) if e.kind() == ErrorKind::NotFound => Err(format!(
            "needs Go {wanted} or newer (https://go.dev/dl), and there is no `go` in the PATH"
        )),
        Err(e) => Err(format!(
            "needs Go {wanted} or newer, and `go` cannot be run: {e}"
        )),
    }
}

/// Returns the directory `go` beside that of this program's own build.
fn target() -> Result<PathBuf, String> {
    let this =
        env::current_exe().map_err(|e| format!("cannot find a directory to build it in: {e}"))?;
    let deps = this.parent().unwrap_or(Path::new("."));
    Ok(deps.parent().unwrap_or(deps).join("go"))
}

/// Returns the version of a module in `go.mod`, which is the linked one.
pub fn required(module: &str) -> &'static str {
    MODULES
        .lines()
        .map(str::trim)
        .find_map(|line| line.strip_prefix(module))
        .map_or("?", str::trim)
}
