mod layer;
mod power_cut_evidence;

pub use layer::Layer;
pub use power_cut_evidence::{CutEvidence, CutResult};

use crate::{
    Assessment, Barrier, BlockDevice, DirectAlignment, FileState, FilesystemKind, ForceBy,
    Guarantee, Method, Plan, Platform, Source, Verdict, WriteCache,
};

/// What the system says of the filesystem and the device below a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// The system whose calls are made here.
    pub platform: Platform,
    /// Name of the filesystem, such as `ext4`.
    pub filesystem: String,
    /// What that filesystem does with a write.
    pub kind: FilesystemKind,
    /// Mount options as the system prints them. On Linux empty only where they cannot be seen.
    pub mount_options: String,
    /// Where it is mounted; empty if unknown.
    pub mount_point: String,
    /// The filesystem passes barriers on to the device (`false` with `nobarrier`, and where Windows was
    /// configured to send none).
    pub barriers: bool,
    /// Whether the filesystem comes back from a power cut with the places of a forced file's blocks
    /// as the force left them: by a journal, or since it never overwrites. Not an ext4 without a
    /// journal, which has to be repaired first. `None` if unknown.
    pub journalled: Option<bool>,
    /// The device, if there is one and it can be named.
    pub device: Option<BlockDevice>,
    /// What else a guarantee depends on: the layers below, and what cannot be seen of the stack.
    /// A force is worth no more than its weakest.
    pub layers: Vec<Layer>,
    /// Alignment for direct I/O; `None` where it is not offered.
    pub direct: Option<DirectAlignment>,
    /// Why it could not be found out whether direct I/O is offered, in words: `direct` being `None` is
    /// no answer then, and nothing lasting may be concluded from it.
    pub direct_unknown: Option<String>,
    /// Nothing can be written here: it is mounted read-only.
    pub read_only: bool,
    /// Identifies the filesystem, also after a restart as far as the system can: its UUID,
    /// or the number that it derives from that (`fsid:…`); empty if unknown.
    pub volume: String,
    /// Size of the filesystem in bytes, if it says so.
    pub capacity: Option<u64>,
    /// Release of the system's kernel, such as `6.12.9-amd64`; empty if unknown.
    pub kernel: String,
    /// Things worth telling the user, in sentences.
    pub notes: Vec<String>,
    /// What power cuts have shown of methods here. The system does not know: the caller
    /// that stores such evidence adds it.
    pub tried: Vec<CutResult>,
    /// Files that keep such evidence and cannot be read: each says which, why, and what to do. A
    /// loss may be recorded there, so nothing is said to survive a loss of power meanwhile.
    pub unread: Vec<String>,
}

impl Facts {
    /// Makes the facts of a filesystem of which nothing else is known. It has no device, no layers and no
    /// direct I/O, and counts as writable. All other texts and lists are empty. `barriers` is `false`, the
    /// weaker claim: a flush may end in the device's cache.
    pub fn new(platform: Platform, filesystem: impl Into<String>, kind: FilesystemKind) -> Facts {
        Facts {
            platform,
            filesystem: filesystem.into(),
            kind,
            mount_options: String::new(),
            mount_point: String::new(),
            barriers: false,
            journalled: None,
            device: None,
            layers: Vec::new(),
            direct: None,
            direct_unknown: None,
            read_only: false,
            volume: String::new(),
            capacity: None,
            kernel: String::new(),
            notes: Vec::new(),
            tried: Vec::new(),
            unread: Vec::new(),
        }
    }

    /// The smallest write that does not make the device or the filesystem rewrite a neighbour:
    /// the largest of logical sector, physical sector and direct alignment, at least 4096.
    pub fn write_unit(&self) -> u32 {
        let device = self
            .device
            .as_ref()
            .map_or(0, |d| d.logical_sector.max(d.physical_sector));
        let direct = self.direct.map_or(0, |d| d.offset.max(d.memory));
        device.max(direct).max(4096).next_power_of_two()
    }

    /// [`volume`](Self::volume), where it stays the same as long as the filesystem exists. Some
    /// filesystems (xfs) derive the number in its place from the number of the device, which is
    /// another's after a restart: it has no more than 32 bits, and does not count.
    pub fn lasting_volume(&self) -> Option<&str> {
        let is_number_of_device = self
            .volume
            .strip_prefix("fsid:")
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .is_some_and(|number| u32::try_from(number).is_ok());
        (!self.volume.is_empty() && !is_number_of_device).then_some(&*self.volume)
    }

    /// Whether a [`ReadSource::Medium`](crate::ReadSource::Medium) read can be had. Not on macOS:
    /// a descriptor with `F_NOCACHE` is still served what lies in the cache.
    pub fn reads_medium(&self) -> bool {
        self.direct.is_some() && self.platform != Platform::Macos
    }

    /// Why [`assess`](Self::assess) gave nothing for `method`, in words.
    pub fn why_not_offered(&self, method: Method) -> String {
        if method.is_of(self.platform) {
            match &self.direct_unknown {
                Some(why) => format!(
                    "whether {} has direct I/O here is unknown: {why}",
                    self.filesystem
                ),
                None => format!("{} has no direct I/O here", self.filesystem),
            }
        } else {
            format!("{method} is no method of {}", self.platform)
        }
    }

