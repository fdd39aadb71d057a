//! Enclosure of the suite: namespaces, so that nothing of it is left behind however it ends.
//!
//! The suite runs in a separate mount namespace and a separate process namespace. When its first process ends, in
//! whatever way, the kernel kills the others and undoes the mounts. The loop devices go with the mounts. The first
//! process ends when the process outside ends, because its input ends then. On Ctrl-C the process outside kills the
//! first process.
//!
//! A kill can leave a directory on the machine's disk, or a loop device that no mount had taken yet. The process
//! outside removes these.

use super::programs;
use crate::disk::serve::INODE;
use anyhow::{Context, Result, bail};
use rustix::io::Errno;
use rustix::mount::MountFlags;
use rustix::process::{Pid, test_kill_process};
use std::ffi::OsString;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

/// Environment variable of the processes inside: a name that no other suite has.
const INSIDE: &str = "LOGFORCE_CRASHTEST_INSIDE";

/// Arguments of `unshare` for the namespaces of a suite.
pub(super) const NAMESPACES: [&str; 8] = [
    "--mount",
    "--propagation",
    "private",
    "--pid",
    "--fork",
    "--kill-child",
    "--mount-proc",
    "--",
];

/// Returns true inside the enclosure.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

/// Prefix of the names of everything of a suite that outlives a process.
const NAME: &str = "logforce-crashtest-";

/// Suffix of the directories of [`own_disk`].
const ON_DISK: &str = "-inject";

/// Returns the name of images in memory, by which [`run_inside`] recognizes them as this suite's.
pub fn name() -> String {
    let own = std::env::var(INSIDE).unwrap_or_default();
    format!("{NAME}{own}")
}

/// Returns a directory on the machine's disk, beside the program, and does not create it.
///
/// # Errors
/// If the path of the program is unknown.
pub fn own_disk() -> Result<PathBuf> {
    Ok(std::env::current_exe()?.with_file_name(name() + ON_DISK))
}

/// Returns the name of a new suite: number and PID namespace of this process, and the time. Suites of several containers
/// see each other's loop devices and may share `/tmp`, but number their processes separately.
///
/// # Errors
/// If `/proc` is not mounted.
pub(crate) fn new_suite() -> Result<String> {
    let since = std::time::UNIX_EPOCH.elapsed().unwrap_or_default();
    let (process, namespace) = (std::process::id(), namespace()?);
    Ok(format!("{process}-{namespace}-{}", since.as_nanos()))
}

/// Returns the number of the PID namespace of this process.
fn namespace() -> Result<u64> {
    let path = "/proc/self/ns/pid";
    Ok(std::fs::metadata(path).context(path)?.ino())
}

/// Runs this program again, with these arguments, inside. Kills everything inside on Ctrl-C.
///
/// # Errors
/// If the program cannot be started, or if a signal kills it.
pub fn run_inside(arguments: &[OsString]) -> Result<u8> {
    let own = new_suite()?;
    let home = home(&own);
    std::fs::create_dir(&home).with_context(|| home.display().to_string())?;
    let mut child = Command::new("unshare")
        .args(NAMESPACES)
        .arg(std::env::current_exe()?)
        .args(arguments)
        .env(INSIDE, &own)
        .env("PATH", programs::path())
        // Remains empty. It ends when this process ends.
        .stdin(Stdio::piped())
        .spawn()
        .context("unshare (package util-linux)")?;
    catch_interrupts();
    let status = loop {
        if is_interrupted() {
            // Because of `--kill-child` this kills everything inside.
            let _ = child.kill();
        }
        if let Some(status) = child.try_wait()? {
            break status;
        }
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    sweep(&own);
    if is_interrupted() {
        eprintln!("interrupted: everything was ended and removed");
        return Ok(130);
    }
    match status.code() {
        Some(code) => Ok(u8::try_from(code).unwrap_or(1)),
        None => bail!("the suite was killed: {status}"),
    }
}

/// True after Ctrl-C.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// Returns true after Ctrl-C, if this process notes it.
pub fn is_interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}

