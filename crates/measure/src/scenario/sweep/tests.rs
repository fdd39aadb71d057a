use super::cell::{Cell, Shared};
use super::text::text;
use super::*;
use crate::Interrupt;
use crate::result::legend::EVERYTHING;
use crate::run::recorder::Limit;
use crate::scenario::fill;
use crate::testing::{MemDirectory, document, facts, setup};
use crate::{Recorder, Subject};
use logforce_device::{Assessment, Guarantee, Platform, Source};
use logforce_terminal::numbers::bytes;
use logforce_terminal::progress::{Progress, Silent};
use logforce_testkit::{Fault, SimDisk, SimOptions, SimRuntime};
use std::path::Path;
use std::sync::atomic::Ordering::Relaxed;

/// Number of writes, or groups, of each cell.
const WRITES: u64 = 40;

fn options() -> Options {
    Options {
        methods: Method::LINUX.to_vec(),
        depths: vec![1, 3, 8],
        chunks: vec![512, 4096, 16384],
        size: 1 << 20,
        time: Duration::from_millis(300),
        least_slice: Duration::from_micros(1),
        writes: Some(WRITES),
    }
}

fn quick(dir: &Arc<MemDirectory>, options: &Options) -> ScenarioOutcome<Sweep> {
    let mut setup = setup(dir);
    setup.counters = Rc::new(dir.counters());
    options.run(&setup).unwrap()
}

fn few() -> Options {
    Options {
        methods: vec![Method::Fdatasync, Method::DirectDsync],
        depths: vec![1, 4],
        chunks: vec![4096],
        ..options()
    }
}

#[test]
fn each_kind_makes_the_writes_and_barriers_that_it_claims() {
    let dir = MemDirectory::new();
    dir.shared.has_queue.store(true, Relaxed);
    let outcome = quick(&dir, &options());
    // Seven methods, three of them also with a queue.
    assert_eq!(outcome.more.methods.len(), 10);
    assert_eq!(outcome.rows.len(), 10 * 3 * 3);
    for row in &outcome.rows {
        let plan = method_of(row).plan();
        if plan.direct && row.chunk_bytes == 512 {
            let error = row.error.as_deref().unwrap();
            assert!(error.contains("multiple of 4 KiB"), "{error}");
            assert_eq!((row.chunks, row.guarantee), (Some(0), None));
            continue;
        }
        assert_eq!((&row.error, row.slices), (&None, Some(5)), "{row:?}");
        let depth = row.depth.unwrap();
        let (through, barriers) = match plan.force {
            logforce_device::ForceBy::Through => (1.0, 0.0),
            logforce_device::ForceBy::Barrier(_) => (0.0, 1.0 / depth as f64),
            logforce_device::ForceBy::None => (0.0, 0.0),
        };
        assert_eq!(row.writes_per_chunk, Some(1.0), "{row:?}");
        assert_eq!(row.through_per_chunk, Some(through), "{row:?}");
        assert_eq!(row.barriers_per_chunk, Some(barriers), "{row:?}");
        // The device's counters confirm our own counting.
        assert_eq!(row.device_writes_per_chunk, Some(1.0), "{row:?}");
        assert_eq!(row.device_flushes_per_chunk, Some(through + barriers));
        let is_group = barriers > 0.0;
        assert_eq!(Way::of(row).unwrap().unit() == Unit::Group, is_group);
        let each = if is_group { depth } else { 1 };
        assert_eq!(row.chunks, Some(WRITES * each), "{row:?}");
    }
    let forced = |m: &&Row| m.unit == *"group" || m.in_flight.as_str().contains("by itself");
    assert_eq!(outcome.more.methods.iter().filter(forced).count(), 7);
    assert_eq!(dir.unsynced(), 0, "what was not forced is written back");
}

