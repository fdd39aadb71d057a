//! The witness: receives acknowledgements, stores them, and sends them back.

use crate::ledger::{Event, RoundState, RunLedger};
use crate::store::{Book, Store, locked};
use crate::wire::{self, Ask, Frame, GREETING, Reply, Role};
use crate::{CutError, RunId, count};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// Maximum number of connections at a time; a run needs one, and one for a check.
const MOST_CONNECTIONS: usize = 64;
/// Interval at which the listener checks if it must stop.
const LOOK: Duration = Duration::from_millis(20);

/// A witness that listens.
pub struct Witness {
    listener: TcpListener,
    address: SocketAddr,
    store: Arc<Store>,
}

/// Receiver of a witness's messages for its user.
pub trait Serving: Send + Sync {
    /// Reports an event in one line.
    fn happened(&self, line: &str);
}

impl Witness {
    /// Listens at `address` (`HOST:PORT`; port 0 means any free port). Stores acknowledgements in the
    /// directory `store`, which is created if it is missing.
    ///
    /// # Errors
    /// If the address is not available, or another witness uses the directory.
    pub fn bind(address: &str, store: &Path) -> Result<Witness, CutError> {
        let listener =
            TcpListener::bind(address).map_err(CutError::io(format!(
                "cannot listen at {address} (use an address of this machine and a free port, such as 0.0.0.0:7133)"
            )))?;
        let listening = || CutError::io(format!("listening at {address}"));
        listener.set_nonblocking(true).map_err(listening())?;
        let address = listener.local_addr().map_err(listening())?;
        // Opened last, so that nothing is created if the address is not available.
        let store = Arc::new(Store::open(store)?);
        Ok(Witness {
            listener,
            address,
            store,
        })
    }

    /// Returns the address at which the witness listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until `stop` is true. Then ends all connections and returns.
    pub fn serve(&self, stop: &AtomicBool, observer: &dyn Serving) {
        let busy = AtomicUsize::new(0);
        thread::scope(|scope| {
            while !stop.load(Ordering::Relaxed) {
                let (stream, peer) = match self.listener.accept() {
                    Ok(accepted) => accepted,
                    // There is no client, the client has disconnected, or no descriptors are left. All of
                    // these are temporary.
                    Err(_) => {
                        thread::sleep(LOOK);
                        continue;
                    }
                };
                if busy.fetch_add(1, Ordering::SeqCst) >= MOST_CONNECTIONS {
                    busy.fetch_sub(1, Ordering::SeqCst);
                    turn_away(stream);
                    continue;
                }
                let (busy, store) = (&busy, &self.store);
                let name = "logforce-witness".to_owned();
                let session = move || {
                    let ended =
                        Session::new(stream, store, stop, observer, peer).and_then(Session::run);
                    if let Err(e) = ended
                        && !stop.load(Ordering::Relaxed)
                    {
                        observer.happened(&format!("{peer}: {e}"));
                    }
                    busy.fetch_sub(1, Ordering::SeqCst);
                };
                if thread::Builder::new()
                    .name(name)
                    .spawn_scoped(scope, session)
                    .is_err()
                {
                    busy.fetch_sub(1, Ordering::SeqCst);
                }
            }
        });
    }
}

fn turn_away(mut stream: TcpStream) {
    // The answer fits into the socket's buffer, so this does not wait.
    let refused =
        Reply::Refused("the witness has too many connections: try again later".to_owned());
    let _ = stream.set_nonblocking(true);
    let _ = stream.write_all(&GREETING);
    let _ = wire::send(&mut stream, &wire::message(&refused));
    let _ = stream.shutdown(Shutdown::Write);
    // Reads the client's bytes, because unread bytes would make the system discard the answer. Does so only
    // briefly, because other clients wait to be accepted.
    for _ in 0..10 {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return,
            _ => thread::sleep(Duration::from_millis(5)),
        }
    }
}

