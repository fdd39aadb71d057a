//! Checks that each known bug of the list is caught, by running this same program with the bug.

use logforce_sim::from_env;
use logforce_sim::known_bugs::{INTERLEAVINGS, KnownBug, in_turn};
use std::process::Command;
use std::sync::Mutex;
use std::time::Instant;

/// Result of the search for a bug.
struct Caught {
    name: &'static str,
    /// Line with the test, the seed and the schedule; or what happened instead.
    by: Result<String, String>,
    seconds: f64,
}

impl Caught {
    fn line(&self) -> String {
        let by: String = match &self.by {
            Ok(by) => by.chars().take(110).collect(),
            Err(why) => why.clone(),
        };
        format!("{:<34} {:5.1} s  {by}", self.name, self.seconds)
    }
}

/// Number of schedules in the first and the second search. The first schedules are the same each time,
/// whatever the run requests. The second search runs if these no longer find the bug.
const SCHEDULES: [&str; 2] = ["600", "6000"];

fn try_out(bug: &KnownBug) -> Caught {
    let began = Instant::now();
    let mut by = Err(String::new());
    for schedules in SCHEDULES {
        if by.is_err() {
            by = search(bug, schedules);
        }
    }
    Caught {
        name: bug.name,
        by,
        seconds: began.elapsed().as_secs_f64(),
    }
}

/// Returns the tests that look for a bug: those of durable files for a bug of these, else all.
fn tests(bug: &KnownBug) -> &'static [&'static str] {
    match bug.name.starts_with("file-") {
        true => &["files::file_"],
        false => &[],
    }
}

fn search(bug: &KnownBug, schedules: &str) -> Result<String, String> {
    let program = std::env::current_exe().expect("a program knows where it is");
    let output = Command::new(program)
        .args(tests(bug))
        .args(["--skip", "planted", "--nocapture", "--test-threads", "2"])
        .env("LOGFORCE_PLANTED", bug.name)
        .env("LOGFORCE_SCHEDULES", schedules)
        .env_remove("LOGFORCE_FROM")
        .output()
        .expect("the program starts again");
    let text = String::from_utf8_lossy(&output.stderr);
    // The failed schedule writes this line. A failed start or a signal writes none.
    let line = text.lines().find_map(|l| l.strip_prefix("FAILED "));
    match line {
        Some(line) if output.status.code() == Some(101) => Ok(line.to_owned()),
        _ => Err(format!("not caught: {}", output.status)),
    }
}

/// Number of bugs that are tried when they take turns.
const A_TURN: usize = 6;

/// All bugs of the list are caught, two tried at a time. `LOGFORCE_TURN=K` selects some of them.
#[test]
fn planted_bugs_are_caught() {
    if std::env::var_os("LOGFORCE_PLANTED").is_some() {
        return;
    }
    let only = std::env::var("LOGFORCE_BUGS").ok();
    let wanted = |p: &&KnownBug| {
        only.as_deref()
            .is_none_or(|o| o.split(',').any(|n| n == p.name))
    };
    let turn = from_env("LOGFORCE_TURN");
    let some = turn.map_or(INTERLEAVINGS.len(), |_| A_TURN);
    let bugs = in_turn(INTERLEAVINGS, some, turn.unwrap_or_default());
    let bugs: Vec<&KnownBug> = bugs.filter(wanted).collect();
    let next = Mutex::new(bugs.iter());
    let all = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let bug = next.lock().expect("no panic").next();
                    let Some(bug) = bug else { return };
                    let caught = try_out(bug);
                    println!("{}", caught.line());
                    all.lock().expect("no panic").push(caught);
                }
            });
        }
    });
    let all = all.into_inner().expect("no panic");
    assert_eq!(all.len(), bugs.len());
    let missed: Vec<&str> = all
        .iter()
        .filter(|c| c.by.is_err())
        .map(|c| c.name)
        .collect();
    assert!(missed.is_empty(), "not caught: {missed:?}");
}