#[test]
fn the_file_is_written_place_by_place_and_stays_as_long() {
    let dir = MemDirectory::new();
    let writes = Some(200);
    quick(&dir, &Options { writes, ..few() });
    let file = dir.bytes("journal-recycled");
    assert_eq!(file.len(), 1 << 20);
    // Every page has been written again since the filling, each with a different number.
    let mut numbers: Vec<u64> = file
        .chunks(4096)
        .map(|page| u64::from_le_bytes(page[..8].try_into().unwrap()))
        .collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), 256);
    let last = 200 * (1 + 4 + 1 + 1);
    assert_eq!(numbers.last(), Some(&last));
}

#[test]
fn without_a_queue_one_line_says_so() {
    let dir = MemDirectory::new();
    let outcome = quick(&dir, &few());
    assert!(
        outcome
            .more
            .methods
            .iter()
            .all(|m| m.queue == Queue::Threads)
    );
    let notes = outcome.notes.join("\n");
    assert_eq!(notes.matches("No io_uring variants").count(), 1, "{notes}");
    dir.shared.has_queue.store(true, Relaxed);
    let outcome = quick(&dir, &few());
    let queued: Vec<Method> = outcome
        .more
        .methods
        .iter()
        .filter(|m| m.queue == Queue::IoUring)
        .map(method_of)
        .collect();
    assert_eq!(queued, [Method::DirectDsync]);
    assert!(!outcome.notes.join("\n").contains("No io_uring variants"));
}

#[test]
fn a_write_or_a_barrier_that_fails_is_an_error_and_no_number() {
    let dir = MemDirectory::new();
    dir.shared.has_queue.store(true, Relaxed);
    dir.shared.bad_through.store(true, Relaxed);
    let outcome = quick(&dir, &few());
    assert_eq!(outcome.rows.len(), 6);
    for row in &outcome.rows {
        let through = row.method == Method::DirectDsync;
        let failed = row
            .error
            .as_ref()
            .is_some_and(|e| e.contains("writing 4 KiB: planted write error"));
        assert_eq!(failed, through, "{row:?}");
        assert_eq!(row.chunks_per_s.is_none(), through, "{row:?}");
    }
    // Failed cells have no knees.
    assert!(
        outcome
            .more
            .knees
            .iter()
            .all(|k| k.method == Method::Fdatasync)
    );
}

#[test]
fn too_little_space_is_said_before_anything_is_written() {
    let dir = MemDirectory::new();
    let mut full = setup(&dir);
    full.space.free = 1 << 20;
    let Err(e) = few().run(&full) else {
        panic!("there is no space")
    };
    assert!(e.to_string().contains("not enough free space"), "{e}");
    assert_eq!(dir.shared.writes.load(Relaxed), 0);
}

/// Keeps the announcements, and whether anything was written before them.
struct Told(RefCell<String>, Arc<MemDirectory>);

impl Progress for Told {
    fn doing(&self, _: &str) {}
    fn fraction(&self, _: f64) {}
    fn announce(&self, words: &str) {
        assert_eq!(self.1.shared.writes.load(Relaxed), 0);
        words.clone_into(&mut self.0.borrow_mut());
    }
}

#[test]
fn it_says_beforehand_what_it_is_going_to_do() {
    let dir = MemDirectory::new();
    let told = Rc::new(Told(RefCell::default(), Arc::clone(&dir)));
    let mut setup = setup(&dir);
    setup.progress = Rc::clone(&told) as Rc<_>;
    few().run(&setup).unwrap();
    let said = told.0.borrow();
    assert!(
        said.contains("4 cells") && said.contains("about 1 s"),
        "{said}"
    );
}

#[test]
fn an_interrupt_before_the_first_cell_is_one() {
    let dir = MemDirectory::new();
    let raised = setup(&dir);
    raised.interrupt.raise();
    let ended = few().run(&raised);
    assert!(matches!(ended, Err(MeasureError::Interrupted)));
}

