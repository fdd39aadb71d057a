//! Writer of the golden logs. Each has three openings, with short, long and empty records, atomic appends,
//! truncations at both ends, and metadata.

use crate::SEGMENT;
use crate::acknowledged::{Event, parse_line};
use crate::common::{Killed, again, in_second_process, sized, tell, with_suffix};
use logforce::{Batch, Guarantee, Log, Lsn, Options, Policy, Tuning};
use logforce_testkit::process::Start;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

const DIR: &str = "LOGFORCE_TEST_GOLDEN";
/// Last line of the second process.
const END: &str = "end";

/// Options with the default guarantee. With a lower one there would be no stamps in the log.
fn options() -> Options {
    sized(SEGMENT).require(Guarantee::PowerLoss)
}

/// Returns the contents of a record: its number at many offsets, and zeroes in between, which take no space
/// in the golden files.
fn content(n: u64, len: usize) -> Vec<u8> {
    let mut data = vec![0; len];
    for (i, part) in data.chunks_mut(480).enumerate() {
        let mark = format!("golden record {n}, part {i}.");
        let fits = mark.len().min(part.len());
        part[..fits].copy_from_slice(&mark.as_bytes()[..fits]);
    }
    data
}

/// A log with a callback that receives all acknowledgements.
struct Worker<'s> {
    log: Log,
    next: u64,
    say: &'s mut dyn FnMut(Event),
}

impl<'s> Worker<'s> {
    fn new(log: Log, say: &'s mut dyn FnMut(Event)) -> Self {
        let next = log.tail_lsn().0;
        let how = (
            std::env::consts::OS,
            log.recovered().method,
            log.guarantee().name(),
        );
        say(Event::Opened(format!("on {}, {}, {}", how.0, how.1, how.2)));
        Worker { log, next, say }
    }

    fn content(&mut self, len: usize) -> Vec<u8> {
        self.next += 1;
        content(self.next, len)
    }

    fn commit(&mut self, len: usize) -> Lsn {
        let data = self.content(len);
        let at = self.log.commit(&data).unwrap();
        (self.say)(Event::record(at.start, at.end, &data));
        at.start
    }

    fn commit_all(&mut self, lens: &[usize]) {
        let all: Vec<Vec<u8>> = lens.iter().map(|&len| self.content(len)).collect();
        let parts: Vec<&[u8]> = all.iter().map(Vec::as_slice).collect();
        let mut batch = Batch::of(&parts);
        self.log.commit(&mut batch).unwrap();
        for (at, data) in batch.ranges().iter().zip(&all) {
            (self.say)(Event::record(at.start, at.end, data));
        }
    }

    /// Writes a record without forcing it. It survives the end of the process.
    fn write(&mut self, len: usize) {
        let data = self.content(len);
        let policy = Policy::Write {
            force_within: Duration::from_secs(3600),
        };
        let at = self.log.commit_with(&data, policy).unwrap();
        (self.say)(Event::record(at.start, at.end, &data));
    }

    fn take_back(&mut self, from: Lsn) {
        let to = self.log.tail_lsn();
        self.log.truncate_back(from).unwrap();
        (self.say)(Event::Voided(from, to));
    }

    fn front(&mut self, front: Lsn) {
        self.log.truncate_front(front).unwrap();
        (self.say)(Event::Front(front));
    }

    fn meta(&mut self, text: &str) {
        self.log.set_meta(text.as_bytes()).unwrap();
        (self.say)(Event::Meta(text.to_owned()));
    }

    /// Runs the first opening. Writes more than a segment, so that a truncation can move the front.
    fn begin(&mut self) {
        for len in [40, 1, 0, 300, 5000].repeat(5) {
            self.commit(len);
        }
        self.meta("set by the first opening");
    }

    /// Runs a later opening.
    fn go_on(&mut self, opening: &str) {
        self.commit(100_000);
        self.commit_all(&[10, 0, 9000, 30]);
        let mistake = self.commit(600);
        self.commit_all(&[20, 20]);
        self.take_back(mistake);
        let kept = self.commit(50);
        for len in [25, 0, 400].repeat(5) {
            self.commit(len);
        }
        self.meta(&format!("set by the {opening} opening"));
        // The second opening truncates all records before `kept`.
        if opening == "second" {
            self.front(kept);
        }
    }
}

/// Writes a log that is closed in each opening.
pub fn closed(dir: &Path) -> Vec<Event> {
    let mut events = Vec::new();
    let mut say = |event| events.push(event);
    for opening in ["first", "second", "third"] {
        let log = if opening == "first" {
            logforce::create_new(dir, options())
        } else {
            logforce::open_existing(dir, options())
        };
        let mut worker = Worker::new(log.unwrap(), &mut say);
        match opening {
            "first" => worker.begin(),
            _ => worker.go_on(opening),
        }
        worker.log.close().unwrap();
    }
    events
}

/// Writes a log that is closed once, and whose process is then killed twice. The test `name` must begin with
/// [`work_until_killed`].
pub fn killed(dir: &Path, name: &str) -> Vec<Event> {
    let mut events = Vec::new();
    let mut say = |event| events.push(event);
    let mut first = Worker::new(logforce::create_new(dir, options()).unwrap(), &mut say);
    first.begin();
    first.log.close().unwrap();
    for _ in 0..2 {
        let mut child = again(name, DIR, dir)
            .stdout(Stdio::piped())
            .start()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let mut child = Killed(child);
        let mut ended = false;
        // Ignores lines of the test harness.
        for line in out.lines().map_while(Result::ok) {
            if line == END {
                ended = true;
                break;
            }
            events.extend(parse_line(&line));
        }
        child.kill();
        assert!(ended, "the second process failed");
    }
    events
}

pub fn is_second_process() -> bool {
    in_second_process(DIR).is_some()
}

pub fn work_until_killed() {
    let dir = in_second_process(DIR).unwrap();
    let log = logforce::open_existing(
        &dir,
        options().tuning(Tuning::new().idle_stamp(Duration::MAX)),
    )
    .unwrap();
    let opening = if log.recovered().clean {
        "second"
    } else {
        "third"
    };
    let mut say = |event: Event| tell(&event.to_string());
    let mut worker = Worker::new(log, &mut say);
    worker.go_on(opening);
    for len in [35, 700, 0] {
        worker.write(len);
    }
    // Waits until no segment is being prepared, so that the golden log has no unfinished file.
    while !with_suffix(&dir, ".tmp").is_empty() {
        std::thread::sleep(Duration::from_millis(5));
    }
    tell(END);
    // Waits to be killed.
    loop {
        std::thread::sleep(Duration::from_secs(3600));
    }
}
