use super::*;
use crate::counters::NoCounters;
use crate::testing::MemDirectory;
use logforce_device::{
    Barrier, Directory, File, ForwardDirectory, ForwardFile, JoinHandle, Method, OpenFile,
};
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

const SECOND: Duration = Duration::from_secs(1);
const BEGAN: Duration = Duration::from_secs(1_000_000);

/// Clocks that go on only by sleeping and by forces.
struct Time {
    monotonic: Mutex<Duration>,
    wall: Mutex<Duration>,
    end: Duration,
    interrupt: Interrupt,
}

impl Time {
    fn until(end: Duration) -> Arc<Time> {
        Arc::new(Time {
            monotonic: Mutex::default(),
            wall: Mutex::new(BEGAN),
            end,
            interrupt: Interrupt::new(),
        })
    }

    /// Moves both clocks on.
    fn pass(&self, time: Duration) {
        *self.monotonic.lock().unwrap() += time;
        *self.wall.lock().unwrap() += time;
    }
}

impl Runtime for Time {
    fn now(&self) -> Duration {
        let now = *self.monotonic.lock().unwrap();
        if now >= self.end {
            self.interrupt.raise();
        }
        now
    }
    fn wall_clock(&self) -> Duration {
        *self.wall.lock().unwrap()
    }
    fn wait(&self, _: &AtomicU32, _: u32, timeout: Option<Duration>) {
        self.pass(timeout.unwrap());
    }
    fn spawn(&self, _: &str, _: Box<dyn FnOnce() + Send>) -> io::Result<Box<dyn JoinHandle>> {
        unreachable!("a watch starts no thread")
    }
    fn wake_one(&self, _: &AtomicU32) {}
    fn wake_all(&self, _: &AtomicU32) {}
    fn random(&self) -> u64 {
        1
    }
    fn process(&self) -> u64 {
        1
    }
}

type Force = dyn Fn(u64, &Time) -> io::Result<()> + Send + Sync;

/// A directory whose files call `force` with the number of each commit.
struct Scripted {
    inner: Arc<MemDirectory>,
    time: Arc<Time>,
    force: Arc<Force>,
    forced: Arc<AtomicU64>,
    is_removed: bool,
}

impl ForwardDirectory for Scripted {
    fn inner(&self) -> &dyn Directory {
        &*self.inner
    }
    fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>> {
        Ok(Arc::new(ScriptedFile {
            inner: self.inner.open(name, how)?,
            time: Arc::clone(&self.time),
            force: Arc::clone(&self.force),
            forced: Arc::clone(&self.forced),
        }))
    }
    fn identity_of(&self, name: &str) -> io::Result<logforce_device::FileIdentity> {
        match self.is_removed {
            true => Err(io::ErrorKind::NotFound.into()),
            false => self.inner.identity_of(name),
        }
    }
}

struct ScriptedFile {
    inner: Arc<dyn File>,
    time: Arc<Time>,
    force: Arc<Force>,
    forced: Arc<AtomicU64>,
}

impl ForwardFile for ScriptedFile {
    fn inner(&self) -> &dyn File {
        &*self.inner
    }
    fn barrier(&self, barrier: Barrier) -> io::Result<()> {
        if barrier == Barrier::Data {
            (self.force)(self.forced.fetch_add(1, Relaxed), &self.time)?;
        }
        self.inner.barrier(barrier)
    }
}

struct Outcome {
    events: Vec<Event>,
    totals: Totals,
    result: Result<(), MeasureError>,
    dir: Arc<MemDirectory>,
}

/// Watches for `lasting`, with a commit a second and stalls from half a second.
fn watched(
    lasting: Duration,
    is_removed: bool,
    force: impl Fn(u64, &Time) -> io::Result<()> + Send + Sync + 'static,
) -> Outcome {
    let time = Time::until(lasting);
    let dir = MemDirectory::new();
    let scripted = Arc::new(Scripted {
        inner: Arc::clone(&dir),
        time: Arc::clone(&time),
        force: Arc::new(force),
        forced: Arc::default(),
        is_removed,
    });
    let interrupt = time.interrupt.clone();
    let method = Method::Fdatasync;
    let mut file = CommitFile::make(scripted, method, 4096, 4096, interrupt.clone()).unwrap();
    let (totals, counters) = (Totals::default(), dir.counters());
    let watch = Watch {
        settings: Settings {
            interval: SECOND,
            stall: SECOND / 2,
        },
        runtime: time,
        counters: &counters,
        interrupt: &interrupt,
        totals: &totals,
    };
    let mut events = Vec::new();
    let result = watch.run(&mut file, &mut |event| events.push(event));
    Outcome {
        events,
        totals,
        result,
        dir,
    }
}

