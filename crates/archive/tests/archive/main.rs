//! The archive in a directory, as its users call it.

mod damage;
mod ends;
mod owners;
mod segments;

use logforce::{ErrorKind, Guarantee, Log, Lsn, Options, Policy};
use logforce_archive::{Archive, ArchiveOptions, AttachOptions, RestoreOptions, RestoreTo};
use std::path::Path;
use std::time::Duration;
use tempfile::TempDir;

fn temp() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn options() -> Options {
    Options::new()
        .require(Guarantee::ProcessCrash)
        .calibrate(false)
        .segment_size(256 << 10)
}

/// Opens the archive in a new directory below `home`.
fn archive(home: &Path) -> Archive {
    let path = home.join("bucket");
    std::fs::create_dir_all(&path).unwrap();
    Archive::open(path.to_str().unwrap(), ArchiveOptions::default()).unwrap()
}

fn restore(archive: &Archive, to: &Path, end: RestoreTo) -> logforce_archive::Result<Log> {
    let options_ = RestoreOptions::new()
        .require(Guarantee::ProcessCrash)
        .to(end);
    archive.restore(to, &options_, &mut |_| {})?;
    Ok(logforce::open_existing(to, options()).unwrap())
}

fn records(log: &Log) -> Vec<(Lsn, Vec<u8>)> {
    let reader = log.read_from(log.front_lsn()).unwrap();
    reader
        .map(|r| r.map(|r| (r.start, r.data)).unwrap())
        .collect()
}

fn record(n: u32) -> Vec<u8> {
    n.to_le_bytes().repeat(1 + n as usize % 300)
}

#[test]
fn synchronous_commits_are_in_the_archive() {
    let home = temp();
    let archive = archive(home.path());
    let log = logforce::create_new(home.path().join("log"), options()).unwrap();
    log.set_meta(b"owner 7").unwrap();
    let attached = archive
        .attach(&log, AttachOptions::new().synchronous())
        .unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let log = &log;
            scope.spawn(move || {
                for n in 0..50 {
                    let at = log.commit_with(record(thread * 100 + n), Policy::Replicated);
                    assert_eq!(at.unwrap().guarantee, Guarantee::MachineLoss);
                }
            });
        }
    });
    // The machine is lost now: nothing is closed.
    let copy = restore(&archive, &home.path().join("copy"), RestoreTo::End).unwrap();
    assert_eq!(records(&copy), records(&log));
    assert_eq!(records(&copy).len(), 200);
    assert_eq!(copy.meta().as_deref(), Some(&b"owner 7"[..]));
    let status = attached.status();
    assert!(status.chunks > 0 && status.trouble.is_none(), "{status:?}");
    attached.close().unwrap();
    let refused = log.commit_with(b"alone", Policy::Replicated).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::NoReplica);
}

#[test]
fn an_asynchronous_archive_lags_by_its_delay_and_ends_whole() {
    let home = temp();
    let archive = archive(home.path());
    let log = logforce::create_new(home.path().join("log"), options()).unwrap();
    let options = AttachOptions::new().delay(Duration::from_millis(20));
    let attached = archive.attach(&log, options).unwrap();
    for n in 0..300 {
        log.commit(record(n)).unwrap();
    }
    attached.close().unwrap();
    let copy = restore(&archive, &home.path().join("copy"), RestoreTo::End).unwrap();
    assert_eq!(records(&copy), records(&log));
}

