//! Machine of the model: a log on a disk, and a process that drives the shipped machines of the protocol.

use super::bucket::{Bytes, Message};
use super::restorer::{Log, Restorer};
use crate::object::{Nonce, Object, Segment};
use crate::protocol::{
    Answer, Claim, Claimant, Claimed, Cover, Error, Local, Removal, Request, Sweep, Writer,
};
use logforce::{LogId, Lsn};
use std::collections::BTreeSet;

/// Fixed sizes of a model.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sizes {
    /// Chunks in flight.
    pub(super) window: usize,
    /// Seals in the first round of a claim.
    pub(super) seals: u64,
    /// Records in a segment.
    pub(super) segment: u64,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Node {
    pub(super) has_log: bool,
    pub(super) log: Log,
    /// Random numbers of the openings of its log, as the control file has them.
    openings: Vec<u64>,
    pub(super) process: Process,
    /// Requests that were sent and not answered.
    pub(super) open: BTreeSet<(Sender, Message)>,
    covered: Option<Lsn>,
}

/// Process on a machine.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Process {
    Down,
    Claim(Claim),
    /// A takeover reads the log from the archive.
    CatchUp(Claimed, Box<Restorer>),
    Write(Box<Writer>, Option<Job>),
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) enum Job {
    Cover(Cover),
    Raise(Removal),
    Sweep(Sweep),
    Prune(Removal),
}

/// Part of a process that sent a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) enum Sender {
    Main,
    Job,
}

/// Event that the properties are about.
pub(super) enum Event {
    Claimed(Claimed),
    /// The log is to be written above this position.
    Opened(Lsn),
    /// Acknowledged: the records from one LSN to another.
    Acknowledged(Lsn, Lsn),
}

impl Node {
    pub(super) fn new(has_log: bool) -> Node {
        Node {
            has_log,
            log: Log::default(),
            openings: Vec::new(),
            process: Process::Down,
            open: BTreeSet::new(),
            covered: None,
        }
    }

    /// Ends the process. Returns the writes in flight, which may still land.
    pub(super) fn crash(&mut self) -> Vec<Message> {
        self.process = Process::Down;
        self.covered = None;
        let open = std::mem::take(&mut self.open).into_iter();
        let open = open.map(|(_, message)| message);
        open.filter(Message::is_write).collect()
    }

    pub(super) fn open(&mut self, nonce: Nonce, sizes: Sizes) {
        // The opening of the log, which was durable before the claim begins.
        self.openings.push(nonce.opening());
        let local = self.has_log.then(|| Local {
            log: LogId::default(),
            front: Lsn(self.log.front),
            end: Lsn(self.log.end()),
            openings: self.openings.clone(),
            forgets_openings: false,
        });
        self.process = Process::Claim(Claim::new(Claimant {
            nonce,
            owner: String::new(),
            time: 0,
            seals: sizes.seals,
            local,
        }));
        self.send();
    }

    pub(super) fn set_log_aside(&mut self) {
        self.has_log = false;
        self.log = Log::default();
        self.openings.clear();
    }

    /// Replaces the disk by an older copy.
    pub(super) fn roll_back(&mut self) {
        self.log.records.pop();
        self.log.front = self.log.front.min(self.log.end());
    }

    pub(super) fn append(&mut self, record: u8) {
        self.log.records.push(record);
        self.offer();
        self.send();
    }

    /// Offers all that is in the local log, as one chunk.
    fn offer(&mut self) {
        if let Process::Write(writer, _) = &mut self.process {
            writer.offer(Lsn(self.log.end()), Lsn(self.log.front), 0);
        }
    }

    /// Moves the front of the local log up to what is confirmed. Returns false if it is there.
    pub(super) fn truncate(&mut self) -> bool {
        let Process::Write(writer, _) = &self.process else {
            return false;
        };
        let moves = self.log.front < writer.confirmed().0;
        self.log.front = self.log.front.max(writer.confirmed().0);
        moves
    }

