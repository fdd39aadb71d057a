//! Points in time within a segment, for restores to a time.

use logforce::Lsn;

/// Maximum number of points of an object. More would be thinned: see [`Points`].
pub const MAX_POINTS: usize = 1 << 16;

const SECOND: u64 = 1_000_000_000;

/// Position that was durable at a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Point {
    /// Nanoseconds since 1970.
    pub time: u64,
    /// Exclusive end of the durable log at that time.
    pub lsn: Lsn,
}

/// Collector of points: at most one a second, and fewer if a segment takes days to fill.
#[derive(Debug, Clone)]
pub struct Points {
    list: Vec<Point>,
    interval: u64,
    max: usize,
}

impl Default for Points {
    fn default() -> Points {
        Points::with_max(MAX_POINTS)
    }
}

impl Points {
    fn with_max(max: usize) -> Points {
        Points {
            list: Vec::new(),
            interval: SECOND,
            max,
        }
    }

    /// Adds a point, unless the previous one is less than the interval older. A clock that was set back
    /// adds none until it has caught up, so that times ascend.
    pub fn push(&mut self, point: Point) {
        let is_due = |last: &Point| {
            point.time >= last.time.saturating_add(self.interval) && point.lsn >= last.lsn
        };
        if !self.list.last().is_none_or(is_due) {
            return;
        }
        if self.list.len() >= self.max {
            let mut n = 0;
            self.list.retain(|_| {
                n += 1;
                n % 2 == 1
            });
            self.interval = self.interval.saturating_mul(2);
        }
        self.list.push(point);
    }

    /// Returns the points so far.
    pub fn as_slice(&self) -> &[Point] {
        &self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn push(points: &mut Points, time: u64, lsn: u64) {
        points.push(Point {
            time,
            lsn: Lsn(lsn),
        });
    }

    #[test]
    fn at_most_one_a_second_and_times_ascend() {
        let mut points = Points::default();
        for tenth in 0..100 {
            push(&mut points, tenth * SECOND / 10, tenth);
        }
        assert_eq!(points.as_slice().len(), 10);
        push(&mut points, SECOND, 200);
        assert_eq!(points.as_slice().len(), 10, "the clock was set back");
        push(&mut points, 11 * SECOND, 200);
        assert_eq!(points.as_slice().len(), 11);
    }

    #[test]
    fn a_full_list_is_thinned() {
        let mut points = Points::with_max(64);
        for second in 0..10_000 {
            push(&mut points, second * SECOND, second);
        }
        let list = points.as_slice();
        assert!((33..=64).contains(&list.len()), "{}", list.len());
        assert_eq!(list[0].lsn, Lsn(0));
        let gap = |pair: &[Point]| (pair[1].time - pair[0].time) / SECOND;
        assert!(list.windows(2).all(|pair| (1..=256).contains(&gap(pair))));
    }
}
