//! `verify`, `dump` and `stat` on page files.

use crate::common::{place, text};
use crate::logs::{all_output, filled, flip, json, logforce};
use logforce::Guarantee;
use logforce::pages::{CommitMode, Options, PageFile};
use serde_json::Value;
use std::fs;
use std::path::Path;

const PAGE: usize = 4096;

/// Offset of the first page.
const DATA: u64 = 128 << 10;

fn options(mode: CommitMode) -> Options {
    let log = logforce::Options::new()
        .segment_size(1 << 20)
        .calibrate(false);
    Options::new()
        .mode(mode)
        .require(Guarantee::ProcessCrash)
        .log(log)
}

fn write(file: &PageFile, pages: impl IntoIterator<Item = u64>, byte: u8) {
    let mut txn = file.begin().unwrap();
    for page in pages {
        txn.write(page, &[byte; PAGE]).unwrap();
    }
    txn.commit().unwrap();
}

/// Writes pages 0 to 5 and 9 to the data file. A logged file's log then changes page 2 and drops page 9.
pub fn made(path: &Path, mode: CommitMode) {
    let file = logforce::pages::create_new(path, options(mode)).unwrap();
    write(&file, (0..6).chain([9]), b'a');
    file.checkpoint().unwrap();
    write(&file, [2], b'b');
    let mut txn = file.begin().unwrap();
    txn.discard(9).unwrap();
    txn.page_mut(2).unwrap()[..5].copy_from_slice(b"hello");
    txn.commit().unwrap();
    file.close().unwrap();
}

/// Removes the parts of the output that differ from run to run.
fn steady(printed: &str, dir: &Path) -> String {
    let printed = printed.replace(&dir.display().to_string(), "DIR");
    let mut text = String::new();
    for line in printed.lines() {
        if line.starts_with("checked ") {
            text.push_str("checked …\n");
            continue;
        }
        let mut is_lsn = false;
        for word in line.split_inclusive(' ') {
            let core = word.trim_end_matches([' ', ',', ':', ';']);
            let is_id = core.len() == 32 && core.bytes().all(|c| c.is_ascii_hexdigit());
            let is_number = !core.is_empty() && core.bytes().all(|c| c.is_ascii_digit());
            let shown = match (is_id, is_lsn && is_number) {
                (true, _) => word.replace(core, "ID"),
                (_, true) => word.replace(core, "N"),
                _ => word.to_owned(),
            };
            text.push_str(&shown);
            let goes_on = is_number && word.ends_with([' ', ',']) && !word.contains(':');
            is_lsn = core == "LSN" || (is_lsn && (core == "to" || goes_on));
        }
        text.push('\n');
    }
    text
}

/// Checks the exit status of a command, and returns its output without the parts that differ between runs.
#[track_caller]
fn said(path: &Path, command: &str, arguments: &[&str], status: i32) -> String {
    let out = logforce(path, command, arguments);
    assert_eq!(out.status.code(), Some(status), "{}", all_output(&out));
    steady(&all_output(&out), path)
}

const VERIFY_LOGGED: &str = "\
page file ID in DIR: healthy; logged, pages of 4 KiB with checksums, not open
header: both slots whole, sequence 3
6 of 10 pages written, up to commit 3
log: 2 commits (4205 B) from LSN N to N, with the newest version of 1 page
the next opening redoes 2 commits, from 20208 B of log
checked …
healthy
";

const DUMP_LOGGED: &str = "\
header  slot at byte 0: sequence 3, commit 1, 10 pages, in force
header  slot at byte 65536: sequence 2, commit 1, 10 pages
redo    commit 2, LSN N to N: 1 page
change  page 2: image, 4 KiB
redo    commit 3, LSN N to N: 2 pages
change  page 2: ranges, 5 B
change  page 9: discard, 0 B
page    0, byte 131072, checksum e3817d1c, whole
page    1, byte 135168, checksum 40c9b552, whole
page    2, byte 139264, checksum a0fc9b71, in-log
page    3, byte 143360, checksum 03b4533f, whole
page    4, byte 147456, checksum 657ab1c6, whole
page    5, byte 151552, checksum c6327988, whole
page    9, byte 167936, checksum 48d25a17, dropped
";