/// Notes Ctrl-C from now on. A test binary calls this once for each test; a program that has a handler keeps it.
pub(crate) fn catch_interrupts() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::SeqCst));
    });
}

/// Detaches the loop devices that are left of this suite, and of earlier ones that were killed with their process
/// outside, and removes their directories.
fn sweep(own: &str) {
    let devices = std::fs::read_dir("/sys/block").into_iter().flatten();
    for device in devices.flatten() {
        let backing = std::fs::read_to_string(device.path().join("loop/backing_file"));
        let path = Path::new("/dev").join(device.file_name());
        if backing.is_ok_and(|b| is_left(b.trim_end(), &path, own)) {
            let _ = Command::new("losetup")
                .env("PATH", programs::path())
                .arg("--detach")
                .arg(path)
                .output();
        }
    }
    remove_directories(own);
}

/// Removes the directories that are left of this suite, and of earlier ones that were killed with their process outside.
pub(crate) fn remove_directories(own: &str) {
    let program = std::env::current_exe().unwrap_or_default();
    let home = home(own);
    for dir in program.parent().into_iter().chain(home.parent()) {
        for entry in std::fs::read_dir(dir).into_iter().flatten().flatten() {
            if directory_is_left(&entry.file_name().to_string_lossy(), own) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
        }
    }
}

/// Returns true if a loop device over this file has outlived its suite. The file is an image or in a directory of a
/// suite that is over, or it is an unmounted FUSE disk, which the kernel lists as `/`.
fn is_left(backing: &str, device: &Path, own: &str) -> bool {
    if let Some((_, suite)) = backing.split_once(&format!("memfd:{NAME}")) {
        return suite_is_over(suite, own);
    }
    let directory = Path::new(backing).parent().and_then(Path::file_name);
    (backing == "/" && is_over_disk(device))
        || directory.is_some_and(|d| directory_is_left(&d.to_string_lossy(), own))
}

/// Returns true if a loop device is over a file that a process of a suite serves or has served.
fn is_over_disk(device: &Path) -> bool {
    let out = Command::new("losetup")
        .env("PATH", programs::path())
        .args(["--list", "--noheadings", "--output", "BACK-INO"])
        .arg(device)
        .output();
    out.is_ok_and(|out| String::from_utf8_lossy(&out.stdout).trim() == INODE.to_string())
}

/// Returns true if a directory of that name has outlived its suite.
fn directory_is_left(name: &str, own: &str) -> bool {
    let suite = name.strip_prefix(NAME);
    suite.is_some_and(|suite| suite_is_over(suite.strip_suffix(ON_DISK).unwrap_or(suite), own))
}

/// Returns true if a suite is this one, which has ended, or if its process outside has ended. Processes of other PID
/// namespaces cannot be seen, so their suites count as alive.
fn suite_is_over(suite: &str, own: &str) -> bool {
    let mut numbers = suite.split('-');
    let process = numbers.next().and_then(|n| Pid::from_raw(n.parse().ok()?));
    let is_here = numbers.next().and_then(|n| n.parse().ok()) == namespace().ok();
    let gone = process.is_some_and(|p| test_kill_process(p) == Err(Errno::SRCH));
    suite.starts_with(own) || (is_here && gone)
}

/// Makes this process, which is inside, end when the process outside ends. Mounts a tmpfs of 64 MiB for mount points
/// and returns its directory.
///
/// # Errors
/// If this process is not inside, or if the tmpfs cannot be mounted.
pub fn enter() -> Result<PathBuf> {
    std::thread::spawn(|| {
        let mut byte = [0];
        let _ = std::io::stdin().read(&mut byte);
        eprintln!("the process outside the enclosure has ended");
        std::process::exit(2);
    });
    let home = home(&std::env::var(INSIDE)?);
    rustix::mount::mount(
        "logforce-crashtest",
        &home,
        "tmpfs",
        MountFlags::NOSUID | MountFlags::NODEV,
        c"size=64m",
    )
    .with_context(|| format!("cannot mount a tmpfs at {}", home.display()))?;
    Ok(home)
}