/// One connection.
struct Session<'a> {
    stream: TcpStream,
    store: &'a Arc<Store>,
    stop: &'a AtomicBool,
    observer: &'a dyn Serving,
    peer: SocketAddr,
}

impl<'a> Session<'a> {
    fn new(
        stream: TcpStream,
        store: &'a Arc<Store>,
        stop: &'a AtomicBool,
        observer: &'a dyn Serving,
        peer: SocketAddr,
    ) -> io::Result<Self> {
        stream.set_nonblocking(false)?;
        stream.set_nodelay(true)?;
        stream.set_write_timeout(Some(wire::TIMEOUT))?;
        Ok(Session {
            stream,
            store,
            stop,
            observer,
            peer,
        })
    }

    fn receive(&mut self, idle: Duration) -> io::Result<Option<Frame<Ask>>> {
        let stop = self.stop;
        let over = || stop.load(Ordering::Relaxed);
        let payload = wire::receive(&mut self.stream, wire::TO_WITNESS, idle, &over)?;
        payload.map(|p| wire::parse(&p)).transpose()
    }

    fn reply(&mut self, reply: &Reply) -> io::Result<()> {
        wire::send(&mut self.stream, &wire::message(reply))
    }

    /// Sends a refusal, and ends the connection.
    fn refuse(&mut self, why: String) -> io::Error {
        let observer = self.reply(&Reply::Refused(why.clone()));
        // Unread bytes of the client would make the system discard the answer.
        if observer
            .and_then(|()| self.stream.shutdown(Shutdown::Write))
            .is_ok()
        {
            let mut rest = [0; 4096];
            let quiet = Duration::from_millis(200);
            for _ in 0..64 {
                match wire::fill(&mut self.stream, &mut rest[..1], quiet, &|| false) {
                    Ok(true) => {}
                    _ => break,
                }
                let _ = self.stream.set_read_timeout(Some(Duration::from_millis(1)));
                let _ = self.stream.read(&mut rest);
            }
        }
        wire::invalid(why)
    }

    fn run(mut self) -> io::Result<()> {
        let mut theirs = [0; GREETING.len()];
        let stop = self.stop;
        if !wire::fill(&mut self.stream, &mut theirs, wire::TIMEOUT, &|| {
            stop.load(Ordering::Relaxed)
        })? {
            return Ok(());
        }
        self.stream.write_all(&GREETING)?;
        if theirs != GREETING {
            let why = if theirs[..6] == GREETING[..6] {
                format!(
                    "the client uses version {} of the protocol, this witness speaks {}: use the same version of \
                     logforce on both machines",
                    theirs[7],
                    wire::VERSION
                )
            } else {
                "the client is not `logforce powercut`".to_owned()
            };
            return Err(self.refuse(why));
        }
        let (role, run) = match self.receive(wire::TIMEOUT) {
            Ok(Some(Frame::Message(Ask::Hello { role, run }))) => (role, run),
            Ok(None) => return Ok(()),
            Ok(Some(_)) => return Err(self.refuse("the first message must be a hello".to_owned())),
            Err(e) => return Err(self.refuse(e.to_string())),
        };
        let book = match self.store.find(run) {
            Ok(book) => book,
            Err(e) => return Err(self.refuse(e.to_string())),
        };
        let mut holder = 0;
        let state = book.as_ref().map(|book| {
            let mut book = locked(book);
            if role != Role::Look {
                book.holder += 1;
                holder = book.holder;
            }
            book.ledger.state.clone()
        });
        self.reply(&Reply::Run(state))?;
        let mut held = Held {
            role,
            run,
            book,
            holder,
        };
        let ended = loop {
            let frame = match self.receive(wire::IDLE) {
                Ok(Some(frame)) => frame,
                Ok(None) => break Ok(()),
                Err(e) if e.kind() == io::ErrorKind::InvalidData => {
                    break Err(self.refuse(e.to_string()));
                }
                Err(e) => break Err(e),
            };
            match held.answer(&mut self, frame) {
                Ok(Ok(())) => {}
                Ok(Err(why)) => break Err(self.refuse(why)),
                Err(e) => break Err(self.refuse(e.to_string())),
            }
        };
        if let Some(book) = held.book {
            if role != Role::Look {
                self.tell(run, &locked(&book));
            }
            self.store.forget(run, book);
        }
        ended
    }

