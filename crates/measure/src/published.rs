//! Published figures of the same workload, to hold beside ours as ratios.

use logforce_device::Method;

/// Where [`P1`] comes from.
pub const P1_SOURCE: &str = "Oren Eini, \"Fast transaction log: Linux\"";
/// What [`P1`] was measured on.
pub const P1_MACHINE: &str =
    "ext4, kernel 3.13, AWS i2.2xlarge; 65,536 commits of 16 KiB into a pre-sized 1 GiB file";

/// One published row; times are for all 65,536 commits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Published {
    /// Our name of the method.
    pub method: Method,
    /// Its name there.
    pub name: &'static str,
    /// On the system disk, milliseconds.
    pub system_disk_ms: u32,
    /// On the SSD, milliseconds.
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
pub const P1: [Published; 6] = [
    row(Method::Buffered, "buffered", 525, 522),
    row(Method::Fsync, "buffered + fsync", 72_116, 23_094),
    row(Method::Fdatasync, "buffered + fdatasync", 56_227, 23_022),
    row(Method::Dsync, "O_DSYNC", 48_668, 19_555),
    row(Method::Direct, "O_DIRECT", 47_065, 9_371),
    row(Method::DirectDsync, "O_DIRECT + O_DSYNC", 47_877, 20_595),
];

impl Published {
    /// Time as a multiple of buffered + fsync: on the system disk, on the SSD.
    pub fn ratios(&self) -> (f64, f64) {
        let fsync = P1[1];
        let of = |a: u32, b: u32| f64::from(a) / f64::from(b);
        (
            of(self.system_disk_ms, fsync.system_disk_ms),
            of(self.ssd_ms, fsync.ssd_ms),
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn is_what_was_published() {
        assert_eq!(P1[1].method, Method::Fsync);
        assert_eq!(P1[1].ratios(), (1.0, 1.0));
        let sums = P1
            .iter()
            .fold((0, 0), |(a, b), r| (a + r.system_disk_ms, b + r.ssd_ms));
        assert_eq!(sums, (272_478, 96_159));
        // The published cost column, ms per write, rounded down.
        let costs = [
            (0.03, 0.03),
            (1.10, 0.35),
            (0.85, 0.35),
            (0.74, 0.29),
            (0.71, 0.14),
            (0.73, 0.31),
        ];
        for (row, (system, ssd)) in P1.iter().zip(costs).skip(1) {
            assert!(
                (f64::from(row.system_disk_ms) / 65_536.0 - system).abs() < 0.011,
                "{row:?}"
            );
            assert!(
                (f64::from(row.ssd_ms) / 65_536.0 - ssd).abs() < 0.011,
                "{row:?}"
            );
        }
    }
}
