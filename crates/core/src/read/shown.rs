use crate::error::Error;
use crate::storage::voids::Voids;
use logforce_format::Lsn;

/// What a follower's user has of the log: everything that was not taken back below some position.
pub(crate) struct Shown {
    to: Lsn,
    /// Start of the last record.
    last: Lsn,
}

impl Shown {
    /// The user has what lies below `from`.
    pub(crate) fn below(from: Lsn) -> Self {
        Shown {
            to: from,
            last: from,
        }
    }

    /// A record was shown.
    pub(crate) fn note(&mut self, start: Lsn, end: Lsn) {
        self.last = start;
        self.to = end;
    }

    /// Exclusive end of what the user has.
    pub(crate) fn end(&self) -> Lsn {
        self.to
    }

    /// Says, once, that something of it was taken back.
    pub(crate) fn taken_back(&mut self, voids: &Voids) -> Option<Error> {
        let last_byte = Lsn(self.to.0.checked_sub(1)?);
        let (from, to) = voids.covering(last_byte)?;
        // What is left ends there; a second range may begin further down.
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
    fn what_is_taken_back_is_said_once_and_further_down_again() {
        let mut voids = Voids::default();
        let mut shown = Shown::below(Lsn(10));
        for start in [30, 40, 50] {
            shown.note(Lsn(start), Lsn(start + 10));
        }
        assert!(shown.taken_back(&voids).is_none());
        voids.add(Lsn(40), Lsn(70));
        assert!(shown.taken_back(&voids).is_some());
        assert_eq!(shown.end(), Lsn(40));
        assert!(shown.taken_back(&voids).is_none());
        // Nothing was shown since, and yet there is more to say.
        voids.add(Lsn(30), Lsn(90));
        let said = shown.taken_back(&voids).and_then(|e| e.lsn());
        assert!(said.is_some());
        assert!(shown.taken_back(&voids).is_none());
        // Below where it began: its user has that from somewhere.
        voids.add(Lsn(20), Lsn(95));
        assert!(shown.taken_back(&voids).is_some());
        assert_eq!(shown.end(), Lsn(20));
    }
}