    /// Begins to put segments. Returns false if the process does something else.
    pub(super) fn level(&mut self, sizes: Sizes) -> bool {
        let Process::Write(writer, job @ None) = &mut self.process else {
            return false;
        };
        // Segments below the front are not on the disk any more.
        let first = self.log.front.max(self.log.from) / sizes.segment;
        let ends = first + 1..=self.log.end() / sizes.segment;
        let segments = ends.map(|number| Segment {
            from: Lsn((number - 1) * sizes.segment),
            to: Lsn(number * sizes.segment),
        });
        let segments: Vec<Segment> = segments.filter(|s| s.from.0 >= self.log.from).collect();
        *job = Some(Job::Cover(writer.cover(self.covered, &segments)));
        self.send();
        true
    }

    /// Begins to prune. Returns false if there is nothing, or the process does something else.
    pub(super) fn prune(&mut self) -> bool {
        let Process::Write(writer, job @ None) = &mut self.process else {
            return false;
        };
        let Some(removal) = writer.prune(Lsn(self.log.front)) else {
            return false;
        };
        *job = Some(Job::Prune(removal));
        self.send();
        true
    }

    /// Returns true for the owner of an archive with nothing in flight.
    pub(super) fn is_idle_writer(&self) -> bool {
        matches!(self.process, Process::Write(_, None)) && self.open.is_empty()
    }

    /// Returns true if a machine of the process waits for an answer although no request is open.
    pub(super) fn is_stuck(&self) -> bool {
        let waits = |sender| self.open.iter().any(|(from, _)| *from == sender);
        match &self.process {
            Process::Down => false,
            Process::Claim(_) | Process::CatchUp(..) => !waits(Sender::Main),
            Process::Write(writer, job) => {
                let is_behind = writer.confirmed().0 < self.log.end();
                (is_behind && !waits(Sender::Main)) || (job.is_some() && !waits(Sender::Job))
            }
        }
    }

    /// Returns true if a job of the second level, or a pruning, is under way.
    pub(super) fn has_job(&self) -> bool {
        matches!(self.process, Process::Write(_, Some(_)))
    }

    /// Takes the answer to a request that is not open any more.
    pub(super) fn answer(
        &mut self,
        sender: Sender,
        request: &Request,
        answer: Answer,
        bytes: Bytes,
        sizes: Sizes,
    ) -> Result<Vec<Event>, String> {
        let mut events = Vec::new();
        if matches!(request, Request::Replace(_)) {
            // The claim has ended: nothing depends on its hint.
            return Ok(events);
        }
        match (&mut self.process, sender) {
            (Process::Claim(claim), _) => {
                claim.answer(request, answer);
                if let Some(outcome) = claim.outcome().cloned() {
                    // The put of the hint is sent before the claim is dropped.
                    self.send();
                    self.claimed(outcome, sizes, &mut events)?;
                }
            }
            (Process::CatchUp(claimed, restorer), _) => {
                restorer.answer(request, answer, bytes)?;
                match restorer.reading.outcome() {
                    None => {}
                    Some(Err(error)) => return Err(format!("a takeover fails: {error}")),
                    Some(Ok(_)) => {
                        let first = claimed.first;
                        self.log = restorer.log.clone();
                        self.log.front = restorer.start.max(restorer.chunk_front.unwrap_or(0));
                        if self.log.records.is_empty() {
                            self.log.from = restorer.start;
                        }
                        self.log.cut(first.0);
                        self.has_log = true;
                        // The import writes it into the control file.
                        self.openings = vec![claimed.nonce.opening()];
                        let claimed = claimed.clone();
                        self.write(claimed, sizes, &mut events);
                    }
                }
            }
            (Process::Write(writer, _), Sender::Main) => {
                let before = writer.confirmed();
                writer.answer(request, answer);
                let now = writer.confirmed();
                if before < now {
                    events.push(Event::Acknowledged(before, now));
                }
                match writer.error() {
                    None => self.offer(),
                    Some(Error::Deposed { .. } | Error::Replaced { .. }) => {
                        self.process = Process::Down
                    }
                    Some(error) => return Err(format!("a writer fails: {error}")),
                }
            }
            (Process::Write(writer, job), Sender::Job) => {
                go_on(writer, job, &mut self.covered, request, answer)?;
            }
            (Process::Down, _) => {}
        }
        self.send();
        Ok(events)
    }

