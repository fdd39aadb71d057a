//! Failures: a limit of the process, full disks, forked children are in `tests/fork.rs`.

use super::{assert_error, contents, options};
use crate::common::{assert_passed, in_second_process, loop_fs, open_to_all, temp};
use crate::full::Filler;
use logforce::Guarantee;
use logforce::file::{ErrorKind, File, Prepare, Prepared};
use logforce_testkit::process::{Start, same_test};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use std::process::Command;

#[test]
fn after_a_failed_write_nothing_is_acknowledged() {
    const NAME: &str = "files::failures::after_a_failed_write_nothing_is_acknowledged";
    const DIR: &str = "LOGFORCE_TEST_DIR";
    let Some(dir) = in_second_process(DIR) else {
        let home = temp();
        // The signal of that limit would end the process.
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]);
        command.arg(std::env::current_exe().unwrap());
        same_test(&mut command, NAME, DIR, home.path());
        return assert_passed(&command.to_end().unwrap());
    };
    let maximum = getrlimit(Resource::Fsize).maximum;
    let limit = |current| setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
    for aligned in [false, true] {
        let path = dir.join(format!("{aligned}"));
        let file = options().aligned(aligned).open(&path).unwrap();
        let block = |n: u8| vec![n; 4096];
        file.write_commit(&block(1), 0).unwrap();
        file.write_at(&block(2), 4096).unwrap();
        let submitted = file.submit(&block(3), 8192).unwrap();
        submitted.wait().unwrap();
        file.write_at(&block(4), 3 * 4096).unwrap();
        limit(Some(4 * 4096));
        let failed = file.write_at(&block(5), 4 * 4096);
        let e = assert_error(
            failed,
            ErrorKind::Poisoned,
            &["stopped after a failure", "write"],
        );
        limit(None);
        assert!(std::error::Error::source(&e).is_some());
        // The same failure from now on, although the writes would succeed.
        let first = e.to_string();
        for result in [
            file.write_at(&block(6), 0),
            file.write_commit(&block(6), 0).map(drop),
            file.commit().map(drop),
            file.submit(&block(6), 0).map(drop),
            smol::block_on(file.commit_async()).map(drop),
            file.prepare(0..1 << 20, Prepare::Reserved).map(drop),
        ] {
            assert_eq!(
                assert_error(result, ErrorKind::Poisoned, &[]).to_string(),
                first
            );
        }
        assert!(contents(&file)[..4096] == block(1)[..]);
        assert_error(file.close(), ErrorKind::Poisoned, &[]);
        let file = options().open(&path).unwrap();
        assert!(contents(&file)[..3 * 4096] == [block(1), block(2), block(3)].concat());
        file.commit().unwrap();
    }
}

/// Without a journal the filesystem may lose blocks that a sync has just added.
#[test]
fn without_a_journal_only_written_blocks_count() {
    let home = open_to_all(temp());
    let Some(fs) = loop_fs("ext4-nojournal", 32, &home) else {
        return;
    };
    let path = fs.path().join("f");
    for aligned in [false, true] {
        let options = File::options()
            .calibrate(false)
            .create(true)
            .aligned(aligned);
        let file = options.clone().open(&path).unwrap();
        let block = [1; 4096];
        if !aligned {
            let words = [
                "without a journal",
                "File::prepare",
                "Options::require_verdict",
            ];
            for refused in [
                file.write_at(&block, 0),
                file.write_commit(&block, 0).map(drop),
                file.submit(&block, 0).map(drop),
            ] {
                assert_error(refused, ErrorKind::Unavailable, &words);
            }
            assert_eq!(file.len().unwrap(), 0);
            file.prepare(0..1 << 20, Prepare::Reserved).unwrap();
            assert_error(file.write_at(&block, 0), ErrorKind::Unavailable, &words);
            assert_eq!(
                file.prepare(0..1 << 20, Prepare::Written).unwrap(),
                Prepared::Written
            );
        }
        // The second opening finds the blocks that the first one has prepared.
        file.write_commit(&block, (1 << 20) - 4096).unwrap();
        let beyond = file.write_at(&block, 1 << 20);
        assert_error(beyond, ErrorKind::Unavailable, &[]);
        file.prepare((1 << 20)..(2 << 20), Prepare::Written)
            .unwrap();
        file.write_commit(&block, 1 << 20).unwrap();
        file.close().unwrap();
        let accepting = options.require_verdict(logforce::Verdict::Unknown);
        let file = accepting.open(&path).unwrap();
        file.write_commit(&block, 4 << 20).unwrap();
        drop(file);
        std::fs::OpenOptions::new()
            .write(true)
            .open(&path)
            .unwrap()
            .set_len(1 << 20)
            .unwrap();
    }
}

#[test]
fn a_full_disk_is_noticed_when_space_is_prepared() {
    for (kind, mib) in [("ext4", 32), ("xfs", 300), ("btrfs", 128)] {
        let home = open_to_all(temp());
        let Some(fs) = loop_fs(kind, mib, &home) else {
            continue;
        };
        println!("{kind}");
        let path = fs.path().join("f");
        let file = File::options()
            .require(Guarantee::OsCrash)
            .require_verdict(logforce::Verdict::Unknown)
            .calibrate(false)
            .create(true)
            .open(&path)
            .unwrap();
        let state = file.prepare(0..4 << 20, Prepare::Written).unwrap();
        let in_place = kind != "btrfs";
        assert_eq!(state == Prepared::Written, in_place, "{state:?}");
        file.write_commit(&[1; 100], 0).unwrap();
        // Refused before the space that is there is used up.
        let len = file.len().unwrap();
        let huge = file.prepare(0..1 << 40, Prepare::Reserved);
        assert_error(huge, ErrorKind::NoSpace, &["are free"]);
        assert_eq!(file.len().unwrap(), len);
        let filler = Filler::new(fs.path(), 0);
        let more = file.prepare(0..mib << 20, Prepare::Written);
        assert_error(more, ErrorKind::NoSpace, &["free some"]);
        if in_place {
            // Prepared blocks need no space.
            for n in 0..16 {
                file.write_at(&[2; 4096], n << 18).unwrap();
                file.commit().unwrap();
            }
        }
        drop(filler);
        file.prepare(0..8 << 20, Prepare::Reserved).unwrap();
        file.write_commit(&[3; 100], 7 << 20).unwrap();
        file.close().unwrap();
    }
}
