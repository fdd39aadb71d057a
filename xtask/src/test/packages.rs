//! System packages that tests need.

use super::counts::Counts;
use super::stage::StageOutcome;
use super::{Setting, Tier, child};
use anyhow::Result;
use std::process::Command;
use std::thread::sleep;
use std::time::Duration;

/// A Debian package and its purpose.
#[derive(Debug)]
struct Package {
    name: &'static str,
    /// Programs or files used from it; other distributions may have them in a package of another name.
    what_for: &'static str,
}

/// Packages that are installed together.
#[derive(Debug)]
struct Group {
    what_for: &'static str,
    /// True if only a deep run needs them.
    deep: bool,
    packages: &'static [Package],
}

const fn package(name: &'static str, what_for: &'static str) -> Package {
    Package { name, what_for }
}

/// All packages; the list is kept only here.
const GROUPS: &[Group] = &[
    Group {
        what_for: "tests on separate filesystems",
        deep: false,
        packages: &[
            package("mount", "mount, umount, losetup"),
            package("util-linux", "blkid, unshare"),
            package("e2fsprogs", "mkfs.ext4, e2fsck, tune2fs, debugfs"),
            package("xfsprogs", "mkfs.xfs"),
            package("btrfs-progs", "mkfs.btrfs"),
            package("strace", "which system calls a force makes"),
        ],
    },
    Group {
        what_for: "a second reader of the format",
        deep: false,
        packages: &[package("python3", "runs tools/decoder")],
    },
    Group {
        what_for: "reports in a browser",
        deep: false,
        packages: &[
            package("chromium", "shows the pages"),
            package("fonts-dejavu-core", "letters to measure"),
        ],
    },
    Group {
        what_for: "databases beside the log",
        deep: false,
        packages: &[
            package("postgresql-15", "PostgreSQL"),
            package("mariadb-server", "MariaDB"),
        ],
    },
    Group {
        what_for: "programs that load the SQLite extension",
        deep: false,
        packages: &[
            package("sqlite3", "its shell"),
            package("libsqlite3-dev", "its library for C"),
            package(
                "python3-venv",
                "installs the wheel into a separate directory",
            ),
            package("binutils", "strip"),
        ],
    },
    Group {
        what_for: "servers that run with the settings of `logforce advise`, or whose commits are traced",
        deep: true,
        packages: &[
            package("redis-server", "Redis"),
            package("redis-tools", "its client and its benchmark"),
            package("etcd-server", "etcd"),
            package("etcd-client", "its client"),
        ],
    },
    Group {
        what_for: "SQLite's own test suite",
        deep: true,
        packages: &[
            package("tcl8.6-dev", "runs its tests"),
            package("gcc", "compiles SQLite"),
            package("make", "likewise"),
            package("xz-utils", "unpacks its source"),
        ],
    },
    Group {
        what_for: "fuzzing",
        deep: true,
        packages: &[package("g++", "compiles libFuzzer")],
    },
    Group {
        what_for: "other systems than this one",
        deep: false,
        packages: &[
            package(
                "rustc-web",
                "a compiler that matches the sources of its library",
            ),
            package(
                "rust-web-src",
                "these sources: rustup has no such target here",
            ),
            package("cargo-web", "the matching cargo"),
            package("rust-web-clippy", "the matching clippy"),
        ],
    },
    Group {
        what_for: "the Windows code",
        deep: false,
        packages: &[
            package("wine64", "runs the Windows tests"),
            package(
                "gcc-mingw-w64-x86-64-posix",
                "Windows' libraries and linker",
            ),
        ],
    },
    Group {
        what_for: "the macOS code",
        deep: true,
        packages: &[
            package("python3", "runs the linker"),
            package(
                "python3-venv",
                "installs the linker into a separate directory",
            ),
        ],
    },
    Group {
        what_for: "Linux on aarch64",
        deep: true,
        packages: &[
            package("gcc-aarch64-linux-gnu", "its linker"),
            package("libc6-dev-arm64-cross", "its C library"),
            package("qemu-user", "runs its programs"),
        ],
    },
];

impl Group {
    fn missing(&self) -> Vec<&'static str> {
        let names: Vec<&str> = self.packages.iter().map(|p| p.name).collect();
        let out = Command::new("dpkg-query")
            .args(["-W", "-f", "${Package} ${db:Status-Abbrev}\n"])
            .args(&names)
            .output();
        let listed = out.map(|o| o.stdout).unwrap_or_default();
        not_installed(&names, &String::from_utf8_lossy(&listed))
    }
}

/// Returns the names that `dpkg-query` does not list as installed.
fn not_installed<'n>(names: &[&'n str], listed: &str) -> Vec<&'n str> {
    let installed: Vec<&str> = listed
        .lines()
        .filter_map(|l| l.split_once(' '))
        .filter(|(_, status)| status.trim_end() == "ii")
        .map(|(name, _)| name)
        .collect();
    let mut missing = names.to_vec();
    missing.retain(|n| !installed.contains(n));
    missing
}

/// Returns the groups that a tier needs.
fn groups(tier: Tier) -> impl Iterator<Item = &'static Group> {
    GROUPS.iter().filter(move |g| tier.is_deep() || !g.deep)
}

