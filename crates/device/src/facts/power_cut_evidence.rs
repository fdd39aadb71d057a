//! Evidence of power cuts, which overrides the system's report.

use crate::{Assessment, Facts, FileState, ForceBy, Guarantee, Method, Platform, Source, Verdict};

/// Result of power cuts for one method in one directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutResult {
    /// Method that was tested.
    pub method: Method,
    /// True if everything that was acknowledged was there after each of the cuts.
    pub kept: bool,
    /// Date, number of cuts and amount of data, in words for the user.
    pub evidence: String,
}

impl CutResult {
    /// Makes a result of these parts.
    pub fn new(method: Method, kept: bool, evidence: impl Into<String>) -> CutResult {
        CutResult {
            method,
            kept,
            evidence: evidence.into(),
        }
    }
}

/// All evidence of power cuts in one directory, as far as it can be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CutEvidence {
    /// Results, as in [`Facts::tried`].
    pub tried: Vec<CutResult>,
    /// Unreadable files, as in [`Facts::unread`].
    pub unread: Vec<String>,
}

impl CutEvidence {
    /// Makes the evidence of these parts. Both are needed, because an unreadable file may record a loss.
    pub fn new(tried: Vec<CutResult>, unread: Vec<String>) -> CutEvidence {
        CutEvidence { tried, unread }
    }
}

/// Returns the methods that a log uses without other evidence, the first choice first.
///
/// On Linux direct I/O is preferred among equals: it saves a copy and leaves the cache to others. A write
/// that is durable by itself is one call, and the kernel flushes where the device has no FUA. Elsewhere the
/// device alone decides what a write-through does, so a method that sends a flush is used.
fn preference(platform: Platform) -> &'static [Method] {
    match platform {
        Platform::Linux => &[
            Method::DirectDsync,
            Method::DirectFdatasync,
            Method::Dsync,
            Method::Fdatasync,
        ],
        Platform::Windows => &[Method::Flush],
        Platform::Macos => &[Method::FullFsync],
    }
}

impl Platform {
    /// Returns the method that is used where nothing speaks against it: the first choice of
    /// [`Facts::default_method`].
    pub fn first_choice(self) -> Method {
        preference(self)
            .first()
            .copied()
            .unwrap_or(Method::Buffered)
    }
}

impl Facts {
    /// Returns the method that is used where the user names none and nothing was measured. On Linux it is
    /// `direct+dsync` if direct I/O is offered, else `dsync`; on Windows `flush`; on macOS `full-fsync`. If
    /// that method lost acknowledged data in a power cut, the next one that did not takes its place, if there
    /// is one.
    pub fn default_method(&self) -> Method {
        let is_offered = |m: &&Method| !m.plan().direct || self.direct.is_some();
        let mut offered = preference(self.platform).iter().filter(is_offered);
        let preferred = offered.clone().next().unwrap_or(&Method::Dsync);
        *offered
            .find(|m| self.lost_by(**m).is_none())
            .unwrap_or(preferred)
    }

    /// Returns the reason for the choice of [`default_method`](Self::default_method), in words.
    pub fn why_default(&self) -> String {
        let (default, first) = (self.default_method(), self.platform.first_choice());
        let why = match self.platform {
            Platform::Linux if default.plan().force == ForceBy::Through => {
                "a write that is durable by itself is one call, and where the device has no FUA the kernel flushes"
            }
            Platform::Linux => "the kernel flushes the device behind the write",
            Platform::Windows => {
                "this at least sends a flush; the device alone decides what a write-through does"
            }
            Platform::Macos => "no other method flushes the device's cache",
        };
        let lost = |m: Method| self.tried_by(m).any(|t| !t.kept);
        if default == first {
            why.to_owned()
        } else if lost(first) {
            format!("{first} lost acknowledged data in a power cut; {why}")
        } else {
            format!("{}; {why}", self.why_not_offered(first))
        }
    }

