//! SQLite's test program and the extension.

use super::super::counts::Counts;
use super::super::debian::Needed;
use super::super::stage::StageOutcome;
use super::super::{Setting, host};
use crate::sqlite::LIBRARY;
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Files from which the test program is built, and their packages.
pub const NEEDED: [Needed; 5] = [
    ("/usr/include/tcl8.6/tcl.h", "tcl8.6-dev"),
    ("/usr/bin/gcc", "gcc"),
    ("/usr/bin/make", "make"),
    ("/usr/bin/xz", "xz-utils"),
    ("/usr/lib/apt/apt-helper", "apt"),
];

/// Source package of Debian 12. `differences.md` belongs to this version.
const SOURCE: &str = "sqlite3_3.40.1.orig.tar.xz";
/// Directory that it holds.
const UNPACKED: &str = "sqlite3-3.40.1";
const SHA256: &str = "aaa776260ab4dc976db34aa7891819484c8676b5b2783123ebc6301e2ca5d655";
/// Package from which apt knows the address of the source: it is in the same directory of the mirror.
const NEIGHBOUR: &str = "libsqlite3-0";

/// C file that is compiled into the test program.
const LOAD: &str = include_str!("load.c");

/// Builds the test program in an empty directory. The generated `sqlite3.c` gets `load.c` at its end.
const BUILD: &str = "\
set -e
CFLAGS='-O2 -DSQLITE_EXTRA_INIT=logforce_suite_init -DSQLITE_ENABLE_SNAPSHOT -DSQLITE_ENABLE_UNLOCK_NOTIFY' \\
    \"$SOURCE\"/configure --with-tcl=/usr/lib/tcl8.6 --enable-all
make sqlite3.c
cat load.c >> sqlite3.c
make testfixture
";

/// Paths of what was built.
#[derive(Debug)]
pub struct Built {
    pub program: PathBuf,
    /// The source package.
    pub archive: PathBuf,
    pub library: PathBuf,
}

/// Builds everything that is not built yet. The outer result is an error of this program, the inner one
/// a step that failed.
pub fn all(setting: &Setting) -> Result<Result<Built, StageOutcome>> {
    let home = setting.workspace.target.join("sqlite-suite");
    std::fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
    let built = Built {
        program: home.join("build/testfixture"),
        archive: home.join(SOURCE),
        library: setting.workspace.target.join("release").join(LIBRARY),
    };
    let mut extension = host::cargo_command(setting);
    extension.args([
        "build",
        "-p",
        "logforce-sqlite-extension",
        "--release",
        "--locked",
    ]);
    let mut outcome = host::step(setting, "sqlite-suite-extension", &mut extension)?;
    if outcome.counts.failed == 0 && !built.archive.exists() {
        outcome = download(setting, &built.archive)?;
    }
    if outcome.counts.failed == 0 {
        outcome = program(setting, &home, &built)?;
    }
    Ok(match outcome.counts.failed {
        0 => Ok(built),
        _ => Err(outcome),
    })
}

/// Downloads the source package from the mirror that apt uses.
fn download(setting: &Setting, archive: &Path) -> Result<StageOutcome> {
    let failed = |why: String| Ok(StageOutcome::of(Counts::FAILED, vec![why]));
    let printed = Command::new("apt-get")
        .args(["download", "--print-uris", NEIGHBOUR])
        .output()
        .context("apt-get download")?;
    let printed = String::from_utf8_lossy(&printed.stdout).into_owned();
    let Some(address) = address(&printed) else {
        return failed(format!(
            "apt knows no address of {NEIGHBOUR}: run `apt-get update`"
        ));
    };
    // Under another name until it is complete.
    let part = archive.with_extension("part");
    let mut helper = Command::new("/usr/lib/apt/apt-helper");
    helper
        .args(["download-file", &address])
        .arg(&part)
        .arg(format!("SHA256:{SHA256}"));
    let outcome = host::step(setting, "sqlite-suite-download", &mut helper)?;
    if outcome.counts.failed == 0 {
        std::fs::rename(&part, archive).with_context(|| archive.display().to_string())?;
    }
    Ok(outcome)
}

/// Reads the address of the source from the line that apt prints about its neighbour:
/// `'http://…/sqlite3/libsqlite3-0_3.40.1-2_amd64.deb' libsqlite3-0_3.40.1-2_amd64.deb 838808 SHA256:…`.
fn address(printed: &str) -> Option<String> {
    let line = printed.lines().find(|l| l.starts_with('\''))?;
    let neighbour = line.split('\'').nth(1)?;
    let (directory, _) = neighbour.rsplit_once('/')?;
    Some(format!("{directory}/{SOURCE}"))
}

/// Builds the test program, unless it was built from the same source and commands.
fn program(setting: &Setting, home: &Path, built: &Built) -> Result<StageOutcome> {
    let stamp = home.join("stamp");
    let now = format!("{SHA256}\n{BUILD}\n{LOAD}");
    let is_there = built.program.exists();
    if is_there && std::fs::read_to_string(&stamp).is_ok_and(|before| before == now) {
        return Ok(StageOutcome::default());
    }
    let dir = home.join("build");
    for old in [&dir, &home.join(UNPACKED)] {
        if old.exists() {
            std::fs::remove_dir_all(old).with_context(|| old.display().to_string())?;
        }
    }
    std::fs::create_dir(&dir).with_context(|| dir.display().to_string())?;
    std::fs::write(dir.join("load.c"), LOAD)?;
    let outcome = unpack(setting, &built.archive, home)?;
    if outcome.counts.failed > 0 {
        return Ok(outcome);
    }
    let mut build = Command::new("sh");
    build
        .args(["-c", BUILD])
        .env("SOURCE", home.join(UNPACKED))
        .current_dir(&dir);
    let outcome = host::step(setting, "sqlite-suite-build", &mut build)?;
    if outcome.counts.failed == 0 {
        std::fs::write(&stamp, now).with_context(|| stamp.display().to_string())?;
    }
    Ok(outcome)
}

/// Unpacks the source into a directory.
pub fn unpack(setting: &Setting, archive: &Path, into: &Path) -> Result<StageOutcome> {
    let mut tar = Command::new("tar");
    tar.arg("xf").arg(archive).arg("-C").arg(into);
    // Otherwise root's tar gives the files to the numbers of users in the package.
    tar.arg("--no-same-owner");
    host::step(setting, "sqlite-suite-unpack", &mut tar)
}

/// Returns the directory with the unpacked source.
pub fn unpacked(into: &Path) -> PathBuf {
    into.join(UNPACKED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_is_beside_its_neighbour() {
        let printed = "'http://mirror/debian/pool/main/s/sqlite3/libsqlite3-0_3.40.1-2%2bdeb12u2_amd64.deb' \
                       libsqlite3-0_3.40.1-2+deb12u2_amd64.deb 838808 SHA256:a8d7";
        assert_eq!(
            address(printed).as_deref(),
            Some("http://mirror/debian/pool/main/s/sqlite3/sqlite3_3.40.1.orig.tar.xz")
        );
        assert_eq!(address("E: No packages found\n"), None);
    }
}
