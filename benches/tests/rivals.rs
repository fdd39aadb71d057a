//! Each rival commits records by one thread and by several, and returns them after it is reopened.

use clap::Parser;
#[cfg(feature = "go")]
use logforce_benches::rivals::Way;
use logforce_benches::rivals::{
    BULK_RECORD, Document, Entry, Flags, Ground, RAW, RECYCLING, Shape, Task, Until, Work, Writers,
    all, here, measure, part, replace, run,
};
use logforce_measure::Interrupt;
use std::path::Path;
#[cfg(feature = "go")]
use std::{
    thread,
    time::{Duration, Instant},
};

/// Number of records of each thread.
const RECORDS: u64 = 50;
/// Time limit for an interrupt.
#[cfg(feature = "go")]
const PATIENCE: Duration = Duration::from_secs(30);

fn check(threads: usize) {
    // Not the temporary directory, which is often in memory, where nothing is durable.
    let ground = Ground::new(Path::new(env!("CARGO_TARGET_TMPDIR")), None).unwrap();
    let interrupt = Interrupt::new();
    for entry in all() {
        let rival = match entry {
            Entry::Here(rival) => rival,
            // The rival is not in this build, or its program cannot be built here.
            Entry::Absent { name, why } => {
                println!("skipped: {name}: {why}");
                continue;
            }
        };
        if threads > 1 && rival.writers() == Writers::Single {
            continue;
        }
        for record in [128, 16 << 10] {
            let shape = Shape { record, threads };
            let what = format!("{} {} {shape:?}", rival.name(), rival.version());
            let committed = RECORDS * threads as u64;
            let seen = run(&*rival, &ground, shape, Until::Count(committed), &interrupt)
                .unwrap_or_else(|e| panic!("{what}: {e:#}"));
            assert_eq!(seen.commits, committed, "{what}");
            if let Some(kept) = seen.kept {
                assert_eq!(kept.acknowledged, committed, "{what}");
                assert_eq!((kept.missing, kept.foreign), (0, 0), "{what}");
            } else {
                assert!([RAW, RECYCLING].contains(&rival.name()), "{what}");
            }
        }
    }
}

#[test]
fn one_thread() {
    check(1);
}

#[test]
fn four_threads() {
    check(4);
}

/// An interrupt ends a turn of one minute in a separate process, and leaves no process behind.
#[cfg(feature = "go")]
#[test]
fn an_interrupt_ends_a_process_of_its_own() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let ground = Ground::new(home.path(), None).unwrap();
    let shape = Shape {
        record: 128,
        threads: 4,
    };
    for entry in all() {
        let rival = match entry {
            Entry::Here(rival) if matches!(rival.way(), Way::Apart(_)) => rival,
            _ => continue,
        };
        let interrupt = Interrupt::new();
        let began = Instant::now();
        let result = thread::scope(|scope| {
            scope.spawn(|| {
                while processes(home.path()) == 0 && began.elapsed() < PATIENCE {
                    thread::sleep(Duration::from_millis(10));
                }
                interrupt.raise();
            });
            let minute = Until::Time(Duration::from_secs(60));
            run(&*rival, &ground, shape, minute, &interrupt)
        });
        let name = rival.name();
        assert!(
            format!("{:#}", result.unwrap_err()).contains("interrupted"),
            "{name}"
        );
        assert!(began.elapsed() < PATIENCE, "{name}");
        assert_eq!(processes(home.path()), 0, "{name}");
    }
}

/// Returns the number of processes with the directory in their command line.
#[cfg(feature = "go")]
fn processes(dir: &Path) -> usize {
    let dir = dir.to_str().unwrap();
    let all = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    all.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok())
        .filter(|line| String::from_utf8_lossy(line).contains(dir))
        .count()
}

/// Every bulk subject that runs in a child of this program returns all records. The Go program is not
/// tested here: its bulk part is the same code as its turn.
#[test]
fn bulk_comes_back() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    // More than one batch of any subject, and not a multiple of one.
    let count = 3_000;
    for bulk in here() {
        let name = bulk.name();
        let dir = home.path().join(name);
        std::fs::create_dir(&dir).unwrap();
        let task = |work, commits| Task {
            work,
            log: name.to_owned(),
            dir: dir.clone(),
            record: BULK_RECORD,
            threads: 1,
            warm_up: 0,
            seconds: 0.0,
            commits,
        };
        let appended = part(&task(Work::Append, count)).unwrap_or_else(|e| panic!("{name}: {e:#}"));
        assert!(appended.seconds > 0.0, "{name}");
        let read = part(&task(Work::Read, count)).unwrap_or_else(|e| panic!("{name}: {e:#}"));
        assert_eq!((read.missing, read.foreign), (0, 0), "{name}");
    }
}

#[test]
fn every_rival_of_the_build_says_its_version() {
    for entry in all() {
        if let Entry::Here(rival) = entry {
            assert!(!rival.version().contains('?'), "{}", rival.version());
            assert!(!rival.settings().is_empty());
        }
    }
}

/// A row can be distinguished from every other one, and HashiCorp's log from the Rust crate raft-wal.
#[test]
fn names_are_unique() {
    let all = all();
    let mut names: Vec<&str> = all.iter().map(Entry::name).collect();
    assert!(names.contains(&"raft-wal-go") && !names.contains(&"raft-wal"));
    names.sort_unstable();
    names.dedup();
    assert_eq!(names.len(), all.len());
}

/// Two runs are merged: the tables have the rounds of both, and no path of this machine.
#[test]
fn tables_are_made_of_merged_runs() {
    let home = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let at = |name: &str| home.path().join(name);
    let dir = home.path().to_str().unwrap();
    let run = |json: &str, threads: &str| {
        let small = ["rivals", "--dir", dir, "--only", RECYCLING, "--bulk", "0"];
        let short = [
            "--rounds",
            "1",
            "--seconds",
            "0.02",
            "--records",
            "128,4KiB",
        ];
        let words = [&small[..], &short, &["--threads", threads]].concat();
        let document = measure(&Flags::parse_from(words), &Interrupt::new()).unwrap();
        std::fs::write(at(json), serde_json::to_vec(&document).unwrap()).unwrap();
    };
    run("a", "1,2");
    run("b", "1,2");
    run("other", "1,4");

    let page = "<!-- rivals: tables -->\n<!-- end -->\n<!-- rivals: summary -->\n<!-- end -->\n";
    std::fs::write(at("page.md"), page).unwrap();
    let merged = Document::read(&[at("a"), at("b")]).unwrap();
    replace(&at("page.md"), &merged).unwrap();
    let text = std::fs::read_to_string(at("page.md")).unwrap();
    assert_eq!(text.matches("medians of 2 rounds").count(), 2, "{text}");
    assert!(
        text.contains("| 1 × 128 B | 2 × 128 B | 1 × 4 KiB | 2 × 4 KiB |"),
        "{text}"
    );
    assert!(text.contains("| 1 thread | 2 threads |"), "{text}");
    assert!(text.contains("segments used again"), "{text}");
    assert!(!text.contains("failed") && !text.contains(dir), "{text}");

    let refused = Document::read(&[at("a"), at("other")]).unwrap_err();
    assert!(
        format!("{refused:#}").contains("other rivals or workloads"),
        "{refused:#}"
    );
}