    /// Returns the guarantee of `method` on a file in `state` here, with its evidence. Results of power cuts
    /// ([`Facts::tried`]) override the system's report, and never make a guarantee stronger. A result that
    /// cannot be read ([`Facts::unread`]) may be a loss: the guarantee is then at most
    /// [`Guarantee::OsCrash`].
    ///
    /// Returns `None` if the method is not offered (direct I/O on a filesystem without it).
    pub fn assess(&self, method: Method, state: FileState) -> Option<Assessment> {
        let mut known = self.declared(method, state)?;
        if let Some(evidence) = self.lost_by(method) {
            // Power cuts show nothing about a crash of the system alone.
            if known.guarantee > Guarantee::OsCrash {
                known.guarantee = Guarantee::OsCrash;
                known.verdict = Verdict::Contradicted;
                known.source = Source::PowerCut;
                known.evidence = evidence;
            }
        } else if known.guarantee == Guarantee::PowerLoss
            && let Some(unread) = self.unread_of_here()
        {
            known.guarantee = Guarantee::OsCrash;
            known.verdict = Verdict::Unknown;
            known.source = Source::Nobody;
            known.evidence = unread;
        } else if known.guarantee == Guarantee::PowerLoss
            && matches!(known.verdict, Verdict::Declared | Verdict::Unknown)
            // Logs write to nothing else, so power cuts tested nothing else.
            && state.is_written()
            && let Some(tried) = self.tried_by(method).find(|t| t.kept)
        {
            known.verdict = Verdict::Proven;
            known.source = Source::PowerCut;
            known.evidence = format!("{}; {}", tried.evidence, known.evidence);
        }
        Some(known)
    }

    fn tried_by(&self, method: Method) -> impl Iterator<Item = &CutResult> {
        self.tried.iter().filter(move |t| t.method == method)
    }

    /// Returns the messages about unreadable evidence, which may record a loss here.
    fn unread_of_here(&self) -> Option<String> {
        (!self.unread.is_empty()).then(|| self.unread.join("; "))
    }

    /// Replaces the evidence of power cuts.
    pub fn heed(&mut self, evidence: CutEvidence) {
        (self.tried, self.unread) = (evidence.tried, evidence.unread);
    }

    /// Returns the evidence that the method loses acknowledged data. It lost some itself, or another method
    /// did that relies on the same command to the device. The latter does not count if power cuts showed that
    /// this method keeps everything. All rely on the flush: it makes files, their names and their blocks durable
    /// before anything is written through to them.
    fn lost_by(&self, method: Method) -> Option<String> {
        if let Some(own) = self.tried_by(method).find(|t| !t.kept) {
            return Some(own.evidence.clone());
        }
        if self.tried_by(method).next().is_some() || method.plan().force == ForceBy::None {
            return None;
        }
        let alike = |t: &&CutResult| {
            !t.kept
                && t.method.plan().force != ForceBy::None
                && (!self.is_by_fua(t.method) || self.is_by_fua(method))
        };
        let other = self.tried.iter().find(alike)?;
        let on = if self.is_by_fua(other.method) {
            "on the device's write-through"
        } else {
            "on the device's flush"
        };
        Some(format!(
            "{method} relies {on} as {} does, which lost data: {}",
            other.method, other.evidence
        ))
    }

