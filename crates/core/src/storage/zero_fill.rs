//! Whether new segments are filled with zeroes.

use crate::storage::workload::Workload;
use logforce_device::{Facts, FilesystemKind, ForceBy, Plan};

/// When new segments are filled with zeroes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filling {
    /// The filesystem never overwrites in place: zeroes would be written for nothing.
    Never,
    /// A force does not make first writes as durable as it makes others, or nobody knows.
    Always,
    /// Not while so few forces take along so much that bandwidth is what is short: bytes that a force
    /// takes along from which on that is so.
    Unless(u64),
}

/// Whether filling with zeroes makes later writes cheaper on this filesystem.
pub(crate) fn zeroes_help(kind: FilesystemKind) -> bool {
    kind != FilesystemKind::Relocating
}

impl Filling {
    /// What pays here. With `bulk` bytes or more for each force a segment is only reserved, where a
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

    /// Whether to fill a segment while nothing is known of what it will be used for.
    pub(crate) fn begins(self) -> bool {
        self != Filling::Never
    }

    /// Whether to fill a segment of `len` bytes after the log was used as `load` says.
    pub(crate) fn pays(self, load: Workload, len: u64) -> bool {
        match self {
            Filling::Never => false,
            Filling::Always => true,
            Filling::Unless(bulk) => !load.is_bulk(len / 8, bulk),
        }
    }
}