const PAGE_LOGGED: &str = "\
page 2: from the log, LSN N, N
00000000  68 65 6c 6c 6f 62 62 62 62 62 62 62 62 62 62 62  |hellobbbbbbbbbbb|
00000010  62 62 62 62 62 62 62 62 62 62 62 62 62 62 62 62  |bbbbbbbbbbbbbbbb|
*
00001000
";

const VERIFY_COW: &str = "\
page file ID in DIR: healthy; copy-on-write, pages of 4 KiB with checksums, not open
header: both slots whole, sequence 7
6 of 10 pages written, up to commit 3
page table: 1 node in 1 level; 5 of 12 places free
the next opening has nothing to redo
checked …
healthy
";

const DUMP_COW: &str = "\
header  slot at byte 0: sequence 7, commit 3, 10 pages, in force
header  slot at byte 65536: sequence 6, commit 3, 10 pages
node    level 0, pages 0 to 255, place 11, checksum 73c5b779, 6 entries
page    0, place 0, byte 131072, checksum 26c74ca2, whole
page    1, place 1, byte 135168, checksum 26c74ca2, whole
page    2, place 10, byte 172032, checksum 57b9335a, whole
page    3, place 3, byte 143360, checksum 26c74ca2, whole
page    4, place 4, byte 147456, checksum 26c74ca2, whole
page    5, place 5, byte 151552, checksum 26c74ca2, whole
";

#[test]
fn whole_files_are_verified_and_listed() {
    let dir = place();
    let logged = dir.path().join("logged");
    made(&logged, CommitMode::Logged);
    // The size of the log depends on the write unit, to which batches are padded.
    let verified = said(&logged, "verify", &[], 0);
    let (before, after) = verified.split_once("commits, from ").unwrap();
    let after = after.split_once(" of log").unwrap().1;
    let verified = format!("{before}commits, from 20208 B of log{after}");
    assert_eq!(verified, VERIFY_LOGGED);
    assert_eq!(said(&logged, "dump", &["--redo"], 0), DUMP_LOGGED);
    let without: Vec<&str> = DUMP_LOGGED
        .lines()
        .filter(|l| !l.starts_with("redo") && !l.starts_with("change"))
        .collect();
    let listed = said(&logged, "dump", &[], 0);
    assert_eq!(listed.lines().collect::<Vec<_>>(), without);
    assert_eq!(
        said(&logged, "dump", &["--limit", "3"], 0).lines().count(),
        3
    );
    assert_eq!(said(&logged, "dump", &["--page", "2"], 0), PAGE_LOGGED);

    let cow = dir.path().join("cow");
    made(&cow, CommitMode::CopyOnWrite);
    assert_eq!(said(&cow, "verify", &[], 0), VERIFY_COW);
    assert_eq!(said(&cow, "dump", &[], 0), DUMP_COW);
    for path in [&logged, &cow] {
        let page = said(path, "dump", &["--page", "9"], 0);
        assert_eq!(
            page,
            "page 9: zeroes: it was never written, or it was dropped\n"
        );
        let page = said(path, "dump", &["--page", "10"], 4);
        assert!(page.contains("out of range"), "{page}");
        let stat = said(path, "stat", &["--scan"], 0);
        for part in ["not open", "6 of 10 pages written", "both slots whole"] {
            assert!(stat.contains(part), "no '{part}' in {stat}");
        }
    }
}

