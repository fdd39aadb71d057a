//! How much disk the inserts take, and how many of them fit.

use super::MOST;
use crate::MeasureError;
use crate::run::library::LONGEST_SEGMENT;
use crate::run::space::Space;
use logforce_device::Facts;

/// A log has one segment in use and two that are prepared; two logs are open at the most.
const SEGMENTS: u64 = 2 * 3;
/// No smaller segment than this: each new one costs calls that would be measured as well.
const SHORTEST_SEGMENT: u64 = 1 << 20;
/// With fewer rows than this nothing is worth telling.
const LEAST: u64 = 1_000;

/// What fits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Rows that one run may insert.
    pub rows: u64,
    /// Length of the logs' segments, bytes.
    pub segment_size: u64,
}

impl Room {
    /// Of a disk of `space` with write units of `facts`, where a run inserts at least `pairs` and the
    /// databases need `others` bytes. `remedies` are the flags that would help.
    pub fn on(
        space: Space,
        facts: &Facts,
        pairs: u64,
        others: u64,
        remedies: &str,
    ) -> Result<Room, MeasureError> {
        let row = 2 * u64::from(facts.write_unit());
        let least = LEAST.max(2 * pairs);
        space.check(others + SEGMENTS * SHORTEST_SEGMENT + least * row, remedies)?;
        let usable = space.usable() - others;
        let mut segment_size = LONGEST_SEGMENT;
        // Half of what there is, so that most of it is left for rows.
        while segment_size > SHORTEST_SEGMENT
            && SEGMENTS * segment_size + least * row > usable.max(1) / 2
        {
            segment_size /= 2;
        }
        let rows = (usable - SEGMENTS * segment_size) / row;
        Ok(Room {
            rows: rows.min(MOST),
            segment_size,
        })
    }

    /// What is to be said where it is less than on a large disk.
    pub fn note(self) -> Option<String> {
        (self.rows < MOST).then(|| {
            format!(
                "There is so little space that each run by the clock ends after {} inserts.",
                self.rows
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts as disk;

    fn room(free: u64, pairs: u64, others: u64) -> Result<Room, MeasureError> {
        let space = Space { free, total: free };
        Room::on(space, &disk(), pairs, others, "another --dir")
    }

    #[test]
    fn on_a_large_disk_nothing_is_cut() {
        let room = room(100 << 30, 500, 1 << 30).unwrap();
        assert_eq!((room.rows, room.segment_size), (MOST, LONGEST_SEGMENT));
        assert_eq!(room.note(), None);
    }

    #[test]
    fn on_a_small_one_segments_and_rows_are_fewer_and_fit() {
        for free in [50, 105, 300, 900, 2_000].map(|mib: u64| mib << 20) {
            let room = room(free, 500, 0).unwrap();
            let unit = u64::from(disk().write_unit());
            let taken = SEGMENTS * room.segment_size + 2 * unit * room.rows;
            assert!(taken <= free - free / 10, "{free}: {room:?}");
            assert!(room.rows >= LEAST, "{free}: {room:?}");
            if room.rows < MOST {
                assert!(room.note().unwrap().contains(&room.rows.to_string()));
            }
        }
    }

    #[test]
    fn where_the_least_does_not_fit_it_says_what_is_needed() {
        let refused = room(12 << 20, 500, 0).unwrap_err().to_string();
        assert!(refused.contains("are needed"), "{refused}");
        assert!(room(300 << 20, 500, 0).is_ok());
        let others = room(300 << 20, 500, 1 << 30).unwrap_err().to_string();
        assert!(others.contains("1.0 GiB are needed"), "{others}");
        assert!(room(300 << 20, MOST, 0).is_err());
    }
}
