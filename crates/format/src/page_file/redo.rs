//! Redo record: the changes of one commit, as one record of the log.
//!
//! It has no checksums, because the log's batches have them.

use crate::bytes::{get_u32, get_u64};
use std::ops::Range;

/// Length of the record's header, in bytes.
pub const REDO_HEADER_LEN: usize = 24;
/// Length of the header of a page's change, in bytes.
const CHANGE_HEADER_LEN: usize = 16;
/// Length of the header of a range, in bytes.
const RANGE_HEADER_LEN: usize = 8;

/// Largest number of pages of a file.
pub const MAX_PAGES: u64 = 1 << 48;

const VERSION: u32 = 1;
const IMAGE: u32 = 1;
const RANGES: u32 = 2;
const DISCARD: u32 = 3;

/// Change of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PageChange<'a> {
    /// All bytes of the page.
    Image(&'a [u8]),
    /// Bytes from an offset on, ascending and not adjacent or overlapping; the other bytes stay.
    Ranges(Vec<(u32, &'a [u8])>),
    /// The page reads as zeroes from now on.
    Discard,
}

/// Change of the number of pages by a commit. In addition the file grows to include each page that the commit
/// writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resize {
    /// First page of those that are dropped before any page is written; [`u64::MAX`] for none.
    pub drop_from: u64,
    /// Smallest number of pages of the file.
    pub at_least: u64,
}

impl Default for Resize {
    fn default() -> Self {
        Resize::NONE
    }
}

impl Resize {
    /// No change.
    pub const NONE: Resize = Resize {
        drop_from: u64::MAX,
        at_least: 0,
    };

    /// Returns the number of pages after the commit, if there were `before` and the commit writes pages up to
    /// `last_written`.
    pub fn page_count(&self, before: u64, last_written: Option<u64>) -> u64 {
        let kept = before.min(self.drop_from);
        let written = last_written.map_or(0, |page| page.saturating_add(1));
        kept.max(self.at_least).max(written)
    }
}

/// Redo record, decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Redo<'a> {
    /// Change of the number of pages.
    pub resize: Resize,
    /// Changed pages, ascending.
    pub pages: Vec<(u64, PageChange<'a>)>,
}

/// Reason why a record of the log is not a redo record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum RedoReject {
    /// The record ends too early, or has bytes behind its end.
    #[error("a redo record of another length")]
    Length,
    /// The version or a kind of change is unknown to this program.
    #[error("a redo record of an unknown version or kind")]
    Unknown,
    /// Reserved bytes are not zero.
    #[error("reserved bytes in use")]
    Reserved,
    /// Pages or ranges are not in ascending order, or not within a page.
    #[error("pages or ranges out of order or out of bounds")]
    Order,
}

crate::names::names!(RedoReject: Length, Unknown, Reserved, Order);

/// Writer of a redo record. Pages come in ascending order. Whole images are not copied, because a commit of
/// many pages would need a large allocation each time.
#[derive(Debug)]
pub struct RedoWriter<'a> {
    /// All bytes except the images.
    bytes: Vec<u8>,
    /// Images, each with the number of `bytes` before it.
    images: Vec<(usize, &'a [u8])>,
    count: u32,
}

/// Redo record, in pieces.
#[derive(Debug)]
pub struct RedoRecord<'a> {
    bytes: Vec<u8>,
    images: Vec<(usize, &'a [u8])>,
}

impl RedoRecord<'_> {
    /// Returns the pieces, in order.
    pub fn parts(&self) -> Vec<&[u8]> {
        let mut parts = Vec::with_capacity(2 * self.images.len() + 1);
        let mut done = 0;
        for (at, image) in &self.images {
            parts.push(&self.bytes[done..*at]);
            parts.push(*image);
            done = *at;
        }
        parts.push(&self.bytes[done..]);
        parts
    }

    /// Returns the number of pages that are whole images.
    pub fn image_count(&self) -> usize {
        self.images.len()
    }

    /// Returns the length of the record in bytes.
    pub fn byte_len(&self) -> usize {
        self.bytes.len()
            + self
                .images
                .iter()
                .map(|(_, image)| image.len())
                .sum::<usize>()
    }
}