/// Runs a cell with a queue that completes writes in any order, on the simulated disk.
fn simulated(
    method: Method,
    depth: u32,
    fails: bool,
) -> (Result<(), MeasureError>, CallCounts, u64) {
    let options = SimOptions {
        blocking: true,
        ..SimOptions::default()
    };
    let disk = SimDisk::new(options, 5);
    SimRuntime::run(1, |rt| {
        let system = CountingSystem::new(disk.system(rt), |name| name.starts_with("journal"));
        let directory = system.make_directory(Path::new("/d")).unwrap();
        let file = PreparedFile::new(
            directory,
            FileState::Recycled,
            1 << 20,
            4096,
            Interrupt::new(),
            Rc::new(Silent),
        );
        let shared = Rc::new(Shared {
            file: RefCell::new(file),
            system,
            unit: 4096,
            platform: Platform::Linux,
            number: AtomicU64::new(1),
        });
        let counts = Rc::new(Slot::new(CallCounts::default()));
        let assessment =
            Assessment::new(Guarantee::PowerLoss, Verdict::Declared, Source::Device, "");
        let way = Way {
            method,
            queue: Queue::IoUring,
        };
        let mut cell = Cell::new(way, 8192, depth, assessment, shared, Rc::clone(&counts));
        let mut recorder =
            Recorder::new(Rc::new(crate::run::counters::NoCounters), Interrupt::new());
        let limit = Limit {
            commits: 12,
            time: None,
        };
        cell.prepare().unwrap();
        if fails {
            disk.fail_at(disk.ops() + 9, Fault::Io);
        }
        recorder.begin_slice();
        let result = cell.run(&limit, &mut recorder);
        if result.is_ok() {
            cell.finish().unwrap();
        }
        (result, counts.get(), recorder.commits())
    })
}

#[test]
fn a_queue_that_ends_writes_in_any_order_loses_none() {
    for depth in [1, 4, 32] {
        let (result, counts, commits) = simulated(Method::DirectDsync, depth, false);
        result.unwrap();
        assert_eq!(commits, 12);
        assert_eq!(
            (counts.writes, counts.through, counts.barriers),
            (12, 12, 0)
        );
        let (result, counts, commits) = simulated(Method::DirectFdatasync, depth, false);
        result.unwrap();
        let writes = 12 * u64::from(depth);
        assert_eq!(commits, 12);
        assert_eq!(
            (counts.writes, counts.through, counts.barriers),
            (writes, 0, 12)
        );
        assert_eq!(counts.bytes, writes * 8192);
    }
}

#[test]
fn a_write_of_a_queue_that_fails_is_told() {
    for method in [Method::DirectDsync, Method::DirectFdatasync] {
        let (result, counts, _) = simulated(method, 4, true);
        let message = result.unwrap_err().to_string();
        assert!(message.contains("injected"), "{message}");
        assert_eq!(counts, CallCounts::default(), "nothing of it is counted");
    }
}

/// Returns a cell with this rate and a standard error of `noise` times the rate.
fn made_up(way: Way, chunk: u64, depth: u32, rate: f64, noise: f64) -> Row {
    let group = match way.unit() {
        Unit::Write => 1.0,
        Unit::Group => f64::from(depth),
    };
    Row {
        slices: Some(5),
        chunks: Some(1000),
        chunks_per_s: Some(rate),
        mb_per_s: Some(rate * chunk as f64 / 1e6),
        p50_us: Some(1e6 * group / rate),
        p99_us: Some(2e6 * group / rate),
        guarantee: Some(Guarantee::PowerLoss),
        verdict: Some(Verdict::Declared),
        error: None,
        rate_error: rate * noise,
        ..row::failed(way, chunk, depth, None)
    }
}