    fn claimed(
        &mut self,
        outcome: Result<Claimed, Error>,
        sizes: Sizes,
        events: &mut Vec<Event>,
    ) -> Result<(), String> {
        match outcome {
            Ok(claimed) => {
                events.push(Event::Claimed(claimed.clone()));
                if self.has_log {
                    self.write(claimed, sizes, events);
                } else {
                    let restorer = Restorer::new(Some(claimed.first));
                    self.process = Process::CatchUp(claimed, Box::new(restorer));
                }
            }
            Err(Error::Deposed { .. } | Error::Shorter { .. } | Error::NoArchive) => {
                self.process = Process::Down;
            }
            Err(error) => return Err(format!("a claim fails: {error}")),
        }
        Ok(())
    }

    fn write(&mut self, claimed: Claimed, sizes: Sizes, events: &mut Vec<Event>) {
        events.push(Event::Opened(claimed.first));
        let writer = Writer::new(claimed, sizes.window);
        self.process = Process::Write(Box::new(writer), None);
        self.offer();
    }

    /// Sends what the machines want to send.
    fn send(&mut self) {
        let (main, job) = match &mut self.process {
            Process::Down => (Vec::new(), Vec::new()),
            Process::Claim(claim) => (claim.poll(), Vec::new()),
            Process::CatchUp(_, restorer) => (restorer.reading.poll(), Vec::new()),
            Process::Write(writer, job) => {
                let job = match job {
                    None => Vec::new(),
                    Some(Job::Cover(cover)) => cover.poll(),
                    Some(Job::Raise(removal) | Job::Prune(removal)) => removal.poll(),
                    Some(Job::Sweep(sweep)) => sweep.poll(),
                };
                (writer.poll(), job)
            }
        };
        let main = main.into_iter().map(|request| (Sender::Main, request));
        let job = job.into_iter().map(|request| (Sender::Job, request));
        for (sender, request) in main.chain(job) {
            let bytes = match &request {
                Request::Create(Object::Chunk(chunk)) => self.log.bytes(chunk.from, chunk.to),
                Request::Create(Object::Segment(s)) => self.log.bytes(s.from, s.to),
                _ => Bytes::from([]),
            };
            let is_new = self.open.insert((sender, Message { request, bytes }));
            assert!(is_new, "a machine has two equal requests open");
        }
    }
}

/// Takes the answer to a request of a job, and begins the next job.
fn go_on(
    writer: &mut Writer,
    job: &mut Option<Job>,
    covered: &mut Option<Lsn>,
    request: &Request,
    answer: Answer,
) -> Result<(), String> {
    let fails = |error: &Error| format!("a job fails: {error}");
    let next = match job {
        None => return Ok(()),
        Some(Job::Cover(cover)) => {
            cover.answer(request, answer);
            let Some(outcome) = cover.outcome() else {
                return Ok(());
            };
            let end = *outcome.as_ref().map_err(fails)?;
            *covered = Some(end);
            match writer.raise(end) {
                Some(removal) => Some(Job::Raise(removal)),
                None => writer.sweep(end).map(Job::Sweep),
            }
        }
        Some(Job::Raise(removal)) => {
            removal.answer(request, answer);
            let Some(outcome) = removal.outcome() else {
                return Ok(());
            };
            outcome.as_ref().map_err(fails)?;
            covered.and_then(|end| writer.sweep(end)).map(Job::Sweep)
        }
        Some(Job::Prune(removal)) => {
            removal.answer(request, answer);
            let Some(outcome) = removal.outcome() else {
                return Ok(());
            };
            outcome.as_ref().map_err(fails)?;
            None
        }
        Some(Job::Sweep(sweep)) => {
            sweep.answer(request, answer);
            let Some(outcome) = sweep.outcome() else {
                return Ok(());
            };
            outcome.as_ref().map_err(fails)?;
            None
        }
    };
    *job = next;
    Ok(())
}
