//! Golden logs: small logs that earlier versions of the library wrote on Linux and on Windows (under Wine).
//! All systems open them, so a log of one system opens on another, and an old log opens with a new version.
//!
//! Each log has a file with the acknowledgements to its writer (`NAME.acknowledged`). With `LOGFORCE_BLESS=1`
//! the tests create the logs of the present system anew.
#![cfg(any(target_os = "linux", target_os = "macos", windows))]

mod acknowledged;
#[path = "../all/common/mod.rs"]
mod common;
mod packed;
mod writer;

use acknowledged::{Event, State};
use common::{options, record, segments, temp};
use logforce::{
    ErrorKind, Log, Lsn, Record,
    inspect::{Inspector, Visit},
};
use packed::File;
use std::path::{Path, PathBuf};
use std::sync::Once;
use tempfile::TempDir;

/// Segment size of the golden logs, in bytes.
const SEGMENT: u64 = 64 << 10;

/// System of the writer, and name, which says how the writer ended.
const LOGS: [(&str, &str); 4] = [
    ("linux", "closed"),
    ("linux", "killed"),
    ("windows", "closed"),
    ("windows", "killed"),
];

fn home(system: &str) -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    here.join(system)
}

/// Writes the logs of this system anew if that is requested, before any test reads them.
fn bless() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        if std::env::var_os("LOGFORCE_BLESS").is_none() {
            return;
        }
        let home = home(std::env::consts::OS);
        std::fs::create_dir_all(&home).unwrap();
        for (name, write) in [
            ("closed", writer::closed as fn(&Path) -> Vec<Event>),
            ("killed", |dir| writer::killed(dir, SECOND_PROCESS)),
        ] {
            let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            let dir = place.path().join("log");
            let events = write(&dir);
            std::fs::write(home.join(format!("{name}.hex")), packed::pack(&dir)).unwrap();
            std::fs::write(
                home.join(format!("{name}.acknowledged")),
                acknowledged::print(&events),
            )
            .unwrap();
        }
    });
}

/// Name of the test that is the writer in the second process.
const SECOND_PROCESS: &str = "golden_logs_have_something_of_everything";

/// A golden log, and the acknowledgements to its writer.
struct Golden {
    name: String,
    files: Vec<File>,
    events: Vec<Event>,
}

impl Golden {
    fn load(system: &str, name: &str) -> Golden {
        bless();
        let text = |extension: &str| {
            let path = home(system).join(format!("{name}.{extension}"));
            let text = std::fs::read_to_string(&path);
            text.unwrap_or_else(|e| panic!("{}: {e}", path.display()))
        };
        Golden {
            name: format!("{system}/{name}"),
            files: packed::unpack(&text("hex")),
            events: acknowledged::parse(&text("acknowledged")),
        }
    }

    fn all() -> impl Iterator<Item = Golden> {
        LOGS.iter().map(|(system, name)| Golden::load(system, name))
    }

    fn was_closed(&self) -> bool {
        self.name.ends_with("closed")
    }

    /// Returns a copy of the log in a temporary directory.
    fn copy(&self) -> TempDir {
        let dir = temp();
        for file in &self.files {
            std::fs::write(dir.path().join(&file.name), &file.bytes).unwrap();
        }
        dir
    }
}

/// Compares the contents with the acknowledgements. The error names the difference.
fn compare(acknowledged: &State, found: &[Record], meta: Option<&[u8]>) -> Result<(), String> {
    let expected: Vec<String> = acknowledged.records.iter().map(Event::to_string).collect();
    let found: Vec<String> = found.iter().map(|e| Event::of(e).to_string()).collect();
    if let Some(n) = (0..expected.len().max(found.len())).find(|&n| expected.get(n) != found.get(n))
    {
        let (expected, found) = (expected.get(n), found.get(n));
        return Err(format!(
            "record {n}: acknowledged {expected:?}, found {found:?}"
        ));
    }
    let expected = acknowledged.meta.as_deref().map(str::as_bytes);
    if meta != expected {
        return Err(format!(
            "metadata: acknowledged {expected:?}, found {meta:?}"
        ));
    }
    Ok(())
}

/// Returns the report of `verify`, and the records.
fn look(seen: &Inspector) -> (logforce::inspect::VerifyReport, Vec<Record>) {
    let mut records = Vec::new();
    let found = seen.walk(&mut |visit| {
        if let Visit::Record { record, .. } = visit {
            records.push(record.clone());
        }
        true
    });
    (found.unwrap(), records)
}

fn records(log: &Log) -> Vec<Record> {
    let all = log.read_from(log.front_lsn()).unwrap();
    all.map(Result::unwrap).collect()
}

/// The golden logs contain all kinds of data. Otherwise the other tests would prove little.
#[test]
fn golden_logs_have_something_of_everything() {
    if writer::is_second_process() {
        return writer::work_until_killed();
    }
    for golden in Golden::all() {
        let name = &golden.name;
        let acknowledged = State::after(&golden.events);
        let lengths: Vec<u64> = acknowledged
            .records
            .iter()
            .filter_map(Event::record_len)
            .collect();
        assert!(lengths.len() >= 30, "{name}: {} records", lengths.len());
        assert!(lengths.contains(&0), "{name}: an empty record");
        assert!(lengths.iter().any(|&l| l > SEGMENT), "{name}: {lengths:?}");
        assert!(
            acknowledged.front > Lsn(SEGMENT),
            "{name}: {:?}",
            acknowledged.front
        );
        assert!(
            acknowledged.voided.len() >= 2 && acknowledged.meta.is_some(),
            "{name}"
        );
        let summary = {
            let dir = golden.copy();
            logforce::inspect::open(dir.path()).unwrap().summary()
        };
        assert!(summary.segments.len() >= 4, "{name}: {summary:?}");
        assert!(summary.epoch.counter >= 3, "{name}: {summary:?}");
        assert_eq!(summary.clean, golden.was_closed(), "{name}");
        assert!(summary.strays.is_empty(), "{name}: {summary:?}");
        for file in ["control", "lock"] {
            assert!(
                golden.files.iter().any(|f| f.name == file),
                "{name}: {file}"
            );
        }
    }
}