    /// Whether a force makes what was written to blocks that were never written before
    /// ([`FileState::Fallocated`]) as durable as what overwrites: it has to record that those blocks
    /// hold data now. Asked of Linux alone, where that is known of ext4 and xfs.
    #[doc(hidden)]
    pub fn forces_first_writes(&self) -> bool {
        self.platform == Platform::Linux
            && self.kind == FilesystemKind::InPlace
            && self.journalled == Some(true)
    }

    /// What the system says of `method` on a file in `state`: [`assess`](Self::assess) without what
    /// was tried. `None` for a method of another system too.
    pub(crate) fn declared(&self, method: Method, state: FileState) -> Option<Assessment> {
        let known = method.is_of(self.platform);
        known.then(|| self.assess_plan(method.plan(), state))?
    }

    /// What a write by `plan` is worth here, whether or not a method of this system is that plan.
    /// `None` where there is no direct I/O and the plan asks for it.
    #[doc(hidden)]
    pub fn assess_plan(&self, plan: Plan, state: FileState) -> Option<Assessment> {
        if plan.direct && self.direct.is_none() {
            return None;
        }
        if self.read_only {
            return Some(self.not_written());
        }
        let above = self.assess_here(plan, state)?;
        Some(match plan.force {
            ForceBy::None => layer::weakest_written(&self.layers, above),
            _ => layer::weakest_synced(&self.layers, above),
        })
    }

    /// By the filesystem and its device alone, whatever lies below.
    fn assess_here(&self, plan: Plan, state: FileState) -> Option<Assessment> {
        if self.kind == FilesystemKind::Volatile {
            return Some(self.in_memory());
        }
        match (self.platform, plan.force) {
            (_, ForceBy::None) => Some(self.without_barrier(plan.direct, state)),
            (Platform::Macos, ForceBy::Barrier(Barrier::Fsync)) => say(
                Guarantee::OsCrash,
                Verdict::Declared,
                Source::System,
                "fsync of macOS hands the data to the device and does not have its cache flushed",
            ),
            (Platform::Macos, ForceBy::Barrier(Barrier::Order)) => say(
                Guarantee::OsCrash,
                Verdict::Declared,
                Source::System,
                "a barrier orders writes: after a power cut no later one is there without the earlier ones, but any number of the last may be missing",
            ),
            _ if self.kind == FilesystemKind::Remote => Some(self.elsewhere()),
            (Platform::Windows, ForceBy::Through) => Some(self.write_through_here()),
            _ => Some(self.flushed()),
        }
    }

    /// Whether a write through is on the medium here when it is complete, without a flush of
    /// everything else: the verdict on it, with its evidence.
    ///
    /// On Linux and macOS the answer is about the device's own FUA; a write through is completed by
    /// a flush where there is none.
    pub fn write_through(&self) -> Assessment {
        match self.read_only {
            true => self.not_written(),
            false => layer::weakest_synced(&self.layers, self.write_through_here()),
        }
    }

    fn write_through_here(&self) -> Assessment {
        match self.kind {
            FilesystemKind::Volatile => return self.in_memory(),
            FilesystemKind::Remote => return self.elsewhere(),
            _ => {}
        }
        let fua = self.device.as_ref().and_then(|d| d.fua);
        let source = self.flush_source();
        let mut answer = match (self.says_no_cache(), fua) {
            (Some(words), _) => {
                Assessment::new(Guarantee::PowerLoss, Verdict::Declared, source, words)
            }
            // Who leaves flushes out leaves out FUA as well.
            _ if !self.barriers => Assessment::new(
                Guarantee::OsCrash,
                Verdict::Contradicted,
                Source::System,
                "the system is configured not to flush the device's cache: the write may end in it",
            ),
            (_, Some(true)) => Assessment::new(
                Guarantee::PowerLoss,
                Verdict::Declared,
                source,
                "the device says that it supports write-through",
            ),
            (_, Some(false)) => Assessment::new(
                Guarantee::OsCrash,
                Verdict::Contradicted,
                source,
                "the device says that it does not support write-through: the write ends in its volatile cache",
            ),
            (_, None) => Assessment::new(
                Guarantee::PowerLoss,
                Verdict::Unknown,
                Source::Nobody,
                "the device does not say whether it supports write-through",
            ),
        };
        // On Linux the filesystem completes what the descriptor asks for; Microsoft says it of NTFS.
        if self.platform == Platform::Windows
            && self.kind != FilesystemKind::InPlace
            && answer.verdict == Verdict::Declared
        {
            answer.verdict = Verdict::Unknown;
            answer.source = Source::Nobody;
            answer.evidence += &format!(
                "; but {} has to record where it puts the data as well, and nothing says that a write-through does",
                self.filesystem
            );
        }
        answer
    }

    /// Returns the party that answers for the device's cache and its flush.
    fn flush_source(&self) -> Source {
        self.device
            .as_ref()
            .map_or(Source::Nobody, |d| d.cache_source)
    }

