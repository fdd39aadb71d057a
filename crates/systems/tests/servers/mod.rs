//! Programs that run under `strace` as a user without rights, in a directory of that user.

use crate::trace::Trace;
use logforce_testkit::another_user;
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Longest time until a server answers or has ended.
const PATIENCE: Duration = Duration::from_secs(60);

/// A directory on a disk, of a user without root's rights: servers refuse to run as root.
pub struct Place {
    dir: tempfile::TempDir,
    is_root: bool,
}

impl Place {
    pub fn new() -> Place {
        let on = another_user::directory(env!("CARGO_TARGET_TMPDIR"));
        let dir = tempfile::tempdir_in(on).unwrap();
        let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
        if is_root {
            let id = Some(another_user::NOBODY);
            std::os::unix::fs::chown(dir.path(), id, id).unwrap();
        }
        Place { dir, is_root }
    }

    /// Returns the path of a file in the directory.
    pub fn path(&self, name: &str) -> String {
        self.dir.path().join(name).display().to_string()
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(program);
        command.current_dir(&self.dir).env("HOME", self.dir.path());
        // The tests' own is closed to this user in some checkouts.
        command.env("TMPDIR", self.dir.path());
        if self.is_root {
            command.uid(another_user::NOBODY).gid(another_user::NOBODY);
        }
        command.stdin(Stdio::null());
        command
    }

    /// Runs a program to its end, which must be a success.
    pub fn run(&self, program: &str, arguments: &[&str]) {
        let out = self.command(program).args(arguments).output().unwrap();
        assert!(
            out.status.success(),
            "{program}: {}",
            String::from_utf8_lossy(&out.stderr)
        );
    }
}

/// Returns true if `strace` and the programs are installed; otherwise the test is skipped.
pub fn installed(programs: &[&str]) -> bool {
    for program in programs.iter().chain(&["strace"]) {
        let path = std::env::var_os("PATH").unwrap_or_default();
        let mut folders = std::env::split_paths(&path).chain([PathBuf::from("/usr/sbin")]);
        if !folders.any(|folder| folder.join(program).exists()) {
            logforce_testkit::skip!("{program} is not installed");
            return false;
        }
    }
    true
}

/// Returns the folder `FOLDER/VERSION/bin` that has the program; otherwise the test is skipped.
pub fn beside(folder: &str, program: &str) -> Option<PathBuf> {
    let versions = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut folders = versions.map(|v| v.path().join("bin"));
    let found = folders.find(|f| f.join(program).exists());
    if found.is_none() {
        logforce_testkit::skip!("{program} is not installed");
    }
    found.filter(|_| installed(&[]))
}

/// Waits until `is_done` returns true.
#[track_caller]
pub fn until(what: &str, mut is_done: impl FnMut() -> bool) {
    let start = Instant::now();
    while !is_done() {
        assert!(start.elapsed() < PATIENCE, "waited too long until {what}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Runs a client until the server answers it.
#[track_caller]
pub fn client(place: &Place, program: &str, arguments: &[&str]) {
    until(program, || {
        let out = place.command(program).args(arguments).output().unwrap();
        out.status.success()
    });
}

/// A traced program.
pub struct Server<'p> {
    place: &'p Place,
    child: Child,
}

impl<'p> Server<'p> {
    pub fn start(place: &'p Place, program: &str, arguments: &[&str]) -> Server<'p> {
        let log = File::create(place.path("output")).unwrap();
        let calls = "trace=openat,write,pwrite64,fdatasync,fsync,fallocate";
        // With -D the tracer is the child of the program, which then gets the signals.
        let trace = place.path("trace");
        let child = place
            .command("strace")
            .args([
                "-D", "-f", "-y", "-s", "0", "-e", calls, "-o", &trace, program,
            ])
            .args(arguments)
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .process_group(0)
            .spawn()
            .unwrap();
        Server { place, child }
    }

    /// Stops the server by a signal, and returns its calls.
    pub fn stop(mut self, signal: &str) -> Trace {
        let pid = self.child.id().to_string();
        let sent = Command::new("kill").args(["-s", signal, &pid]).status();
        assert!(sent.unwrap().success());
        self.end_of_itself()
    }

    /// Waits for the end of the program, and returns its calls.
    pub fn end_of_itself(&mut self) -> Trace {
        let child = &mut self.child;
        until("it ends", || child.try_wait().unwrap().is_some());
        let pid = self.child.id().to_string();
        let mut text = String::new();
        // The tracer writes the rest after the program has ended.
        until("the trace is complete", || {
            text = fs::read_to_string(self.place.path("trace")).unwrap_or_default();
            let is_end = |line: &str| line.starts_with(&pid) && line.contains("+++ ");
            text.lines().any(is_end)
        });
        Trace::new(text)
    }
}

impl Drop for Server<'_> {
    fn drop(&mut self) {
        // A test that failed leaves no server behind.
        if let Ok(None) = self.child.try_wait() {
            let group = format!("-{}", self.child.id());
            let _ = Command::new("kill")
                .args(["-s", "KILL", "--", &group])
                .status();
            let _ = self.child.wait();
        }
    }
}
