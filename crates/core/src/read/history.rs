//! Positions of followers. A position identifies the history of the log to which it belongs.
//!
//! An LSN alone does not identify a history. A restored backup, or a second copy of the directory, may
//! have other records at the same LSNs. Each opening draws a random nonce, and writes each LSN once. So
//! the epoch of the batch below a position distinguishes two histories, and the epochs before it tell
//! where they diverged.

use crate::error::{Error, Result};
use crate::storage::voids::Voids;
use logforce_format::{BatchHeader, Epoch, LogId, Lsn, planted};
use std::fmt::{self, Display};
use std::str::FromStr;
use std::sync::Arc;

/// Maximum number of steps. If there are more, the oldest are dropped.
const MAX_STEPS: usize = 16;

/// A batch at which an opening began, or that voided a range.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Step {
    /// Epoch of the batches from here on.
    pub(super) epoch: Epoch,
    /// LSN of the batch. The first step may lie within its epoch instead of at the beginning.
    pub(super) at: Lsn,
    /// Start of the range that the batch voided; `at` if it voided nothing. In a history without this
    /// batch those records are part of the log.
    pub(super) back_to: Lsn,
}

/// A position in one history of one log. It consists of the LSN up to which a follower has returned the
/// records, the log's identity, and the latest openings that have written the log.
///
/// Store the position together with the data that was applied, and follow from there after a restart.
/// [`ReadOnly::follow`](crate::ReadOnly::follow) and [`Log::follow`](crate::Log::follow) continue from it.
/// They return [`Error::Diverged`] if the log now contains another history, for example after a backup
/// was restored. The text form, from [`Display`] and [`FromStr`], is stable: `docs/format.md` describes
/// it.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Position {
    history: History,
    lsn: Lsn,
}

/// The steps of a log's history that a follower has seen, oldest first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct History {
    pub(super) log_id: LogId,
    steps: Arc<[Step]>,
}

impl History {
    /// Creates a history of which nothing is known yet.
    pub(super) fn unknown(log_id: LogId) -> History {
        let steps = Arc::default();
        History { log_id, steps }
    }

    /// Creates the history of a follower that begins at `from`. The byte before `from` lies in a batch of
    /// `epoch`.
    pub(super) fn beginning(log_id: LogId, epoch: Epoch, from: Lsn) -> History {
        let mut history = History::unknown(log_id);
        if epoch != Epoch::default() && from > Lsn::ORIGIN {
            let at = Lsn(from.0 - 1);
            history.note(epoch, at, at);
        }
        history
    }

    /// Returns the epoch of the opening that wrote the last batch; `None` if that is not known.
    pub(super) fn epoch(&self) -> Option<Epoch> {
        self.steps.last().map(|step| step.epoch)
    }

    /// Adds the next batch. The batch before it ends at `below`. If the reader skipped a part of a void
    /// range, `voids` provides the whole range.
    pub(super) fn note_batch(&mut self, header: &BatchHeader, below: Lsn, voids: &Voids) {
        let mut from = header.lsn;
        if below > Lsn::ORIGIN && self.epoch() != Some(header.epoch) {
            // A segment's header area may lie in between. Another history, written on a device with a smaller
            // write unit, may have records there. Otherwise a replica would lack them.
            from = from.min(below);
        }
        if header.voids() {
            let below = voids.covering(Lsn(header.lsn.0.saturating_sub(1)));
            from = below.map_or(header.void_from, |(from, _)| from.min(header.void_from));
        }
        self.note(header.epoch, header.lsn, from);
    }

    /// Adds the next batch, of `epoch` at `at`, which voids everything from `void_from` on.
    fn note(&mut self, epoch: Epoch, at: Lsn, void_from: Lsn) {
        let mut back_to = void_from.min(at);
        let last = self.steps.last();
        if back_to == at && last.is_some_and(|last| last.epoch == epoch && last.at < at) {
            return;
        }
        let mut steps = self.steps.to_vec();
        // Voided steps are no longer part of this history.
        while let Some(last) = steps.pop_if(|last| last.at >= back_to) {
            back_to = back_to.min(last.back_to);
        }
        steps.push(Step { epoch, at, back_to });
        if steps.len() > MAX_STEPS {
            // Drops a step at which no epoch begins first. The next step takes over the start of its void
            // range.
            let inner = steps.windows(3).position(|s| s[0].epoch == s[1].epoch);
            let gone = inner.map_or(0, |n| n + 1);
            let Step { at, back_to, .. } = steps.remove(gone);
            if let Some(next) = steps.get_mut(gone).filter(|_| back_to < at) {
                next.back_to = next.back_to.min(back_to);
            }
        }
        self.steps = steps.into();
    }

    /// Returns the position at `lsn`.
    pub(super) fn at(&self, lsn: Lsn) -> Position {
        let known = self.steps.partition_point(|step| step.at < lsn);
        let steps = match known == self.steps.len() {
            true => self.steps.clone(),
            false => self.steps.iter().take(known).copied().collect(),
        };
        Position {
            history: History {
                log_id: self.log_id,
                steps,
            },
            lsn,
        }
    }
}

