mod layer;
mod power_cut_evidence;

pub use layer::{Layer, Reading};
pub use power_cut_evidence::{CutEvidence, CutResult};

use crate::{
    Assessment, AtomicWrite, Barrier, BlockDevice, DirectAlignment, FileState, FilesystemKind,
    ForceBy, Guarantee, Method, Plan, Platform, Source, Verdict, WriteCache,
};

/// Properties of the filesystem and the device below a directory, as the system reports them.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Facts {
    /// Platform whose system calls are made here.
    pub platform: Platform,
    /// Name of the filesystem, such as `ext4`.
    pub filesystem: String,
    /// Behaviour of that filesystem on a write.
    pub kind: FilesystemKind,
    /// Mount options as the system prints them. On Linux empty only if they cannot be seen.
    pub mount_options: String,
    /// Path of the mount point; empty if unknown.
    pub mount_point: String,
    /// True if the filesystem passes barriers on to the device. False with `nobarrier`, and where Windows was
    /// configured to send none. `None` if unknown, or if there is no device to flush.
    pub barriers: Option<bool>,
    /// True if a forced file's blocks are still at the same locations after a power cut. A journal does that,
    /// and so does a filesystem that never overwrites. False for an ext4 without a journal, which has to be
    /// repaired first. An overlay has the value of its upper directory. `None` if unknown.
    pub journalled: Option<bool>,
    /// Device, if there is one and it can be named.
    pub device: Option<BlockDevice>,
    /// Other parts that a guarantee depends on: the layers below, and parts of the stack that cannot be seen.
    /// A force is only as strong as the weakest of them.
    pub layers: Vec<Layer>,
    /// Largest write that a crash cannot tear, if filesystem and device offer such writes. `None` if they
    /// offer none, or do not say.
    pub atomic_write: Option<AtomicWrite>,
    /// Alignment for direct I/O; `None` if the filesystem does not offer it.
    pub direct: Option<DirectAlignment>,
    /// Reason why the support of direct I/O could not be determined, in words. `direct` being `None` is then
    /// not an answer, and no lasting decision may rest on it.
    pub direct_unknown: Option<String>,
    /// True if nothing can be written here, because the filesystem is mounted read-only.
    pub read_only: bool,
    /// Identifier of the filesystem, also after a restart as far as the system can provide that. It is the
    /// UUID, or the number that the system derives from the UUID (`fsid:…`). Empty if unknown.
    pub volume: String,
    /// Size of the filesystem in bytes, if it reports one.
    pub capacity: Option<u64>,
    /// Release of the system's kernel, such as `6.12.9-amd64`; empty if unknown.
    pub kernel: String,
    /// Remarks for the user, in sentences.
    pub notes: Vec<String>,
    /// Results of power cuts for methods here. The system does not know them: the caller that stores such
    /// evidence adds it.
    pub tried: Vec<CutResult>,
    /// Files of such evidence that cannot be read, with the name, the reason and the remedy. Such a file may
    /// record a loss. Until it can be read, nothing counts as surviving a loss of power.
    pub unread: Vec<String>,
}

