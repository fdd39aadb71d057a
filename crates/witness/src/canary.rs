//! Small unforced files: the file of the control phase, and the canary beside the log.
//!
//! A file is filled and forced once. After that its slots are overwritten in place, again and again. The file
//! must not grow: with each commit of its journal, ext4 forces the data of files that grew. So the log's
//! forces would force the canary, too.

use crate::record::mix;
use crate::{Control, CutError, RunId};
use logforce_device::{AlignedBuf, Barrier, Directory, File, OpenFile, ReadSource, Write};
use std::io;
use std::sync::Arc;

/// Bytes of a slot: a page, and a write unit of most devices.
const SLOT: usize = 4096;
const MAGIC: [u8; 8] = *b"LFCUTSLT";
/// Number of slots of a file.
pub const SLOTS: u64 = 2048;
/// Number of oldest slots that are not checked, because a write in flight may have torn them.
const MARGIN: u64 = 64;

/// Identity of a file.
#[derive(Debug, Clone, Copy)]
pub struct CanarySlots {
    pub run: RunId,
    pub round: u32,
}

/// An open file.
pub struct Writer {
    slots: CanarySlots,
    file: Arc<dyn File>,
    buf: Option<AlignedBuf>,
    alignment: usize,
}

impl CanarySlots {
    fn slot(&self, sequence: u64, into: &mut [u8]) {
        let mut head = Vec::with_capacity(40);
        head.extend(MAGIC);
        head.extend(self.run.0.to_le_bytes());
        head.extend(self.round.to_le_bytes());
        head.extend(sequence.to_le_bytes());
        into[..head.len()].copy_from_slice(&head);
        let mut x = mix(sequence ^ (self.run.0 as u64));
        for word in into[head.len()..].chunks_mut(8) {
            x = mix(x);
            word.copy_from_slice(&x.to_le_bytes()[..word.len()]);
        }
    }

    /// Creates the file `name` anew, without records.
    pub fn create(
        self,
        dir: &dyn Directory,
        name: &str,
        control: Control,
        unit: u32,
    ) -> Result<Writer, CutError> {
        let path = dir.path().join(name);
        let named = |doing: &str| CutError::io(format!("{doing} {}", path.display()));
        match dir.remove(name) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(named("removing")(e)),
            _ => {}
        }
        let file = dir.open(name, OpenFile::CREATE).map_err(named("making"))?;
        let alignment = (unit as usize).max(SLOT);
        let len = 1 << 20;
        let mut buf = AlignedBuf::zeroed(len, alignment);
        for n in 0..(SLOTS * SLOT as u64) / len as u64 {
            buf = submit(&*file, buf, n * len as u64, len).map_err(named("filling"))?;
        }
        file.barrier(Barrier::Full).map_err(named("syncing"))?;
        dir.sync().map_err(named("syncing the directory of"))?;
        let file = match control {
            Control::Buffered => file,
            Control::Direct => {
                let how = OpenFile {
                    direct: true,
                    ..OpenFile::WRITE
                };
                dir.open(name, how)
                    .map_err(named("opening for direct I/O (try `--control buffered`)"))?
            }
        };
        Ok(Writer {
            slots: self,
            file,
            buf: Some(AlignedBuf::zeroed(SLOT, alignment)),
            alignment,
        })
    }

    /// Returns the number of acknowledged records that must be in the file, and the number of those that are
    /// missing.
    pub fn lost(
        self,
        dir: &dyn Directory,
        name: &str,
        acknowledged: u64,
    ) -> Result<(u64, u64), CutError> {
        let first = (acknowledged + MARGIN + 1).saturating_sub(SLOTS).max(1);
        let expected = (acknowledged + 1).saturating_sub(first);
        let path = dir.path().join(name);
        let file = match dir.open(name, OpenFile::READ) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((expected, expected)),
            other => other.map_err(CutError::io(format!("opening {}", path.display())))?,
        };
        let (mut found, mut wanted) = (vec![0; SLOT], vec![0; SLOT]);
        let mut lost = 0;
        for sequence in first..=acknowledged {
            let offset = sequence % SLOTS * SLOT as u64;
            let read = file.read_at(offset, &mut found, ReadSource::Cache);
            // A sector that cannot be read counts as lost.
            let is_whole = matches!(read, Ok(SLOT));
            let is = |sequence: u64, wanted: &mut [u8]| {
                self.slot(sequence, wanted);
                is_whole && *wanted == found
            };
            // A later record may have been written to the slot and not been acknowledged.
            if !is(sequence, &mut wanted) && !is(sequence + SLOTS, &mut wanted) {
                lost += 1;
            }
        }
        Ok((expected, lost))
    }
}

impl Writer {
    /// Writes the record with the number `sequence`, which counts from 1.
    pub fn write(&mut self, sequence: u64) -> io::Result<()> {
        let mut buf = self
            .buf
            .take()
            .unwrap_or_else(|| AlignedBuf::zeroed(SLOT, self.alignment));
        self.slots.slot(sequence, &mut buf);
        let offset = sequence % SLOTS * SLOT as u64;
        self.buf = Some(submit(&*self.file, buf, offset, SLOT)?);
        Ok(())
    }
}

/// Writes the buffer, waits for the completion, and returns the buffer.
fn submit(file: &dyn File, buf: AlignedBuf, offset: u64, len: usize) -> io::Result<AlignedBuf> {
    let ticket = file.submit(Write {
        offset,
        buf,
        range: 0..len,
        through: false,
    });
    let completion = file.complete(ticket);
    completion.result.map(|()| completion.buf)
}

const _: () = assert!((SLOTS as usize * SLOT).is_multiple_of(1 << 20));

#[cfg(test)]
mod tests {
    use super::*;
    use logforce_testkit::{SimDisk, SimOptions, SimRuntime};
    use std::path::Path;

    const RUN: CanarySlots = CanarySlots {
        run: RunId(77),
        round: 3,
    };

    /// Calls `check` with a file to which the records 1 to `to` were written.
    fn written(to: u64, check: impl FnOnce(&dyn Directory)) {
        let disk = SimDisk::new(SimOptions::default(), 1);
        SimRuntime::run(1, |rt| {
            let dir = disk.system(rt).make_directory(Path::new("/run")).unwrap();
            let mut writer = RUN
                .create(&*dir, "canary", Control::Buffered, 4096)
                .unwrap();
            for sequence in 1..=to {
                writer.write(sequence).unwrap();
            }
            check(&*dir);
        });
    }

    #[test]
    fn what_is_there_is_found_and_what_is_missing_is_lost() {
        for to in [1, 100, SLOTS, 3 * SLOTS + 5] {
            written(to, |dir| {
                let lost = |slots: CanarySlots, acknowledged| {
                    slots.lost(dir, "canary", acknowledged).unwrap().1
                };
                assert_eq!(lost(RUN, to), 0);
                assert_eq!(lost(RUN, to - 1), 0, "one more than acknowledged");
                assert_eq!(lost(RUN, to + 7), 7);
                let other = CanarySlots { round: 4, ..RUN };
                assert_eq!(lost(other, to), RUN.lost(dir, "nosuch", to).unwrap().1);
            });
        }
    }

    #[test]
    fn nothing_acknowledged_is_nothing_lost() {
        written(5, |dir| {
            assert_eq!(RUN.lost(dir, "nosuch", 0).unwrap(), (0, 0));
        });
    }
}
