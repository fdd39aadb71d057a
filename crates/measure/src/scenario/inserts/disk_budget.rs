//! Disk space of the inserts, and the number of inserts that fit.

use super::MOST;
use crate::MeasureError;
use crate::run::library::LONGEST_SEGMENT;
use crate::run::space::Space;
use logforce_device::Facts;

/// Highest number of segments: two logs, each with one segment in use and two prepared.
const SEGMENTS: u64 = 2 * 3;
/// Smallest segment, bytes. Each new segment costs calls that would be measured as well.
const SHORTEST_SEGMENT: u64 = 1 << 20;
/// Smallest number of rows that is worth measuring.
const LEAST: u64 = 1_000;

/// Limits that fit into the space of the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Room {
    /// Maximum number of rows of one run.
    pub rows: u64,
    /// Size of the logs' segments, bytes.
    pub segment_size: u64,
}

impl Room {
    /// Computes the limits from the `space` of the disk and the write unit in `facts`. A run inserts at
    /// least `pairs` rows, and the databases need `others` bytes. Fails if that does not fit; `remedies`
    /// are the flags that would help.
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
        // Uses half of the space at most, so that most of it is left for rows.
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

    /// Returns a note if the space limits the number of rows.
    pub fn note(self) -> Option<String> {
        (self.rows < MOST).then(|| {
            format!(
                "The disk has little space, so each timed run ends after {} inserts.",
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
