//! Leaks of tests: mounts, loop devices, processes, files.
//!
//! A leak below the target folder or the tests' temporary directory, or with the run's mark, is certainly
//! from the tests and always a failure. A new one elsewhere may belong to another program. It is a failure
//! only on a CI machine, which runs no other program.

use super::Setting;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

/// Environment variable of every process of the tests.
pub const MARK: &str = "LOGFORCE_XTASK_RUN";

/// Time to wait for leaks to disappear. The kernel removes a loop device some time after its filesystem
/// is unmounted, and a process some time after its parent has ended.
pub const TIMEOUT: Duration = Duration::from_secs(5);

/// Directories for temporary files.
const TEMPORARY: [&str; 3] = ["/tmp", "/var/tmp", "/dev/shm"];

/// Snapshot of the machine's state.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
struct View {
    mounts: BTreeSet<PathBuf>,
    /// Files behind loop devices, with the device.
    loops: BTreeSet<(PathBuf, String)>,
    files: BTreeSet<PathBuf>,
    /// Changed files, as git reports them.
    changed: BTreeSet<String>,
    /// Reason why git reports none, for example a checkout of another user.
    git_failed: Option<String>,
}

/// Compares the machine before and after the tests.
#[derive(Debug)]
pub struct Watch {
    before: View,
    root: PathBuf,
    target: PathBuf,
    temp: PathBuf,
    mark: String,
    strict: bool,
}

/// Differences between the two views.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Leaks {
    pub failures: Vec<String>,
    pub notes: Vec<String>,
}

impl Watch {
    /// Takes the first snapshot. `temp` is the temporary directory of the tests, which is still empty.
    pub fn start(setting: &Setting, temp: &Path) -> Watch {
        let root = setting.workspace.root.clone();
        Watch {
            before: look(&root),
            target: setting.workspace.target.clone(),
            temp: temp.to_owned(),
            mark: fresh_mark(),
            strict: setting.ci,
            root,
        }
    }

    /// Returns the value of [`MARK`].
    pub fn mark(&self) -> &str {
        &self.mark
    }

    /// Takes the second snapshot, ends the remaining processes, and returns the leaks.
    pub fn end(&self) -> Leaks {
        let end = Instant::now() + TIMEOUT;
        loop {
            let after = look(&self.root);
            let processes = marked(&self.mark);
            let found = self.compare(&after, &processes);
            if found.failures.is_empty() || Instant::now() >= end {
                for (id, _) in processes {
                    finish(id);
                }
                return found;
            }
            sleep(Duration::from_millis(100));
        }
    }

    fn compare(&self, after: &View, processes: &[(u32, String)]) -> Leaks {
        let mut found = Leaks::default();
        let ours = |path: &Path| path.starts_with(&self.target) || path.starts_with(&self.temp);
        for mount in after.mounts.difference(&self.before.mounts) {
            found.add(
                ours(mount) || self.strict,
                format!("the mount {}", mount.display()),
            );
        }
        for (file, device) in after.loops.difference(&self.before.loops) {
            // Loop devices belong to the whole machine, including other containers.
            found.add(
                ours(file),
                format!("the loop device {device} of {}", file.display()),
            );
        }
        for (id, line) in processes {
            found.add(true, format!("the process {id}: {line}"));
        }
        for file in entries(&self.temp) {
            found.add(true, format!("the file {}", file.display()));
        }
        for file in after.files.difference(&self.before.files) {
            found.add(self.strict, format!("the file {}", file.display()));
        }
        if let Some(why) = &after.git_failed {
            found.add(
                self.strict,
                format!("changes in the source, which git does not report: {why}"),
            );
        }
        for line in after.changed.difference(&self.before.changed) {
            found.add(self.strict, format!("a change in the source: {line}"));
        }
        found
    }
}

impl Leaks {
    fn add(&mut self, failure: bool, what: String) {
        if failure {
            self.failures.push(what);
        } else {
            self.notes.push(format!(
                "new since the start, perhaps of another program: {what}"
            ));
        }
    }
}

/// Returns a value of [`MARK`] that no other run has.
pub fn fresh_mark() -> String {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    format!("{}-{}", std::process::id(), since.as_nanos())
}

/// Returns the leaks of the power-cut suite: processes, and loop devices of its images in memory. Its
/// mounts are in a namespace that ends with its processes. Ends the remaining processes.
pub fn of_powercut(mark: &str) -> Vec<String> {
    let end = Instant::now() + TIMEOUT;
    loop {
        let processes = marked(mark);
        let ours = |file: &Path| file.to_string_lossy().contains("memfd:logforce-crashtest");
        let devices = loop_devices().into_iter().filter(|(file, _)| ours(file));
        let mut left: Vec<String> = devices
            .map(|(file, device)| format!("the loop device {device} of {}", file.display()))
            .collect();
        left.extend(
            processes
                .iter()
                .map(|(id, line)| format!("the process {id}: {line}")),
        );
        if left.is_empty() || Instant::now() >= end {
            for (id, _) in processes {
                finish(id);
            }
            return left;
        }
        sleep(Duration::from_millis(100));
    }
}

/// Returns the files behind loop devices, with the device.
fn loop_devices() -> BTreeSet<(PathBuf, String)> {
    let devices = entries(Path::new("/sys/block")).into_iter();
    let backed = devices.filter_map(|d| {
        let file = std::fs::read_to_string(d.join("loop/backing_file")).ok()?;
        let device = d.file_name()?.to_string_lossy().into_owned();
        Some((PathBuf::from(file.trim_end()), device))
    });
    backed.collect()
}

