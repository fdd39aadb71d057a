//! Filling of new segments with zeroes.

use logforce_device::{Facts, FilesystemKind, ForceBy, Plan};

/// Condition on which new segments are filled with zeroes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filling {
    /// Never: the filesystem never overwrites in place, so zeroes are useless.
    Never,
    /// Always: a force does not make first writes as durable as other writes, or this is unknown.
    Always,
    /// Zero-fill unless the workload is bandwidth-bound. The value is the number of bytes per force from
    /// which on it counts as such.
    Unless(u64),
}

/// Returns true if filling with zeroes makes later writes cheaper on this filesystem.
pub(crate) fn zeroes_help(kind: FilesystemKind) -> bool {
    kind != FilesystemKind::Relocating
}

impl Filling {
    /// Returns the best condition for this filesystem and plan. From `bulk` bytes per force on, a segment is
    /// only reserved, if a force by `plan` guarantees the same on reserved blocks.
    pub(crate) fn here(facts: &Facts, plan: Plan, bulk: u64) -> Filling {
        if !zeroes_help(facts.kind) {
            Filling::Never
        } else if facts.forces_first_writes() && plan.force != ForceBy::None {
            Filling::Unless(bulk)
        } else {
            Filling::Always
        }
    }

    /// Returns true if segments are filled while the workload is unknown.
    pub(crate) fn begins(self) -> bool {
        self != Filling::Never
    }

    /// Returns true if a segment of `len` bytes should be filled after the workload `load`.
    pub(crate) fn pays(self, load: Workload, len: u64) -> bool {
        match self {
            Filling::Never => false,
            Filling::Always => true,
            Filling::Unless(bulk) => !load.is_bulk(len / 8, bulk),
        }
    }
}

/// Work that was done, since the opening or in a part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Workload {
    /// Number of appended bytes of log, including padding.
    pub(crate) bytes: u64,
    /// Number of forces.
    pub(crate) forces: u64,
    /// Number of requests to write without a force.
    pub(crate) writes: u64,
}

impl Workload {
    /// Returns the work that was done after `earlier`, of the same opening.
    pub(crate) fn since(self, earlier: Workload) -> Workload {
        Workload {
            bytes: self.bytes.saturating_sub(earlier.bytes),
            forces: self.forces.saturating_sub(earlier.forces),
            writes: self.writes.saturating_sub(earlier.writes),
        }
    }

    /// Returns true if at least `least` bytes were appended, and at least `per_force` bytes for each force.
    /// Returns false if callers rely on writes without a force ([`Policy::Write`](crate::Policy::Write)): a
    /// crash of the system may lose such a write if it was the first one to its blocks.
    pub(crate) fn is_bulk(self, least: u64, per_force: u64) -> bool {
        self.writes == 0 && self.bytes >= least && self.bytes / self.forces.max(1) >= per_force
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn bulk_is_much_by_few_forces() {
        let load = |bytes, forces, writes| Workload {
            bytes,
            forces,
            writes,
        };
        let is_bulk = |load: Workload| load.is_bulk(8 * MIB, MIB);
        assert!(is_bulk(load(8 * MIB, 0, 0)));
        assert!(is_bulk(load(8 * MIB, 8, 0)));
        assert!(!is_bulk(load(8 * MIB - 1, 0, 0)), "too few bytes");
        assert!(!is_bulk(load(8 * MIB, 9, 0)), "smaller forces");
        assert!(!is_bulk(load(64 * MIB, 1, 1)), "a caller relies on a write");
        let earlier = load(64 * MIB, 1000, 7);
        assert!(is_bulk(load(80 * MIB, 1016, 7).since(earlier)));
    }
}
