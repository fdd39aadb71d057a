//! Versions of a page that are not, or not only, in the data file. Only memory is used here.

use super::readers::Asked;
use crate::changes::Image;
use logforce_format::Lsn;

/// Number of byte ranges after which a page's next change is logged as a whole image again. It is also the
/// maximum number of reads that read a version back from the log.
pub(super) const LONGEST_REDO: usize = 16;

/// Location of a version's bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Bytes {
    /// In memory.
    Memory(Image),
    /// In the log: a record with the whole image and later ones with ranges, by their starts.
    Log(Vec<Lsn>),
    /// In the file of older versions, in this slot.
    InVersionsFile(u64),
    /// The page was dropped.
    Zero,
    /// Nowhere: it was damaged before it was overwritten.
    Lost,
}

/// Version that a commit left of a page.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PageVersion {
    /// End of the commit's record, which serves as the number of the version.
    pub(super) end: Lsn,
    pub(super) bytes: Bytes,
    /// Records from which the version can be rebuilt. Empty for a dropped page, and for a version that was
    /// read back from the data file.
    pub(super) redo: Vec<Lsn>,
}

/// Versions of one page.
#[derive(Debug, Default)]
pub(super) struct VersionChain {
    /// Versions in ascending order. The last one was committed last.
    pub(super) versions: Vec<PageVersion>,
    /// Version that the data file holds; [`Lsn::ORIGIN`] if it is older than any reader.
    pub(super) base: Lsn,
    /// True while a commit that changes the page is being appended.
    pub(super) reserved: bool,
    /// Generation in which the page was changed last.
    pub(super) generation: u64,
    /// Value of `State::applies` when the page was last about to be written to the data file.
    pub(super) applied_at: u64,
}

impl VersionChain {
    /// Returns the version that the newest commit left.
    pub(super) fn newest(&self) -> Lsn {
        let last = self.versions.last().map_or(Lsn::ORIGIN, |v| v.end);
        last.max(self.base)
    }

    /// Returns the version that the newest commit left, if the data file does not hold it.
    pub(super) fn last(&self) -> Option<&PageVersion> {
        self.versions.last().filter(|v| v.end > self.base)
    }

    /// Returns the version that a reader at `at` sees, if it is not the data file's.
    pub(super) fn visible_at(&self, at: Lsn) -> Option<&PageVersion> {
        let version = self.versions.iter().rfind(|v| v.end <= at)?;
        let is_older = version.end < self.base && self.base <= at;
        (!is_older).then_some(version)
    }

    /// Returns the state from which on readers no longer see the version at this index; `None` for the
    /// newest.
    pub(super) fn seen_until(&self, index: usize) -> Option<Lsn> {
        let from = self.versions.get(index)?.end;
        let next = self.versions.get(index + 1).map(|v| v.end);
        let base = Some(self.base).filter(|base| *base > from);
        next.into_iter().chain(base).min()
    }

    /// Forgets the versions that can no longer be read. `durable` is the oldest state that a new reader may
    /// get. Returns what is free now.
    pub(super) fn prune(&mut self, readers: &Asked<'_>, durable: Lsn) -> Pruned {
        let mut pruned = Pruned::default();
        for i in (0..self.versions.len()).rev() {
            let Some(until) = self.seen_until(i) else {
                continue;
            };
            // A new reader of the durable state sees the version until the next one is durable.
            if until > durable || readers.any_in(self.versions[i].end, until) {
                continue;
            }
            pruned.add(&self.versions.remove(i).bytes);
        }
        pruned
    }

    /// Keeps the contents that the data file held as `bytes`, because the file is about to be overwritten. If
    /// a commit has since dropped this page with all above it, `dropped` is the end of that commit.
    pub(super) fn keep_base(&mut self, bytes: Bytes, dropped: Option<Lsn>) {
        let at = self.versions.partition_point(|v| v.end <= self.base);
        let kept = PageVersion {
            end: self.base,
            bytes,
            redo: Vec::new(),
        };
        self.versions.insert(at, kept);
        let next = self.versions.get(at + 1).map(|v| v.end);
        if let Some(end) = dropped.filter(|end| next.is_none_or(|next| *end < next)) {
            let zero = PageVersion {
                end,
                bytes: Bytes::Zero,
                redo: Vec::new(),
            };
            self.versions.insert(at + 1, zero);
        }
    }

    /// Returns true if a reader needs the contents in the data file, because the next version is too new for
    /// it.
    pub(super) fn base_is_read(&self, readers: &Asked<'_>) -> bool {
        // It is kept elsewhere already: an earlier attempt to apply the page was given up.
        if self.versions.iter().any(|v| v.end == self.base) {
            return false;
        }
        let next = self.versions.iter().find(|v| v.end > self.base);
        next.is_some_and(|next| readers.any_in(self.base, next.end))
    }
}

/// Memory and slots of forgotten versions.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Pruned {
    pub(super) images: usize,
    pub(super) slots: Vec<u64>,
}

impl Pruned {
    pub(super) fn add(&mut self, bytes: &Bytes) {
        match bytes {
            Bytes::Memory(_) => self.images += 1,
            Bytes::InVersionsFile(slot) => self.slots.push(*slot),
            Bytes::Log(_) | Bytes::Zero | Bytes::Lost => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::readers::tests::table;
    use super::*;

    fn version(end: u64) -> PageVersion {
        PageVersion {
            end: Lsn(end),
            bytes: Bytes::Memory(vec![0; 1].into()),
            redo: vec![Lsn(end - 1)],
        }
    }

    fn chain(ends: &[u64]) -> VersionChain {
        VersionChain {
            versions: ends.iter().map(|e| version(*e)).collect(),
            ..VersionChain::default()
        }
    }

    fn left(ends: &[u64], readers: &[u64], durable: u64) -> Vec<u64> {
        let table = table(readers);
        let mut chain = chain(ends);
        let pruned = chain.prune(&table.asked(), Lsn(durable));
        assert_eq!(pruned.images, ends.len() - chain.versions.len());
        chain.versions.iter().map(|v| v.end.0).collect()
    }

    #[test]
    fn versions_stay_while_somebody_may_read_them() {
        assert_eq!(left(&[10, 20, 30], &[], 30), [30]);
        assert_eq!(left(&[10, 20, 30], &[], 29), [20, 30]);
        assert_eq!(left(&[10, 20, 30], &[], 0), [10, 20, 30]);
        assert_eq!(left(&[10, 20, 30], &[10], 40), [10, 30]);
        assert_eq!(left(&[10, 20, 30], &[29], 40), [20, 30]);
        assert_eq!(left(&[10, 20, 30], &[9, 30], 40), [30]);
    }

    #[test]
    fn a_reader_sees_the_newest_version_that_is_not_newer_than_its_state() {
        let chain = chain(&[10, 20]);
        let at = |at| chain.visible_at(Lsn(at)).map(|v| v.end.0);
        assert_eq!(
            (at(9), at(10), at(19), at(25)),
            (None, Some(10), Some(10), Some(20))
        );
        assert!(chain.base_is_read(&table(&[9, 12]).asked()));
        assert!(!chain.base_is_read(&table(&[10, 12]).asked()));
    }
}
