//! Layers of the stack below the filesystem and the device that the facts of a directory name.

use crate::{Assessment, Guarantee, Source, Verdict, WriteCache};

/// Part of the stack below a directory that a guarantee depends on. Examples are a device that another one
/// consists of, the filesystem of a loop device's file, an overlay's upper directory, or a part that cannot
/// be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layer {
    /// Name of the layer, such as `the ext4 at / below loop0`.
    pub name: String,
    /// Kind of the layer, such as `virtio disk`; empty if the name says it.
    pub about: String,
    /// Number of layers above it: 1 for the device of the filesystem. The layers of a stack are listed depth
    /// first, so that a layer lies below the nearest earlier one of a smaller level.
    pub level: u32,
    /// Cache of a device, as the kernel is configured to see it; unknown for a layer that is not a device.
    pub write_cache: WriteCache,
    /// Properties that the layer reports, and the files that they were read from.
    pub readings: Vec<Reading>,
    /// Guarantee of a sync from above that this layer has reported as done.
    pub synced: Assessment,
    /// Guarantee of a write from above that nothing has synced.
    pub written: Guarantee,
}

impl Layer {
    /// Makes a layer in which an unsynced write survives only a crash of the process
    /// ([`Guarantee::ProcessCrash`]). Assign `written` if the layer keeps more.
    pub fn new(name: impl Into<String>, synced: Assessment) -> Layer {
        Layer {
            name: name.into(),
            about: String::new(),
            level: 1,
            write_cache: WriteCache::Unknown,
            readings: Vec::new(),
            synced,
            written: Guarantee::ProcessCrash,
        }
    }

    /// Makes a layer that passes syncs and writes on to the layers below it, and so weakens nothing.
    pub fn passing(name: impl Into<String>, why: impl Into<String>) -> Layer {
        let synced = Assessment::new(Guarantee::PowerLoss, Verdict::Declared, Source::System, why);
        Layer {
            written: Guarantee::PowerLoss,
            ..Layer::new(name, synced)
        }
    }

    /// Makes a layer for a part of the stack that cannot be seen. It is unknown whether a sync passes it, and
    /// a sync gives `at_most` as its guarantee.
    pub fn unseen(name: impl Into<String>, at_most: Guarantee, why: impl Into<String>) -> Layer {
        let synced = Assessment::new(at_most, Verdict::Unknown, Source::Nobody, why);
        Layer::new(name, synced)
    }
}

/// Property that a layer reports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reading {
    /// Name of the property, such as `write cache`.
    pub what: String,
    /// Value as it was read, such as `write back`.
    pub value: String,
    /// File or command that it was read from, such as `/sys/block/vda/queue/write_cache`.
    pub from: String,
}

/// Returns the weakest of `above` and of the guarantees of a sync in the layers below.
pub(crate) fn weakest_synced(layers: &[Layer], above: Assessment) -> Assessment {
    layers.iter().fold(above, |weakest, layer| {
        let below = &layer.synced;
        let rank = |a: &Assessment| (a.guarantee, a.verdict, a.source);
        if rank(below) >= rank(&weakest) {
            return weakest;
        }
        Assessment {
            evidence: format!("{}: {}", layer.name, below.evidence),
            ..below.clone()
        }
    })
}

/// Returns the weakest of `above` and of the guarantees of an unsynced write in the layers below. A write past
/// the system's cache (`direct`) is with the layers, so it can be believed as far as the least of them.
pub(crate) fn weakest_written(layers: &[Layer], above: Assessment, direct: bool) -> Assessment {
    layers.iter().fold(above, |weakest, layer| {
        let mut weakest = weakest;
        let said = &layer.synced;
        if direct && (said.verdict, said.source) < (weakest.verdict, weakest.source) {
            (weakest.verdict, weakest.source) = (said.verdict, said.source);
        }
        if layer.written >= weakest.guarantee {
            return weakest;
        }
        let where_to = match layer.written {
            Guarantee::Nothing => "nowhere",
            Guarantee::OsCrash => "a volatile cache",
            _ => "the system's memory, or wherever the layer keeps it",
        };
        Assessment {
            guarantee: layer.written,
            evidence: format!(
                "{}: data that was not synced may still be in {where_to}",
                layer.name
            ),
            ..weakest
        }
    })
}