fn quick(_: u64, time: &Time) -> io::Result<()> {
    time.pass(Duration::from_millis(2));
    Ok(())
}

fn minutes(events: &[Event]) -> Vec<&Minute> {
    let minutes = events.iter().filter_map(|event| match event {
        Event::Minute(minute) => Some(minute),
        _ => None,
    });
    minutes.collect()
}

#[test]
fn a_quiet_disk_has_a_line_a_minute_and_nothing_else() {
    let outcome = watched(150 * SECOND, false, quick);
    outcome.result.unwrap();
    let minutes = minutes(&outcome.events);
    assert_eq!(minutes.len(), outcome.events.len());
    let commits: Vec<u64> = minutes.iter().map(|m| m.commits).collect();
    assert_eq!(commits, [61, 60, 29]);
    assert_eq!(minutes[0].at, BEGAN);
    for minute in minutes {
        let exact = [minute.p50_us, minute.p99_us, minute.max_us];
        assert_eq!((exact, minute.stalls), ([2000.0; 3], 0));
        // One write of 4 KiB a commit, and no others.
        assert_eq!(minute.device_bytes, Some(4096 * minute.commits));
    }
    let summary = outcome.totals.summary().unwrap();
    assert_eq!((summary.commits, summary.stalls), (150, 0));
    let scrape = outcome.totals.scrape();
    assert_eq!(scrape.buckets.iter().sum::<u64>(), 150);
    // 2 ms is the bound of its bucket, which includes it.
    assert_eq!((BOUNDS[5], scrape.buckets[5]), (2000, 150));
    assert_eq!(
        (scrape.in_progress, scrape.sum),
        (None, 300 * SECOND / 1000)
    );
    // The file is overwritten in place.
    assert_eq!(outcome.dir.bytes("journal-recycled").len(), 1 << 20);
}

#[test]
fn a_stall_has_its_time_and_no_burst_follows() {
    let outcome = watched(30 * SECOND, false, |n, time| {
        let long = if n == 10 { 5500 } else { 2 };
        time.pass(Duration::from_millis(long));
        Ok(())
    });
    let stall = Stall {
        at: BEGAN + 10 * SECOND,
        lasted: Duration::from_millis(5500),
        device_bytes: Some(4096),
    };
    assert_eq!(outcome.events[0], Event::Stall(stall));
    let minutes = minutes(&outcome.events);
    // Commits at 0 to 10 and at 16 to 29 seconds.
    assert_eq!((minutes[0].commits, minutes[0].stalls), (25, 1));
    assert_eq!(outcome.events.len(), 2);
    let summary = outcome.totals.summary().unwrap();
    assert_eq!(summary.longest_at, BEGAN + 10 * SECOND);
    assert_eq!(summary.stalled, Duration::from_millis(5500));
}

#[test]
fn a_suspended_machine_and_a_changed_clock_are_no_stalls() {
    let hour = 3600 * SECOND;
    let outcome = watched(20 * SECOND, false, move |n, time| {
        let mut wall = time.wall.lock().unwrap();
        match n {
            // Suspended during a commit: the device takes long after it wakes.
            5 => {
                *wall += hour;
                *time.monotonic.lock().unwrap() += 3 * SECOND;
            }
            12 => *wall -= 2 * hour,
            _ => {}
        }
        Ok(())
    });
    let changes: Vec<f64> = outcome
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Clock(change) => Some(change.by_seconds),
            _ => None,
        })
        .collect();
    assert_eq!(changes, [3597.0, -7200.0]);
    assert_eq!(minutes(&outcome.events).len(), 1);
    assert_eq!(outcome.events.len(), 3);
    let summary = outcome.totals.summary().unwrap();
    assert_eq!((summary.stalls, summary.max_us), (0, 0.001));
}

