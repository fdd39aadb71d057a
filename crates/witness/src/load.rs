//! The load until the power cut: committers, the writer of the unforced file, and the threads that talk to
//! the witness.

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

/// Pause between two writes to the unforced file.
const PACE: Duration = Duration::from_millis(4);
/// The same pause if each force of the log also forces that file. Then only writes since the last force can
/// be lost.
const HASTE: Duration = Duration::from_micros(100);
/// Number of commits that a submitting thread keeps in flight.
const UNDER_WAY: usize = 16;
/// Every Nth commit of the first committer is a position to truncate to.
const MARK: u64 = 16;

/// Items that are sent to the witness, in order.
pub enum Out {
    Ack(Ack),
    /// A request, with the channel that reports its completion.
    Ask(Ask, SyncSender<()>),
}

/// Signal that stops all threads, with the reason.
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

    /// Stops with this error. Ignores the error if the threads are stopping already.
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

/// State that the threads of a round share.
pub struct Load<'a> {
    pub run: RunId,
    pub round: u32,
    pub halt: &'a Halt,
    /// Number of commits that were sent.
    pub sent: AtomicU64,
    /// Number of unforced writes that were sent.
    pub unforced: AtomicU64,
    /// True if a force also forces the data of other files.
    pub takes_all: bool,
    /// Starts of recent records.
    pub marks: Mutex<VecDeque<Lsn>>,
    /// Number of sent commits when threads began to wait for space, and the time. Reset by each commit.
    pub stuck: Mutex<Option<(u64, Instant)>>,
}

/// Maximum time without space for any thread, after which the round is given up.
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

    /// Waits if the error passes, as that of a full log, which is about to be truncated. Otherwise stops the
    /// round and returns false.
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

    /// Waits a little for space. Gives up if there was no commit for [`LONGEST_WAIT`].
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
                "no commit found space in the log for {} s: free space on the disk, or use a larger \
                 --size",
                LONGEST_WAIT.as_secs()
            )));
        }
    }

    fn is_worth(&self, guarantee: Guarantee) -> bool {
        let is = guarantee >= Guarantee::PowerLoss;
        if !is {
            self.halt.fail(CutError::refused(format!(
                "a commit guarantees only {guarantee}, not power-loss"
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

    /// Writes to the unforced file at an even pace. Faster writes would keep the disk's cache full, and the
    /// disk would write them to the medium at once.
    pub fn dribble(&self, mut file: canary::Writer, out: &SyncSender<Out>) {
        for sequence in 1.. {
            if self.halt.is_on() {
                return;
            }
            if let Err(cause) = file.write(sequence) {
                let what = "writing to the unforced file".to_owned();
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

    /// Returns the latest mark at or below `lsn`.
    pub fn mark_below(&self, lsn: Lsn) -> Option<Lsn> {
        let mut marks = self.marks.lock().unwrap_or_else(PoisonError::into_inner);
        let mut found = None;
        while marks.front().is_some_and(|m| *m <= lsn) {
            found = marks.pop_front();
        }
        found
    }
}

/// Sends all waiting acknowledgements in one frame, and a ping from time to time. Passes the `done` of each
/// request to the reader of the answers. Ends when sending fails or all senders are gone.
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
            // Informs the reader before an answer can arrive.
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

/// Reads the answers to the requests, until the connection ends.
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
        // Makes the sender fail, too.
        let _ = from.stream.shutdown(std::net::Shutdown::Both);
        return;
    }
}
