//! The example `till`, repeatedly killed with `kill -9`.

use crate::common::examples::{program, too_weak};
use crate::common::*;
use logforce::{ErrorKind, Options};
use logforce_testkit::Rng;
use logforce_testkit::process::Start;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

const COUNT: u64 = 500;

/// Output of a run.
struct Run {
    found: Option<u64>,
    acknowledged: Vec<u64>,
    total: Option<String>,
}

/// Runs the program, and kills it after `lines` lines or after `time`.
fn run(program: &Path, dir: &Path, lines: usize, time: Option<Duration>) -> Run {
    let mut child = Command::new(program);
    child.arg(dir).arg(COUNT.to_string());
    let mut child = child.stdout(Stdio::piped()).start().unwrap();
    let out = BufReader::new(child.stdout.take().unwrap());
    let mut child = Killed(child);
    if let Some(time) = time {
        std::thread::sleep(time);
        child.0.kill().unwrap();
    }
    let mut run = Run {
        found: None,
        acknowledged: Vec::new(),
        total: None,
    };
    for (i, line) in out.lines().enumerate() {
        // The kill may cut the last line. An incomplete line does not acknowledge a sale.
        let Ok(line) = line else { break };
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["found", n, "sales," | "sale,", _] => run.found = Some(n.parse().unwrap()),
            ["sale", n, "of", _, "at", _] => run.acknowledged.push(n.parse().unwrap()),
            ["total", n, "sales," | "sale,", sum] => run.total = Some(format!("{n} {sum}")),
            _ => println!("a line that was cut: {line:?}"),
        }
        if i + 1 == lines {
            child.0.kill().unwrap();
        }
    }
    child.kill();
    run
}

/// Reads the numbers of the sales in the log with the library.
fn sales(dir: &Path) -> Vec<u64> {
    match logforce::open_existing(dir, Options::new().segment_size(1 << 20)) {
        Ok(log) => read_all(&log)
            .iter()
            .map(|sale| u64::from_le_bytes(sale[..8].try_into().unwrap()))
            .collect(),
        // The program was killed before there was a log.
        Err(e) if e.kind() == ErrorKind::NoLog => Vec::new(),
        Err(e) => panic!("{e}"),
    }
}

#[test]
fn a_till_that_is_killed_loses_no_sale() {
    let home = temp();
    if too_weak(home.path()) {
        return;
    }
    let program = program("till");
    let mut kills = 0;
    for seed in 0.. {
        // Makes fewer kills under Wine, where starting the next program takes long.
        if kills >= if cfg!(windows) { 20 } else { 50 } {
            break;
        }
        let mut rng = Rng::new(seed);
        let dir = home.path().join(seed.to_string());
        let mut acknowledged = 0;
        let total = loop {
            let (lines, time) = match rng.below(3) {
                // Also kills it while it opens, creates, recovers or closes the log.
                0 => (usize::MAX, Some(Duration::from_micros(rng.below(40_000)))),
                _ => (1 + rng.below(40) as usize, None),
            };
            let run = run(&program, &dir, lines, time);
            if let Some(found) = run.found {
                assert!(
                    found >= acknowledged,
                    "seed {seed}: {acknowledged} were said, {found} found"
                );
                assert!(found <= acknowledged + 1, "seed {seed}");
                acknowledged = found;
            }
            for n in run.acknowledged {
                assert_eq!(n, acknowledged + 1, "seed {seed}");
                acknowledged = n;
            }
            if let Some(total) = run.total {
                break total;
            }
            kills += 1;
            if rng.below(3) == 0 {
                // Reads the log here first. The next run must find the same sales.
                let found = sales(&dir);
                let n = found.len() as u64;
                assert_eq!(found, (1..=n).collect::<Vec<_>>(), "seed {seed}");
                assert!(n >= acknowledged && n <= acknowledged + 1, "seed {seed}");
                acknowledged = n;
            }
        };
        assert_eq!(sales(&dir), (1..=COUNT).collect::<Vec<_>>(), "seed {seed}");
        let sum: u64 = (0..COUNT).map(|n| 250 + 37 * n % 900).sum();
        assert_eq!(total, format!("{COUNT} {}.{:02}", sum / 100, sum % 100));
        // One more run has nothing left to do.
        let last = run(&program, &dir, usize::MAX, None);
        assert_eq!((last.found, last.acknowledged.len()), (Some(COUNT), 0));
    }
    println!("{kills} kills");
}

#[test]
fn the_quickstart_runs() {
    let home = temp();
    if too_weak(home.path()) {
        return;
    }
    let program = program("quickstart");
    for times in 1..=2 {
        let output = Command::new(&program)
            .current_dir(home.path())
            .to_end()
            .unwrap();
        assert!(output.status.success(), "{output:?}");
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.matches("one coffee, 2.50").count(), times, "{text}");
    }
}