/// A wake-up that comes late is not the disk's fault.
#[test]
fn a_program_that_was_held_up_is_no_stall() {
    struct Held(Arc<Time>);
    impl Runtime for Held {
        fn now(&self) -> Duration {
            self.0.now()
        }
        fn wall_clock(&self) -> Duration {
            self.0.wall_clock()
        }
        fn wait(&self, word: &AtomicU32, seen: u32, timeout: Option<Duration>) {
            self.0.wait(word, seen, timeout);
            let now = self.0.now();
            if (3 * SECOND..4 * SECOND).contains(&now) {
                self.0.pass(5 * SECOND);
            }
        }
        fn spawn(
            &self,
            name: &str,
            b: Box<dyn FnOnce() + Send>,
        ) -> io::Result<Box<dyn JoinHandle>> {
            self.0.spawn(name, b)
        }
        fn wake_one(&self, _: &AtomicU32) {}
        fn wake_all(&self, _: &AtomicU32) {}
        fn random(&self) -> u64 {
            1
        }
        fn process(&self) -> u64 {
            1
        }
    }
    let time = Time::until(12 * SECOND);
    let (totals, interrupt) = (Totals::default(), time.interrupt.clone());
    let dir = MemDirectory::new();
    let method = Method::Fdatasync;
    let mut file = CommitFile::make(dir, method, 4096, 4096, interrupt.clone()).unwrap();
    let watch = Watch {
        settings: Settings {
            interval: SECOND,
            stall: SECOND / 2,
        },
        runtime: Arc::new(Held(time)),
        counters: &NoCounters,
        interrupt: &interrupt,
        totals: &totals,
    };
    let mut events = Vec::new();
    watch
        .run(&mut file, &mut |event| events.push(event))
        .unwrap();
    let late = Late {
        at: BEGAN + 3 * SECOND,
        lasted: 5 * SECOND,
    };
    assert_eq!(events[0], Event::Late(late));
    assert_eq!(minutes(&events)[0].device_bytes, None);
    assert_eq!((events.len(), totals.summary().unwrap().stalls), (2, 0));
}

#[test]
fn a_failed_commit_ends_it_with_what_was_measured() {
    let outcome = watched(300 * SECOND, false, |n, _| match n {
        70 => Err(io::ErrorKind::StorageFull.into()),
        _ => Ok(()),
    });
    let error = outcome.result.unwrap_err().to_string();
    assert!(error.contains("journal-recycled"), "{error}");
    let commits: Vec<u64> = minutes(&outcome.events).iter().map(|m| m.commits).collect();
    assert_eq!(commits, [61, 9]);
    assert_eq!(outcome.totals.scrape().in_progress, None);
}

#[test]
fn a_file_that_was_removed_is_noticed_within_a_minute() {
    let outcome = watched(300 * SECOND, true, quick);
    let error = outcome.result.unwrap_err().to_string();
    assert!(error.contains("another program has removed"), "{error}");
    assert_eq!(minutes(&outcome.events).len(), 1);
}

/// Memory of eight hours is that of one: nothing is kept for a commit, a minute or a stall.
#[test]
fn memory_does_not_grow() {
    let most = |hours: u32| {
        let time = Time::until(hours * 3600 * SECOND);
        let interrupt = time.interrupt.clone();
        let scripted = Arc::new(Scripted {
            inner: MemDirectory::new(),
            time: Arc::clone(&time),
            force: Arc::new(|n: u64, time: &Time| {
                // Latencies of all sizes, and a stall every few minutes.
                time.pass(Duration::from_micros(1 + n * n % 700_000));
                Ok(())
            }),
            forced: Arc::default(),
            is_removed: false,
        });
        let method = Method::Fdatasync;
        let mut file = CommitFile::make(scripted, method, 4096, 4096, interrupt.clone()).unwrap();
        let totals = Totals::default();
        let watch = Watch {
            settings: Settings {
                interval: SECOND,
                stall: SECOND / 2,
            },
            runtime: time,
            counters: &NoCounters,
            interrupt: &interrupt,
            totals: &totals,
        };
        let counted = allocation_counter::measure(|| watch.run(&mut file, &mut |_| {}).unwrap());
        let summary = totals.summary().unwrap();
        assert!(summary.commits > u64::from(hours) * 3000 && summary.stalls > 0);
        (counted.bytes_max, counted.bytes_current)
    };
    let (one, eight) = (most(1), most(8));
    assert_eq!(one, eight);
    assert_eq!(eight.1, 0);
}