impl<'a> RedoWriter<'a> {
    /// Makes an empty record, with space for `capacity` bytes beside the images.
    pub fn new(resize: Resize, capacity: usize) -> Self {
        let mut bytes = Vec::with_capacity(REDO_HEADER_LEN + capacity);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&[0; 4]);
        bytes.extend_from_slice(&resize.drop_from.to_le_bytes());
        bytes.extend_from_slice(&resize.at_least.to_le_bytes());
        RedoWriter {
            bytes,
            images: Vec::new(),
            count: 0,
        }
    }

    fn change(&mut self, page: u64, kind: u32, len: u32) {
        self.count += 1;
        self.bytes.extend_from_slice(&page.to_le_bytes());
        self.bytes.extend_from_slice(&kind.to_le_bytes());
        self.bytes.extend_from_slice(&len.to_le_bytes());
    }

    /// Adds a page's whole contents.
    pub fn image(&mut self, page: u64, bytes: &'a [u8]) {
        self.change(page, IMAGE, bytes.len() as u32);
        self.images.push((self.bytes.len(), bytes));
    }

    /// Adds the changed parts of a page's new contents `bytes`.
    pub fn ranges(&mut self, page: u64, bytes: &[u8], ranges: &[Range<usize>]) {
        self.change(page, RANGES, ranges.len() as u32);
        for range in ranges {
            let (offset, len) = (range.start as u32, range.len() as u32);
            self.bytes.extend_from_slice(&offset.to_le_bytes());
            self.bytes.extend_from_slice(&len.to_le_bytes());
            self.bytes.extend_from_slice(&bytes[range.clone()]);
        }
    }

    /// Adds a page that is dropped.
    pub fn discard(&mut self, page: u64) {
        self.change(page, DISCARD, 0);
    }

    /// Returns the finished record.
    pub fn finish(mut self) -> RedoRecord<'a> {
        self.bytes[4..8].copy_from_slice(&self.count.to_le_bytes());
        RedoRecord {
            bytes: self.bytes,
            images: self.images,
        }
    }

    /// Returns the length of the ranges in a record, in bytes, including headers.
    pub fn ranges_len(ranges: &[Range<usize>]) -> usize {
        let bytes: usize = ranges.iter().map(|r| r.len() + RANGE_HEADER_LEN).sum();
        CHANGE_HEADER_LEN + bytes
    }
}

/// Rest of a record that is still to be read.
struct Rest<'a>(&'a [u8]);

impl<'a> Rest<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], RedoReject> {
        let (taken, rest) = self.0.split_at_checked(len).ok_or(RedoReject::Length)?;
        self.0 = rest;
        Ok(taken)
    }
}

impl<'a> Redo<'a> {
    /// Reads a record of a file with pages of `page_size` bytes.
    pub fn decode(bytes: &'a [u8], page_size: u32) -> Result<Redo<'a>, RedoReject> {
        let mut rest = Rest(bytes);
        let header = rest.take(REDO_HEADER_LEN)?;
        if get_u32(header, 0) != VERSION {
            return Err(RedoReject::Unknown);
        }
        let count = get_u32(header, 4) as usize;
        let mut redo = Redo {
            resize: Resize {
                drop_from: get_u64(header, 8),
                at_least: get_u64(header, 16),
            },
            // Reading the pages checks the count, so it reserves no memory.
            pages: Vec::new(),
        };
        for _ in 0..count {
            let header = rest.take(CHANGE_HEADER_LEN)?;
            let page = get_u64(header, 0);
            let len = get_u32(header, 12);
            let change = match get_u32(header, 8) {
                IMAGE if len == page_size => PageChange::Image(rest.take(len as usize)?),
                IMAGE => return Err(RedoReject::Order),
                RANGES => PageChange::Ranges(decode_ranges(&mut rest, len, page_size)?),
                DISCARD if len == 0 => PageChange::Discard,
                DISCARD => return Err(RedoReject::Reserved),
                _ => return Err(RedoReject::Unknown),
            };
            let is_ascending = redo.pages.last().is_none_or(|(before, _)| *before < page);
            if !is_ascending || page >= MAX_PAGES {
                return Err(RedoReject::Order);
            }
            redo.pages.push((page, change));
        }
        match rest.0 {
            [] => Ok(redo),
            _ => Err(RedoReject::Length),
        }
    }
}

fn decode_ranges<'a>(
    rest: &mut Rest<'a>,
    count: u32,
    page_size: u32,
) -> Result<Vec<(u32, &'a [u8])>, RedoReject> {
    let mut ranges = Vec::new();
    let mut end = 0;
    for _ in 0..count {
        let header = rest.take(RANGE_HEADER_LEN)?;
        let (offset, len) = (get_u32(header, 0), get_u32(header, 4));
        let next = offset.checked_add(len).filter(|e| *e <= page_size);
        match next {
            Some(next) if offset >= end && len > 0 => end = next,
            _ => return Err(RedoReject::Order),
        }
        ranges.push((offset, rest.take(len as usize)?));
    }
    Ok(ranges)
}