fn look(root: &Path) -> View {
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let files = TEMPORARY.iter().flat_map(|d| entries(Path::new(d)));
    let git = Command::new("git")
        .args(["status", "--porcelain"])
        .current_dir(root)
        .output();
    let (changed, git_failed) = match git {
        Ok(o) if o.status.success() => (o.stdout, None),
        Ok(o) => (
            Vec::new(),
            Some(String::from_utf8_lossy(&o.stderr).into_owned()),
        ),
        Err(e) => (Vec::new(), Some(e.to_string())),
    };
    View {
        mounts: mount_points(&mounts),
        loops: loop_devices(),
        files: files.filter(|f| may_be_ours(f)).collect(),
        changed: String::from_utf8_lossy(&changed)
            .lines()
            .map(str::to_owned)
            .collect(),
        git_failed,
    }
}

/// Returns true for file names of the project's tests and of Rust's temporary files.
fn may_be_ours(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    name.contains("logforce") || name.starts_with(".tmp")
}

pub fn entries(dir: &Path) -> Vec<PathBuf> {
    let read = std::fs::read_dir(dir).into_iter().flatten();
    let mut paths: Vec<PathBuf> = read.flatten().map(|e| e.path()).collect();
    paths.sort();
    paths
}

/// Returns the mount points in a `mountinfo`: the fifth word, with spaces as `\040`.
pub fn mount_points(mountinfo: &str) -> BTreeSet<PathBuf> {
    let words = mountinfo.lines().filter_map(|l| l.split(' ').nth(4));
    words
        .map(|word| {
            let plain = word
                .replace("\\040", " ")
                .replace("\\011", "\t")
                .replace("\\012", "\n")
                .replace("\\134", "\\");
            PathBuf::from(plain)
        })
        .collect()
}

/// Returns the processes with the mark, and their command lines.
fn marked(mark: &str) -> Vec<(u32, String)> {
    let wanted = format!("{MARK}={mark}");
    let number = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let mut found = Vec::new();
    for (path, id) in entries(Path::new("/proc"))
        .into_iter()
        .filter_map(|p| number(&p).map(|id| (p, id)))
    {
        let environment = std::fs::read(path.join("environ")).unwrap_or_default();
        if environment
            .split(|b| *b == 0)
            .any(|v| v == wanted.as_bytes())
        {
            let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            found.push((id, line.trim_end().to_owned()));
        }
    }
    found
}

/// Ends a process of the tests.
#[cfg(unix)]
fn finish(id: u32) {
    use rustix::process::{Pid, Signal, kill_process};
    let pid = i32::try_from(id).ok().and_then(Pid::from_raw);
    let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
}

#[cfg(not(unix))]
fn finish(_id: u32) {}

#[cfg(test)]
mod tests {
    use super::*;

    fn watch(temp: &Path, strict: bool) -> Watch {
        Watch {
            before: View {
                mounts: ["/".into(), "/w/target/old".into()].into(),
                ..View::default()
            },
            root: "/w".into(),
            target: "/w/target".into(),
            temp: temp.to_owned(),
            mark: "1-2".to_owned(),
            strict,
        }
    }

    #[test]
    fn each_leak_is_found_and_only_ours_fails_where_other_programs_run() {
        let temp = tempfile::TempDir::new().unwrap();
        std::fs::write(temp.path().join("planted"), "").unwrap();
        let pair = |file: &str| (PathBuf::from(file), "loop7".to_owned());
        let after = View {
            mounts: [
                "/".into(),
                "/w/target/m".into(),
                temp.path().join("n"),
                "/elsewhere".into(),
            ]
            .into(),
            loops: [pair("/w/target/image"), pair("/other")].into(),
            files: ["/tmp/logforce-x".into()].into(),
            changed: ["?? crates/x".to_owned()].into(),
            git_failed: Some("dubious ownership".to_owned()),
        };
        let processes = [(9, "sleep 1000".to_owned())];
        let beside = watch(temp.path(), false).compare(&after, &processes);
        let strict = watch(temp.path(), true).compare(&after, &processes);
        let mount = temp.path().join("n").display().to_string();
        for ours in [
            "/w/target/m",
            &mount,
            "/w/target/image",
            "sleep 1000",
            "planted",
        ] {
            for found in [&beside, &strict] {
                assert!(found.failures.iter().any(|l| l.contains(ours)), "{found:?}");
            }
        }
        assert_eq!((beside.failures.len(), beside.notes.len()), (5, 5));
        assert_eq!((strict.failures.len(), strict.notes.len()), (9, 1));
    }

    #[test]
    fn nothing_new_is_nothing_found() {
        let temp = tempfile::TempDir::new().unwrap();
        let watch = watch(temp.path(), true);
        assert_eq!(watch.compare(&watch.before, &[]), Leaks::default());
    }

    #[test]
    fn mount_points_are_read() {
        let text = "36 35 98:0 / /mnt/a\\040b rw - ext4 /dev/loop0 rw\n\
                    37 35 98:0 / / rw shared:1 - ext4 /dev/vda rw\n";
        assert_eq!(
            mount_points(text),
            [PathBuf::from("/"), PathBuf::from("/mnt/a b")].into()
        );
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_process_with_the_mark_is_found_and_ended() {
        let mark = format!("test-{}", std::process::id());
        let mut child = Command::new("sleep")
            .arg("1000")
            .env(MARK, &mark)
            .spawn()
            .unwrap();
        // Its environment is visible once it has become `sleep`.
        let end = Instant::now() + TIMEOUT;
        let found = loop {
            let found = marked(&mark);
            if !found.is_empty() || Instant::now() > end {
                break found;
            }
        };
        finish(child.id());
        assert!(!child.wait().unwrap().success());
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!(found[0].0, child.id());
        assert_eq!(marked(&mark), []);
    }
}
