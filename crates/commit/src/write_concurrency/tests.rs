//! Tests with a model of committers and a device, which is simulated event by event.

use super::*;
use logforce_device::Method;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::ops::RangeInclusive;

/// A device, and threads that commit one record after the other.
struct Model {
    threads: usize,
    /// Duration of a write that is alone in flight.
    write: Duration,
    /// Number of writes that the device executes in parallel.
    depth: usize,
    /// Slowdown of a write by each other one in flight: with 1.0, one other makes it twice as slow.
    beside: f64,
    /// Maximum time until a thread commits again.
    think: Duration,
    /// Number of writes that may begin in each slice of 100 ms, if it is limited. At the end of a slice's
    /// writes, the device waits for the next slice.
    granted: Option<usize>,
}

const MS: Duration = Duration::from_millis(1);
const SLICE: Duration = Duration::from_millis(100);

/// Results of the last quarter of a run.
#[derive(Debug)]
struct Seen {
    p50: Duration,
    per_second: f64,
    /// Most frequent limit.
    limit: usize,
    /// Fraction of writes that began while another one was in flight.
    beside: f64,
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Commits,
    /// The wait for more commits is over.
    Gathered,
    /// The write with that number is done.
    Done(usize),
}

struct InFlight {
    began: Duration,
    share: Share,
    came: Vec<Duration>,
    done: bool,
}

impl Model {
    fn run(&self, time: Duration) -> Seen {
        self.run_within(0..=16, time)
    }

    /// Runs a log that always writes all waiting commits, one write after the other.
    fn one_by_one(&self, time: Duration) -> Seen {
        self.run_within(1..=1, time)
    }

    fn run_within(&self, limits: RangeInclusive<usize>, time: Duration) -> Seen {
        let mut concurrency = WriteConcurrency::new((1, 4), 16, 64 << 10);
        concurrency.small = Trials::new(1, limits);
        let mut random = 1u64;
        let mut events = BinaryHeap::new();
        for n in 0..self.threads {
            events.push(Reverse((Duration::from_micros(n as u64), Event::Commits)));
        }
        let mut free = vec![Duration::ZERO; self.depth];
        let (mut slice, mut left) = (Duration::ZERO, self.granted);
        let mut staged: Vec<Duration> = Vec::new();
        let mut in_flight: VecDeque<InFlight> = VecDeque::new();
        let (mut first, mut next) = (0, 0);
        let (mut took, mut limits, mut beside, mut writes) = (vec![], [0; 65], 0, 0);
        while let Some(Reverse((now, event))) = events.pop() {
            if now > time {
                break;
            }
            let is_last = now > time * 3 / 4;
            match event {
                Event::Commits => {
                    concurrency.came(now);
                    staged.push(now);
                }
                Event::Gathered => {
                    concurrency.gathers_for(now);
                }
                Event::Done(number) => in_flight[number - first].done = true,
            }
            while in_flight.front().is_some_and(|w| w.done) {
                let write = in_flight.pop_front().unwrap();
                first += 1;
                concurrency.acknowledged(write.share, now, now - write.began);
                if let Some(left) = concurrency.gathers_for(now) {
                    events.push(Reverse((now + left, Event::Gathered)));
                }
                for came in write.came {
                    if is_last {
                        took.push(now - came);
                    }
                    random = random.wrapping_mul(6364136223846793005).wrapping_add(1);
                    let think = self.think.mul_f64((random >> 40) as f64 / (1 << 24) as f64);
                    events.push(Reverse((now + think, Event::Commits)));
                }
            }
            let bytes = staged.len() * 200;
            let begins = concurrency.allows(in_flight.len(), bytes) && !concurrency.gathers(bytes);
            if !staged.is_empty() && begins {
                let place = free.iter_mut().min().unwrap();
                let slower = 1.0 + self.beside * in_flight.len() as f64;
                let mut begins = now.max(*place);
                if let (Some(left), Some(granted)) = (&mut left, self.granted) {
                    while begins >= slice + SLICE || *left == 0 {
                        slice += SLICE;
                        *left = granted;
                    }
                    begins = begins.max(slice);
                    *left -= 1;
                }
                *place = begins + self.write.mul_f64(slower);
                events.push(Reverse((*place, Event::Done(next))));
                next += 1;
                if is_last {
                    limits[concurrency.small.limit()] += 1;
                    writes += 1;
                    beside += usize::from(!in_flight.is_empty());
                }
                in_flight.push_back(InFlight {
                    began: now,
                    share: concurrency.begin(bytes),
                    came: std::mem::take(&mut staged),
                    done: false,
                });
            }
        }
        took.sort();
        Seen {
            p50: took[took.len() / 2],
            per_second: took.len() as f64 / (time / 4).as_secs_f64(),
            limit: (0..65).max_by_key(|n| limits[*n]).unwrap(),
            beside: f64::from(beside as u32) / f64::from(writes as u32),
        }
    }
}