#[test]
fn json_and_csv_say_the_same() {
    let documented = include_str!("../../../../docs/cli-json.md");
    let (_, documented) = documented.split_once("\n## Page files").unwrap();
    let assert_documented = |value: &Value| {
        for name in value.as_object().unwrap().keys() {
            assert!(documented.contains(&format!("`{name}`")), "{name}");
        }
    };
    let dir = place();
    for mode in [CommitMode::Logged, CommitMode::CopyOnWrite] {
        let path = dir.path().join(format!("{mode:?}"));
        made(&path, mode);
        let verify = json(&logforce(&path, "verify", &["--json", "-"]));
        assert_eq!(verify["schema"], "logforce-pages-verify");
        assert_eq!(
            (&verify["healthy"], &verify["commit"]),
            (&true.into(), &3.into())
        );
        let stat = json(&logforce(&path, "stat", &["--scan", "--json", "-"]));
        assert_eq!(stat["schema"], "logforce-pages-stat");
        assert_eq!(stat["scan"]["present"], 6);
        let dump = json(&logforce(&path, "dump", &["--redo", "--json", "-"]));
        assert_eq!(dump["schema"], "logforce-pages-dump");
        let page = json(&logforce(&path, "dump", &["--page", "2", "--json", "-"]));
        assert_eq!(page["schema"], "logforce-pages-page");
        assert!(page["data"].as_str().unwrap().starts_with("68656c6c6f6262"));
        let entries = dump["entries"].as_array().unwrap();
        let csv = text(&logforce(&path, "dump", &["--redo", "--csv", "-"]).stdout);
        assert_eq!(csv.lines().count(), entries.len() + 1);
        for value in [
            &verify,
            &verify["file"],
            &verify["file"]["slots"][0],
            &stat,
            &stat["scan"],
        ] {
            assert_documented(value);
        }
        for value in entries.iter().chain([&dump, &page]) {
            assert_documented(value);
        }
        for part in ["redo", "table"] {
            if verify[part].is_object() {
                assert_documented(&verify[part]);
            }
        }
        let csv = text(&logforce(&path, "stat", &["--csv", "-"]).stdout);
        assert!(csv.starts_with("file,bytes\npages,"), "{csv}");
    }
}

#[test]
fn damage_is_named_and_ends_with_status_1() {
    let dir = place();
    for mode in [CommitMode::Logged, CommitMode::CopyOnWrite] {
        let path = dir.path().join(format!("{mode:?}"));
        made(&path, mode);
        flip(&path.join("pages"), DATA + 3 * PAGE as u64);
        let verified = said(&path, "verify", &[], 1);
        assert!(verified.contains("DAMAGED in one place\n"), "{verified}");
        let next = "\nnext: restore the page file from a backup\n";
        assert!(verified.ends_with(next), "{verified}");
        assert!(
            verified.contains("DAMAGE page 3 in pages at byte 143360: "),
            "{verified}"
        );
        assert!(said(&path, "dump", &[], 1).contains("checksum"));
        assert!(said(&path, "dump", &["--page", "3"], 1).contains("DAMAGE page 3"));
        assert!(said(&path, "stat", &["--scan"], 1).contains("DAMAGED in one place"));
        let csv = text(&logforce(&path, "verify", &["--csv", "-"]).stdout);
        assert!(csv.starts_with("what,page,file,offset,found,refused\npage 3,3,pages,143360,"));
        flip(&path.join("pages"), 300);
        let verified = said(&path, "verify", &[], 1);
        assert!(
            verified.contains("the slot at byte 0 cannot be used"),
            "{verified}"
        );
        flip(&path.join("pages"), 65836);
        let verified = said(&path, "verify", &[], 1);
        assert!(verified.contains("damaged page file: header"), "{verified}");
    }
    let path = dir.path().join("Logged");
    fs::remove_file(path.join("pages")).unwrap();
    let verified = said(&path, "verify", &[], 1);
    assert!(
        verified.contains("its file 'pages' is missing"),
        "{verified}"
    );
}

