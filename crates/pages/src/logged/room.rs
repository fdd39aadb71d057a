//! Missing blocks of files: found by asking the filesystem, and taken by writing what is there already.

use crate::changes::Image;
use crate::file_read::{ReadResult, read};
use logforce_device::write_out::gather;
use logforce_device::{AlignedBuf, Blocks, File, ReadSource, Write};
use logforce_format::{PAGE_HEADER_LEN, PAGE_HEADER_OFFSETS};
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// Precision in bytes of the search for the end of the blocks.
const GRAIN: u64 = 4096;

/// Returns the end of the bytes of `range` that have blocks without a gap, as far as the filesystem says.
pub(super) fn filled_until(file: &dyn File, range: Range<u64>) -> u64 {
    let has_blocks = |to| file.blocks(range.start..to) != Blocks::Missing;
    if range.is_empty() || has_blocks(range.end) {
        return range.end;
    }
    let (mut filled, mut end) = (range.start, range.end);
    while end - filled > GRAIN {
        let middle = filled + (end - filled) / 2;
        match has_blocks(middle) {
            true => filled = middle,
            false => end = middle,
        }
    }
    filled
}

/// Returns the parts of `range` that lack blocks, in pieces as long as `zeroes`, each with the bytes that it
/// holds. Writing them changes nothing and takes the space.
///
/// Nothing else may write there meanwhile: the bytes read earlier would overwrite its bytes.
pub(super) fn unfilled(
    file: &dyn File,
    range: Range<u64>,
    zeroes: &Image,
) -> io::Result<Vec<(u64, Image)>> {
    let (len, unit) = (file.len()?, zeroes.len() as u64);
    let stored = range.end.min(len.max(range.start));
    let mut pieces = Vec::new();
    if !matches!(
        file.blocks(range.start..stored),
        Blocks::Written | Blocks::Reserved
    ) {
        for at in (range.start..stored).step_by(unit as usize) {
            let end = at + unit;
            let is_hole = || is_hole(file, at..end);
            let is_missing = match file.blocks(at..end.min(len)) {
                Blocks::Written | Blocks::Reserved => end > len,
                Blocks::Missing => true,
                Blocks::Unknown => end > len || is_hole()?,
            };
            if !is_missing {
                continue;
            }
            if is_hole()? {
                pieces.push((at, zeroes.clone()));
                continue;
            }
            let mut bytes = vec![0; zeroes.len()];
            match read(file, at, &mut bytes, ReadSource::Cache)? {
                ReadResult::Bytes(_) => pieces.push((at, Arc::from(bytes))),
                // The bytes are there, and stay as damaged as they are.
                ReadResult::Lost(_) => {}
            }
        }
    }
    let behind = match stored > range.start {
        true => range.start + (stored - range.start).next_multiple_of(unit),
        false => range.start,
    };
    let behind = (behind..range.end).step_by(unit as usize);
    pieces.extend(behind.map(|at| (at, zeroes.clone())));
    Ok(pieces)
}

/// Returns true if the filesystem knows that nothing was written in `range`.
pub(super) fn is_hole(file: &dyn File, range: Range<u64>) -> io::Result<bool> {
    Ok(file
        .next_data(range.start)?
        .is_none_or(|data| data >= range.end))
}

/// Makes the file take blocks for `range`, as found by [`unfilled`], in the caller's thread.
pub(super) fn fill(file: &dyn File, range: Range<u64>, zeroes: &Image) -> io::Result<()> {
    for run in gather(unfilled(file, range, zeroes)?) {
        let bytes = run.pieces.concat();
        let mut buf = AlignedBuf::zeroed(bytes.len(), zeroes.len());
        buf.copy_from_slice(&bytes);
        let ticket = file.submit(Write {
            offset: run.offset,
            range: 0..bytes.len(),
            buf,
            through: false,
        });
        file.complete(ticket).result?;
    }
    Ok(())
}

/// Makes the file take blocks for both slots of its header, which every checkpoint writes.
pub(super) fn fill_header(file: &dyn File) -> io::Result<()> {
    let zeroes: Image = vec![0; PAGE_HEADER_LEN].into();
    let len = PAGE_HEADER_LEN as u64;
    PAGE_HEADER_OFFSETS
        .into_iter()
        .try_for_each(|at| fill(file, at..at + len, &zeroes))
}
