//! Filling of new segments with zeroes.

use logforce_device::{Facts, FilesystemKind, ForceBy, Plan};

/// Condition on which new segments are filled with zeroes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filling {
    /// The filesystem never overwrites in place: zeroes would be written for nothing.
    Never,
    /// A force does not make first writes as durable as it makes others, or nobody knows.
    Always,
    /// Zero-fill unless the workload is bandwidth-bound. The value is the bytes per force above which it counts as
    /// such.
    Unless(u64),
}

/// Returns whether filling with zeroes makes later writes cheaper on this filesystem.
pub(crate) fn zeroes_help(kind: FilesystemKind) -> bool {
    kind != FilesystemKind::Relocating
}

impl Filling {
    /// Returns the filling that pays here. With `bulk` bytes or more for each force a segment is only reserved, where a
    /// force by `plan` is worth as much on it.
    pub(crate) fn here(facts: &Facts, plan: Plan, bulk: u64) -> Filling {
        if !zeroes_help(facts.kind) {
            Filling::Never
        } else if facts.forces_first_writes() && plan.force != ForceBy::None {
            Filling::Unless(bulk)
        } else {
            Filling::Always
        }
    }

    /// Returns whether to fill a segment while nothing is known of its use.
    pub(crate) fn begins(self) -> bool {
        self != Filling::Never
    }

    /// Returns whether to fill a segment of `len` bytes after the log was used as `load` says.
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
    /// Bytes of the log that were appended, padding included.
    pub(crate) bytes: u64,
    /// Forces that made something durable.
    pub(crate) forces: u64,
    /// Requests to write something without a force.
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

    /// Returns whether at least `least` bytes came, and `per_force` for each force. Never where callers rely
    /// on what is written and not forced ([`Policy::Write`](crate::Policy::Write)): a crash of the
    /// system may lose that where it was the first to be written to its blocks.
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
        assert!(!is_bulk(load(8 * MIB - 1, 0, 0)), "too little to say");
        assert!(!is_bulk(load(8 * MIB, 9, 0)), "smaller forces");
        assert!(!is_bulk(load(64 * MIB, 1, 1)), "somebody relies on a write");
        let earlier = load(64 * MIB, 1000, 7);
        assert!(is_bulk(load(80 * MIB, 1016, 7).since(earlier)));
    }
}
