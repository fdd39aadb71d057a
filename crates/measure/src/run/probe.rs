//! Short trial that measures how fast a disk can be filled.

use crate::run::generator::Generator;
use crate::run::prepare::write;
use crate::run::space;
use crate::{Interrupt, MeasureError};
use logforce_device::{AlignedBuf, Directory, OpenFile};
use logforce_terminal::progress::Progress;
use std::time::{Duration, Instant};

/// Divisor of the whole time: the trial may take 1/60 of it.
const PART: u32 = 60;

/// The disk to try, and the means to interrupt the trial.
pub struct ProbeContext<'a> {
    /// A directory on the disk.
    pub directory: &'a dyn Directory,
    /// The flag that ends everything.
    pub interrupt: &'a Interrupt,
    /// Receiver of progress.
    pub progress: &'a dyn Progress,
}

/// Measures how many bytes per second this disk writes durably. Writes a file of at most `size` bytes
/// in a small part of `time` and removes it. Returns `None` if the trial was too short to measure.
pub fn rate(place: &ProbeContext, size: u64, time: Duration) -> Result<Option<f64>, MeasureError> {
    const NAME: &str = "probe";
    const PIECE: usize = 4 << 20;
    place
        .progress
        .doing("measuring how fast this disk can be filled");
    let time = time / PART;
    let limit = size.min(space::SMALLEST);
    let dir = place.directory;
    let error =
        |what: &str| MeasureError::io(format!("{what} {}", dir.path().join(NAME).display()));
    let file = dir.open(NAME, OpenFile::CREATE).map_err(error("making"))?;
    let mut buf = AlignedBuf::zeroed(PIECE, 4096);
    let mut generator = Generator::fresh();
    let (start, mut done) = (Instant::now(), 0);
    while done < limit && (done == 0 || start.elapsed() < time) {
        place.interrupt.check()?;
        let len = (limit - done).min(PIECE as u64) as usize;
        generator.fill(&mut buf);
        buf = write(&*file, buf, done, len, true).map_err(error("writing"))?;
        done += len as u64;
    }
    let took = start.elapsed().as_secs_f64();
    drop(file);
    dir.remove(NAME).map_err(error("removing"))?;
    Ok((took > 0.0).then(|| done as f64 / took))
}
