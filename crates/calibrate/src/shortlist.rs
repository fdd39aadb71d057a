//! Selection of the methods to measure, by the facts alone.

use logforce_device::{
    Facts, FileState, FilesystemKind, ForceBy, Guarantee, Method, Platform, Verdict,
};
use std::fmt;

/// Methods to measure, and the others with the reason for leaving them out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shortlist {
    /// Methods to measure: the default first, then in the order of preference among equals.
    pub methods: Vec<Method>,
    /// Methods that are not measured.
    pub left_out: Vec<LeftOut>,
}

/// A method that is not measured.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct LeftOut {
    /// The method.
    pub method: Method,
    /// Reason, in words.
    pub why: String,
}

/// Order of preference among methods of equal speed. Direct I/O saves a copy and leaves the cache to others.
/// A write-through needs one call instead of two.
const PREFERENCE: [Method; 10] = [
    Method::DirectDsync,
    Method::DirectFdatasync,
    Method::Dsync,
    Method::Fdatasync,
    Method::NoBufferingWriteThrough,
    Method::WriteThrough,
    Method::FlushData,
    Method::Flush,
    Method::NocacheFullFsync,
    Method::FullFsync,
];

/// Returns the methods that guarantee at least `require` and what the default method guarantees here, by
/// evidence that is not contradicted. The list is empty if the default method itself does not qualify.
pub fn shortlist(facts: &Facts, require: Guarantee) -> Shortlist {
    let default = facts.default_method();
    let floor = facts
        .assess(default, FileState::Zeroed)
        .map_or(require, |a| a.guarantee.max(require));
    let mut list = Shortlist {
        methods: Vec::new(),
        left_out: Vec::new(),
    };
    for &method in facts.platform.methods() {
        match objection(facts, method, floor) {
            None => list.methods.push(method),
            Some(why) => list.left_out.push(LeftOut { method, why }),
        }
    }
    if !list.methods.contains(&default) {
        // Without the default there is nothing to compare the other methods with.
        for method in std::mem::take(&mut list.methods) {
            let why =
                format!("the default method {default} cannot be measured here for comparison");
            list.left_out.push(LeftOut { method, why });
        }
    }
    let rank = |m: &Method| PREFERENCE.iter().position(|p| p == m);
    list.methods.sort_by_key(|m| (*m != default, rank(m)));
    list
}

fn objection(facts: &Facts, method: Method, floor: Guarantee) -> Option<String> {
    if method.plan().force == ForceBy::None {
        return Some("nothing forces its writes: used only if selected by name".to_owned());
    }
    if method == Method::Fsync && facts.platform == Platform::Linux {
        return Some(
            "it does the same as fdatasync, and also writes the file's times: never faster"
                .to_owned(),
        );
    }
    let Some(assessment) = facts.assess(method, FileState::Zeroed) else {
        return Some(facts.why_not_offered(method));
    };
    if matches!(
        assessment.verdict,
        Verdict::Contradicted | Verdict::Implausible
    ) {
        return Some(format!("{}: {}", assessment.verdict, assessment.evidence));
    }
    // On Linux the kernel completes a write-through by a flush if the device has no FUA. On other systems it
    // depends on the device alone. A device that ignores the request would win every trial, and lose
    // acknowledged records at a power cut.
    if method.plan().force == ForceBy::Through
        && !facts.platform.completes_write_through()
        && assessment.verdict == Verdict::Unknown
    {
        return Some(format!(
            "{}: it is not preferred to a flush",
            assessment.evidence
        ));
    }
    (assessment.guarantee < floor).then(|| {
        format!(
            "it guarantees {}, less than {floor}: {}",
            assessment.guarantee, assessment.evidence
        )
    })
}

/// Reason not to measure in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Skip {
    /// The files are in memory.
    Volatile,
    /// The files are on another machine. A trial would measure the network and the present load of the
    /// server.
    Remote,
    /// The disk is nearly full.
    Full {
        /// Free space in bytes.
        free: u64,
    },
    /// Fewer than two methods can be compared.
    NothingToChoose,
    /// The files cannot be written to.
    ReadOnly,
    /// It is unknown if direct I/O is available, so not all methods can be compared. The result would be
    /// stored, and would stay wrong for good.
    DirectUnknown {
        /// Reason why it is unknown.
        why: String,
    },
}

impl fmt::Display for Skip {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Skip::Volatile => f.write_str("the files are in memory: there is nothing to force"),
            Skip::Remote => f.write_str(
                "the files are on another machine: a trial would measure its load instead of the \
                 method",
            ),
            Skip::Full { free } => write!(
                f,
                "the disk is nearly full ({} MiB free): a trial would need some of that space",
                free >> 20
            ),
            Skip::NothingToChoose => f.write_str("fewer than two methods can be compared here"),
            Skip::ReadOnly => f.write_str("it is mounted read-only"),
            Skip::DirectUnknown { why } => {
                write!(f, "whether direct I/O works here is unknown ({why})")
            }
        }
    }
}

/// Free space in bytes below which nothing is measured.
const LEAST_FREE: u64 = 64 << 20;

/// Free space in bytes that suffices on a disk of any size.
const ENOUGH_FREE: u64 = 4 << 30;

