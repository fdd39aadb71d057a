//! Published figures of the same workload, for comparison with ours as ratios.

use logforce_device::{Method, Platform};

/// A published table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Table {
    /// Source of the figures.
    pub source: &'static str,
    /// Machine of the published measurement.
    pub machine: &'static str,
    /// Row to which ratios refer.
    pub base: Published,
    /// The rows.
    pub rows: &'static [Published],
}

/// One published row. Times are for all 65,536 commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Method, under our name.
    pub method: Method,
    /// Name of the method in the publication.
    pub name: &'static str,
    /// Time on the system disk, milliseconds.
    pub system_disk_ms: u32,
    /// Time on the SSD, milliseconds.
    pub ssd_ms: u32,
}

const fn row(method: Method, name: &'static str, system_disk_ms: u32, ssd_ms: u32) -> Published {
    Published {
        method,
        name,
        system_disk_ms,
        ssd_ms,
    }
}

/// Journal writes on Linux.
pub const P1: Table = Table {
    source: "Oren Eini, \"Fast transaction log: Linux\"",
    machine: "ext4, kernel 3.13, AWS i2.2xlarge; 65,536 commits of 16 KiB into a pre-sized 1 GiB file",
    base: P1_ROWS[1],
    rows: &P1_ROWS,
};

const P1_ROWS: [Published; 6] = [
    row(Method::Buffered, "buffered", 525, 522),
    row(Method::Fsync, "buffered + fsync", 72_116, 23_094),
    row(Method::Fdatasync, "buffered + fdatasync", 56_227, 23_022),
    row(Method::Dsync, "O_DSYNC", 48_668, 19_555),
    row(Method::Direct, "O_DIRECT", 47_065, 9_371),
    row(Method::DirectDsync, "O_DIRECT + O_DSYNC", 47_877, 20_595),
];

/// Journal writes on Windows.
pub const P2: Table = Table {
    source: "Oren Eini, \"Fast transaction log: Windows\"",
    machine: "Windows Server 2012 R2, AWS i2.2xlarge; 65,536 commits of 16 KiB into a pre-sized 1 GiB file",
    base: P2_ROWS[1],
    rows: &P2_ROWS,
};

const P2_ROWS: [Published; 5] = [
    row(Method::Buffered, "buffered", 396, 410),
    row(
        Method::Flush,
        "buffered + FlushFileBuffers",
        121_403,
        21_077,
    ),
    row(Method::WriteThrough, "WRITE_THROUGH", 58_376, 10_029),
    row(Method::NoBuffering, "NO_BUFFERING", 56_162, 8_491),
    row(
        Method::NoBufferingWriteThrough,
        "NO_BUFFERING + WRITE_THROUGH",
        55_432,
        8_378,
    ),
];

impl Table {
    /// Returns the published table of an operating system; `None` if there is none.
    pub fn of(platform: Platform) -> Option<Table> {
        match platform {
            Platform::Linux => Some(P1),
            Platform::Windows => Some(P2),
            _ => None,
        }
    }

    /// Returns the time of a row divided by that of [`base`](Self::base): on the system disk and on the
    /// SSD.
    pub fn ratios(&self, row: &Published) -> (f64, f64) {
        let of = |a: u32, b: u32| f64::from(a) / f64::from(b);
        (
            of(row.system_disk_ms, self.base.system_disk_ms),
            of(row.ssd_ms, self.base.ssd_ms),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the published cost column, ms per write, with a tolerance for rounding. `skip` leaves out
    /// the first rows: the cost in the first row of P1 does not follow from its time.
    fn costs(table: &Table, costs: &[(f64, f64)], skip: usize) {
        assert_eq!(table.rows.len(), costs.len());
        for (row, (system, ssd)) in table.rows.iter().zip(costs).skip(skip) {
            for (ms, cost) in [(row.system_disk_ms, system), (row.ssd_ms, ssd)] {
                let per_write = f64::from(ms) / 65_536.0;
                let rounding = 0.0015 + 0.03 * cost;
                assert!((per_write - cost).abs() < rounding, "{row:?}");
            }
        }
    }

    fn sums(table: &Table) -> (u32, u32) {
        table
            .rows
            .iter()
            .fold((0, 0), |(a, b), r| (a + r.system_disk_ms, b + r.ssd_ms))
    }

    #[test]
    fn is_what_was_published() {
        assert_eq!(sums(&P1), (272_478, 96_159));
        assert_eq!(sums(&P2), (291_769, 48_385));
        let linux = [
            (0.03, 0.03),
            (1.10, 0.35),
            (0.85, 0.35),
            (0.74, 0.29),
            (0.71, 0.14),
            (0.73, 0.31),
        ];
        costs(&P1, &linux, 1);
        let windows = [
            (0.006, 0.006),
            (1.8, 0.321),
            (0.89, 0.153),
            (0.85, 0.129),
            (0.84, 0.127),
        ];
        costs(&P2, &windows, 0);
        for table in [P1, P2] {
            assert_eq!(table.ratios(&table.base), (1.0, 1.0));
        }
    }

    #[test]
    fn the_rows_of_a_system_are_its_methods_in_its_order() {
        for platform in Platform::ALL {
            let Some(table) = Table::of(platform) else {
                assert_eq!(platform, Platform::Macos);
                continue;
            };
            let published: Vec<Method> = table.rows.iter().map(|r| r.method).collect();
            let ours = platform.methods().iter().copied();
            let same: Vec<Method> = ours.filter(|m| published.contains(m)).collect();
            assert_eq!(published, same);
            assert_eq!(platform.methods().len(), published.len() + 1);
        }
        let left = |m: &&Method| P2.rows.iter().all(|r| r.method != **m);
        let more: Vec<&Method> = Method::WINDOWS.iter().filter(left).collect();
        assert_eq!(more, [&Method::FlushData]);
    }
}
