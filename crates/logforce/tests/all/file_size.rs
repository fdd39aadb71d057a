//! The process's limit on file sizes (`ulimit -f`). More disk space does not help against it.

use crate::common::*;
use logforce::Guarantee;
use logforce::pages::{CommitMode, Error, ErrorKind, Options, PageFile};
use logforce_testkit::process::{Start, same_test};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::Path;
use std::process::Command;

const MODES: [CommitMode; 2] = [CommitMode::Logged, CommitMode::CopyOnWrite];
const PAGE: u64 = 4096;
const LIMIT: u64 = 8 << 20;

fn open(dir: &Path, mode: CommitMode) -> PageFile {
    let options = Options::new()
        .mode(mode)
        .page_size(PAGE as u32)
        .require(Guarantee::ProcessCrash)
        .checkpoint_distance(1 << 20)
        .log(sized(1 << 20));
    logforce::pages::open_or_create(dir, options).unwrap()
}

fn write(file: &PageFile, page: u64, tag: u64) -> Result<(), Error> {
    let mut transaction = file.begin()?;
    transaction.write(page, &record(tag, PAGE as usize))?;
    transaction.commit().map(drop)
}

fn limit(to: Option<u64>) {
    let maximum = getrlimit(Resource::Fsize).maximum;
    let current = to.or(maximum);
    setrlimit(Resource::Fsize, Rlimit { current, maximum }).unwrap();
}

#[track_caller]
fn assert_holds(file: &PageFile, pages: u64) {
    let snapshot = file.snapshot().unwrap();
    for page in 0..pages {
        let tag = if page == 0 { 7 } else { page };
        assert!(snapshot.page(page).unwrap()[..] == record(tag, PAGE as usize)[..]);
    }
}

/// An error of kind `NoSpace` would make a loop that waits for space endless.
#[test]
fn a_page_file_refuses_what_the_limit_forbids_and_goes_on() {
    const NAME: &str = "a_page_file_refuses_what_the_limit_forbids_and_goes_on";
    const LIMITED: &str = "LOGFORCE_TEST_LIMITED";
    if let Some(home) = in_second_process(LIMITED) {
        limit(Some(LIMIT));
        for mode in MODES {
            let dir = home.join(format!("{mode:?}"));
            let file = open(&dir, mode);
            let refused = |pages: &mut u64| loop {
                match write(&file, *pages, *pages) {
                    Ok(()) => *pages += 1,
                    Err(e) => break e,
                }
                assert!(*pages * PAGE < 2 * LIMIT);
            };
            let mut pages = 0;
            let e = refused(&mut pages);
            assert!(pages * PAGE > LIMIT / 2, "{mode:?}: {pages}");
            assert_eq!(e.kind(), ErrorKind::Io, "{mode:?}: {e}");
            let text = e.to_string();
            assert!(text.contains("raise the limit"), "{text}");
            let data = dir.join("pages").display().to_string();
            assert_eq!(text.matches(&data).count(), 1, "{text}");
            // The file is not poisoned, and this commit needs no more space.
            write(&file, 0, 7).unwrap();
            file.checkpoint().unwrap();
            assert_holds(&file, pages);
            file.close().unwrap();
            let file = open(&dir, mode);
            assert_eq!(write(&file, pages, 1).unwrap_err().kind(), ErrorKind::Io);
            assert_holds(&file, pages);
            limit(None);
            (pages..pages + 100).for_each(|page| write(&file, page, page).unwrap());
            file.close().unwrap();
            assert_holds(&open(&dir, mode), pages + 100);
            limit(Some(LIMIT));
        }
        return;
    }
    let home = temp();
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' XFSZ; exec \"$@\"", "sh"]);
    command.arg(std::env::current_exe().unwrap());
    same_test(&mut command, NAME, LIMITED, home.path());
    assert_passed(&command.to_end().unwrap());
}