impl Position {
    /// Returns the LSN. Every record below it was returned.
    pub fn lsn(&self) -> Lsn {
        self.lsn
    }

    /// Returns the identity of the log.
    pub fn log_id(&self) -> LogId {
        self.history.log_id
    }

    /// Returns the epoch of the opening that wrote the batch below; `None` if that is not known, and at
    /// the beginning of a log.
    pub fn epoch(&self) -> Option<Epoch> {
        self.history.epoch()
    }

    /// Returns a lower position in the same history. Use it after [`Error::Voided`] and
    /// [`Error::Diverged`], to go back to the position up to which the records are still valid.
    ///
    /// The result lies below `lsn` if going back undoes a truncation that voided records below `lsn`:
    /// those records may exist again. If `lsn` is higher than the position, the position stays the same.
    pub fn back_to(&self, lsn: Lsn) -> Position {
        let lowest = planted!("back-to-without-voids", lsn, else self.below_voided(lsn));
        self.history.at(lowest.min(self.lsn))
    }

    pub(super) fn history(&self) -> &History {
        &self.history
    }

    pub(super) fn steps(&self) -> &[Step] {
        &self.history.steps
    }

    /// Returns the start of the records that the steps at or above `lsn` have voided; `lsn` if they have
    /// voided none below it. Another history may contain those records.
    fn below_voided(&self, lsn: Lsn) -> Lsn {
        let above = self.steps().iter().filter(|step| step.at >= lsn);
        above.map(|step| step.back_to).fold(lsn, Lsn::min)
    }

    /// Returns the end of the last epoch that this history has in common with another one; `None` if they
    /// have no epoch in common. If the epoch ends at different LSNs in the two, returns the lower one.
    /// `end_of` returns the end of an epoch in the other history; `None` if it lacks the epoch.
    pub(super) fn parting(
        &self,
        mut end_of: impl FnMut(Epoch) -> Result<Option<Lsn>>,
    ) -> Result<Option<Lsn>> {
        let steps = self.steps();
        let mut ends = steps
            .iter()
            .skip(1)
            .map(|step| step.back_to)
            .chain([self.lsn]);
        let mut parted = None;
        for step in steps.iter().rev() {
            let end = ends.next_back().unwrap_or(self.lsn);
            if let Some(there) = end_of(step.epoch)? {
                parted = Some(there.min(end));
                break;
            }
        }
        Ok(parted)
    }
}

impl Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.history.log_id, self.lsn.0)?;
        for Step { epoch, at, back_to } in self.steps().iter().rev() {
            write!(f, ",{epoch}@{}", at.0)?;
            if back_to < at {
                write!(f, "-{}", back_to.0)?;
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Position({self})")
    }
}

impl FromStr for Position {
    type Err = Error;

    fn from_str(text: &str) -> Result<Position> {
        parse(text).ok_or_else(|| Error::NotAPosition {
            text: text.chars().take(100).collect(),
        })
    }
}

/// Returns the position that a text describes; `None` if the text is not a position.
fn parse(text: &str) -> Option<Position> {
    let mut parts = text.split(',');
    let (id, lsn) = parts.next()?.split_once('@')?;
    let lsn = Lsn(number(lsn, 10)?);
    let mut log_id = LogId::default();
    if id.len() != 2 * log_id.0.len() {
        return None;
    }
    for (byte, digits) in log_id.0.iter_mut().zip(id.as_bytes().chunks(2)) {
        *byte = number(std::str::from_utf8(digits).ok()?, 16)? as u8;
    }
    let mut steps: Vec<Step> = Vec::new();
    for part in parts {
        let (epoch, at) = part.split_once('@')?;
        let (counter, nonce) = epoch.split_once(':')?;
        let (at, back_to) = match at.split_once('-') {
            Some((at, back_to)) => (number(at, 10)?, number(back_to, 10)?),
            None => (number(at, 10)?, number(at, 10)?),
        };
        let step = Step {
            epoch: Epoch {
                counter: number(counter, 10)?,
                nonce: number(nonce, 16).filter(|_| nonce.len() == 16)?,
            },
            at: Lsn(at),
            back_to: Lsn(back_to),
        };
        let above = steps
            .last()
            .map_or((lsn, u64::MAX), |above| (above.at, above.epoch.counter));
        let fits = step.at < above.0
            && step.epoch.counter <= above.1
            && step.epoch.counter > 0
            && back_to <= at
            && steps.len() < MAX_STEPS;
        fits.then(|| steps.push(step))?;
    }
    steps.reverse();
    let steps = steps.into();
    let history = History { log_id, steps };
    Some(Position { history, lsn })
}