#[test]
fn beside_the_program_that_has_it_open() {
    let dir = place();
    for mode in [CommitMode::Logged, CommitMode::CopyOnWrite] {
        let path = dir.path().join(format!("{mode:?}"));
        let file = logforce::pages::create_new(&path, options(mode)).unwrap();
        write(&file, 0..200, b'a');
        std::thread::scope(|scope| {
            let writer = scope.spawn(|| {
                for round in 0..200 {
                    write(
                        &file,
                        (0..8).map(|n| (n * 31 + round * 7) % 200),
                        round as u8,
                    );
                }
            });
            for _ in 0..3 {
                let verified = said(&path, "verify", &[], 0);
                assert!(verified.contains("open in a process"), "{verified}");
                assert!(!verified.contains("DAMAGE"), "{verified}");
                assert!(said(&path, "stat", &[], 0).contains("as long as a process has it open"));
            }
            writer.join().unwrap();
        });
        file.close().unwrap();
        assert!(said(&path, "verify", &[], 0).contains("up to commit 201"));
    }
}

#[test]
fn what_is_for_the_other_kind_is_refused() {
    let dir = place();
    let (log, file) = (dir.path().join("log"), dir.path().join("file"));
    filled(&log, 2).0.close().unwrap();
    made(&file, CommitMode::Logged);
    for (command, arguments, flag) in [
        ("verify", &["--salvage"][..], "--salvage"),
        ("dump", &["--from", "7"], "--from"),
        ("dump", &["--records"], "--records"),
        ("dump", &["--raw", "7"], "--raw"),
    ] {
        let refused = said(&file, command, arguments, 2);
        assert!(
            refused.contains(&format!("{flag} is for logs")),
            "{refused}"
        );
    }
    for arguments in [&["--redo"][..], &["--page", "1"]] {
        let refused = said(&log, "dump", arguments, 2);
        assert!(refused.contains("is for page files"), "{refused}");
    }
    let new = dir.path().join("new");
    let refused = said(&file, "salvage", &[new.to_str().unwrap()], 2);
    assert!(refused.contains("holds a page file"), "{refused}");
    assert!(!new.exists());
    // The log alone is a valid log.
    assert!(said(&file.join("log"), "verify", &[], 0).contains("healthy"));
}

#[test]
fn a_closed_file_is_backed_up() {
    let dir = place();
    for mode in [CommitMode::Logged, CommitMode::CopyOnWrite] {
        let (path, to) = (
            dir.path().join(format!("{mode:?}")),
            dir.path().join(format!("to{mode:?}")),
        );
        made(&path, mode);
        let arguments = [to.to_str().unwrap(), "--require", "process-crash"];
        let made = said(&path, "backup", &arguments, 0);
        assert!(
            made.contains("holds 10 pages of 4 KiB of DIR, up to commit 3"),
            "{made}"
        );
        let verified = said(&to, "verify", &[], 0);
        for part in [
            "healthy",
            "6 of 10 pages written, up to commit 3",
            "has nothing to redo",
        ] {
            assert!(verified.contains(part), "no '{part}' in {verified}");
        }
        for n in 0..10 {
            let n = n.to_string();
            let page = |path: &Path| json(&logforce(path, "dump", &["--page", &n, "--json", "-"]));
            assert_eq!(page(&path)["data"], page(&to)["data"], "page {n}");
        }
        let refused = said(&path, "backup", &arguments, 4);
        assert!(refused.contains("is not an empty directory"), "{refused}");
        let file = logforce::pages::open_existing(&path, options(mode)).unwrap();
        let other = dir.path().join("other");
        let refused = said(&path, "backup", &[other.to_str().unwrap()], 4);
        assert!(refused.contains("is open in a program"), "{refused}");
        assert!(!other.exists());
        file.close().unwrap();
        fs::rename(to.join("pages"), to.join("backup.tmp")).unwrap();
        let refused = said(&to, "verify", &[], 4);
        assert!(refused.contains("did not end"), "{refused}");
        let opened = logforce::pages::open_or_create(&to, options(mode));
        assert!(opened.is_err());
    }
}
