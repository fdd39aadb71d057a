//! Input of an append: a record, or a batch of records that are appended atomically.

use crate::types::{RecordRange, RecordSlices};
use logforce_format::Lsn;
use logforce_format::frame::frame_len;

/// Records to append atomically: recovery returns all of them or none. Every call that takes a record takes
/// a batch as well.
///
/// ```
/// # fn transfer(log: &logforce_core::Log) -> logforce_core::Result<()> {
/// # use logforce_core::Batch;
/// let mut batch = Batch::new();
/// batch.push(b"debit A 5.00");
/// batch.push_parts(&[b"credit B ", b"5.00"]); // one record in two slices
/// let done = log.commit(&mut batch)?;
/// assert_eq!(batch.ranges()[1].end, done.end);
/// # Ok(())
/// # }
/// ```
///
/// A batch borrows the bytes. It can be appended again, after an error or to another log.
#[derive(Debug, Clone, Default)]
pub struct Batch<'a> {
    parts: Vec<&'a [u8]>,
    /// End of each record's parts in `parts`.
    ends: Vec<usize>,
    /// Ranges of the records in the log, once they are appended.
    ranges: Vec<RecordRange>,
}

impl<'a> Batch<'a> {
    /// Returns a batch without records.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a batch of these records.
    pub fn of(records: &[&'a [u8]]) -> Self {
        records.iter().copied().collect()
    }

    /// Adds a record.
    pub fn push<R: AsRef<[u8]> + ?Sized>(&mut self, record: &'a R) -> &mut Self {
        self.push_parts(&[record.as_ref()])
    }

    /// Adds one record that consists of several slices.
    pub fn push_parts(&mut self, parts: &[&'a [u8]]) -> &mut Self {
        self.parts.extend(parts);
        self.ends.push(self.parts.len());
        self
    }

    /// Returns the number of records.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns true if the batch has no records. Appending such a batch appends nothing. Committing it makes
    /// all records durable that were appended before.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// Returns the sum of the lengths of its records, in bytes.
    pub fn bytes(&self) -> usize {
        self.parts.iter().map(|p| p.len()).sum()
    }

    /// Returns the size to [reserve](crate::Log::reserve) for the batch: its bytes and the log's overhead.
    pub fn reserved_bytes(&self) -> usize {
        let mut from = 0;
        let len = |end: &usize| {
            let parts = &self.parts[std::mem::replace(&mut from, *end)..*end];
            frame_len(parts.iter().map(|p| p.len()).sum())
        };
        self.ends.iter().map(len).sum()
    }

    /// Returns the ranges of its records in the log, in order, once a call has appended `&mut batch`. Empty
    /// before that, and after a call that has failed to append it.
    pub fn ranges(&self) -> &[RecordRange] {
        &self.ranges
    }

    /// Removes all records, and keeps the memory.
    pub fn clear(&mut self) {
        self.parts.clear();
        self.ends.clear();
        self.ranges.clear();
    }
}

impl<'a, R: AsRef<[u8]> + ?Sized> Extend<&'a R> for Batch<'a> {
    fn extend<I: IntoIterator<Item = &'a R>>(&mut self, records: I) {
        for record in records {
            self.push(record);
        }
    }
}

impl<'a, R: AsRef<[u8]> + ?Sized> FromIterator<&'a R> for Batch<'a> {
    fn from_iter<I: IntoIterator<Item = &'a R>>(records: I) -> Self {
        let mut batch = Batch::new();
        batch.extend(records);
        batch
    }
}

/// A value that can be appended: one record, in any type that converts to bytes (`&[u8]`, `Vec<u8>`,
/// `&str`, …), or a [`Batch`] of several.
pub trait Append: sealed::Sealed {
    /// Calls `f` with the records, and with a function to call with each one's start and end.
    #[doc(hidden)]
    fn append_by<T>(
        &mut self,
        f: impl FnOnce(RecordSlices<'_>, &mut dyn FnMut(Lsn, Lsn)) -> T,
    ) -> T;
}

mod sealed {
    pub trait Sealed {}
}

impl<T: AsRef<[u8]>> sealed::Sealed for T {}
impl sealed::Sealed for Batch<'_> {}
impl sealed::Sealed for &mut Batch<'_> {}

impl<T: AsRef<[u8]>> Append for T {
    fn append_by<A>(
        &mut self,
        f: impl FnOnce(RecordSlices<'_>, &mut dyn FnMut(Lsn, Lsn)) -> A,
    ) -> A {
        f(&[&[(*self).as_ref()]], &mut |_, _| ())
    }
}

impl Append for Batch<'_> {
    fn append_by<T>(
        &mut self,
        f: impl FnOnce(RecordSlices<'_>, &mut dyn FnMut(Lsn, Lsn)) -> T,
    ) -> T {
        let mut from = 0;
        let slices = |end: &usize| &self.parts[std::mem::replace(&mut from, *end)..*end];
        let records: Vec<&[&[u8]]> = self.ends.iter().map(slices).collect();
        let ranges = &mut self.ranges;
        ranges.clear();
        f(&records, &mut |start, end| {
            ranges.push(RecordRange { start, end });
        })
    }
}

impl Append for &mut Batch<'_> {
    fn append_by<T>(
        &mut self,
        f: impl FnOnce(RecordSlices<'_>, &mut dyn FnMut(Lsn, Lsn)) -> T,
    ) -> T {
        (**self).append_by(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_batch_gives_its_records_and_takes_their_places() {
        let texts = ["one".to_owned(), "two".to_owned()];
        let mut batch: Batch = texts.iter().collect();
        batch.push_parts(&[b"th", b"", b"ree"]).push_parts(&[]);
        assert_eq!((batch.len(), batch.bytes()), (4, 11));
        for round in 0..2 {
            batch.append_by(|records, placed| {
                let joined: Vec<Vec<u8>> = records.iter().map(|parts| parts.concat()).collect();
                assert_eq!(joined, [&b"one"[..], b"two", b"three", b""]);
                placed(Lsn(round), Lsn(9));
            });
            let range = RecordRange {
                start: Lsn(round),
                end: Lsn(9),
            };
            assert_eq!(batch.ranges(), [range]);
        }
        batch.clear();
        assert!(batch.is_empty() && batch.ranges().is_empty());
        batch.append_by(|records, _| assert!(records.is_empty()));
    }
}
