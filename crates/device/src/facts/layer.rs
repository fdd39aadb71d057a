//! Layers below the filesystem and the device that the facts of a directory name.

use crate::{Assessment, Guarantee, Source, Verdict};

/// Something of the stack below a directory that a guarantee depends on: a device that another one
/// is made of, the filesystem of a loop device's file, an overlay's upper directory, or a part of
/// the stack that cannot be seen.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Layer {
    /// Name of the layer, such as `the ext4 at / below loop0`.
    pub name: String,
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
            synced,
            written: Guarantee::ProcessCrash,
        }
    }

    /// A part of the stack that cannot be seen. Where it is unknown whether a sync gets through, it
    /// is worth no more than `at_most`.
    pub fn unseen(name: impl Into<String>, at_most: Guarantee, why: impl Into<String>) -> Layer {
        let synced = Assessment::new(at_most, Verdict::Unknown, Source::Nobody, why);
        Layer::new(name, synced)
    }
}

/// Returns the weakest of `above` and of what a sync is worth in the layers below.
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

/// Returns the weakest of `above` and of what the layers below keep without a sync.
pub(crate) fn weakest_written(layers: &[Layer], above: Assessment) -> Assessment {
    layers.iter().fold(above, |weakest, layer| {
        if layer.written >= weakest.guarantee {
            return weakest;
        }
        let where_to = match layer.written {
            Guarantee::OsCrash => "a volatile cache",
            _ => "the system's memory, or where it is kept",
        };
        Assessment {
            guarantee: layer.written,
            evidence: format!(
                "{}: what nothing has synced may be in {where_to}",
                layer.name
            ),
            ..weakest
        }
    })
}