    /// Returns true if the method relies on FUA. Linux uses FUA only for direct writes, and only if the
    /// device has it; otherwise it writes and flushes. Windows sends no flush in place of a missing FUA.
    fn is_by_fua(&self, method: Method) -> bool {
        match self.platform {
            Platform::Linux => {
                let has = self.device.as_ref().is_some_and(|d| d.fua == Some(true));
                method == Method::DirectDsync && has
            }
            Platform::Windows | Platform::Macos => method.plan().force == ForceBy::Through,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{BlockDevice, DirectAlignment, FilesystemKind, WriteCache};

    fn facts(fua: bool, tried: &[(Method, bool)]) -> Facts {
        let tried = tried
            .iter()
            .map(|&(method, kept)| CutResult::new(method, kept, format!("tried {method}")));
        Facts {
            mount_options: "rw".to_owned(),
            mount_point: "/".to_owned(),
            barriers: Some(true),
            device: Some(BlockDevice {
                write_cache: WriteCache::Back,
                cache_source: Source::Device,
                fua: Some(fua),
                rotational: Some(false),
                model: "test".to_owned(),
                ..BlockDevice::new("sdx")
            }),
            direct: Some(DirectAlignment {
                memory: 512,
                offset: 512,
            }),
            volume: "v".to_owned(),
            tried: tried.collect(),
            ..Facts::new(Platform::Linux, "ext4", FilesystemKind::InPlace)
        }
    }

    fn verdict(facts: &Facts, method: Method) -> (Guarantee, Verdict) {
        let a = facts.assess(method, FileState::Zeroed).unwrap();
        (a.guarantee, a.verdict)
    }

    const DECLARED: (Guarantee, Verdict) = (Guarantee::PowerLoss, Verdict::Declared);
    const PROVEN: (Guarantee, Verdict) = (Guarantee::PowerLoss, Verdict::Proven);
    const CONTRADICTED: (Guarantee, Verdict) = (Guarantee::OsCrash, Verdict::Contradicted);

    #[test]
    fn proven_replaces_the_devices_word_for_that_method_only() {
        let f = facts(true, &[(Method::Dsync, true)]);
        assert_eq!(verdict(&f, Method::Dsync), PROVEN);
        assert_eq!(verdict(&f, Method::Fdatasync), DECLARED);
        let a = f.assess(Method::Dsync, FileState::Zeroed).unwrap();
        assert!(
            a.evidence.starts_with("tried dsync; the device has"),
            "{a:?}"
        );
        let growing = f.assess(Method::Dsync, FileState::Growing).unwrap();
        assert_eq!(growing.verdict, Verdict::Declared, "no cut tested this");
    }

    #[test]
    fn the_number_of_a_device_is_no_filesystems() {
        let mut f = facts(true, &[]);
        for (volume, lasts) in [
            ("", false),
            ("fsid:0000000000000701", false),
            ("fsid:6501ec3f4a8722b4", true),
            ("0d3a-uuid", true),
        ] {
            f.volume = volume.to_owned();
            assert_eq!(f.lasting_volume(), lasts.then_some(volume));
        }
    }

    #[test]
    fn proven_makes_nothing_stronger() {
        let mut f = facts(true, &[(Method::Buffered, true), (Method::Fdatasync, true)]);
        let before = (Guarantee::ProcessCrash, Verdict::Declared);
        assert_eq!(verdict(&f, Method::Buffered), before);
        f.barriers = Some(false);
        assert_eq!(verdict(&f, Method::Fdatasync), CONTRADICTED);
    }

    #[test]
    fn a_loss_by_fua_leaves_the_flush() {
        let f = facts(true, &[(Method::DirectDsync, false)]);
        assert_eq!(verdict(&f, Method::DirectDsync), CONTRADICTED);
        assert_eq!(verdict(&f, Method::DirectFdatasync), DECLARED);
        assert_eq!(f.default_method(), Method::DirectFdatasync);
    }

    #[test]
    fn a_loss_by_the_flush_takes_all_that_rely_on_it() {
        let f = facts(true, &[(Method::Fdatasync, false)]);
        for method in [Method::Fsync, Method::Dsync, Method::DirectFdatasync] {
            assert_eq!(verdict(&f, method), CONTRADICTED, "{method}");
        }
        // Its files and their names become durable by the flush.
        assert_eq!(verdict(&f, Method::DirectDsync), CONTRADICTED);
        let kept = facts(
            true,
            &[(Method::Fdatasync, false), (Method::DirectDsync, true)],
        );
        assert_eq!(verdict(&kept, Method::DirectDsync), PROVEN);
        let a = f.assess(Method::Dsync, FileState::Zeroed).unwrap();
        assert!(a.evidence.contains("as fdatasync does"), "{a:?}");
        let without = facts(false, &[(Method::DirectDsync, false)]);
        assert_eq!(verdict(&without, Method::Fdatasync), CONTRADICTED);
        assert_eq!(
            without.default_method(),
            Method::DirectDsync,
            "none is left"
        );
    }

    #[test]
    fn on_windows_a_loss_by_write_through_leaves_the_flush() {
        let mut f = facts(true, &[(Method::WriteThrough, false)]);
        f.platform = Platform::Windows;
        assert_eq!(verdict(&f, Method::NoBufferingWriteThrough), CONTRADICTED);
        for method in [Method::Flush, Method::FlushData] {
            assert_eq!(verdict(&f, method), DECLARED, "{method}");
        }
        assert_eq!(f.default_method(), Method::Flush);
        f.tried[0].method = Method::Flush;
        for method in [Method::FlushData, Method::WriteThrough] {
            assert_eq!(verdict(&f, method), CONTRADICTED, "{method}");
        }
    }

    #[test]
    fn the_default_says_why_it_is_not_the_first_choice() {
        let mut f = facts(true, &[]);
        assert!(f.why_default().starts_with("a write that is durable"));
        f.direct = None;
        let why = f.why_default();
        assert!(why.starts_with("ext4 has no direct I/O here; a"), "{why}");
        let f = facts(true, &[(Method::DirectDsync, false)]);
        let why = f.why_default();
        assert!(why.starts_with("direct+dsync lost"), "{why}");
        assert!(why.ends_with("behind the write"), "{why}");
    }

    #[test]
    fn the_first_choice_is_the_default_where_all_is_offered() {
        let mut f = facts(true, &[]);
        for platform in Platform::ALL {
            f.platform = platform;
            assert_eq!(f.default_method(), platform.first_choice());
            assert!(platform.first_choice().is_of(platform));
        }
    }

    #[test]
    fn what_was_itself_seen_to_keep_everything_is_not_taken_along() {
        let tried = [(Method::Fdatasync, false), (Method::Dsync, true)];
        let f = facts(false, &tried);
        assert_eq!(verdict(&f, Method::Dsync), PROVEN);
        assert_eq!(f.default_method(), Method::Dsync);
        let both = [(Method::Dsync, true), (Method::Dsync, false)];
        assert_eq!(verdict(&facts(false, &both), Method::Dsync), CONTRADICTED);
    }

    #[test]
    fn what_forces_nothing_is_not_contradicted() {
        let f = facts(false, &[(Method::Fdatasync, false)]);
        let direct = (Guarantee::OsCrash, Verdict::Declared);
        assert_eq!(verdict(&f, Method::Direct), direct);
    }

    #[test]
    fn what_cannot_be_read_may_be_a_loss() {
        // A loss that can be read counts more than an unreadable file. A result without a loss does not.
        let shown = [(Method::Dsync, true), (Method::DirectDsync, false)];
        let mut f = facts(true, &shown);
        let unread = vec!["a is torn".to_owned(), "b is torn".to_owned()];
        f.heed(CutEvidence::new(f.tried.clone(), unread));
        for (method, verdict, evidence) in [
            (Method::Dsync, Verdict::Unknown, "a is torn; b is torn"),
            (Method::Fdatasync, Verdict::Unknown, "a is torn; b is torn"),
            (
                Method::DirectDsync,
                Verdict::Contradicted,
                "tried direct+dsync",
            ),
        ] {
            let a = f.assess(method, FileState::Zeroed).unwrap();
            assert_eq!((a.guarantee, a.verdict), (Guarantee::OsCrash, verdict));
            assert_eq!(a.evidence, evidence);
        }
        let bare = facts(true, &[]);
        for method in [Method::Buffered, Method::Direct] {
            let (a, b) = (&f, &bare);
            let state = FileState::Zeroed;
            assert_eq!(a.assess(method, state), b.assess(method, state), "{method}");
        }
        // Evidence may be about this directory even if the volume is unknown.
        f.volume.clear();
        let a = f.assess(Method::Dsync, FileState::Zeroed).unwrap();
        assert_eq!(a.guarantee, Guarantee::OsCrash);
    }
}
