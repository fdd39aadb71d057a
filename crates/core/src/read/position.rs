use crate::error::Error;
use crate::storage::voids::Voids;
use logforce_format::Lsn;

/// LSN up to which a follower has returned records. Detects that they were voided since.
pub(crate) struct FollowerPosition {
    to: Lsn,
    /// Start of the last returned record.
    last: Lsn,
}

impl FollowerPosition {
    /// Creates the position of a follower that begins at `from`. Its caller has the records below.
    pub(crate) fn below(from: Lsn) -> Self {
        FollowerPosition {
            to: from,
            last: from,
        }
    }

    /// Notes that a record was returned.
    pub(crate) fn note(&mut self, start: Lsn, end: Lsn) {
        self.last = start;
        self.to = end;
    }

    /// Returns the exclusive end of the records that the caller has.
    pub(crate) fn end(&self) -> Lsn {
        self.to
    }

    /// Returns an error, once for each void range, if records below were voided.
    pub(crate) fn voided(&mut self, voids: &Voids) -> Option<Error> {
        let last_byte = Lsn(self.to.0.checked_sub(1)?);
        let (from, to) = voids.covering(last_byte)?;
        // Moves the position back to the start of the range. A second void range may begin further down.
        self.to = from;
        Some(Error::Voided {
            lsn: self.last.max(from),
            from,
            to,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_void_range_is_reported_once_and_again_further_down() {
        let mut voids = Voids::default();
        let mut position = FollowerPosition::below(Lsn(10));
        for start in [30, 40, 50] {
            position.note(Lsn(start), Lsn(start + 10));
        }
        assert!(position.voided(&voids).is_none());
        voids.add(Lsn(40), Lsn(70));
        assert!(position.voided(&voids).is_some());
        assert_eq!(position.end(), Lsn(40));
        assert!(position.voided(&voids).is_none());
        // No record was returned since, but another range is reported.
        voids.add(Lsn(30), Lsn(90));
        let error = position.voided(&voids).and_then(|e| e.lsn());
        assert!(error.is_some());
        assert!(position.voided(&voids).is_none());
        // The range begins below the starting position: the caller has those records, too.
        voids.add(Lsn(20), Lsn(95));
        assert!(position.voided(&voids).is_some());
        assert_eq!(position.end(), Lsn(20));
    }
}
