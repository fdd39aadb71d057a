//! Reading and checking the header of a segment file.

use crate::error::{Error, Result};
use crate::storage::transfer::read;
use logforce_device::{AlignedBuf, Directory, OpenFile, ReadSource};
use logforce_format::{
    FORMAT_VERSION, MAX_WRITE_UNIT, SEGMENT_HEADER_LEN, SegmentHeader, SegmentReject, planted,
};
use std::sync::Arc;

/// Result of reading the header of a segment file.
pub(crate) enum HeaderRead {
    /// The header is valid.
    Whole(SegmentHeader),
    /// The header is not valid.
    Broken {
        /// Reason.
        why: String,
        /// True if its bytes are wrong: another read may return other bytes.
        bytes: bool,
    },
}

impl HeaderRead {
    fn broken(why: String) -> HeaderRead {
        HeaderRead::Broken { why, bytes: false }
    }
}

/// Reads the header of the file `name`. Reads again if it is not valid: otherwise wrong bytes from the drive
/// or the bus would lose the whole segment.
pub(crate) fn read_header(dir: &Arc<dyn Directory>, name: &str) -> Result<HeaderRead> {
    let both = [ReadSource::Medium, ReadSource::Cache];
    let again = planted!("one-look-at-the-medium", &both[..0], else &both[..]);
    let mut sources = again.iter();
    let mut answer = read_header_once(dir, name)?;
    while let HeaderRead::Broken { bytes: true, .. } = answer
        && let Some(&source) = sources.next()
    {
        match try_read_header(dir, name, source) {
            // The filesystem cannot read past the cache.
            Err(e) if e.is_unsupported() => {}
            again => answer = again?,
        }
    }
    Ok(answer)
}

/// Reads a header as [`read_header`] does, but only once, for files whose invalid header loses no data.
pub(crate) fn read_header_once(dir: &Arc<dyn Directory>, name: &str) -> Result<HeaderRead> {
    try_read_header(dir, name, ReadSource::Cache)
}

/// Returns the header of the file `name` as it is on the medium, if it can be read and is valid.
pub(crate) fn read_header_past_cache(
    dir: &Arc<dyn Directory>,
    name: &str,
) -> Result<Option<SegmentHeader>> {
    match try_read_header(dir, name, ReadSource::Medium) {
        Ok(HeaderRead::Whole(header)) => Ok(Some(header)),
        Ok(HeaderRead::Broken { .. }) | Err(Error::NewerFormat { .. }) => Ok(None),
        Err(e) if e.is_unsupported() || e.is_not_found() => Ok(None),
        Err(e) => Err(e),
    }
}

fn try_read_header(dir: &Arc<dyn Directory>, name: &str, source: ReadSource) -> Result<HeaderRead> {
    let path = dir.path().join(name);
    let file = dir
        .open(name, OpenFile::READ)
        .map_err(Error::io("open", &path))?;
    // Past the cache a device reads only whole sectors.
    let unit = MAX_WRITE_UNIT as usize;
    let (mut small, mut aligned);
    let buf: &mut [u8] = match source {
        ReadSource::Cache => {
            small = [0; SEGMENT_HEADER_LEN];
            &mut small
        }
        ReadSource::Medium => {
            aligned = AlignedBuf::zeroed(unit, unit);
            &mut aligned
        }
    };
    let n = match read(&*file, &path, 0, buf, source) {
        Err(e) if planted!("header-error-is-damage") => {
            return Ok(HeaderRead::broken(e.to_string()));
        }
        read => read?,
    };
    let n = match n {
        Ok(n) => n,
        Err(lost) => {
            let found = format!("its header cannot be read: {}", lost.found);
            return Ok(HeaderRead::broken(found));
        }
    };
    match SegmentHeader::decode(&buf[..n.min(SEGMENT_HEADER_LEN)]) {
        Ok(header) => {
            let len = file.len().map_err(Error::io("check the size of", &path))?;
            let is_short = planted!("short-segment-accepted", false, else len < header.len);
            if is_short {
                return Ok(HeaderRead::broken(format!(
                    "it has {len} bytes, its header says {}",
                    header.len
                )));
            }
            Ok(HeaderRead::Whole(header))
        }
        Err(SegmentReject::Version(version)) if version > FORMAT_VERSION => {
            Err(Error::NewerFormat { path, version })
        }
        Err(reject) => Ok(HeaderRead::Broken {
            why: reject.to_string(),
            bytes: true,
        }),
    }
}
