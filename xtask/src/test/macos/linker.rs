//! A linker for macOS that needs no SDK of Apple. Zig's linker has descriptions of the system's
//! libraries; `cargo-zigbuild` makes it usable for cargo.
//!
//! Both come from PyPI, with the versions and checksums of `requirements.txt`, in a separate Python
//! environment below the target folder.

use crate::test::{Setting, child, debian};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

const REQUIREMENTS: &str = include_str!("requirements.txt");

/// Library descriptions that Zig lacks. The dependency that handles Ctrl-C needs them, through its
/// binding to Apple's semaphores. Each file has a library's path and the symbols used.
const SDK: [(&str, &str); 2] = [
    ("usr/lib/libobjc.tbd", include_str!("sdk/libobjc.tbd")),
    (
        "System/Library/Frameworks/Foundation.framework/Foundation.tbd",
        include_str!("sdk/Foundation.tbd"),
    ),
];

/// Time limit of the installation, which downloads 100 MB.
const INSTALL: Duration = Duration::from_secs(600);

/// Number of attempts to download: networks fail now and then.
const ATTEMPTS: usize = 3;

/// The installed linker.
pub struct Linker {
    dir: PathBuf,
}

impl Linker {
    /// Uses the linker of an earlier run if it matches the requirements; otherwise installs it. The
    /// inner error is the reason why it is not available.
    pub fn get(setting: &Setting) -> Result<Result<Linker, String>> {
        let linker = Linker {
            dir: setting.workspace.target.join("zigbuild"),
        };
        // Written last: without it the environment is incomplete.
        let installed = linker.dir.join("installed.txt");
        if is_installed(&installed) {
            return Ok(Ok(linker));
        }
        if linker.dir.exists() {
            std::fs::remove_dir_all(&linker.dir)
                .with_context(|| linker.dir.display().to_string())?;
        }
        std::fs::create_dir_all(&linker.dir).with_context(|| linker.dir.display().to_string())?;
        if let Some(why) = linker.install(setting)? {
            return Ok(Err(why));
        }
        std::fs::write(&installed, REQUIREMENTS)?;
        Ok(Ok(linker))
    }

    /// Installs the linker. Returns the reason if that fails.
    fn install(&self, setting: &Setting) -> Result<Option<String>> {
        let requirements = self.dir.join("requirements.txt");
        std::fs::write(&requirements, REQUIREMENTS)?;
        let mut environment = Command::new("/usr/bin/python3");
        environment.args(["-m", "venv"]).arg(self.environment());
        let mut pip = Command::new(self.environment().join("bin/pip"));
        pip.args(["install", "--no-deps", "--only-binary", ":all:"])
            .args(["--disable-pip-version-check", "--no-cache-dir"])
            .args(["--require-hashes", "-r"])
            .arg(&requirements);
        for (command, attempts) in [(&mut environment, 1), (&mut pip, ATTEMPTS)] {
            command.env("TMPDIR", debian::temporary(setting)?);
            let log = setting.logs.join("macos-linker.log");
            let began = Instant::now();
            let run = |command: &mut Command| {
                let left = INSTALL.saturating_sub(began.elapsed());
                child::run(command, &log, left.min(setting.clock.limit()))
            };
            let mut ended = run(command)?;
            for _ in 1..attempts {
                if !ended.ok {
                    ended = run(command)?;
                }
            }
            if !ended.ok {
                let text = ended.text();
                let last = text.lines().rev().find(|l| l.contains("ERROR"));
                return Ok(Some(format!(
                    "the linker for macOS: {}: {}",
                    ended.how,
                    last.unwrap_or_default()
                )));
            }
        }
        Ok(None)
    }

    fn environment(&self) -> PathBuf {
        self.dir.join("venv")
    }

    /// Returns Debian's cargo with this linker.
    pub fn cargo(&self, setting: &Setting) -> Result<Command> {
        let sdk = self.dir.join("sdk");
        describe(&sdk)?;
        let programs = self.environment().join("bin");
        let mut command = debian::command(setting, &programs.join("cargo-zigbuild"))?;
        // cargo-zigbuild looks for Zig as a module of the first Python in the path.
        let others = std::env::var_os("PATH").unwrap_or_default();
        let path =
            std::env::join_paths([programs].into_iter().chain(std::env::split_paths(&others)))?;
        command
            .arg("zigbuild")
            .env("PATH", path)
            // By default both keep files in the home directory.
            .env("CARGO_ZIGBUILD_CACHE_DIR", self.dir.join("wrappers"))
            .env("ZIG_GLOBAL_CACHE_DIR", self.dir.join("cache"))
            .env("ZIG_LOCAL_CACHE_DIR", self.dir.join("cache"))
            .env("SDKROOT", sdk);
        Ok(command)
    }
}

/// Writes the descriptions, every time, because they may have changed.
fn describe(sdk: &Path) -> Result<()> {
    for (name, text) in SDK {
        let file = sdk.join(name);
        if let Some(dir) = file.parent() {
            std::fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
        }
        std::fs::write(&file, text).with_context(|| file.display().to_string())?;
    }
    Ok(())
}

fn is_installed(file: &Path) -> bool {
    std::fs::read_to_string(file).is_ok_and(|installed| installed == REQUIREMENTS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_requirement_has_a_version_and_a_checksum() {
        let lines: Vec<&str> = REQUIREMENTS
            .lines()
            .filter(|l| !l.starts_with('#'))
            .collect();
        for line in &lines {
            assert!(
                line.contains("==") && line.contains(" --hash=sha256:"),
                "{line}"
            );
        }
        assert_eq!(lines.len(), 2);
    }

    #[test]
    fn descriptions_are_replaced() {
        let temp = tempfile::TempDir::new().unwrap();
        let file = temp.path().join(SDK[0].0);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(&file, "of yesterday").unwrap();
        describe(temp.path()).unwrap();
        assert_eq!(std::fs::read_to_string(&file).unwrap(), SDK[0].1);
        assert!(temp.path().join(SDK[1].0).is_file());
    }

    #[test]
    fn an_environment_of_another_day_is_not_taken() {
        let temp = tempfile::TempDir::new().unwrap();
        let file = temp.path().join("installed.txt");
        assert!(!is_installed(&file));
        std::fs::write(&file, "ziglang==0.1\n").unwrap();
        assert!(!is_installed(&file));
        std::fs::write(&file, REQUIREMENTS).unwrap();
        assert!(is_installed(&file));
    }
}