/// On a networked volume, each commit waits for hardly more than its own write.
#[test]
fn on_a_device_that_serves_many_at_once_commits_wait_for_their_own_write() {
    for (threads, write) in [(2, 1), (16, 1), (64, 1), (16, 5), (64, 5), (256, 5)] {
        let model = Model {
            threads,
            write: write * MS,
            depth: 32,
            beside: 0.0,
            think: MS / 10,
            granted: None,
        };
        let time = write * 8000 * MS;
        let (seen, one) = (model.run(time), model.one_by_one(time));
        let what = format!("{threads} threads, {write} ms: {seen:?} {one:?}");
        assert!(seen.p50 < model.write.mul_f64(1.2), "{what}");
        assert!(seen.per_second > 1.4 * one.per_second, "{what}");
    }
}

#[test]
fn on_a_device_that_serves_one_after_another_one_write_is_in_flight() {
    for threads in [2, 16, 64, 256] {
        let model = Model {
            threads,
            write: MS,
            depth: 1,
            beside: 0.0,
            think: MS / 20,
            granted: None,
        };
        let (seen, one) = (model.run(8000 * MS), model.one_by_one(8000 * MS));
        let what = format!("{threads} threads: {seen:?} {one:?}");
        assert!(seen.limit <= 1, "{what}");
        assert!(seen.beside < 0.1, "{what}");
        // Each write contains all commits, instead of one half while the other half waits.
        assert!(seen.p50 < model.write.mul_f64(1.2), "{what}");
        assert!(seen.per_second > 1.6 * one.per_second, "{what}");
    }
}

/// Two writes in flight take more than twice as long as one, as on btrfs.
#[test]
fn where_writes_hinder_each_other_one_is_in_flight() {
    let model = Model {
        threads: 16,
        write: MS,
        depth: 32,
        beside: 3.0,
        think: MS / 10,
        granted: None,
    };
    let seen = model.run(8000 * MS);
    assert!(seen.limit <= 1, "{seen:?}");
    assert!(seen.beside < 0.02, "{seen:?}");
}

/// Two writes in flight gain little here, but eight gain much.
#[test]
fn threads_that_work_between_their_commits_wait_for_their_own_write_too() {
    for threads in [16, 64] {
        for think in [MS / 2, MS, 2 * MS] {
            let model = Model {
                threads,
                write: MS,
                depth: 32,
                beside: 0.0,
                think,
                granted: None,
            };
            let (seen, one) = (model.run(8000 * MS), model.one_by_one(8000 * MS));
            let what = format!("{threads} threads, {think:?}: {seen:?} {one:?}");
            assert!(seen.p50 < model.write.mul_f64(1.25), "{what}");
            assert!(seen.per_second > 1.1 * one.per_second, "{what}");
        }
    }
}

/// A volume with a limit of requests executes a slice's writes at full speed, and then none until the next
/// slice. What counts there is the number of commits in a write.
#[test]
fn on_a_volume_with_a_limit_of_requests_a_write_contains_all_commits() {
    for threads in [16, 64] {
        let model = Model {
            threads,
            write: MS / 4,
            depth: 32,
            beside: 0.0,
            think: MS / 20,
            granted: Some(150),
        };
        let (seen, one) = (model.run(60_000 * MS), model.one_by_one(60_000 * MS));
        let what = format!("{threads} threads: {seen:?} {one:?}");
        assert_eq!(seen.limit, 0, "{what}");
        assert!(seen.per_second > 1.6 * one.per_second, "{what}");
    }
}

