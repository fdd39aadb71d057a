use super::text::text;
use super::*;
use crate::result::legend::EVERYTHING;
use crate::testing::{MemDirectory, document, facts, setup};
use logforce_device::Guarantee;

/// A mapping that discards all data and checks the ranges of each call.
struct FakeMapping(u64);

impl Mapping for FakeMapping {
    fn write(&mut self, offset: u64, bytes: &[u8]) -> std::io::Result<()> {
        assert!(bytes.len() as u64 == PAGE && offset + PAGE <= self.0);
        Ok(())
    }
    fn sync(&mut self, ranges: &[Range<u64>]) -> std::io::Result<()> {
        assert!(ranges.iter().all(|r| r.start < r.end && r.end <= self.0));
        Ok(())
    }
}

fn options() -> Options {
    Options {
        sizes: vec![1 << 20, 2 << 20],
        pages: 8,
        rounds: 2,
        slice: Duration::from_micros(1),
        page_files: false,
        os: Os {
            map: |_, len| Ok(Box::new(FakeMapping(len))),
            times: || Some(CpuTimes::default()),
        },
    }
}

#[test]
fn each_method_makes_the_calls_that_it_claims() {
    let dir = MemDirectory::new();
    let outcome = options().run(&setup(&dir)).unwrap();
    assert_eq!(outcome.rows.len(), 2 * 5);
    for row in &outcome.rows {
        assert_eq!((row.error.as_ref(), row.slices), (None, Some(2)), "{row:?}");
        let is = |value: Option<f64>| value.unwrap();
        let (msyncs, writes) = (is(row.msyncs_per_commit), is(row.writes_per_commit));
        let (through, barriers) = (is(row.through_per_commit), is(row.barriers_per_commit));
        match row.method.known().unwrap() {
            MapMethod::MsyncAll => assert_eq!((msyncs, writes, barriers), (2.0, 0.0, 0.0)),
            MapMethod::MsyncRanges => {
                // Few of 8 pages among 256 are contiguous.
                assert!((3.0..=9.0).contains(&msyncs), "{row:?}");
                assert_eq!((writes, barriers), (0.0, 0.0));
            }
            MapMethod::InFlightThrough => {
                assert_eq!((msyncs, through, barriers), (0.0, writes, 0.0));
                assert!((3.0..=9.0).contains(&writes));
            }
            _ => {
                assert_eq!((msyncs, through, barriers), (0.0, 0.0, 2.0));
                assert!((3.0..=9.0).contains(&writes));
            }
        }
        assert_eq!(row.guarantee, Some(Guarantee::PowerLoss));
        assert_eq!(row.system_us_per_commit, Some(0.0));
    }
    for size in options().sizes {
        let bytes = dir.bytes(&format!("map-{size}"));
        assert_eq!(bytes.len() as u64, size);
        let is_filled = |page: &[u8]| page.iter().any(|b| *b != 0);
        assert!(
            bytes.chunks(PAGE as usize).all(is_filled),
            "filled to its end"
        );
    }
}

#[test]
fn what_cannot_be_had_is_told_in_its_rows() {
    let mut macos = facts();
    macos.platform = Platform::Macos;
    let dir = MemDirectory::with_facts(macos);
    let no_mapping = Options {
        os: Os {
            map: |_, _| Err(std::io::Error::other("no mapping today")),
            times: || None,
        },
        ..options()
    };
    let outcome = no_mapping.run(&setup(&dir)).unwrap();
    for row in &outcome.rows {
        let words = row.error.as_deref().unwrap_or_default();
        match row.method.known().unwrap() {
            MapMethod::MsyncAll | MapMethod::MsyncRanges => {
                assert!(words.contains("no mapping today"), "{row:?}");
            }
            MapMethod::InFlightThrough => assert!(words.contains("macOS"), "{row:?}"),
            _ => assert!(
                words.is_empty() && row.system_us_per_commit.is_none(),
                "{row:?}"
            ),
        }
    }
    assert!(
        no_mapping
            .notes(&outcome)
            .iter()
            .any(|n| n.contains("no mapping today"))
    );
    let mut full = setup(&dir);
    full.space.free = 2 << 20;
    let Err(e) = options().run(&full) else {
        panic!("there is no space")
    };
    assert!(e.to_string().contains("not enough free space"), "{e}");
    let stopped = setup(&dir);
    stopped.interrupt.raise();
    assert!(matches!(
        options().run(&stopped),
        Err(MeasureError::Interrupted)
    ));
}

#[test]
fn pages_are_sorted_and_never_the_first() {
    let mut random = Random(1);
    for _ in 0..100 {
        let pages = random.pages(8, 64);
        assert!(pages.len() == 8 && pages.windows(2).all(|w| w[0] < w[1]));
        assert!(pages.iter().all(|p| (1..64).contains(p)));
    }
    assert_eq!(random.pages(8, 4), [1, 2, 3]);
}

