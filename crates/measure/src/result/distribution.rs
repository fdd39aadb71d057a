//! Distribution of latencies, as a short list of percentiles.

use crate::run::recorder::Latencies;
use serde::ser::{SerializeMap, Serializer};
use serde::{Deserialize, Deserializer, Serialize};
use serde_json::{Map, Value};

/// Name of the field in a row. Its value is an object, so CSV has no column for it.
pub const FIELD: &str = "latencies_us";

/// Percentages in ascending order, as they are written: dense in the tail, where users notice delays.
pub const PERCENTS: [f64; 34] = [
    0.0, 1.0, 5.0, 10.0, 20.0, 25.0, 30.0, 40.0, 50.0, 60.0, 70.0, 75.0, 80.0, 85.0, 90.0, 92.0,
    94.0, 95.0, 96.0, 97.0, 98.0, 98.5, 99.0, 99.2, 99.4, 99.5, 99.6, 99.7, 99.8, 99.9, 99.95,
    99.99, 99.999, 100.0,
];

/// Pairs of a percentage of the commits and the longest time that those commits took, in microseconds.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Distribution(Vec<(f64, f64)>);

impl Distribution {
    /// Returns the distribution of `latencies`; `None` if there are none. Leaves out the percentages
    /// that cannot be distinguished from the maximum with this number of commits.
    pub fn of(latencies: &Latencies) -> Option<Distribution> {
        let count = latencies.count();
        if count == 0 {
            return None;
        }
        let points = PERCENTS.into_iter().filter_map(|percent| {
            let part = percent / 100.0;
            let us = match part {
                1.0 => latencies.max_us(),
                // Allows for rounding: 99.9 % of 1000 commits leaves exactly one above.
                _ if (1.0 - part) * count as f64 > 1.0 - 1e-6 => latencies.quantile_us(part),
                _ => return None,
            };
            Some((percent, us))
        });
        Some(Distribution(points.collect()))
    }

    /// Returns the points, ascending.
    pub fn points(&self) -> &[(f64, f64)] {
        &self.0
    }
}

impl Serialize for Distribution {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.0.len()))?;
        for (percent, us) in &self.0 {
            map.serialize_entry(&percent.to_string(), us)?;
        }
        map.end()
    }
}

/// Skips entries that are not a percentage and a time: any program may have written the file.
impl<'de> Deserialize<'de> for Distribution {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Distribution, D::Error> {
        let written = Map::<String, Value>::deserialize(deserializer)?;
        let points = written.iter().filter_map(|(percent, us)| {
            let (percent, us) = (percent.parse::<f64>().ok()?, us.as_f64()?);
            let is_one = (0.0..=100.0).contains(&percent) && us > 0.0 && us.is_finite();
            is_one.then_some((percent, us))
        });
        let mut points: Vec<(f64, f64)> = points.collect();
        points.sort_by(|(a, _), (b, _)| a.total_cmp(b));
        Ok(Distribution(points))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn of(count: u64) -> Vec<(f64, f64)> {
        let mut latencies = Latencies::default();
        (1..=count).for_each(|us| latencies.record(Duration::from_micros(us)));
        let points = Distribution::of(&latencies).map(|d| d.points().to_vec());
        points.unwrap_or_default()
    }

    #[test]
    fn percentages_ascend_and_few_commits_have_few() {
        assert_eq!(of(0), []);
        assert_eq!(of(1), [(0.0, 1.0), (100.0, 1.0)]);
        let names = |count| of(count).iter().map(|(name, _)| *name).collect::<Vec<_>>();
        assert_eq!(names(10).last_chunk(), Some(&[85.0, 90.0, 100.0]));
        assert_eq!(names(1000).last_chunk(), Some(&[99.8, 99.9, 100.0]));
        assert_eq!(names(999).last_chunk(), Some(&[99.7, 99.8, 100.0]));
        assert_eq!(names(100_000), PERCENTS);
        for count in [1, 7, 100, 12_345] {
            let points = of(count);
            assert!(points.is_sorted_by(|a, b| a.1 <= b.1), "{points:?}");
            assert_eq!(points.last(), Some(&(100.0, count as f64)));
        }
        let (_, median) = of(10_000)[8];
        assert!((median / 5000.0 - 1.0).abs() < 0.001, "{median}");
    }

    #[test]
    fn it_is_written_as_an_object() {
        let mut latencies = Latencies::default();
        latencies.record(Duration::from_nanos(1500));
        let written = serde_json::to_string(&Distribution::of(&latencies));
        assert_eq!(written.unwrap(), r#"{"0":1.5,"100":1.5}"#);
        let names = PERCENTS.map(|percent| percent.to_string()).join(" ");
        assert!(
            names.ends_with("98 98.5 99 99.2 99.4 99.5 99.6 99.7 99.8 99.9 99.95 99.99 99.999 100")
        );
    }
}