impl Facts {
    /// Makes the facts of a filesystem of which nothing else is known. It has no device, no layers and no
    /// direct I/O, and counts as writable. All other texts and lists are empty. `barriers` is `None`: a
    /// flush may end in the device's cache, so no guarantee is declared.
    pub fn new(platform: Platform, filesystem: impl Into<String>, kind: FilesystemKind) -> Facts {
        Facts {
            platform,
            filesystem: filesystem.into(),
            kind,
            mount_options: String::new(),
            mount_point: String::new(),
            barriers: None,
            journalled: None,
            device: None,
            layers: Vec::new(),
            atomic_write: None,
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

    /// Returns the smallest write that does not make the device or the filesystem rewrite a neighbour. It is
    /// the largest of logical sector, physical sector and direct alignment, at least 4096 bytes.
    pub fn write_unit(&self) -> u32 {
        let device = self
            .device
            .as_ref()
            .map_or(0, |d| d.logical_sector.max(d.physical_sector));
        let direct = self.direct.map_or(0, |d| d.offset.max(d.memory));
        device.max(direct).max(4096).next_power_of_two()
    }

    /// Returns [`volume`](Self::volume) if it stays the same as long as the filesystem exists. Some
    /// filesystems (xfs) derive it from the number of the device, which may belong to another device after a
    /// restart. Such a number has at most 32 bits and does not count.
    pub fn lasting_volume(&self) -> Option<&str> {
        let is_number_of_device = self
            .volume
            .strip_prefix("fsid:")
            .and_then(|digits| u64::from_str_radix(digits, 16).ok())
            .is_some_and(|number| u32::try_from(number).is_ok());
        (!self.volume.is_empty() && !is_number_of_device).then_some(&*self.volume)
    }

    /// Returns true if a [`ReadSource::Medium`](crate::ReadSource::Medium) read is possible. It is not on
    /// macOS: a read by a descriptor with `F_NOCACHE` may still be served from the cache.
    pub fn reads_medium(&self) -> bool {
        self.direct.is_some() && self.platform != Platform::Macos
    }

    /// Returns the reason why [`assess`](Self::assess) returned `None` for `method`, in words.
    pub fn why_not_offered(&self, method: Method) -> String {
        if method.is_of(self.platform) {
            match &self.direct_unknown {
                Some(why) => format!(
                    "it is unknown whether {} supports direct I/O here: {why}",
                    self.filesystem
                ),
                None => format!("{} has no direct I/O here", self.filesystem),
            }
        } else {
            format!("{method} is not a method of {}", self.platform)
        }
    }

    /// Returns true if a force makes first writes to reserved blocks ([`FileState::Fallocated`]) as durable
    /// as overwrites. For that the force has to record that those blocks hold data now. This is known only of
    /// Linux, for ext4 and xfs.
    #[doc(hidden)]
    pub fn forces_first_writes(&self) -> bool {
        self.platform == Platform::Linux
            && self.kind == FilesystemKind::InPlace
            && self.journalled == Some(true)
    }

    /// Returns the assessment with the doubt of a repair. An ext4 without a journal has to be repaired (e2fsck)
    /// after a crash of the system, and the repair may overwrite forced blocks (docs/durability.md, A8). A
    /// declared guarantee is then unknown.
    #[doc(hidden)]
    pub fn after_repair(&self, mut a: Assessment) -> Assessment {
        let needs_one = self.journalled == Some(false) && a.guarantee > Guarantee::ProcessCrash;
        if needs_one && a.verdict == Verdict::Declared {
            a.verdict = Verdict::Unknown;
            a.evidence = "the filesystem has no journal in use, and the repair that it needs after a crash (e2fsck) \
                          may overwrite forced blocks"
                .to_owned();
        }
        a
    }

    /// Returns the assessment of `method` on a file in `state` by the system's report alone:
    /// [`assess`](Self::assess) without the results of power cuts. `None` also for a method of another
    /// platform.
    pub(crate) fn declared(&self, method: Method, state: FileState) -> Option<Assessment> {
        let known = method.is_of(self.platform);
        known.then(|| self.assess_plan(method.plan(), state))?
    }

    /// Returns the guarantee of a write by `plan` here, whether or not a method of this platform has that
    /// plan. `None` if the plan needs direct I/O and there is none.
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
            ForceBy::None => layer::weakest_written(&self.layers, above, plan.direct),
            _ => layer::weakest_synced(&self.layers, above),
        })
    }

    /// Assesses the filesystem and its device alone, without the layers below.
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
                "on macOS fsync writes the data to the device but does not flush the device's cache",
            ),
            (Platform::Macos, ForceBy::Barrier(Barrier::Order)) => say(
                Guarantee::OsCrash,
                Verdict::Declared,
                Source::System,
                "a barrier only orders writes: after a power cut no write is there without the earlier ones, but any number of the last writes may be missing",
            ),
            _ if self.kind == FilesystemKind::Remote => Some(self.elsewhere()),
            (Platform::Windows, ForceBy::Through) => Some(self.write_through_here()),
            _ => Some(self.flushed()),
        }
    }

    /// Returns the guarantee of a completed write-through here, without a flush of everything else: the
    /// verdict and its evidence.
    ///
    /// On Linux and macOS the answer is about the device's own FUA. On a device without FUA a write-through is
    /// completed by a flush.
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
            // A system that sends no flushes sends no FUA either.
            _ if self.barriers == Some(false) => Assessment::new(
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
        // On Linux the filesystem completes what the descriptor asks for. On Windows, Microsoft documents
        // that for NTFS only.
        if self.platform == Platform::Windows
            && self.kind != FilesystemKind::InPlace
            && answer.verdict == Verdict::Declared
        {
            answer.verdict = Verdict::Unknown;
            answer.source = Source::Nobody;
            answer.evidence += &format!(
                "; but {} also has to record where it puts the data, and nothing says that a write-through does that",
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
                "{} is served by another machine, which alone decides whether a sync reaches its medium",
                self.filesystem
            ),
        }
    }

    /// Returns the guarantee of a flush of the device's cache, by a barrier or after a write-through.
    fn flushed(&self) -> Assessment {
        // On Windows this is a setting of the disk, not of the mount.
        let without = match self.platform {
            Platform::Windows => "the system is configured not to flush the device's cache",
            _ => "mounted without barriers",
        };
        // A device that consists of no others has said more in its own layer.
        if let ([layer], Some(device)) = (&*self.layers, &self.device)
            && layer.name == device.name
            && (layer.synced.guarantee, layer.synced.verdict)
                == (Guarantee::PowerLoss, Verdict::Declared)
            && self.barriers == Some(true)
        {
            return layer.synced.clone();
        }
        let source = self.flush_source();
        let durable =
            |words: String| Assessment::new(Guarantee::PowerLoss, Verdict::Declared, source, words);
        let cache = self.device.as_ref().map(|d| d.write_cache);
        match (self.barriers != Some(false), self.says_no_cache(), cache) {
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
            (true, None, _) if self.barriers.is_none() => Assessment::new(
                Guarantee::PowerLoss,
                Verdict::Unknown,
                Source::Nobody,
                format!(
                    "it is unknown whether {} flushes the device's cache",
                    self.filesystem
                ),
            ),
            (true, None, None) if !self.layers.is_empty() => Assessment::new(
                Guarantee::PowerLoss,
                Verdict::Declared,
                Source::System,
                "a sync is passed on to the layers below",
            ),
            (true, None, Some(WriteCache::Back)) => durable(source.says_flushed()),
            (true, None, cache) if self.system_promises(cache) => Assessment::new(
                Guarantee::PowerLoss,
                Verdict::Declared,
                Source::System,
                format!(
                    "{} promises that its flush reaches the medium; the device's cache is not known",
                    self.platform
                ),
            ),
            (true, None, cache) => Assessment::new(
                Guarantee::PowerLoss,
                Verdict::Unknown,
                Source::Nobody,
                match cache {
                    Some(_) => "it is unknown whether the device has a volatile cache".to_owned(),
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
            Some(words) if source.is_device() || source == Source::Server => say(
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