#[test]
fn a_golden_log_is_healthy_and_holds_what_its_writer_was_told() {
    for golden in Golden::all() {
        let (name, dir) = (&golden.name, golden.copy());
        let acknowledged = State::after(&golden.events);
        let seen = logforce::inspect::open(dir.path()).unwrap();
        let (found, records) = look(&seen);
        println!("{name}: {found:?}");
        let meta = seen.meta().unwrap();
        compare(&acknowledged, &records, meta.as_deref()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert_eq!(found.damages, 0, "{name}");
        assert_eq!(seen.summary().front, acknowledged.front, "{name}");
        // Inspection has changed no file.
        for file in &golden.files {
            let now = std::fs::read(dir.path().join(&file.name)).unwrap();
            assert!(now == file.bytes, "{name}: {}", file.name);
        }
    }
}

#[test]
fn a_golden_log_is_opened_and_goes_on() {
    for golden in Golden::all() {
        let (name, dir) = (&golden.name, golden.copy());
        let mut acknowledged = State::after(&golden.events);
        // Uses the default method of this system.
        let options = options().segment_size(SEGMENT);
        let log = logforce::open_existing(dir.path(), options.clone()).unwrap();
        println!("{name}: {} {:?}", log.recovered().method, log.recovered());
        assert_eq!(log.recovered().clean, golden.was_closed(), "{name}");
        let meta = log.meta();
        compare(&acknowledged, &records(&log), meta.as_deref())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        for &(from, _) in &acknowledged.voided {
            if from >= acknowledged.front {
                let gone = log.read_at(from).unwrap_err();
                assert_eq!(gone.kind(), ErrorKind::Voided, "{name}: {gone}");
            }
        }
        let gone = log.read_at(Lsn(SEGMENT - 4096)).unwrap_err();
        assert_eq!(gone.kind(), ErrorKind::Truncated, "{name}: {gone}");

        let used = golden.events.iter().filter_map(Event::end).max().unwrap();
        for len in [0, 10, 300, 100_000, 5_000].repeat(5) {
            let data = record(len as u64, len);
            let at = log.commit(&data).unwrap();
            assert!(at.start >= used, "{name}: {at:?} was used, up to {used}");
            acknowledged
                .records
                .push(Event::record(at.start, at.end, &data));
        }
        log.set_meta(b"gone on").unwrap();
        acknowledged.meta = Some("gone on".to_owned());
        log.close().unwrap();

        let log = logforce::open_existing(dir.path(), options).unwrap();
        assert!(log.recovered().clean, "{name}");
        let meta = log.meta();
        compare(&acknowledged, &records(&log), meta.as_deref())
            .unwrap_or_else(|e| panic!("{name}: {e}"));
        log.close().unwrap();
        let (found, records) = look(&logforce::inspect::open(dir.path()).unwrap());
        assert_eq!(found.damages, 0, "{name}: {found:?}");
        compare(&acknowledged, &records, meta.as_deref()).unwrap_or_else(|e| panic!("{name}: {e}"));
    }
}

/// The checks above detect a change in the log, and a change in the list of acknowledgements.
#[test]
fn a_change_of_a_golden_log_or_of_its_list_is_told() {
    for golden in Golden::all() {
        let (name, dir) = (&golden.name, golden.copy());
        let acknowledged = State::after(&golden.events);
        let seen = logforce::inspect::open(dir.path()).unwrap();
        let (_, records) = look(&seen);
        let meta = seen.meta().unwrap();
        for n in 0..acknowledged.records.len() {
            let mut other = acknowledged.clone();
            other.records.remove(n);
            compare(&other, &records, meta.as_deref()).unwrap_err();
            compare(
                &acknowledged,
                &[&records[..n], &records[n + 1..]].concat(),
                meta.as_deref(),
            )
            .unwrap_err();
        }
        compare(&acknowledged, &records, None).unwrap_err();

        // Flips a bit of a record in the middle.
        let middle = &records[records.len() / 2..];
        let hit = middle.iter().find(|r| r.data.len() >= 300).unwrap();
        let summary = seen.summary();
        let segment = summary
            .segments
            .iter()
            .rfind(|s| s.start <= hit.start)
            .unwrap();
        let file = segments(dir.path())
            .into_iter()
            .find(|f| f.ends_with(&segment.name))
            .unwrap();
        let at = (hit.start.0 - segment.start.0) as usize;
        let bytes = std::fs::read(&file).unwrap();
        let place = bytes[at..at + 200]
            .windows(8)
            .position(|w| w == &hit.data[..8]);
        let at = at + place.unwrap_or_else(|| panic!("{name}: {hit:?} is not there"));
        common::patch(&file, |bytes| bytes[at + 3] ^= 4);
        let mut damage = None;
        let walked = logforce::inspect::open(dir.path())
            .unwrap()
            .walk(&mut |visit| {
                if let Visit::Damage(found) = visit {
                    damage.get_or_insert_with(|| found.clone());
                }
                true
            });
        assert!(walked.unwrap().damages > 0, "{name}");
        let damage = damage.unwrap();
        assert_eq!(
            damage.file.as_deref(),
            Some(segment.name.as_str()),
            "{name}"
        );
        assert!(
            damage.lsn <= hit.start && hit.start.0 < damage.lsn.0 + 4096,
            "{name}: {damage}"
        );
    }
}