    /// Reports the progress of a run.
    fn tell(&self, run: RunId, book: &Book) {
        if let Some(round) = book.ledger.state.rounds.last() {
            let state = match round.state {
                RoundState::Open => "open",
                RoundState::Void => "void",
                RoundState::Checked(_) => "checked",
            };
            self.observer.happened(&format!(
                "{}: run {run}, round {} ({}, {state}): {} acknowledged, {}",
                self.peer,
                round.number,
                round.phase.name(),
                count(round.acknowledged, "commit"),
                count(round.unforced, "unforced write")
            ));
        }
    }
}

/// The run that a connection is about.
struct Held {
    role: Role,
    run: RunId,
    book: Option<Arc<Mutex<Book>>>,
    holder: u64,
}

impl Held {
    /// Handles a request. The inner error is a refusal, after which the connection ends.
    fn answer(
        &mut self,
        session: &mut Session<'_>,
        frame: Frame<Ask>,
    ) -> io::Result<Result<(), String>> {
        if frame == Frame::Message(Ask::Ping) {
            return session.reply(&Reply::Done).map(Ok);
        }
        if let Frame::Message(Ask::New(subject)) = frame {
            return self.begin_run(session, subject);
        }
        let Some(book) = self.book.clone() else {
            return Ok(Err("the witness does not know the run".to_owned()));
        };
        let mut book = locked(&book);
        if self.role != Role::Look && book.holder != self.holder {
            return Ok(Err("another connection has taken the run over".to_owned()));
        }
        let event = match (self.role, frame) {
            (Role::Write, Frame::Acks(acks)) => Event::Acks(acks),
            (Role::Write, Frame::Message(Ask::Begin { phase, boot, front })) => {
                let event = Event::Begin { phase, boot, front };
                if let Err(why) = book.take(event)? {
                    return Ok(Err(why));
                }
                session.tell(self.run, &book);
                let number = book.ledger.state.rounds.len() as u32;
                drop(book);
                return session.reply(&Reply::Round(number)).map(Ok);
            }
            (Role::Write, Frame::Message(Ask::Front(front))) => Event::Front(front),
            (Role::Write, Frame::Message(Ask::Void)) => Event::Void,
            (Role::Check, Frame::Message(Ask::Checked(outcome))) => Event::Checked(outcome),
            (Role::Check, Frame::Message(Ask::Acks)) => {
                let acks = book.ledger.acks();
                drop(book);
                for payload in wire::chunks(&acks) {
                    wire::send(&mut session.stream, &payload)?;
                }
                return session.reply(&Reply::Done).map(Ok);
            }
            _ => return Ok(Err("not allowed for the role of the connection".to_owned())),
        };
        let is_list = matches!(event, Event::Acks(_));
        if let Err(why) = book.take(event)? {
            return Ok(Err(why));
        }
        drop(book);
        // Sends no answer to acknowledgements: the writer does not wait, and received ones count.
        if is_list {
            Ok(Ok(()))
        } else {
            session.reply(&Reply::Done).map(Ok)
        }
    }

    fn begin_run(
        &mut self,
        session: &mut Session<'_>,
        subject: crate::Subject,
    ) -> io::Result<Result<(), String>> {
        if self.book.is_some() || self.role != Role::Write {
            return Ok(Err("the run exists already".to_owned()));
        }
        let ledger = match RunLedger::new(subject) {
            Ok(ledger) => ledger,
            Err(why) => return Ok(Err(why)),
        };
        let book = session.store.make(self.run, ledger)?;
        locked(&book).holder = 1;
        (self.book, self.holder) = (Some(book), 1);
        session.reply(&Reply::Done).map(Ok)
    }
}
