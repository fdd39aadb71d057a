//! Connections: a thread each, which reads requests and plays the faults.

use crate::bucket::Bucket;
use crate::faults::{Dice, Fault};
use crate::http::{Request, Response};
use std::collections::BTreeMap;
use std::io::{self, BufReader};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// State of a server that its threads share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) bucket: Mutex<Bucket>,
    pub(crate) dice: Mutex<Dice>,
    pub(crate) put_latency: Duration,
    pub(crate) refusal: Mutex<Option<Response>>,
    pub(crate) counts: Mutex<BTreeMap<String, usize>>,
    pub(crate) state: Mutex<State>,
    pub(crate) changed: Condvar,
}

/// State that threads wait for.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) is_frozen: bool,
    pub(crate) is_stopped: bool,
    /// Open connections, to be ended from outside.
    connections: Vec<(TcpStream, JoinHandle<()>)>,
}

/// End of the work for a connection.
struct Ended;

impl Shared {
    pub(crate) fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut lock(&self.state));
        self.changed.notify_all();
    }

    /// Ends all connections and waits for their threads.
    pub(crate) fn end_connections(&self) {
        let mut connections = Vec::new();
        self.set(|state| {
            state.is_stopped = true;
            connections = std::mem::take(&mut state.connections);
        });
        for (stream, thread) in connections {
            let _ = stream.shutdown(Shutdown::Both);
            let _ = thread.join();
        }
    }

    fn count(&self, what: impl Into<String>) {
        *lock(&self.counts).entry(what.into()).or_default() += 1;
    }

    /// Waits; ends early if the server stops.
    fn wait(&self, duration: Duration) -> Result<(), Ended> {
        let until = Instant::now() + duration;
        let mut state = lock(&self.state);
        while !state.is_stopped {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(());
            }
            let waited = self.changed.wait_timeout(state, left);
            (state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        }
        Err(Ended)
    }

    /// Waits while the server is frozen.
    fn wait_for_thaw(&self) -> Result<(), Ended> {
        let state = lock(&self.state);
        let state = self
            .changed
            .wait_while(state, |state| state.is_frozen && !state.is_stopped);
        let state = state.unwrap_or_else(PoisonError::into_inner);
        if state.is_stopped { Err(Ended) } else { Ok(()) }
    }

    /// Does a request, unless all are refused.
    fn answer(&self, request: &mut Request) -> Result<Response, Ended> {
        if request.method == "PUT" {
            self.wait(self.put_latency)?;
        }
        let refusal = lock(&self.refusal).clone();
        Ok(refusal.unwrap_or_else(|| lock(&self.bucket).answer(request)))
    }

    /// Plays the fault of a request and returns its answer, with the fault that the answer has.
    fn play(&self, request: &mut Request) -> Result<(Response, bool), Ended> {
        self.wait_for_thaw()?;
        self.count(&request.method);
        let (fault, delay, stall) = {
            let mut dice = lock(&self.dice);
            let fault = dice.roll(request.method == "PUT");
            (fault, dice.faults.delay, dice.faults.stall)
        };
        if let Some(fault) = fault {
            self.count(format!("{fault:?}"));
        }
        match fault {
            None => Ok((self.answer(request)?, false)),
            Some(Fault::LoseRequest) => Err(Ended),
            Some(Fault::LoseAnswer) => {
                self.answer(request)?;
                Err(Ended)
            }
            Some(Fault::HalveAnswer) => Ok((self.answer(request)?, true)),
            Some(Fault::Delay) => {
                self.wait(delay)?;
                Ok((self.answer(request)?, false))
            }
            Some(Fault::Stall) => {
                self.wait(stall)?;
                self.answer(request)?;
                Err(Ended)
            }
            Some(Fault::UnavailableBefore) => Ok((Response::error(503, "SlowDown"), false)),
            Some(Fault::UnavailableAfter) => {
                self.answer(request)?;
                Ok((Response::error(503, "InternalError"), false))
            }
            Some(Fault::FalseConflict) => {
                Ok((Response::error(409, "ConditionalRequestConflict"), false))
            }
        }
    }
}

/// Accepts connections until the server stops.
pub(crate) fn listen(shared: &Arc<Shared>, listener: &TcpListener) {
    for stream in listener.incoming() {
        let mut state = lock(&shared.state);
        if state.is_stopped {
            return;
        }
        let Ok((stream, other)) = stream.and_then(|stream| Ok((stream.try_clone()?, stream)))
        else {
            continue;
        };
        let (ended, kept): (Vec<_>, Vec<_>) = std::mem::take(&mut state.connections)
            .into_iter()
            .partition(|(_, thread)| thread.is_finished());
        drop(ended);
        state.connections = kept;
        let serving = shared.clone();
        let thread = std::thread::spawn(move || {
            // A client that leaves is not an error of the server.
            let _ = connection(&serving, &stream);
            let _ = stream.shutdown(Shutdown::Both);
        });
        state.connections.push((other, thread));
    }
}

fn connection(shared: &Shared, stream: &TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    while let Some(mut request) = Request::read(&mut reader)? {
        let Ok((response, is_half)) = shared.play(&mut request) else {
            break;
        };
        response.write(&mut &*stream, request.method != "HEAD", is_half)?;
        if is_half {
            break;
        }
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