/// Installs missing packages where it can; otherwise prints the command for that.
pub fn run(setting: &Setting) -> Result<StageOutcome> {
    if !is_there("dpkg-query") || !is_there("apt-get") {
        let mut outcome =
            StageOutcome::skipped("not a Debian system; the tests use what is installed of");
        for package in groups(setting.tier).flat_map(|g| g.packages) {
            let line = format!("    {}: {}", package.name, package.what_for);
            outcome.lines.push(line);
        }
        return Ok(outcome);
    }
    let missing: Vec<&str> = groups(setting.tier).flat_map(Group::missing).collect();
    if missing.is_empty() {
        return Ok(StageOutcome::of(Counts::PASSED, Vec::new()));
    }
    if !is_root() {
        return Ok(StageOutcome::skipped(format!(
            "packages are missing; this installs them:\n    {}",
            by_hand(&missing)
        )));
    }
    install(setting)
}

/// Returns the command line that installs packages.
fn by_hand(packages: &[&str]) -> String {
    format!(
        "sudo apt-get update && sudo apt-get install -y --no-install-recommends {}",
        packages.join(" ")
    )
}

pub fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

#[cfg(unix)]
fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

#[cfg(not(unix))]
fn is_root() -> bool {
    false
}

/// Installs each group separately: a distribution that lacks one group still gets the others.
fn install(setting: &Setting) -> Result<StageOutcome> {
    let _no_services = NoServices::begin();
    let mut outcome = StageOutcome::of(Counts::PASSED, Vec::new());
    let updated = apt_get(setting, "update", &["update", "-qq"])?;
    outcome.lines.extend(updated);
    for (number, group) in groups(setting.tier).enumerate() {
        let missing = group.missing();
        if missing.is_empty() {
            continue;
        }
        outcome.lines.push(format!(
            "installing for {}: {}",
            group.what_for,
            missing.join(" ")
        ));
        let words = ["install", "-qq", "-y", "--no-install-recommends"];
        let words = [&words[..], &missing].concat();
        if let Some(error) = apt_get(setting, &format!("install-{number}"), &words)? {
            outcome.counts = Counts::SKIPPED;
            outcome.lines.push(format!("skipped: {error}"));
        }
    }
    Ok(outcome)
}

/// Keeps Debian from starting the services of installed packages, by a policy file that is removed
/// afterwards. Tests start the servers that they need.
struct NoServices(Option<&'static str>);

impl NoServices {
    #[cfg(not(unix))]
    fn begin() -> NoServices {
        NoServices(None)
    }

    #[cfg(unix)]
    fn begin() -> NoServices {
        use std::fs::{File, Permissions};
        use std::io::Write;
        use std::os::unix::fs::PermissionsExt;
        const POLICY: &str = "/usr/sbin/policy-rc.d";
        let made = File::create_new(POLICY).and_then(|mut file| {
            file.write_all(b"#!/bin/sh\nexit 101\n")?;
            file.set_permissions(Permissions::from_mode(0o755))
        });
        // If a policy exists already or cannot be written, a service may start; no test uses it.
        NoServices(made.is_ok().then_some(POLICY))
    }
}

impl Drop for NoServices {
    fn drop(&mut self) {
        if let Some(path) = self.0 {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Runs apt-get, several times if needed, because a mirror or a lock may be busy. Returns the error.
fn apt_get(setting: &Setting, name: &str, words: &[&str]) -> Result<Option<String>> {
    let log = setting.logs.join(format!("packages-{name}.log"));
    let mut error = None;
    for attempt in 0..3 {
        if attempt > 0 {
            sleep(Duration::from_secs(10));
        }
        let mut command = Command::new("apt-get");
        command
            .args(["-o", "DPkg::Lock::Timeout=300"])
            .args(words)
            .env("DEBIAN_FRONTEND", "noninteractive");
        let ended = child::run(&mut command, &log, setting.clock.limit())?;
        if ended.ok {
            return Ok(None);
        }
        let text = ended.text();
        let last = text.lines().rev().find(|l| l.starts_with("E:"));
        error = Some(format!("{}: {}", ended.how, last.unwrap_or_default()));
    }
    Ok(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_installed_is_missing() {
        let listed = "mount ii \nstrace un \nxfsprogs rc \nlibc6 ii \n";
        assert_eq!(
            not_installed(&["mount", "strace", "xfsprogs", "btrfs-progs"], listed),
            ["strace", "xfsprogs", "btrfs-progs"]
        );
    }

    #[test]
    fn every_package_says_what_it_is_for_and_the_line_is_one() {
        for group in GROUPS {
            assert!(!group.what_for.is_empty());
            for package in group.packages {
                assert!(!package.what_for.is_empty(), "{}", package.name);
            }
        }
        let line = by_hand(&["a", "b"]);
        assert!(line.ends_with("--no-install-recommends a b"));
        assert_eq!(line.lines().count(), 1);
    }

    #[test]
    fn programs_are_looked_for_in_the_path() {
        assert!(!is_there("no-such-program-anywhere"));
    }
}