/// Parses a number without sign or spaces.
fn number(digits: &str, radix: u32) -> Option<u64> {
    let are_digits = digits.chars().all(|c| c.is_digit(radix));
    u64::from_str_radix(digits, radix)
        .ok()
        .filter(|_| are_digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epoch(counter: u64) -> Epoch {
        Epoch {
            counter,
            nonce: counter << 40,
        }
    }

    fn history(batches: &[(u64, u64, u64)]) -> History {
        let mut history = History::beginning(LogId([7; 16]), Epoch::default(), Lsn::ORIGIN);
        for &(counter, at, void_from) in batches {
            history.note(epoch(counter), Lsn(at), Lsn(void_from));
        }
        history
    }

    #[test]
    fn its_text_is_stable() {
        let position = history(&[(1, 10, 10), (1, 20, 20), (2, 30, 15), (9, 40, 40)]).at(Lsn(99));
        let text = "07070707070707070707070707070707@99,9:0000090000000000@40,2:0000020000000000@30-15,1:0000010000000000@10";
        assert_eq!(position.to_string(), text);
        assert_eq!(text.parse::<Position>().unwrap(), position);
        let lower = position.back_to(Lsn(30));
        assert_eq!(lower.epoch(), Some(epoch(1)));
        assert_eq!(lower.to_string().parse::<Position>().unwrap(), lower);
        assert_eq!(position.back_to(Lsn(100)), position);
        let begin = position.back_to(Lsn::ORIGIN);
        assert_eq!(begin.to_string(), "07070707070707070707070707070707@0");
    }

    /// Going back below a truncation goes back to the start of what it voided: a replica that undoes the
    /// truncation lacks those records.
    #[test]
    fn back_to_goes_below_what_was_voided() {
        let position = history(&[(1, 10, 10), (1, 30, 15), (1, 60, 50)]).at(Lsn(99));
        for (to, lsn) in [
            (99, 99),
            (61, 61),
            (60, 50),
            (55, 50),
            (40, 40),
            (30, 15),
            (20, 15),
            (12, 12),
        ] {
            assert_eq!(position.back_to(Lsn(to)).lsn(), Lsn(lsn), "{to}");
        }
    }

    #[test]
    fn what_is_no_position_is_refused() {
        let good =
            "07070707070707070707070707070707@99,2:0000020000000000@30-15,1:0000010000000000@10";
        assert!(good.parse::<Position>().is_ok());
        for (from, to) in [
            ("07@", "0@"),
            ("@99", ""),
            ("@99", "@+99"),
            ("@99", "@18446744073709551616"),
            ("@99", "@30"),
            ("@30-15", "@30-31"),
            ("@30", "@10"),
            (",2:", ",0:"),
            (",1:", ",3:"),
            (":0000020000000000", ":20000000000"),
            ("@10", "@10,"),
            ("07", "é"),
        ] {
            let bad = good.replacen(from, to, 1);
            let error = bad.parse::<Position>().unwrap_err();
            assert_eq!(error.kind(), crate::ErrorKind::InvalidInput, "{bad}");
        }
        let long = (0..17).rev().map(|n| format!(",9:0000020000000000@{n}"));
        let long = format!(
            "07070707070707070707070707070707@99{}",
            long.collect::<String>()
        );
        assert!(long.parse::<Position>().is_err());
    }

    #[test]
    fn many_voids_leave_the_epochs() {
        let mut batches = vec![(1, 10, 10), (2, 100, 100)];
        batches.extend((0..100).map(|n| (2, 1000 + 9 * n, 995 + 9 * n)));
        batches.push((3, 2000, 2000));
        let position = history(&batches).at(Lsn(3000));
        assert_eq!(position.steps().len(), MAX_STEPS);
        let text = position.to_string();
        assert_eq!(text.parse::<Position>().unwrap(), position);
        let ends = |end: u64| move |e: Epoch| Ok((e == epoch(2)).then_some(Lsn(end)));
        let parting = |end| {
            let parted = position.parting(ends(end)).unwrap();
            parted.map(|parted| position.back_to(parted).lsn())
        };
        // Below the first batch that voids: the other history has none of those batches.
        assert_eq!(parting(500), Some(Lsn(500)));
        assert_eq!(parting(1000), Some(Lsn(995)));
        assert_eq!(parting(1889), Some(Lsn(1886)));
        assert_eq!(parting(1999), Some(Lsn(1999)));
        assert_eq!(parting(5000), Some(Lsn(2000)));
        let first = |e: Epoch| Ok((e == epoch(1)).then_some(Lsn(70)));
        assert_eq!(position.parting(first).unwrap(), Some(Lsn(70)));
        assert_eq!(position.parting(|_| Ok(None)).unwrap(), None);
    }

    #[test]
    fn the_oldest_openings_are_dropped() {
        let batches: Vec<_> = (1..=20).map(|n| (n, 10 * n, 10 * n)).collect();
        let position = history(&batches).at(Lsn(1000));
        let counters = position.steps().iter().map(|step| step.epoch.counter);
        assert!(counters.eq(5..=20));
    }
}
