//! What runs while the plug is waited for: committers, the file that nothing forces, and the thread
//! that reports to the witness.

use crate::client::Client;
use crate::ledger::{Ack, UNFORCED};
use crate::record::Name;
use crate::wire::{self, Ask, Frame, Reply};
use crate::{CutError, RunId, canary};
use logforce::{CommitHandle, Error, ErrorKind, Guarantee, Log, Lsn, Policy};
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, SyncSender, TryRecvError};
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// Between two writes to the file that nothing forces.
const PACE: Duration = Duration::from_millis(4);
/// The same where each of the log's forces takes that file along: only what was written since the
/// last one is lost.
const HASTE: Duration = Duration::from_micros(100);
/// Commits that a submitting thread keeps in flight.
const UNDER_WAY: usize = 16;
/// Every so many commits of the first committer are a place to truncate to.
const MARK: u64 = 16;

/// What goes to the witness, in order.
pub enum Out {
    Ack(Ack),
    /// With whom to tell that it is done.
    Ask(Ask, SyncSender<()>),
}

/// Why everybody stops, and that they do.
#[derive(Default)]
pub struct Halt {
    stop: AtomicBool,
    why: Mutex<Option<CutError>>,
}

impl Halt {
    pub fn is_on(&self) -> bool {
        self.stop.load(Relaxed)
    }

    /// Stops in order.
    pub fn stop(&self) {
        self.stop.store(true, Relaxed);
    }

    /// Stops because of this, if nothing else went wrong before.
    pub fn fail(&self, why: CutError) {
        if !self.is_on() {
            let mut slot = self.why.lock().unwrap_or_else(PoisonError::into_inner);
            slot.get_or_insert(why);
        }
        self.stop();
    }

    pub fn why(&self) -> Option<CutError> {
        let mut slot = self.why.lock().unwrap_or_else(PoisonError::into_inner);
        slot.take()
    }
}

/// What the threads of a round share.
pub struct Load<'a> {
    pub run: RunId,
    pub round: u32,
    pub halt: &'a Halt,
    /// Commits, and unforced writes, that were sent.
    pub sent: AtomicU64,
    pub unforced: AtomicU64,
    /// A force takes along what others have written.
    pub takes_all: bool,
    /// Where records begin, lately.
    pub marks: Mutex<VecDeque<Lsn>>,
    /// How many commits were sent when room was first waited for in vain, and when that was.
    pub stuck: Mutex<Option<(u64, Instant)>>,
}

/// How long all threads may find no room before the round is given up.
const LONGEST_WAIT: Duration = Duration::from_secs(15);

impl Load<'_> {
    fn name(&self, stream: u16, sequence: u64) -> Name {
        Name {
            run: self.run,
            round: self.round,
            stream,
            sequence,
        }
    }

    /// A full log is one that is about to be truncated.
    fn is_passing(&self, e: &Error) -> bool {
        let passes = matches!(
            e.kind(),
            ErrorKind::Full | ErrorKind::NoSpace | ErrorKind::WouldBlock
        );
        if passes {
            self.wait_for_room();
        } else {
            self.halt.fail(e.clone().into());
        }
        passes
    }

    /// Waits a little. Gives up when nothing was committed for long.
    fn wait_for_room(&self) {
        thread::sleep(Duration::from_millis(2));
        let sent = self.sent.load(Relaxed);
        let mut stuck = self.stuck.lock().unwrap_or_else(PoisonError::into_inner);
        let since = match *stuck {
            Some((before, since)) if before == sent => since,
            _ => Instant::now(),
        };
        *stuck = Some((sent, since));
        if since.elapsed() > LONGEST_WAIT {
            self.halt.fail(CutError::refused(format!(
                "no commit found room in the log for {} s: give the disk more space, or the run a \
                 larger --size",
                LONGEST_WAIT.as_secs()
            )));
        }
    }

    fn is_worth(&self, guarantee: Guarantee) -> bool {
        let is = guarantee >= Guarantee::PowerLoss;
        if !is {
            self.halt.fail(CutError::refused(format!(
                "a commit came back with {guarantee} only"
            )));
        }
        is
    }

    /// Commits one record after the other.
    pub fn commit(&self, log: &Log, stream: u16, out: &SyncSender<Out>) {
        let mut sequence = 1;
        while !self.halt.is_on() {
            match log.commit(&self.name(stream, sequence).record()) {
                Ok(c) if self.is_worth(c.guarantee.into()) => {
                    if stream == 0 && sequence.is_multiple_of(MARK) {
                        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
                        marks.push_back(c.start);
                    }
                    if !self.tell(stream, sequence, c.start, out) {
                        return;
                    }
                    sequence += 1;
                }
                Ok(_) => return,
                Err(e) if self.is_passing(&e) => {}
                Err(_) => return,
            }
        }
    }

    /// Submits records, and waits for them in order.
    pub fn submit(&self, log: &Log, stream: u16, out: &SyncSender<Out>) {
        let mut waiting: VecDeque<(u64, CommitHandle)> = VecDeque::new();
        let mut sequence = 1;
        loop {
            let is_ending = self.halt.is_on();
            if !is_ending && waiting.len() < UNDER_WAY {
                match log.submit(&self.name(stream, sequence).record(), Policy::Force) {
                    Ok(submitted) => {
                        waiting.push_back((sequence, submitted));
                        sequence += 1;
                        continue;
                    }
                    Err(e) if self.is_passing(&e) => {}
                    Err(_) => return,
                }
            }
            match waiting.pop_front() {
                None if is_ending => return,
                None => {}
                Some((sequence, submitted)) => {
                    let start = submitted.start();
                    match submitted.wait() {
                        Ok(c) if self.is_worth(c.guarantee.into()) => {
                            if !self.tell(stream, sequence, start, out) {
                                return;
                            }
                        }
                        Ok(_) => return,
                        Err(e) => {
                            self.halt.fail(e.into());
                            return;
                        }
                    }
                }
            }
        }
    }

    fn tell(&self, stream: u16, sequence: u64, lsn: Lsn, out: &SyncSender<Out>) -> bool {
        self.sent.fetch_add(1, Relaxed);
        let lsn = lsn.0;
        let ack = Ack {
            stream,
            sequence,
            lsn,
        };
        out.send(Out::Ack(ack)).is_ok()
    }

    /// Writes to the file that nothing forces, at an even pace: a disk's cache that is always full
    /// would be written back at once.
    pub fn dribble(&self, mut file: canary::Writer, out: &SyncSender<Out>) {
        for sequence in 1.. {
            if self.halt.is_on() {
                return;
            }
            if let Err(cause) = file.write(sequence) {
                let what = "writing to the file that nothing forces".to_owned();
                self.halt.fail(CutError::Io { what, cause });
                return;
            }
            self.unforced.fetch_add(1, Relaxed);
            let ack = Ack {
                stream: UNFORCED,
                sequence,
                lsn: 0,
            };
            if out.send(Out::Ack(ack)).is_err() {
                return;
            }
            thread::sleep(if self.takes_all { HASTE } else { PACE });
        }
    }

    /// The latest mark at or below `lsn`.
    pub fn mark_below(&self, lsn: Lsn) -> Option<Lsn> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        while marks.front().is_some_and(|m| *m <= lsn) {
            found = marks.pop_front();
        }
        found
    }
}