/// Returns the directory of a suite, for mount points or files. Its path has no spaces and quotes, because commands of
/// users contain it.
pub(crate) fn home(own: &str) -> PathBuf {
    let mut dirs = [std::env::temp_dir(), "/tmp".into(), "/var/tmp".into()].into_iter();
    let usual = |dir: &PathBuf| {
        let is_usual = |c: char| c.is_ascii_alphanumeric() || "/_.-".contains(c);
        dir.is_dir() && dir.to_str().is_some_and(|d| d.chars().all(is_usual))
    };
    let dir = dirs.find(usual).unwrap_or_else(|| "/tmp".into());
    dir.join(format!("{NAME}{own}"))
}

#[cfg(test)]
mod tests {
    use super::super::needs;
    use super::*;
    use crate::acks::Acks;
    use rustix::mount::UnmountFlags;
    use std::ffi::OsStr;

    #[test]
    fn only_what_outlived_its_suite_is_left() {
        let (here, namespace) = (std::process::id(), namespace().unwrap());
        let mine = format!("{here}-{namespace}-17");
        // No process has that number.
        let gone = format!("999999999-{namespace}-3");
        let other = format!("{here}-{namespace}-18");
        let elsewhere = format!("999999999-{}-3", namespace + 1);
        let is_left = |backing: &str| is_left(backing, Path::new("/dev/null"), &mine);
        let image = |suite: &str| format!("/memfd:logforce-crashtest-{suite} (deleted)");
        let beside = |suite: &str| format!("/target/debug/logforce-crashtest-{suite}-inject/ext4");
        for file in [&image as &dyn Fn(&str) -> String, &beside] {
            assert!(is_left(&file(&mine)));
            assert!(is_left(&file(&gone)));
            assert!(!is_left(&file(&other)), "other suite");
            assert!(!is_left(&file(&elsewhere)), "suite of another container");
        }
        assert!(!is_left("/home/user/image"));
        assert!(!is_left("/home/logforce-crashtest-inject/image"));
        let directory = |suite: &str| format!("logforce-crashtest-{suite}");
        assert!(directory_is_left(
            &directory(&format!("{mine}-inject")),
            &mine
        ));
        assert!(directory_is_left(&directory(&gone), &mine));
        assert!(!directory_is_left(&directory(&elsewhere), &mine));
        assert!(
            !directory_is_left("logforce-crashtest", &mine),
            "the program"
        );
    }

    /// The kernel lists both as `/`.
    #[test]
    fn an_unmounted_disk_is_told_from_other_unmounted_files() {
        let missing = needs::missing(&[]);
        if !missing.is_empty() {
            logforce_testkit::skip!("{}", missing.join(", "));
            return;
        }
        let home = tempfile::tempdir().unwrap();
        let acks = Acks::serve(home.path()).unwrap();
        let (stranger, at) = (home.path().join("stranger"), home.path().join("at"));
        for file in [&stranger, &at] {
            std::fs::write(file, [0; 4096]).unwrap();
        }
        rustix::mount::mount_bind(&stranger, &at).unwrap();
        for (file, is_ours) in [(acks.path(), true), (&at, false)] {
            let losetup = |args: &[&OsStr]| {
                let out = Command::new("losetup").args(args).output().unwrap();
                String::from_utf8(out.stdout).unwrap().trim().to_owned()
            };
            let device = losetup(&["--find".as_ref(), "--show".as_ref(), file.as_ref()]);
            rustix::mount::unmount(file, UnmountFlags::DETACH).unwrap();
            let number = device.trim_start_matches("/dev/");
            let backing = std::fs::read_to_string(format!("/sys/block/{number}/loop/backing_file"));
            let left = is_left("/", Path::new(&device), "");
            losetup(&["--detach".as_ref(), device.as_ref()]);
            assert_eq!(backing.unwrap().trim_end(), "/", "{device}");
            assert_eq!(left, is_ours, "{device}");
        }
    }
}