/// Large writes do not wait for more commits, and the write after a large one does not wait either.
#[test]
fn large_writes_gather_nothing() {
    let mut concurrency = WriteConcurrency::new((0, 1), 1, 64 << 10);
    let mut gathered = |bytes: usize, commits: usize| {
        (0..commits).for_each(|_| concurrency.came(MS));
        let gathers = concurrency.gathers(bytes);
        let share = concurrency.begin(bytes);
        concurrency.acknowledged(share, 2 * MS, MS);
        gathers
    };
    for _ in 0..20 {
        gathered(4096, 4);
    }
    assert!(gathered(4096, 1), "three are missing");
    assert!(!gathered(100 << 10, 1));
    assert!(!gathered(4096, 1), "after a large one");
}

/// No thread commits again in time, so the next write begins at once.
#[test]
fn threads_that_do_something_else_are_not_waited_for() {
    for threads in [2, 16, 64] {
        let model = Model {
            threads,
            write: MS,
            depth: 1,
            beside: 0.0,
            think: 8 * MS,
            granted: None,
        };
        let (seen, one) = (model.run(8000 * MS), model.one_by_one(8000 * MS));
        let what = format!("{threads} threads: {seen:?} {one:?}");
        assert!(seen.per_second > 0.98 * one.per_second, "{what}");
        assert!(seen.p50 < one.p50.mul_f64(1.03), "{what}");
    }
}

#[test]
fn one_thread_is_never_tried_with_more() {
    let model = Model {
        threads: 1,
        write: MS,
        depth: 32,
        beside: 0.0,
        think: MS / 10,
        granted: None,
    };
    let seen = model.run(2000 * MS);
    assert_eq!((seen.limit, seen.beside), (1, 0.0));
}

/// The limit follows a change of the device.
#[test]
fn a_device_that_changes_is_found_out() {
    let mut concurrency = WriteConcurrency::new((8, 8), 16, usize::MAX);
    let mut now = Duration::ZERO;
    // Eight writes are in flight on a device that now executes one after another.
    let mut in_flight: VecDeque<Share> = VecDeque::new();
    for _ in 0..20_000 {
        concurrency.came(now);
        concurrency.came(now);
        while concurrency.allows(in_flight.len(), 4096) {
            in_flight.push_back(concurrency.begin(4096));
            concurrency.came(now);
        }
        now += MS;
        let share = in_flight.pop_front().unwrap();
        concurrency.acknowledged(share, now, MS);
    }
    assert!(
        concurrency.small.limit() <= 2,
        "{}",
        concurrency.small.limit()
    );
}

/// The wait for more commits is half of a usual write, even after a device has hung once.
#[test]
fn commits_are_gathered_for_half_a_usual_write() {
    let mut concurrency = WriteConcurrency::new((0, 1), 1, usize::MAX);
    let mut now = Duration::ZERO;
    let mut round = |concurrency: &mut WriteConcurrency, took: Duration| {
        concurrency.came(now);
        concurrency.came(now);
        let share = concurrency.begin(4096);
        now += took;
        concurrency.acknowledged(share, now, took);
        concurrency.gathers_for(now)
    };
    for _ in 0..50 {
        round(&mut concurrency, MS);
    }
    let half = round(&mut concurrency, MS).expect("two come again");
    assert!(half > MS * 4 / 10 && half <= MS / 2, "{half:?}");
    let after = round(&mut concurrency, 10_000 * MS).expect("two come again");
    assert!(after < MS, "{after:?}");
    // After a while, a single committer no longer waits for others.
    let alone = |concurrency: &mut WriteConcurrency| {
        concurrency.came(MS);
        let share = concurrency.begin(4096);
        concurrency.acknowledged(share, 2 * MS, MS);
        concurrency.gathers_for(2 * MS).is_some()
    };
    assert!(alone(&mut concurrency));
    let more = (0..20).filter(|_| alone(&mut concurrency)).count();
    assert!(more < 10, "{more}");
}

#[test]
fn through_the_cache_one_write_is_in_flight() {
    let limits = WriteLimits {
        most: 4,
        at_first: None,
        large: 64 << 10,
    };
    let at_first = |method: Method, relocates| {
        let concurrency = WriteConcurrency::here(method.plan(), relocates, limits);
        (concurrency.small.limit(), concurrency.large.limit())
    };
    assert_eq!(at_first(Method::DirectDsync, false), (1, 4));
    assert_eq!(at_first(Method::DirectDsync, true), (1, 1));
    assert_eq!(at_first(Method::Dsync, false), (1, 1));
    let mut one = WriteConcurrency::here(Method::Dsync.plan(), false, limits);
    one.came(MS);
    one.begin(4096);
    one.came(MS);
    assert!(!one.allows(1, 1 << 20));
}
