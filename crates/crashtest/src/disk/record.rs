//! Everything that reached a disk, in order, with what had been acknowledged before.

use crate::counters::{COUNTERS, Counters};
use crate::testbed::Image;
use anyhow::{Context, Result, bail};
use std::fs::File;
use std::io::{self, BufReader, BufWriter, Read, Seek, Write};

/// What happened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventKind {
    /// A write came and its completion was reported.
    Write,
    /// A write came; it is in flight until its `Complete`.
    WriteHeld,
    /// The completion of a held write was reported.
    Complete,
    /// A flush came, and was done.
    Flush,
}

const KINDS: [EventKind; 4] = [
    EventKind::Write,
    EventKind::WriteHeld,
    EventKind::Complete,
    EventKind::Flush,
];

/// Closes a recording that is whole.
const END: u64 = 99;

/// One event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What happened.
    pub kind: EventKind,
    /// The disk's number of the write.
    pub id: u64,
    /// Byte on the disk.
    pub offset: u64,
    /// What was written.
    pub data: Vec<u8>,
    /// What had been acknowledged when it came.
    pub counters: Counters,
}

/// The disk's side.
#[derive(Debug)]
pub struct Recorder {
    to: BufWriter<File>,
}

impl Recorder {
    /// Writes into an empty file.
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
        for word in [kind, id, offset, data.len() as u64] {
            self.word(word)?;
        }
        for counter in counters {
            self.word(*counter)?;
        }
        self.to.write_all(data)
    }

    /// Says that nothing follows.
    pub fn end(&mut self) -> io::Result<()> {
        self.word(END)?;
        self.to.flush()
    }
}

/// What a disk recorded.
#[derive(Debug)]
pub struct Recording {
    /// In the order in which they came.
    pub events: Vec<Event>,
}

impl Recording {
    /// Reads what a recorder wrote.
    ///
    /// # Errors
    /// If it is cut short: the disk did not end it.
    pub fn read(from: &Image) -> Result<Recording> {
        let mut file = from.file().try_clone()?;
        file.rewind()?;
        let mut from = BufReader::with_capacity(1 << 20, file);
        let mut word = || -> Result<u64> {
            let mut bytes = [0; 8];
            from.read_exact(&mut bytes)
                .context("a recording that does not end")?;
            Ok(u64::from_le_bytes(bytes))
        };
        let mut events = Vec::new();
        loop {
            let kind = word()?;
            if kind == END {
                return Ok(Recording { events });
            }
            let Some(&kind) = KINDS.get(kind as usize) else {
                bail!("a recording with an event of kind {kind}");
            };
            let (id, offset, len) = (word()?, word()?, word()?);
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
    }
}
