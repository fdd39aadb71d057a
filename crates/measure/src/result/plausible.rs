//! Whether a number can be true: a durable commit has to reach a medium, and that shows.

use super::row::Row;
use logforce_device::{BlockDevice, Facts, FilesystemKind, Guarantee, Method, Verdict, WriteCache};

/// No block device answers sooner than this, in microseconds: a round trip over its bus takes
/// longer.
const SHORTEST_DURABLE_US: f64 = 3.0;
/// A turning disk with a volatile cache cannot make a write durable sooner than this, in
/// microseconds (a revolution takes 4 ms and more).
const SHORTEST_TURNING_US: f64 = 500.0;
/// Turns in a second of a disk of 7200 rpm: a log that is forced at each commit waits for its place
/// to come round, so that no more commits than these fit into a second.
pub const PLATTER_TURNS_PER_S: f64 = 120.0;

/// Marks every row that promises to survive a power cut and cannot have done so here as
/// [`Verdict::Implausible`], with the reason as evidence.
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

/// What durable commits were measured to do.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// What they promise to survive.
    pub guarantee: Option<Guarantee>,
    /// Median latency, microseconds.
    pub p50_us: Option<f64>,
    /// Threads that commit.
    pub threads: u64,
    /// Commits done.
    pub commits: Option<u64>,
    /// Cache flushes of the device, by commits.
    pub flushes_per_commit: Option<f64>,
    /// Each write may be durable by itself, so that no flush is needed.
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
    /// Why commits that are to survive a power cut cannot have done so; `None` if they can.
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
                "half of the commits took less than {p50:.0} µs: {} turns, and a revolution takes some milliseconds",
                device.name
            ));
        }
        let by_fua = device.fua != Some(false) && self.by_fua;
        let flushes = self.flushes_per_commit?;
        // Neighbours can only add flushes, and commits one after another can share none. One commit
        // at the edge of each slice may be counted elsewhere.
        if self.threads == 1 && !by_fua && self.commits? >= 20 && flushes < 0.5 {
            return Some(format!(
                "{flushes:.2} flushes per commit reached {}, whose cache is volatile and whose writes are no FUA writes",
                device.name
            ));
        }
        None
    }
}

/// Virtual disks say by default that they turn.
fn is_believed_to_turn(device: &BlockDevice) -> bool {
    const VIRTUAL: [&str; 8] = [
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

/// What to tell of a device that says it turns and is not believed.
pub fn rotation_note(facts: &Facts) -> Option<String> {
    let device = facts.device.as_ref()?;
    (device.rotational == Some(true) && !is_believed_to_turn(device)).then(|| {
        format!("{} reports itself as rotational; virtual disks do by default, so nothing is concluded from it.", device.name)
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
