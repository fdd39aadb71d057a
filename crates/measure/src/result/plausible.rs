//! Plausibility of the numbers: a durable commit has to reach a medium, which takes a minimum time
//! and leaves traces in the device's counters.

use super::row::Row;
use logforce_device::{BlockDevice, Facts, FilesystemKind, Guarantee, Method, Verdict, WriteCache};

/// Shortest time in which a block device can answer, microseconds. A round trip over its bus takes
/// longer.
const SHORTEST_DURABLE_US: f64 = 3.0;
/// Shortest time in which a hard disk with a volatile cache can make a write durable, microseconds.
/// A revolution takes 4 ms or more.
const SHORTEST_TURNING_US: f64 = 500.0;
/// Revolutions per second of a disk of 7200 rpm, and so the highest commit rate of a log on it. Each
/// commit waits until the end of the log passes under the head again.
pub const PLATTER_TURNS_PER_S: f64 = 120.0;

/// Marks rows as [`Verdict::Implausible`] that promise to survive a power cut but cannot have reached
/// the medium. The reason becomes the evidence.
pub fn judge(rows: &mut [Row], facts: &Facts) {
    for row in rows.iter_mut().filter(|r| r.is_safe()) {
        if row.verdict != Some(Verdict::Proven)
            && let Some(doubt) = doubt(row, facts)
        {
            row.verdict = Some(Verdict::Implausible);
            row.evidence = Some(doubt);
        }
    }
}

/// Measurements of commits, to be checked against their guarantee.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// Guarantee that the commits promise.
    pub guarantee: Option<Guarantee>,
    /// Median latency, microseconds.
    pub p50_us: Option<f64>,
    /// Number of committing threads.
    pub threads: u64,
    /// Number of commits.
    pub commits: Option<u64>,
    /// Cache flushes of the device per commit.
    pub flushes_per_commit: Option<f64>,
    /// True if the writes may use FUA and are then durable without a flush.
    pub by_fua: bool,
}

fn doubt(row: &Row, facts: &Facts) -> Option<String> {
    let claim = Claim {
        guarantee: row.guarantee,
        p50_us: row.p50_us,
        threads: row.threads,
        commits: row.commits,
        flushes_per_commit: row.device_flushes_per_commit,
        by_fua: row.method == Method::DirectDsync,
    };
    claim.doubt(facts)
}

impl Claim {
    /// Returns the reason why the commits cannot survive a power cut as promised; `None` if they can.
    pub fn doubt(&self, facts: &Facts) -> Option<String> {
        if self.guarantee != Some(Guarantee::PowerLoss) || facts.kind == FilesystemKind::Remote {
            return None;
        }
        let p50 = self.p50_us?;
        let device = facts.device.as_ref()?;
        if p50 < SHORTEST_DURABLE_US {
            return Some(format!(
                "half of the commits took less than {p50:.1} µs: no device answers in less than {SHORTEST_DURABLE_US} µs"
            ));
        }
        if device.write_cache != WriteCache::Back {
            return None;
        }
        if is_believed_to_turn(device) && p50 < SHORTEST_TURNING_US {
            return Some(format!(
                "half of the commits took less than {p50:.0} µs: {} is a hard disk, and a revolution takes several milliseconds",
                device.name
            ));
        }
        let by_fua = device.fua != Some(false) && self.by_fua;
        let flushes = self.flushes_per_commit?;
        // Other processes can only add flushes, and sequential commits cannot share one. The flush of
        // one commit at the edge of each slice may be missed.
        if self.threads == 1 && !by_fua && self.commits? >= 20 && flushes < 0.5 {
            return Some(format!(
                "only {flushes:.2} flushes per commit reached {}, which has a volatile cache, and FUA was not used: commits were not durable",
                device.name
            ));
        }
        None
    }
}

/// Returns whether the device is a hard disk. Virtual disks report themselves as rotational by default,
/// so the report of a known virtual model is ignored.
fn is_believed_to_turn(device: &BlockDevice) -> bool {
    // The caches of arrays and RAID controllers answer in place of their disks.
    const VIRTUAL: [&str; 11] = [
        "lun",
        "logical volume",
        "perc",
        "qemu",
        "virtual",
        "vbox",
        "vmware",
        "msft",
        "xen",
        "persistentdisk",
        "amazon",
    ];
    let model = device.model.to_lowercase();
    device.rotational == Some(true)
        && (device.name.starts_with("sd") || device.name.starts_with("hd"))
        && !model.is_empty()
        && !VIRTUAL.iter().any(|v| model.contains(v))
}

/// Returns a note if the device reports itself as rotational and the report is ignored.
pub fn rotation_note(facts: &Facts) -> Option<String> {
    let device = facts.device.as_ref()?;
    (device.rotational == Some(true) && !is_believed_to_turn(device)).then(|| {
        format!(
            "{} reports itself as rotational. Virtual disks do so by default, so this is ignored.",
            device.name
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::facts;
    use crate::testing::row;
    use logforce_device::FileState;

    fn judged(mut row: Row, change: impl FnOnce(&mut Row, &mut Facts)) -> Option<Verdict> {
        let mut facts = facts();
        change(&mut row, &mut facts);
        judge(std::slice::from_mut(&mut row), &facts);
        row.verdict
    }

    #[test]
    fn a_durable_commit_must_show() {
        let safe = || row(Method::Fdatasync, FileState::Zeroed, 0.2);
        assert_eq!(judged(safe(), |_, _| {}), Some(Verdict::Declared));
        assert_eq!(
            judged(safe(), |r, _| r.p50_us = Some(0.9)),
            Some(Verdict::Implausible)
        );
        assert_eq!(
            judged(safe(), |r, _| r.device_flushes_per_commit = Some(0.0)),
            Some(Verdict::Implausible)
        );
        assert_eq!(
            judged(safe(), |r, _| r.device_flushes_per_commit = None),
            Some(Verdict::Declared)
        );
        let through = |r: &mut Row, f: &mut Facts| {
            r.device_flushes_per_commit = Some(0.0);
            f.device.as_mut().unwrap().write_cache = WriteCache::Through;
        };
        assert_eq!(judged(safe(), through), Some(Verdict::Declared));
    }

    #[test]
    fn fua_needs_no_flush() {
        let fua = |r: &mut Row, f: &mut Facts| {
            r.device_flushes_per_commit = Some(0.0);
            f.device.as_mut().unwrap().fua = Some(true);
        };
        assert_eq!(
            judged(row(Method::DirectDsync, FileState::Zeroed, 0.1), fua),
            Some(Verdict::Declared)
        );
        assert_eq!(
            judged(row(Method::Dsync, FileState::Zeroed, 0.1), fua),
            Some(Verdict::Implausible)
        );
    }

    #[test]
    fn only_real_disks_turn() {
        let turns = |name: &'static str, model: &'static str| {
            judged(row(Method::Fsync, FileState::Zeroed, 0.1), move |_, f| {
                let device = f.device.as_mut().unwrap();
                (device.rotational, device.name, device.model) =
                    (Some(true), name.to_owned(), model.to_owned());
            })
        };
        assert_eq!(turns("sda", "ST4000DM004"), Some(Verdict::Implausible));
        assert_eq!(turns("sda", "QEMU HARDDISK"), Some(Verdict::Declared));
        assert_eq!(turns("vda", ""), Some(Verdict::Declared));
    }
}