/// Sends what comes, all that waits in one frame, and asks for a sign of life now and then. Each
/// ask's `done` goes to the reader of the answers. Ends when nothing can be sent any more.
pub fn send(mut to: Client, from: &Receiver<Out>, asked: &Sender<SyncSender<()>>, halt: &Halt) {
    let (ping, _unheard) = std::sync::mpsc::sync_channel(1);
    let mut asked_last = Instant::now();
    let mut acks = Vec::new();
    let ended = loop {
        let mut ask = None;
        match from.recv_timeout(wire::BEAT) {
            Ok(Out::Ack(ack)) => acks.push(ack),
            Ok(Out::Ask(what, done)) => ask = Some((what, done)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => break Ok(()),
        }
        while ask.is_none() && acks.len() < wire::MOST_ACKS {
            match from.try_recv() {
                Ok(Out::Ack(ack)) => acks.push(ack),
                Ok(Out::Ask(what, done)) => ask = Some((what, done)),
                Err(TryRecvError::Empty | TryRecvError::Disconnected) => break,
            }
        }
        if ask.is_none() && asked_last.elapsed() >= wire::BEAT {
            ask = Some((Ask::Ping, ping.clone()));
        }
        let mut sent = Ok(());
        if !acks.is_empty() {
            sent = wire::send(&mut to.stream, &wire::acks(&acks));
            acks.clear();
        }
        if let Some((what, done)) = ask
            && sent.is_ok()
        {
            asked_last = Instant::now();
            // The reader knows of it before there can be an answer.
            let _ = asked.send(done);
            sent = wire::send(&mut to.stream, &wire::message(&what));
        }
        if let Err(e) = sent {
            break Err(e);
        }
    };
    if let Err(e) = ended {
        halt.fail(to.gone(&e));
    }
    let _ = to.stream.shutdown(std::net::Shutdown::Both);
}

/// Reads the answers to what was asked, until the connection ends.
pub fn hear(mut from: Client, asked: &Receiver<SyncSender<()>>, halt: &Halt) {
    loop {
        let never = || false;
        let got = wire::receive(&mut from.stream, wire::FROM_WITNESS, wire::TIMEOUT, &never);
        let why = match got.and_then(|p| p.map(|p| wire::parse::<Reply>(&p)).transpose()) {
            Ok(Some(Frame::Message(Reply::Done))) => {
                if let Ok(done) = asked.try_recv() {
                    let _ = done.try_send(());
                    continue;
                }
                from.unexpected(&Reply::Done)
            }
            Ok(Some(Frame::Message(other))) => from.unexpected(&other),
            Ok(Some(Frame::Acks(_))) => from.unexpected(&Reply::Done),
            Ok(None) => {
                let closed = "it closed the connection";
                from.gone(&io::Error::new(io::ErrorKind::UnexpectedEof, closed))
            }
            Err(e) => from.gone(&e),
        };
        halt.fail(why);
        // The sender learns it by that.
        let _ = from.stream.shutdown(std::net::Shutdown::Both);
        return;
    }
}