/// Returns rows with these milliseconds and microseconds of the system at the larger of two sizes. At the
/// smaller one `msync-all` takes a fifth of the time.
fn made_up(figures: &[(MapMethod, f64, f64)]) -> Vec<Row> {
    let base = figures.iter().find(|f| f.0 == MapMethod::MsyncAll).unwrap();
    let row = |size: u64, method: MapMethod, ms: f64, system: f64| Row {
        ms_per_commit: Some(ms),
        each: vec![ms; 5],
        system_us_per_commit: Some(system),
        ratio: Some(ms / base.1),
        system_ratio: Some(system / base.2),
        file_bytes: size,
        method: method.into(),
        ..Row::of(Kind::Map)
    };
    let mut rows = vec![row(
        128 << 20,
        MapMethod::MsyncAll,
        base.1 / 5.0,
        base.2 / 20.0,
    )];
    rows.extend(
        figures
            .iter()
            .map(|&(method, ms, system)| row(2 << 30, method, ms, system)),
    );
    rows
}

#[test]
fn the_conclusion_flips_with_the_figures() {
    use MapMethod::{CopyOnWrite, InFlightThrough, Logged, MsyncAll};
    let words = conclude(&made_up(&[
        (MsyncAll, 100.0, 90_000.0),
        (InFlightThrough, 20.0, 1500.0),
        (CopyOnWrite, 12.0, 100.0),
        (Logged, 2.0, 100.0),
    ]));
    for part in [
        "A commit that syncs the whole mapping of 2 GiB takes 100 ms, of which 90 % is processor time of the system",
        "that is 5.0 times the time for 128 MiB, and the processor time is 20 times as much.",
        "By in-flight+write-through it is 5.0 times faster, with 60 times less processor time of the system (published: 5 times faster, 50 to 100 times less).",
        "The faster of our page files at 2 GiB is logged with 2.00 ms; beside the fastest of the others, in-flight+write-through with 20.0 ms, it is 10 times faster.",
    ] {
        assert!(words.contains(part), "{part}\n{words}");
    }
    let words = conclude(&made_up(&[
        (MsyncAll, 1.0, 90.0),
        (InFlightThrough, 4.0, 180.0),
        (CopyOnWrite, 2.0, 100.0),
        (Logged, 3.0, 100.0),
    ]));
    for part in [
        "it is 4.0 times slower, with 2.0 times more processor time",
        "is copy-on-write with 2.00 ms; beside the fastest of the others, msync-all with 1.00 ms, it is 2.0 times slower",
    ] {
        assert!(words.contains(part), "{part}\n{words}");
    }
    assert!(conclude(&[]).is_empty());
}

/// Nothing is called the same, faster or slower if some rounds say otherwise.
#[test]
fn noise_decides_nothing() {
    use MapMethod::{InFlightThrough, Logged, MsyncAll};
    let figures = [
        (MsyncAll, 1.0, 90.0),
        (InFlightThrough, 1.0, 90.0),
        (Logged, 1.0, 90.0),
    ];
    let mut rows = made_up(&figures);
    for row in &mut rows {
        row.ms_per_commit = Some(1.0);
        row.each = match row.method == MsyncAll && row.file_bytes > 128 << 20 {
            true => vec![1.0, 0.6, 35.0],
            false => vec![1.0; 3],
        };
    }
    let words = conclude(&rows);
    for part in [
        "; whether longer than for 128 MiB is too noisy to tell (0.60 to 35.0)",
        "By in-flight+write-through it is faster or slower: too noisy to tell (0.029 to 1.67)",
        "and the processor time is 20 times as much.",
    ] {
        assert!(words.contains(part), "{part}\n{words}");
    }
    rows.iter_mut().for_each(|r| r.each = vec![1.0; 3]);
    let words = conclude(&rows);
    for part in [
        "; that is as long as for 128 MiB (1.00 to 1.00 times)",
        "it is as fast (1.00 to 1.00 times the time)",
    ] {
        assert!(words.contains(part), "{part}\n{words}");
    }
}

#[test]
fn the_text_has_the_growth_of_each_method() {
    let rows = made_up(&[
        (MapMethod::MsyncAll, 100.0, 90_000.0),
        (MapMethod::Logged, 2.0, 100.0),
    ]);
    let mut report = document(Kind::Map);
    report.conclusion = conclude(&rows);
    report.notes = vec![P4.sentence()];
    report.rows = rows;
    let words = text(&report, EVERYTHING, 120);
    assert!(words.lines().all(|l| l.chars().count() <= 120), "{words}");
    let (_, behind) = words.split_once("By the size of the file:").unwrap();
    let line = behind.lines().find(|l| l.starts_with("msync-all")).unwrap();
    let cells: Vec<&str> = line.split_whitespace().skip(1).collect();
    assert_eq!(
        cells,
        ["20.00", "100.0", "5.00", "4500", "90000", "20.0"],
        "{line}"
    );
    assert!(words.contains("file of 2 GiB:") && words.contains("LMDB, ITS#9017"));
}
