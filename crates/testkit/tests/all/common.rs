//! Functions that several of these tests use.

use logforce_device::{AlignedBuf, File, OpenFile, ReadSource, Write};
use std::io;

pub const UNIT: usize = 4096;
pub const DIRECT: OpenFile = OpenFile {
    direct: true,
    ..OpenFile::WRITE
};

/// Writes `units` units, and waits for the completion.
pub fn write(file: &dyn File, at: usize, units: usize, fill: u8, through: bool) -> io::Result<()> {
    let mut buf = AlignedBuf::zeroed(units * UNIT, UNIT);
    buf.fill(fill);
    let range = 0..buf.len();
    let ticket = file.submit(Write {
        offset: (at * UNIT) as u64,
        buf,
        range,
        through,
    });
    file.complete(ticket).result
}

/// Reads the first byte of a unit.
pub fn read(file: &dyn File, at: usize, source: ReadSource) -> io::Result<u8> {
    let mut buf = AlignedBuf::zeroed(UNIT, UNIT);
    file.read_at((at * UNIT) as u64, &mut buf, source)?;
    Ok(buf[0])
}