    /// Returns the evidence that the device needs no flush, if the system reports so.
    fn says_no_cache(&self) -> Option<String> {
        let device = self.device.as_ref()?;
        (device.write_cache == WriteCache::Through)
            .then(|| device.cache_source.says_no_cache(&device.name))
    }

    fn not_written(&self) -> Assessment {
        Assessment::new(
            Guarantee::Nothing,
            Verdict::Contradicted,
            Source::System,
            "it is mounted read-only: nothing can be written here",
        )
    }

    fn in_memory(&self) -> Assessment {
        Assessment {
            guarantee: Guarantee::ProcessCrash,
            verdict: Verdict::Contradicted,
            source: Source::System,
            evidence: match &self.device {
                Some(device) => format!(
                    "the {} here is on {}, which is memory of this machine: nothing survives a restart \
                     of the system",
                    self.filesystem, device.name
                ),
                None => format!(
                    "{} keeps files in memory: nothing survives a restart of the system",
                    self.filesystem
                ),
            },
        }
    }

    fn elsewhere(&self) -> Assessment {
        Assessment {
            guarantee: Guarantee::PowerLoss,
            verdict: Verdict::Unknown,
            source: Source::Server,
            evidence: format!(
                "{} is served by another machine: whether a sync reaches its medium is that machine's word",
                self.filesystem
            ),
        }
    }

    /// What a flush of the device's cache is worth, be it by a barrier or behind a write through.
    fn flushed(&self) -> Assessment {
        // Windows mounts nothing so: it is a setting of the disk there.
        let without = match self.platform {
            Platform::Windows => "the system is configured not to flush the device's cache",
            _ => "mounted without barriers",
        };
        let source = self.flush_source();
        let durable =
            |words: String| Assessment::new(Guarantee::PowerLoss, Verdict::Declared, source, words);
        let cache = self.device.as_ref().map(|d| d.write_cache);
        match (self.barriers, self.says_no_cache(), cache) {
            (false, Some(words), _) => durable(format!("{without}; {words}")),
            (true, Some(words), _) => durable(words),
            (false, None, _) => Assessment::new(
                Guarantee::OsCrash,
                Verdict::Contradicted,
                Source::System,
                format!(
                    "{without} ({}): a sync stops in the device's cache",
                    self.mount_options
                ),
            ),
            (true, None, None) if !self.layers.is_empty() => Assessment::new(
                Guarantee::PowerLoss,
                Verdict::Declared,
                Source::System,
                "a sync is passed on to what lies below",
            ),
            (true, None, Some(WriteCache::Back)) => durable(source.says_flushed()),
            (true, None, cache) if self.system_promises(cache) => Assessment::new(
                Guarantee::PowerLoss,
                Verdict::Declared,
                Source::System,
                format!(
                    "{} promises that its flush reaches the medium; what cache the device has is not known",
                    self.platform
                ),
            ),
            (true, None, cache) => Assessment::new(
                Guarantee::PowerLoss,
                Verdict::Unknown,
                Source::Nobody,
                match cache {
                    Some(_) => "whether the device has a volatile cache is not known".to_owned(),
                    None => format!(
                        "the system names no device below {}: whether a sync reaches a medium is not \
                         known",
                        self.filesystem
                    ),
                },
            ),
        }
    }

    /// Returns true if the system's documentation promises a flush down to the medium, and the device reports
    /// nothing that contradicts it. Linux promises only the flush that the device reports.
    fn system_promises(&self, cache: Option<WriteCache>) -> bool {
        self.platform != Platform::Linux
            && (cache.is_none() || self.flush_source() == Source::System)
    }

    fn without_barrier(&self, direct: bool, state: FileState) -> Assessment {
        let say = |guarantee, source, words: String| {
            Assessment::new(guarantee, Verdict::Declared, source, words)
        };
        let cached = |words: &str| say(Guarantee::ProcessCrash, Source::System, words.to_owned());
        if !direct {
            return cached("the bytes are in the system's cache");
        }
        if self.kind != FilesystemKind::InPlace {
            return cached(
                "this filesystem does not overwrite in place: where it puts the bytes is not durable yet",
            );
        }
        if !state.is_written() {
            return cached(
                "the blocks were never written before: their allocation is not durable yet",
            );
        }
        let source = self.flush_source();
        match self.says_no_cache() {
            Some(words) if source.is_device() => say(
                Guarantee::PowerLoss,
                source,
                format!("overwritten in place; {words}"),
            ),
            Some(words) => say(
                Guarantee::OsCrash,
                Source::System,
                format!("overwritten in place, but perhaps in a volatile cache: {words}"),
            ),
            None => say(
                Guarantee::OsCrash,
                Source::System,
                "overwritten in place, but perhaps still in the device's volatile cache".to_owned(),
            ),
        }
    }
}

fn say(
    guarantee: Guarantee,
    verdict: Verdict,
    source: Source,
    evidence: impl Into<String>,
) -> Option<Assessment> {
    Some(Assessment::new(guarantee, verdict, source, evidence))
}

#[cfg(test)]
mod tests;