/// Returns an outcome with the rate of each way, chunk size and depth by `rate`.
fn figures(noise: f64, rate: impl Fn(Way, u64, u32) -> f64) -> ScenarioOutcome<Sweep> {
    let ways = [
        Way::threads(Method::DirectFdatasync),
        Way::threads(Method::DirectDsync),
        Way {
            method: Method::DirectDsync,
            queue: Queue::IoUring,
        },
    ];
    let mut rows = Vec::new();
    for way in ways {
        for chunk in [4096, 16384] {
            for depth in [1, 4, 16] {
                rows.push(made_up(way, chunk, depth, rate(way, chunk, depth), noise));
            }
        }
    }
    let assessment = facts().assess(Method::DirectDsync, FileState::Recycled);
    let methods: Vec<Row> = ways
        .iter()
        .map(|w| row::method(*w, assessment.as_ref(), None))
        .collect();
    let more = Sweep {
        knees: row::knees(&rows),
        recommended: Recommended::new(&[], &methods, &facts()),
        methods,
        usual_chunk: 16384,
        neighbours: None,
    };
    ScenarioOutcome {
        rows,
        notes: Vec::new(),
        interrupted: false,
        more,
    }
}

/// Returns the conclusion of such an outcome.
fn concluded(outcome: &ScenarioOutcome<Sweep>) -> String {
    conclude(&outcome.rows, &outcome.more)
}

/// Returns the document of such an outcome.
fn report(outcome: ScenarioOutcome<Sweep>) -> Document {
    let mut document = document(Kind::Sweep);
    fill(&options(), outcome, &mut document);
    document
}

fn method_of(row: &Row) -> Method {
    row.method.known().unwrap()
}

/// Returns a rate: up to four writes in flight pay, and the time is proportional to the chunk size.
fn up_to_four(way: Way, chunk: u64, depth: u32) -> f64 {
    let ring = if way.queue == Queue::IoUring {
        1.5
    } else {
        1.0
    };
    4_096_000.0 / chunk as f64 * f64::from(depth.min(4)) * ring
}

#[test]
fn the_conclusion_says_what_the_figures_say() {
    let words = concluded(&figures(0.01, up_to_four));
    for part in [
        "The following is about direct+dsync, the default here.",
        "Chunks of 16 KiB: one at a time 250 a second, 4,000 µs each at p50; 4 in flight 1,000 a second",
        "Gain from more writes in flight: up to 4 in chunks of 4 KiB and 16 KiB (4.0 times the rate).",
        "Most commits a second, with one chunk per commit: 4,000 of 4 KiB",
        "One thread with io_uring is faster than threads with direct+dsync here: 1.50 times",
        "several writes in flight carry more commits than one gathered write at a time",
        "Of all safe ways direct+dsync, io_uring makes the most commits of 4 KiB: 6,000 a second with 4 in flight, 1.5 times as many",
    ] {
        assert!(words.contains(part), "{part}\n{words}");
    }
}

#[test]
fn the_conclusion_flips_with_the_figures() {
    // Every write takes the same time whatever its size, and more writes in flight gain nothing.
    let words = concluded(&figures(0.01, |way, _, _| {
        if way.queue == Queue::IoUring {
            500.0
        } else {
            1000.0
        }
    }));
    for part in [
        "Gain from more writes in flight: none above 1 in chunks of 4 KiB and 16 KiB.",
        "gather waiting commits into one write (group commit) before you use more writes in flight: one write of 16 KiB",
        "carries 4 commits of 4 KiB, 4,000 a second",
        "Threads are faster than io_uring with direct+dsync here: io_uring has 0.50 times",
    ] {
        assert!(words.contains(part), "{part}\n{words}");
    }
    assert!(!words.contains("Of all safe ways"), "{words}");
}

#[test]
fn where_noise_is_larger_than_the_differences_nothing_is_told() {
    let words = concluded(&figures(0.6, up_to_four));
    assert!(
        words.contains("No conclusion about writes in flight: the noise is larger"),
        "{words}"
    );
    assert!(
        words.contains("is too noisy to tell: 1.50 times the rate"),
        "{words}"
    );
    assert!(!words.contains("For a log"), "{words}");
    let words = concluded(&figures(f64::INFINITY, up_to_four));
    assert!(words.contains("fewer than 3 of their 5 slices"), "{words}");
}