/// Returns the reason not to measure in a directory with `free` bytes of free space, or `None`.
pub fn skip(facts: &Facts, list: &Shortlist, free: u64) -> Option<Skip> {
    // Scarce is less than a twentieth, or 4 GiB on a large disk. Filesystems slow down when they must search
    // for space, and the log's users need the rest.
    let scarce = facts
        .capacity
        .is_some_and(|all| free < (all / 20).min(ENOUGH_FREE));
    match facts.kind {
        _ if facts.read_only => Some(Skip::ReadOnly),
        FilesystemKind::Volatile => Some(Skip::Volatile),
        _ if facts.direct_unknown.is_some() => Some(Skip::DirectUnknown {
            why: facts.direct_unknown.clone().unwrap_or_default(),
        }),
        _ if list.methods.len() < 2 => Some(Skip::NothingToChoose),
        FilesystemKind::Remote => Some(Skip::Remote),
        _ if scarce || free < LEAST_FREE => Some(Skip::Full { free }),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce_device::WriteCache;
    use logforce_testkit::SimOptions;

    fn why(list: &Shortlist, method: Method) -> &str {
        let found = list.left_out.iter().find(|l| l.method == method);
        &found.expect("left out").why
    }

    #[test]
    fn the_default_is_first_and_nothing_weaker_is_in() {
        let facts = SimOptions::default().facts();
        for require in Guarantee::ALL {
            let list = shortlist(&facts, require);
            assert_eq!(list.methods, PREFERENCE[..4]);
            assert_eq!(list.methods.len() + list.left_out.len(), 7);
            assert!(why(&list, Method::Buffered).contains("by name"));
            assert!(why(&list, Method::Fsync).contains("never faster"));
        }
    }

    #[test]
    fn without_direct_io_the_cached_ones_are_left() {
        let options = SimOptions {
            direct: false,
            ..SimOptions::default()
        };
        let list = shortlist(&options.facts(), Guarantee::PowerLoss);
        assert_eq!(list.methods, [Method::Dsync, Method::Fdatasync]);
        assert!(why(&list, Method::DirectDsync).contains("no direct I/O"));
    }

    #[test]
    fn a_write_through_that_nobody_vouches_for_is_not_preferred_to_a_flush() {
        let mut facts = SimOptions::default().facts();
        facts.platform = Platform::Windows;
        let flushes = [Method::Flush, Method::FlushData];
        let mut with = |fua, write_cache| {
            let device = facts.device.as_mut().unwrap();
            (device.fua, device.write_cache) = (fua, write_cache);
            shortlist(&facts, Guarantee::PowerLoss)
        };
        for cache in [WriteCache::Back, WriteCache::Unknown] {
            let list = with(None, cache);
            assert_eq!(list.methods, flushes);
            for method in [Method::WriteThrough, Method::NoBufferingWriteThrough] {
                let why = why(&list, method);
                assert!(why.contains("not preferred to a flush"), "{why}");
            }
        }
        let list = with(Some(false), WriteCache::Back);
        assert_eq!(list.methods, flushes);
        let list = with(Some(true), WriteCache::Back);
        assert_eq!(list.methods.len(), 4);
        assert_eq!(list.methods[0], Method::Flush, "the default stays first");
        assert!(why(&list, Method::NoBuffering).contains("by name"));
    }

    #[test]
    fn on_macos_nothing_weaker_than_the_default_is_measured() {
        let mut facts = SimOptions::default().facts();
        facts.platform = Platform::Macos;
        let list = shortlist(&facts, Guarantee::ProcessCrash);
        assert_eq!(list.methods, [Method::FullFsync, Method::NocacheFullFsync]);
        for method in [Method::Fsync, Method::OrderBarrier] {
            assert!(why(&list, method).contains("os-crash"));
        }
    }

    #[test]
    fn what_is_contradicted_is_not_measured() {
        let mut facts = SimOptions::default().facts();
        facts.barriers = Some(false);
        let list = shortlist(&facts, Guarantee::OsCrash);
        assert_eq!(list.methods, []);
        assert!(why(&list, Method::Dsync).contains("without barriers"));
        assert_eq!(skip(&facts, &list, 1 << 40), Some(Skip::NothingToChoose));
    }

    #[test]
    fn reasons_not_to_measure() {
        let mut facts = SimOptions::default().facts();
        let list = shortlist(&facts, Guarantee::PowerLoss);
        let full = |free| Some(Skip::Full { free });
        assert_eq!(skip(&facts, &list, 64 << 20), None);
        assert_eq!(skip(&facts, &list, (64 << 20) - 1), full((64 << 20) - 1));
        facts.capacity = Some(40 << 30);
        assert_eq!(skip(&facts, &list, 2 << 30), None);
        assert_eq!(skip(&facts, &list, (2 << 30) - 1), full((2 << 30) - 1));
        // A large disk needs no more free space than this.
        facts.capacity = Some(1 << 40);
        assert_eq!(skip(&facts, &list, 4 << 30), None);
        assert_eq!(skip(&facts, &list, (4 << 30) - 1), full((4 << 30) - 1));
        facts.kind = FilesystemKind::Remote;
        assert_eq!(skip(&facts, &list, 0), Some(Skip::Remote));
        facts.kind = FilesystemKind::Volatile;
        assert_eq!(skip(&facts, &list, 1 << 40), Some(Skip::Volatile));
        facts.direct_unknown = Some("no file".to_owned());
        assert_eq!(skip(&facts, &list, 1 << 40), Some(Skip::Volatile));
        facts.kind = FilesystemKind::InPlace;
        let unknown = skip(&facts, &list, 1 << 40).unwrap();
        assert!(unknown.to_string().contains("unknown (no file)"));
        // On a read-only mount the free space does not matter.
        facts.read_only = true;
        assert_eq!(skip(&facts, &list, 0), Some(Skip::ReadOnly));
        assert!(Skip::Full { free: 3 << 20 }.to_string().contains("3 MiB"));
    }
}
