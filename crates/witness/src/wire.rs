//! Protocol of the connection: frames with a length. Rare messages are JSON, acknowledgements are binary.
//! Both ends limit lengths, counts and times, because they do not trust each other.

use crate::ledger::{Ack, Event, RoundOutcome, State, Subject};
use crate::{Phase, RunId};
use serde::{Deserialize, Serialize};
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// First bytes that each end sends; the last byte is the version.
pub const GREETING: [u8; 8] = [b'L', b'F', b'P', b'C', b'U', b'T', 0, VERSION];
/// Version of the protocol.
pub const VERSION: u8 = 1;
/// Maximum length of a frame to a witness, in bytes.
pub const TO_WITNESS: usize = 64 << 10;
/// Maximum length of a frame from a witness, in bytes.
pub const FROM_WITNESS: usize = 1 << 20;
/// Maximum time for the rest of a frame once it began, and for an answer.
pub const TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum interval between two frames of a writer.
pub const BEAT: Duration = Duration::from_secs(1);
/// Time without a frame after which a connection ends.
pub const IDLE: Duration = Duration::from_secs(60);

/// A request to a witness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Ask {
    /// The first request: names the run and the role of the connection.
    Hello { role: Role, run: RunId },
    /// Registers the run.
    New(Subject),
    /// Begins a round; `front` is the start of its log.
    Begin {
        phase: Phase,
        boot: String,
        front: u64,
    },
    /// Announces that records below this LSN will be truncated.
    Front(u64),
    /// Reports that the round ended without a power cut.
    Void,
    /// Asks for the acknowledgements that are not truncated.
    Acks,
    /// Reports the result of the check.
    Checked(RoundOutcome),
    /// Asks for a sign of life.
    Ping,
}

/// Role of a connection. A later writer or checker of a run replaces an earlier one, whose connection is
/// still open after a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Role {
    /// Writes a round.
    Write,
    /// Checks a round.
    Check,
    /// Reads the state, and changes nothing.
    Look,
}

/// Answer of a witness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum Reply {
    /// Answer to a hello; `None` if the witness does not know the run.
    Run(Option<State>),
    /// Number of the round that began.
    Round(u32),
    Done,
    /// Refusal, with the reason.
    Refused(String),
}

/// Contents of a frame.
#[derive(Debug, Clone, PartialEq)]
pub enum Frame<M> {
    Message(M),
    Acks(Vec<Ack>),
}

const MESSAGE: u8 = b'J';
const ACKS: u8 = b'A';
const ACK: usize = 2 + 8 + 8;
/// Maximum number of acknowledgements in a frame.
pub const MOST_ACKS: usize = (TO_WITNESS - 1) / ACK;

pub fn invalid(why: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why.into())
}

/// Encodes a message as the payload of a frame.
pub fn message(message: &impl Serialize) -> Vec<u8> {
    let mut payload = vec![MESSAGE];
    // Cannot fail: these types contain no maps with keys other than text.
    let _ = serde_json::to_writer(&mut payload, message);
    payload
}

/// Encodes acknowledgements as the payload of a frame.
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

/// Decodes a payload.
pub fn parse<M: for<'de> Deserialize<'de>>(payload: &[u8]) -> io::Result<Frame<M>> {
    match payload.split_first() {
        Some((&MESSAGE, json)) => serde_json::from_slice(json)
            .map(Frame::Message)
            .map_err(|e| invalid(format!("cannot decode a message ({e})"))),
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
        _ => Err(invalid("a frame of unknown kind")),
    }
}

/// Encodes an event as a payload.
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

/// Returns the payload of the next frame, of at most `most` bytes, or `None` if the other end has closed the
/// connection before it. The frame must begin within `idle`; meanwhile `is_over` is called from time to time.
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
            "invalid length of a frame: {len} bytes, maximum {most}"
        )));
    }
    let mut payload = vec![0; len];
    if !fill(from, &mut payload, TIMEOUT, is_over)? {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(Some(payload))
}

/// Fills `bytes`. Returns false if the other end has closed the connection before the first byte. The first
/// byte must arrive within `idle`, all others within [`TIMEOUT`] after it, so that a slow sender cannot block
/// this end.
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
            return Err(io::Error::new(io::ErrorKind::TimedOut, "timed out"));
        }
        match from.set_read_timeout(Some(left.min(Duration::from_millis(200)))) {
            // macOS returns this error if both directions have ended. The received bytes can still be read,
            // and no read waits.
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

/// Returns payloads that contain these acknowledgements.
pub fn chunks(list: &[Ack]) -> impl Iterator<Item = Vec<u8>> {
    list.chunks(MOST_ACKS).map(acks)
}
