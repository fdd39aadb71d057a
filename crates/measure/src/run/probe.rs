//! How fast a disk fills, from a short try.

use crate::run::prepare::{scramble, write};
use crate::run::space;
use crate::{Interrupt, MeasureError};
use logforce_device::{AlignedBuf, Directory, OpenFile};
use logforce_terminal::progress::Progress;
use std::time::{Duration, Instant};

/// Of the whole time, the part that the try may take.
const PART: u32 = 60;

/// A disk to try, and how to interrupt the try.
pub struct ProbeContext<'a> {
    /// A directory on the disk.
    pub directory: &'a dyn Directory,
    /// The flag that ends everything.
    pub interrupt: &'a Interrupt,
    /// Receives progress.
    pub progress: &'a dyn Progress,
}

/// Bytes per second that this disk takes durably, by a file of no more than `size` bytes that is gone
/// afterwards, in a small part of `time`. `None` if that was too short to tell.
pub fn rate(place: &ProbeContext, size: u64, time: Duration) -> Result<Option<f64>, MeasureError> {
    const NAME: &str = "probe";
    const PIECE: usize = 4 << 20;
    place.progress.doing("trying how fast this disk fills");
    let time = time / PART;
    let limit = size.min(space::SMALLEST);
    let dir = place.directory;
    let error =
        |what: &str| MeasureError::io(format!("{what} {}", dir.path().join(NAME).display()));
    let file = dir.open(NAME, OpenFile::CREATE).map_err(error("making"))?;
    let mut buf = AlignedBuf::zeroed(PIECE, 4096);
    scramble(&mut buf, 0x00ab_cdef);
    let (start, mut done) = (Instant::now(), 0);
    while done < limit && (done == 0 || start.elapsed() < time) {
        place.interrupt.check()?;
        let len = (limit - done).min(PIECE as u64) as usize;
        buf = write(&*file, buf, done, len, true).map_err(error("writing"))?;
        done += len as u64;
    }
    let took = start.elapsed().as_secs_f64();
    drop(file);
    dir.remove(NAME).map_err(error("removing"))?;
    Ok((took > 0.0).then(|| done as f64 / took))
}