/// The stamp that follows the last commit has no record: it waits for the next one, and nothing is missing.
#[test]
fn the_archive_of_an_idle_log_is_not_behind() {
    let home = temp();
    let archive = archive(home.path());
    let log = logforce::create_new(home.path().join("log"), options()).unwrap();
    let delay = AttachOptions::new().delay(Duration::from_millis(10));
    let attached = archive.attach(&log, delay).unwrap();
    let end = log.commit(b"the last one").unwrap().end;
    while log.durable_lsn() <= end {
        std::thread::sleep(Duration::from_millis(10));
    }
    // Until the upload has seen the stamp.
    std::thread::sleep(Duration::from_millis(500));
    let mut status = attached.status();
    for _ in 0..500 {
        if status.behind_for == Duration::ZERO {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
        status = attached.status();
    }
    assert_eq!(status.behind_for, Duration::ZERO, "{status:?}");
    assert_eq!(status.archived, status.durable);
    assert!(status.archived >= end, "{status:?}");
    let mut calls = 0;
    let last = attached.close_with(&mut |_| calls += 1).unwrap();
    assert!(last.has_ended && calls > 0, "{last:?}");
}

#[test]
fn another_process_archives_the_log() {
    let home = temp();
    let archive = archive(home.path());
    let path = home.path().join("log");
    let log = logforce::create_new(&path, options()).unwrap();
    let attached = archive
        .attach_directory(&path, AttachOptions::new().delay(Duration::from_millis(10)))
        .unwrap();
    for n in 0..2000 {
        let at = log.commit(record(n)).unwrap();
        if n % 100 == 0 {
            log.truncate_front(at.start).unwrap();
        }
    }
    log.close().unwrap();
    let end = logforce::read_only(&path).unwrap().durable_lsn();
    for _ in 0..1000 {
        if attached.status().archived >= end {
            break;
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    attached.close().unwrap();
    let log = logforce::open_existing(&path, options()).unwrap();
    let copy = restore(&archive, &home.path().join("copy"), RestoreTo::End).unwrap();
    let (copied, kept) = (records(&copy), records(&log));
    assert_eq!(copied[copied.len() - 100..], kept[kept.len() - 100..]);
}

#[test]
fn restores_end_at_a_position_or_a_time() {
    let home = temp();
    let archive = archive(home.path());
    let log = logforce::create_new(home.path().join("log"), options()).unwrap();
    let attached = archive
        .attach(&log, AttachOptions::new().synchronous())
        .unwrap();
    let mut ends = Vec::new();
    for n in 0..30 {
        let at = log.commit_with(record(n), Policy::Replicated).unwrap();
        let now = std::time::SystemTime::now()
            .duration_since(std::time::UNIX_EPOCH)
            .unwrap();
        ends.push((at.end, now.as_nanos() as u64));
        std::thread::sleep(Duration::from_millis(2));
    }
    attached.close().unwrap();
    let all = records(&log);
    let to = |name: &str| home.path().join(name);
    let by_lsn = restore(&archive, &to("lsn"), RestoreTo::Lsn(ends[9].0)).unwrap();
    assert_eq!(records(&by_lsn), all[..10]);
    let by_time = restore(&archive, &to("time"), RestoreTo::Time(ends[19].1)).unwrap();
    assert_eq!(records(&by_time), all[..20]);
    let error = restore(&archive, &to("early"), RestoreTo::Time(1)).unwrap_err();
    assert!(
        error.to_string().contains("nothing that is older"),
        "{error}"
    );
    let beyond = log.durable_lsn().plus(1);
    let error = restore(&archive, &to("beyond"), RestoreTo::Lsn(beyond)).unwrap_err();
    assert!(error.to_string().contains("ends at LSN"), "{error}");
    let full = restore(&archive, &to("lsn"), RestoreTo::End).unwrap_err();
    assert!(full.to_string().contains("not empty"), "{full}");
}

#[test]
fn contents_marks_verification_and_pruning() {
    let home = temp();
    let archive = archive(home.path());
    let log = logforce::create_new(home.path().join("log"), options()).unwrap();
    let attach = AttachOptions::new()
        .synchronous()
        .segment_size(1 << 20)
        .owner("till 3");
    let attached = archive.attach(&log, attach).unwrap();
    let mut marked = Lsn(0);
    let mut middle = 0;
    for n in 0..300_u32 {
        let at = log
            .commit_with(vec![n as u8; 20_000], Policy::Replicated)
            .unwrap();
        if n == 10 {
            marked = archive.mark("before", None).unwrap();
            assert!(marked >= at.end);
            let taken = archive.mark("before", Some(Lsn(1))).unwrap_err();
            assert!(taken.to_string().contains("already"), "{taken}");
        }
        if n == 150 {
            std::thread::sleep(Duration::from_millis(1500));
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            middle = now.unwrap().as_nanos() as u64;
        }
        if n % 10 == 9 {
            log.truncate_front(at.start).unwrap();
        }
    }
    attached.close().unwrap();
    let contents = archive.list().unwrap();
    assert_eq!(contents.log_id, log.id());
    assert_eq!(contents.owner.as_deref(), Some("till 3"));
    assert_eq!(contents.marks.len(), 1);
    assert!(contents.segments >= 3, "{contents:?}");
    assert!(contents.oldest < contents.newest, "{contents:?}");
    let verified = archive.verify(None, &mut |_| {}).unwrap();
    assert_eq!(verified.damage, [""; 0]);
    assert_eq!(verified.end, contents.end);
    let by_mark = RestoreTo::Mark("before".to_owned());
    let copy = restore(&archive, &home.path().join("mark"), by_mark.clone()).unwrap();
    assert_eq!(records(&copy).len(), 11);
    assert!(copy.tail_lsn() >= marked);
    let early = archive.prune(1, false).unwrap().start;
    assert_eq!(early, contents.start, "nothing is that old");
    let planned = archive.prune(middle, true).unwrap().start;
    let pruned = archive.prune(middle, false).unwrap().start;
    assert!(pruned > contents.start && planned == pruned);
    assert_eq!(archive.list().unwrap().start, pruned);
    let by_time = restore(&archive, &home.path().join("time"), RestoreTo::Time(middle)).unwrap();
    assert!(by_time.tail_lsn() > marked);
    let gone = restore(&archive, &home.path().join("gone"), by_mark).unwrap_err();
    assert!(gone.to_string().contains("pruned"), "{gone}");
    let copy = restore(&archive, &home.path().join("copy"), RestoreTo::End).unwrap();
    // The newest truncation is archived with the next chunk.
    assert!(records(&copy).ends_with(&records(&log)));
    assert!(records(&copy).len() <= records(&log).len() + 10);
    assert_eq!(archive.verify(None, &mut |_| {}).unwrap().damage, [""; 0]);
    // Damage is named, all of it.
    let segments = std::fs::read_dir(home.path().join("bucket/s")).unwrap();
    let mut paths: Vec<_> = segments.map(|e| e.unwrap().path()).collect();
    paths.sort();
    for path in &paths[paths.len() - 2..] {
        let mut bytes = std::fs::read(path).unwrap();
        let middle = bytes.len() / 2;
        bytes[middle] ^= 1;
        std::fs::write(path, bytes).unwrap();
    }
    let damaged = archive.verify(None, &mut |_| {}).unwrap();
    assert_eq!(damaged.damage.len(), 2, "{damaged:?}");
    let mut last = None;
    let all = archive
        .verify(Some(1.0), &mut |at| last = Some(at))
        .unwrap();
    let last = last.unwrap();
    let read = all.objects + all.damage.len() as u64;
    assert_eq!((last.at, last.goal), (Lsn(read), Lsn(read)));
    let sampled = archive.verify(Some(0.2), &mut |_| {}).unwrap();
    assert!(sampled.objects < damaged.objects && sampled.end.is_none());
}

/// Code of `docs/archive.md`. It is only compiled, because it needs a bucket.
#[allow(dead_code)]
mod documented {
    use logforce::{Guarantee, Options, Policy};
    use logforce_archive::{Archive, ArchiveOptions, AttachOptions};

    fn main() -> Result<(), Box<dyn std::error::Error>> {
        let archive = Archive::open("s3://bucket/sales", ArchiveOptions::default())?;
        let log = logforce::open_or_create("sales.log", Options::new())?;
        let attached = archive.attach(&log, AttachOptions::new().synchronous().owner("till 3"))?;

        let sale = log.commit_with(b"one coffee, 2.50", Policy::Replicated)?;
        assert_eq!(sale.guarantee, Guarantee::MachineLoss);

        log.close()?;
        attached.close()?;
        Ok(())
    }
}

#[test]
fn the_documentation_shows_code_that_compiles() {
    let page = include_str!("../../../../docs/archive.md");
    let (_, block) = page.split_once("```rust\n").unwrap();
    let (block, rest) = block.split_once("```").unwrap();
    assert!(!rest.contains("```rust"));
    let lines = |text: &'static str| text.lines().map(str::trim).collect::<Vec<_>>();
    let (block, compiled) = (lines(block), lines(include_str!("main.rs")));
    assert!(
        compiled.windows(block.len()).any(|w| w == block),
        "{block:?}"
    );
}

const DELAY: Duration = Duration::from_millis(100);

/// Neither the archive nor its end has a put for each commit of a writer that goes on.
#[test]
fn an_archive_ends_beside_a_busy_writer() {
    let home = temp();
    let archive = archive(home.path());
    let log = logforce::create_new(home.path().join("log"), options()).unwrap();
    let attached = archive
        .attach(&log, AttachOptions::new().delay(DELAY))
        .unwrap();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let order = std::sync::atomic::Ordering::Relaxed;
    std::thread::scope(|scope| {
        // Several, so that there is always something durable that was not read.
        let writers = [(); 6].map(|()| {
            scope.spawn(|| {
                while !is_over.load(order) {
                    log.commit(b"and one more").unwrap();
                }
            })
        });
        // Long enough for several chunks by their delay, and for thousands of commits.
        let begun = std::time::Instant::now();
        while attached.status().chunks < 8 {
            std::thread::sleep(Duration::from_millis(5));
        }
        let end = log.commit(b"before the end").unwrap().end;
        let chunks = attached.status().chunks;
        let delays = begun.elapsed().as_millis() / DELAY.as_millis();
        assert!(
            u128::from(chunks) <= delays + 2,
            "{chunks} chunks in {delays} delays"
        );
        attached.close().unwrap();
        is_over.store(true, order);
        for writer in writers {
            writer.join().unwrap();
        }
        let contents = archive.list().unwrap();
        assert!(contents.end >= Some(end));
        assert!(
            contents.chunks <= chunks + 3,
            "{} and {chunks}",
            contents.chunks
        );
    });
}