#[test]
fn what_is_not_safe_is_not_recommended() {
    let mut outcome = figures(0.01, up_to_four);
    for method in &mut outcome.more.methods {
        method.verdict = Some(Verdict::Implausible);
    }
    outcome.more.recommended = Recommended::new(&[], &outcome.more.methods, &facts());
    assert_eq!(outcome.more.recommended.method, None);
    let words = concluded(&outcome);
    assert!(
        words.starts_with("No method that was measured survives"),
        "{words}"
    );
}

#[test]
fn dropped_flushes_take_the_guarantee_of_all_depths() {
    let dir = MemDirectory::new();
    dir.shared.drops_flushes.store(true, Relaxed);
    let outcome = quick(&dir, &few());
    let verdicts: Vec<_> = outcome.rows.iter().map(|r| r.verdict).collect();
    assert!(
        verdicts.iter().all(|v| *v == Some(Verdict::Implausible)),
        "{verdicts:?}"
    );
    assert_eq!(outcome.more.recommended.method, None);
}

#[test]
fn grids_stand_side_by_side_where_there_is_room_and_every_cell_is_in_them() {
    let mut outcome = figures(0.01, up_to_four);
    outcome.rows[0].error = Some("planted".to_owned());
    outcome.rows[0].chunks_per_s = None;
    let report = report(outcome);
    for (width, grids_in_first) in [(120, 2), (60, 1)] {
        let words = text(&report, EVERYTHING, width);
        let longest = words.lines().map(|l| l.chars().count()).max();
        assert!(longest <= Some(width), "{longest:?}\n{words}");
        let title = words.lines().find(|l| l.starts_with("direct+fdatasync"));
        let named = title.unwrap().matches("survives power-loss").count();
        assert_eq!(named, grids_in_first, "{words}");
    }
    let words = text(&report, EVERYTHING, 60);
    // 4,000 of 6,000 are two thirds. The best rate is that of io_uring, and the knee is marked.
    let (_, of_dsync) = words.split_once("direct+dsync   survives").unwrap();
    let line = of_dsync.lines().find(|l| l.contains(&bytes(4096))).unwrap();
    assert!(line.contains("·1.00k  ▓4.00k* ▓4.00k"), "{line}");
    assert!(words.contains("n/a  "), "{words}");
    assert!(words.contains("planted"), "{words}");
}

#[test]
fn csv_and_json_have_every_field_that_is_documented() {
    let report = report(figures(0.01, up_to_four));
    let mut json = Vec::new();
    crate::result::output::json(&report, &mut json).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(
        (&value["schema"], &value["version"]),
        (&"logforce-sweep".into(), &1.into())
    );
    let document = include_str!("../../../../../docs/bench-json.md");
    let (_, document) = document
        .split_once("## `logforce bench journal --sweep`")
        .unwrap();
    let document = document.split("\n## ").next().unwrap();
    for object in [
        &value,
        &value["methods"][0],
        &value["rows"][0],
        &value["knees"][0],
    ] {
        for name in object.as_object().unwrap().keys() {
            assert!(
                document.contains(&format!("`{name}`")),
                "{name} is not documented"
            );
        }
    }
    let row = &value["rows"][17];
    assert_eq!(
        (&row["method"], &row["queue"]),
        (&"direct+dsync".into(), &"io_uring".into())
    );
    assert_eq!(value["knees"][0]["finding"], "pays");
    let mut csv = Vec::new();
    crate::result::output::csv(&report.rows, false, &mut csv).unwrap();
    let csv = String::from_utf8(csv).unwrap();
    assert!(
        csv.starts_with("method,queue,chunk_bytes,depth,slices,chunks,"),
        "{csv}"
    );
    assert_eq!(csv.lines().count(), 19);
}
