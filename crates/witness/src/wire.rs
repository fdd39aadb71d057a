//! What goes over the connection: frames with a length, JSON for what is rare and numbers for
//! acknowledgements. Both ends believe nothing: lengths, counts and times are bounded.

use crate::ledger::{Ack, Event, RoundOutcome, State, Subject};
use crate::{Phase, RunId};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// What each end sends first; the last byte is the version.
pub const GREETING: [u8; 8] = [b'L', b'F', b'P', b'C', b'U', b'T', 0, VERSION];
/// Of what is spoken.
pub const VERSION: u8 = 1;
/// The longest frame to a witness, bytes.
pub const TO_WITNESS: usize = 64 << 10;
/// The longest frame from a witness, bytes.
pub const FROM_WITNESS: usize = 1 << 20;
/// How long a frame may take once it began, and how long an answer is waited for.
pub const TIMEOUT: Duration = Duration::from_secs(10);
/// A writer says something at least so often.
pub const BEAT: Duration = Duration::from_secs(1);
/// A connection that says nothing for so long is over.
pub const IDLE: Duration = Duration::from_secs(60);

/// A request to a witness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Ask {
    /// The first: which run, and what for.
    Hello { role: Role, run: RunId },
    /// Takes the run in.
    New(Subject),
    /// Begins a round; `front` is where its log begins.
    Begin {
        phase: Phase,
        boot: String,
        front: u64,
    },
    /// Records below are going to be truncated.
    Front(u64),
    /// The round ended without a cut.
    Void,
    /// What is acknowledged and not truncated.
    Acks,
    /// What was found of it.
    Checked(RoundOutcome),
    /// Are you there?
    Ping,
}

/// What a connection is for. A later writer or checker of a run ends an earlier one's: after a cut
/// no side closes the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Writes a round.
    Write,
    /// Checks one.
    Check,
    /// Looks at the state, and changes nothing.
    Look,
}

/// What a witness answers.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// To a hello; `None`: the run is not known.
    Run(Option<State>),
    /// The number of the round that began.
    Round(u32),
    Done,
    /// No, and why.
    Refused(String),
}

/// A frame's contents.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame<M> {
    Message(M),
    Acks(Vec<Ack>),
}

const MESSAGE: u8 = b'J';
const ACKS: u8 = b'A';
const ACK: usize = 2 + 8 + 8;
/// Acknowledgements in a frame at most.
pub const MOST_ACKS: usize = (TO_WITNESS - 1) / ACK;

pub fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// A message as a frame's payload.
pub fn message(message: &impl Serialize) -> Vec<u8> {
    let mut payload = vec![MESSAGE];
    // Our own types have no maps with keys that are no text, and cannot fail.
    let _ = serde_json::to_writer(&mut payload, message);
    payload
}

/// Acknowledgements as a frame's payload.
pub fn acks(acks: &[Ack]) -> Vec<u8> {
    let mut payload = Vec::with_capacity(1 + ACK * acks.len());
    payload.push(ACKS);
    for a in acks {
        payload.extend(a.stream.to_le_bytes());
        payload.extend(a.sequence.to_le_bytes());
        payload.extend(a.lsn.to_le_bytes());
    }
    payload
}

/// What a payload says.
pub fn parse<M: for<'de> Deserialize<'de>>(payload: &[u8]) -> io::Result<Frame<M>> {
    match payload.split_first() {
        Some((&MESSAGE, json)) => serde_json::from_slice(json)
            .map(Frame::Message)
            .map_err(|e| invalid(format!("a message that is not understood ({e})"))),
        Some((&ACKS, bytes)) if bytes.len().is_multiple_of(ACK) => {
            let ack = |b: &[u8]| {
                let (stream, b) = b.split_first_chunk::<2>()?;
                let (sequence, b) = b.split_first_chunk::<8>()?;
                let lsn = b.first_chunk::<8>()?;
                Some(Ack {
                    stream: u16::from_le_bytes(*stream),
                    sequence: u64::from_le_bytes(*sequence),
                    lsn: u64::from_le_bytes(*lsn),
                })
            };
            Ok(Frame::Acks(bytes.chunks(ACK).filter_map(ack).collect()))
        }
        _ => Err(invalid("a frame of no known kind")),
    }
}

/// An event as a payload, and back.
pub fn event(event: &Event) -> Vec<u8> {
    match event {
        Event::Acks(list) => acks(list),
        other => message(other),
    }
}

pub fn parse_event(payload: &[u8]) -> io::Result<Event> {
    Ok(match parse::<Event>(payload)? {
        Frame::Message(event) => event,
        Frame::Acks(list) => Event::Acks(list),
    })
}

/// Sends a frame in one write.
pub fn send(to: &mut impl Write, payload: &[u8]) -> io::Result<()> {
    let len = u32::try_from(payload.len()).map_err(|_| invalid("too long for a frame"))?;
    let mut bytes = Vec::with_capacity(4 + payload.len());
    bytes.extend(len.to_le_bytes());
    bytes.extend(payload);
    to.write_all(&bytes)
}

/// The next frame's payload, of at most `most` bytes; `None` when the other end closed in between.
/// It has to begin within `idle`, and `is_over` is asked now and then meanwhile.
pub fn receive(
    from: &mut TcpStream,
    most: usize,
    idle: Duration,
    is_over: &dyn Fn() -> bool,
) -> io::Result<Option<Vec<u8>>> {
    let mut head = [0; 4];
    if !fill(from, &mut head, idle, is_over)? {
        return Ok(None);
    }
    let len = u32::from_le_bytes(head) as usize;
    if len == 0 || len > most {
        return Err(invalid(format!(
            "a frame of {len} bytes, at most {most} are allowed"
        )));
    }
    let mut payload = vec![0; len];
    if !fill(from, &mut payload, TIMEOUT, is_over)? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(payload))
}

/// Fills `bytes`; `false` if the other end closed before the first. The first has to come within
/// `idle`, all others within [`TIMEOUT`] after it: who trickles is not waited for.
pub fn fill(
    from: &mut TcpStream,
    bytes: &mut [u8],
    idle: Duration,
    is_over: &dyn Fn() -> bool,
) -> io::Result<bool> {
    let mut until = Instant::now() + idle;
    let mut have = 0;
    while have < bytes.len() {
        if is_over() {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::Error::new(
                io::ErrorKind::TimedOut,
                "nothing came in time",
            ));
        }
        match from.set_read_timeout(Some(left.min(Duration::from_millis(200)))) {
            // macOS sets nothing of a connection that has ended both ways; what came before is there
            // to be read, and no read waits.
            Err(e) if e.kind() != io::ErrorKind::InvalidInput => return Err(e),
            _ => {}
        }
        match from.read(&mut bytes[have..]) {
            Ok(0) if have == 0 => return Ok(false),
            Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                if have == 0 {
                    until = Instant::now() + TIMEOUT;
                }
                have += n;
            }
            Err(e) => match e.kind() {
                io::ErrorKind::WouldBlock
                | io::ErrorKind::TimedOut
                | io::ErrorKind::Interrupted => {}
                _ => return Err(e),
            },
        }
    }
    Ok(true)
}

/// Returns frames that hold these acknowledgements.
pub fn chunks(list: &[Ack]) -> impl Iterator<Item = Vec<u8>> {
    list.chunks(MOST_ACKS).map(acks)
}
