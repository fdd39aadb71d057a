//! The example `journal`: three threads append, and each record has the number that follows in its thread.

#[allow(dead_code)]
#[path = "../../../logforce/examples/journal.rs"]
mod example;

use super::{Syncs, crashtest, options};
use example::Journal;
use logforce::Method;
use logforce_crashtest::{Acknowledged, Acknowledger, TaskResult, Verdict};
use std::path::Path;
use std::sync::Mutex;

type Opened = Result<(Journal, Vec<u64>), Box<dyn std::error::Error + Send + Sync>>;

const THREADS: u64 = 3;
const SYNCED: Syncs = Syncs::By([Method::Fdatasync, Method::Dsync]);

/// Returns record `number` of a thread, appended in the session that began at this time. Most have the same
/// length: one that was cut off, and comes back, fits behind a new one.
fn record(thread: u64, number: u64, session: u64) -> Vec<u8> {
    let mut record = [thread, number, session].map(u64::to_le_bytes).concat();
    let len = if number.is_multiple_of(5) { 3000 } else { 500 };
    record.resize(len, number as u8);
    record
}

/// Opens the journal. Returns the last number of each thread: they have to follow each other, as sessions do.
fn open(dir: &Path, syncs: Syncs) -> Opened {
    let (mut last, mut session) = (vec![0; THREADS as usize], 0);
    let mut wrong = None;
    let journal = Journal::open(dir.join("journal"), options(syncs), |at, found| {
        let word = |i: usize| found[8 * i..][..8].try_into().map(u64::from_le_bytes);
        let (Ok(thread), Ok(began)) = (word(0), word(2)) else {
            return;
        };
        let number = last[thread as usize] + 1;
        if found != record(thread, number, began) || began < session {
            wrong.get_or_insert(format!(
                "at {at} is not record {number} of thread {thread}, in session {session} or later"
            ));
        }
        (last[thread as usize], session) = (number, began);
    })?;
    match wrong {
        Some(wrong) => Err(wrong.into()),
        None => Ok((journal, last)),
    }
}

fn append(dir: &Path, acks: &mut Acknowledger, syncs: Syncs) -> TaskResult {
    let (journal, last) = open(dir, syncs)?;
    let (journal, acks) = (&journal, &Mutex::new(acks));
    let session = super::now().as_nanos() as u64;
    std::thread::scope(|scope| {
        let workers = last.into_iter().zip(0..).map(|(last, thread)| {
            scope.spawn(move || -> TaskResult {
                for number in last + 1.. {
                    journal.append(&record(thread, number, session))?;
                    acks.lock().unwrap().ack(format!("{thread} {number}"))?;
                    // Now and then one thread appends alone.
                    if thread > 0 && number % 8 == 0 {
                        std::thread::sleep(std::time::Duration::from_millis(5));
                    }
                }
                unreachable!("numbers have no end")
            })
        });
        let workers: Vec<_> = workers.collect();
        workers.into_iter().try_for_each(|w| w.join().unwrap())
    })
}

fn all_are_there(dir: &Path, acknowledged: &Acknowledged) -> TaskResult {
    // Opens as a program does after a crash.
    let (journal, last) = open(dir, SYNCED)?;
    for line in &acknowledged.acked {
        let (thread, number) = line.split_once(' ').ok_or("no number")?;
        let (thread, number): (usize, u64) = (thread.parse()?, number.parse()?);
        if last[thread] < number {
            return Err(format!("acknowledged {line}, the last is {}", last[thread]).into());
        }
    }
    journal.close()
}

#[test]
fn the_journal_keeps_what_it_acknowledged() {
    crashtest()
        .workload(|dir, acks| append(dir, acks, SYNCED))
        .check(all_are_there)
        .run()
        .assert_survived();
}

#[test]
fn the_journal_without_syncs_loses() {
    let outcome = crashtest()
        .workload(|dir, acks| append(dir, acks, Syncs::None))
        .check(all_are_there)
        .states(0)
        .run();
    if let Some(verdict) = outcome.verdict() {
        assert_eq!(verdict, Verdict::Lost);
    }
}
