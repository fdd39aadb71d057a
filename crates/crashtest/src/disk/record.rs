//! Recording of all writes and flushes that reached a disk, in order, with the acknowledgements before each.

use crate::counters::{COUNTERS, Counters};
use crate::testbed::Image;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

/// Kind of an event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A write came, and its completion was reported at once.
    Write,
    /// A write came. It is in flight until its `Complete`.
    WriteHeld,
    /// The completion of a held write was reported.
    Complete,
    /// A flush came and was carried out. Ignored flushes are not recorded.
    Flush,
}

const KINDS: [EventKind; 4] = [
    EventKind::Write,
    EventKind::WriteHeld,
    EventKind::Complete,
    EventKind::Flush,
];

/// Last word of a complete recording.
const END: u64 = 99;

/// Event of a recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// Kind of the event.
    pub kind: EventKind,
    /// Number that the disk gave the write; 0 for a flush.
    pub id: u64,
    /// Offset of the write in bytes; 0 for other events.
    pub offset: u64,
    /// Data of the write; empty for other events.
    pub data: Vec<u8>,
    /// Counters of acknowledgements before the event.
    pub counters: Counters,
    /// Time of the event, as [`now`] returns it.
    pub at: u64,
}

/// Returns the microseconds since a moment that is the same for all processes of the machine.
pub fn now() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000 + now.tv_nsec as u64 / 1000
}

/// Writer of a recording, in the disk's process.
#[derive(Debug)]
pub struct Recorder {
    to: BufWriter<File>,
}

impl Recorder {
    /// Creates a recorder that writes to an empty file.
    pub fn new(file: File) -> Recorder {
        Recorder {
            to: BufWriter::with_capacity(1 << 20, file),
        }
    }

    fn word(&mut self, word: u64) -> io::Result<()> {
        self.to.write_all(&word.to_le_bytes())
    }

    /// Adds an event.
    pub fn put(
        &mut self,
        kind: EventKind,
        id: u64,
        offset: u64,
        data: &[u8],
        counters: &Counters,
    ) -> io::Result<()> {
        let kind = KINDS.iter().position(|k| *k == kind).unwrap_or(0) as u64;
        for word in [kind, id, offset, data.len() as u64, now()] {
            self.word(word)?;
        }
        for counter in counters {
            self.word(*counter)?;
        }
        self.to.write_all(data)
    }

    /// Marks the recording as complete.
    pub fn end(&mut self) -> io::Result<()> {
        self.word(END)?;
        self.to.flush()
    }
}

/// Recording of a disk.
#[derive(Debug)]
pub struct Recording {
    /// Events in the order in which they came.
    pub events: Vec<Event>,
}

impl Recording {
    /// Reads the recording that a recorder wrote.
    ///
    /// # Errors
    /// If it is incomplete because the disk did not end it, or has an event of an unknown kind.
    pub fn read(from: &Image) -> Result<Recording> {
        let mut file = from.file().try_clone()?;
        file.rewind()?;
        let mut from = BufReader::with_capacity(1 << 20, file);
        let mut word = || -> Result<u64> {
            let mut bytes = [0; 8];
            from.read_exact(&mut bytes)
                .context("the recording is incomplete: the disk did not end it")?;
            Ok(u64::from_le_bytes(bytes))
        };
        let mut events = Vec::new();
        loop {
            let kind = word()?;
            if kind == END {
                return Ok(Recording { events });
            }
            let Some(&kind) = KINDS.get(kind as usize) else {
                bail!("the recording has an event of unknown kind {kind}");
            };
            let (id, offset, len, at) = (word()?, word()?, word()?, word()?);
            let mut counters = [0; COUNTERS];
            for counter in &mut counters {
                *counter = word()?;
            }
            let mut data = vec![0; len as usize];
            for chunk in data.chunks_mut(8) {
                let bytes = word()?.to_le_bytes();
                chunk.copy_from_slice(&bytes[..chunk.len()]);
            }
            events.push(Event {
                kind,
                id,
                offset,
                data,
                counters,
                at,
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_recorded_is_read() {
        let image = Image::new(0).unwrap();
        let mut recorder = Recorder::new(image.file().try_clone().unwrap());
        let counters = std::array::from_fn(|i| i as u64);
        recorder
            .put(EventKind::WriteHeld, 7, 4096, &[9; 1024], &counters)
            .unwrap();
        recorder
            .put(EventKind::Flush, 0, 0, &[], &counters)
            .unwrap();
        assert!(Recording::read(&image).is_err());
        recorder.end().unwrap();
        let read = Recording::read(&image).unwrap();
        assert_eq!(read.events.len(), 2);
        assert_eq!(read.events[0].data, [9; 1024]);
        assert_eq!((read.events[0].id, read.events[0].offset), (7, 4096));
        assert_eq!(read.events[1].kind, EventKind::Flush);
        assert_eq!(read.events[1].counters, counters);
        let times = [read.events[0].at, read.events[1].at, now()];
        assert!(times.is_sorted() && times[0] > 0, "{times:?}");
    }
}
