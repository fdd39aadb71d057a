//! Answer to the question what a commit survives: by SQLite's settings, the filesystem and the device.

use crate::connection::Connection;
use logforce::disk::{self, Assessment, Facts, FileState, Source};
use logforce::{Guarantee, Method, Verdict};
use serde::Serialize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Settings of a database on a connection.
pub struct Settings {
    /// Names of the VFS and of those below it; empty for a database in memory.
    pub vfs: String,
    /// Path; `None` without a file.
    pub path: Option<PathBuf>,
    /// Value of the pragma.
    pub journal_mode: String,
    /// Value of the pragma: 0 to 3.
    pub synchronous: String,
    /// Value of the pragma `fullfsync`.
    pub full_fsync: bool,
    /// State of the VFS, if it has opened the database.
    pub own: Option<Arc<Connection>>,
}

/// Value of `PRAGMA synchronous`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Synchronous {
    Off,
    Normal,
    Full,
    Extra,
}

/// The answer.
#[derive(Serialize)]
struct Durability {
    summary: String,
    guarantee: &'static str,
    verdict: &'static str,
    method: Option<&'static str>,
    evidence: String,
    weakest: String,
    may_lose: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<&'static str>,
    vfs: String,
    journal_mode: String,
    synchronous: &'static str,
    force_within_ms: Option<u64>,
    group_commit: Option<bool>,
    filesystem: Option<String>,
    device: Option<String>,
}

/// Part of SQLite's settings in the answer.
struct Rule {
    /// Guarantee of a commit if every sync works.
    guarantee: Guarantee,
    /// Why.
    why: String,
    /// Data that a failure may take which is not covered.
    may_lose: String,
    advice: Option<&'static str>,
}

const NOTHING_LOST: &str = "nothing that was committed";
const ON_FULL: &str = "PRAGMA synchronous=FULL makes each commit durable";
const ON_NORMAL: &str = "PRAGMA synchronous=FULL makes each commit durable; with the VFS logforce, PRAGMA \
                         logforce_force_within=20 bounds the loss to 20 ms";

/// Returns the answer as JSON.
///
/// # Errors
/// In words, if the settings or the filesystem cannot be read.
pub fn answer(settings: &Settings) -> Result<String, String> {
    let synchronous = match settings.synchronous.as_str() {
        "0" => Synchronous::Off,
        "1" => Synchronous::Normal,
        "2" => Synchronous::Full,
        "3" => Synchronous::Extra,
        other => return Err(format!("PRAGMA synchronous is {other}, which is unknown")),
    };
    let rule = rule(settings, synchronous);
    let storage = settings.path.as_deref().map(|path| storage(path, settings));
    let storage = storage.transpose()?;
    Ok(to_json(&combined(settings, synchronous, rule, storage)))
}

/// Returns the answer after a failed sync.
pub fn failed(reason: String) -> String {
    serde_json::json!({
        "summary": format!("Nothing more is committed: {reason}"),
        "guarantee": Guarantee::Nothing.name(),
        "verdict": Verdict::Contradicted.name(),
        "evidence": reason,
        "may_lose": "commits since the last successful sync",
    })
    .to_string()
}

fn to_json(durability: &Durability) -> String {
    // Texts, numbers and names: nothing that has no JSON.
    serde_json::to_string(durability).unwrap_or_default()
}

/// Returns what SQLite's documentation says of these settings (pragma.html, wal.html, lockingv3.html).
fn rule(settings: &Settings, synchronous: Synchronous) -> Rule {
    let rule = |guarantee, why: &str, may_lose: &str, advice| Rule {
        guarantee,
        why: why.to_owned(),
        may_lose: may_lose.to_owned(),
        advice,
    };
    let mode = settings.journal_mode.as_str();
    let kept = settings.own.is_some() && cfg!(unix);
    if settings.path.is_none() {
        return rule(
            Guarantee::Nothing,
            "the database has no file: it is in memory, or temporary",
            "everything, when the connection ends",
            None,
        );
    }
    match (mode, synchronous) {
        ("memory" | "off", _) => rule(
            Guarantee::Nothing,
            "without a rollback journal in a file, a crash within a transaction leaves a damaged database",
            "the database",
            Some("PRAGMA journal_mode=WAL survives crashes"),
        ),
        (_, Synchronous::Off) => rule(
            Guarantee::ProcessCrash,
            "synchronous=OFF syncs nothing",
            "any number of commits; a power cut or a crash of the system may damage the database",
            Some(ON_FULL),
        ),
        ("wal", Synchronous::Normal) => bounded(settings),
        ("wal", _) => rule(
            Guarantee::PowerLoss,
            "each commit syncs the write-ahead log",
            NOTHING_LOST,
            None,
        ),
        (_, Synchronous::Normal) => rule(
            Guarantee::ProcessCrash,
            "with synchronous=NORMAL the records and the header of the rollback journal share a sync: a power \
             cut at the wrong time may damage the database, as SQLite's documentation says",
            "the last commit; rarely, the database",
            Some(ON_FULL),
        ),
        ("delete", Synchronous::Full) if !kept => rule(
            Guarantee::ProcessCrash,
            "the commit deletes the journal, and synchronous=FULL does not sync the directory: after a power \
             cut the journal may be back, and undo the commit",
            "the last commit",
            Some("PRAGMA synchronous=EXTRA syncs the directory, too; so does the VFS logforce"),
        ),
        _ => rule(
            Guarantee::PowerLoss,
            "each commit syncs the journal, the database, and the end of the journal",
            NOTHING_LOST,
            None,
        ),
    }
}

/// Returns the rule of `synchronous=NORMAL` with a write-ahead log.
fn bounded(settings: &Settings) -> Rule {
    let own = settings.own.as_ref().filter(|own| own.has_log());
    let bound = own.map_or(0, |own| own.force_within());
    let (why, may_lose, advice) = match bound {
        0 => (
            "with synchronous=NORMAL only checkpoints sync the write-ahead log".to_owned(),
            "any number of the latest commits: all since the last checkpoint".to_owned(),
            Some(ON_NORMAL),
        ),
        bound => (
            format!(
                "commits are left to a background sync, which begins after {} ms",
                bound / 2
            ),
            format!(
                "commits of the last {bound} ms; all since the last sync if the program has ended without closing \
                 the database, and those of other processes that have no bound. If the device does not finish a sync \
                 within {} ms, no further commit returns until it has",
                bound - bound / 2
            ),
            None,
        ),
    };
    Rule {
        guarantee: Guarantee::ProcessCrash,
        why,
        may_lose,
        advice,
    }
}

/// Filesystem and device, and what a sync there guarantees.
struct Storage {
    facts: Facts,
    method: Method,
    assessed: Assessment,
}

fn storage(path: &Path, settings: &Settings) -> Result<Storage, String> {
    let directory = path.parent().filter(|p| !p.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    let facts = disk::cuts::facts(directory, None).map_err(|e| e.to_string())?;
    let method = match facts.platform {
        // Without the setting, SQLite's own VFS syncs checkpoints and the first commits by a plain fsync.
        disk::Platform::Macos if settings.full_fsync => Method::FullFsync,
        disk::Platform::Macos => Method::Fsync,
        disk::Platform::Windows => Method::Flush,
        _ => Method::Fdatasync,
    };
    // A database and its journals grow.
    let assessed = facts.assess(method, FileState::Growing);
    let assessed = assessed.ok_or_else(|| facts.why_not_offered(method))?;
    Ok(Storage {
        assessed: facts.after_repair(assessed),
        facts,
        method,
    })
}

/// Joins SQLite's settings and the storage: the weaker one decides.
fn combined(
    settings: &Settings,
    synchronous: Synchronous,
    rule: Rule,
    storage: Option<Storage>,
) -> Durability {
    let by_settings = Assessment::new(
        rule.guarantee,
        Verdict::Declared,
        Source::System,
        rule.why.clone(),
    );
    let stored = storage.as_ref().map(|s| s.assessed.clone());
    let is_storage = stored.as_ref().is_some_and(|s| {
        (s.guarantee, s.verdict) < (by_settings.guarantee, by_settings.verdict)
            || rule.guarantee == Guarantee::PowerLoss
    });
    let decides = stored.filter(|_| is_storage).unwrap_or(by_settings);
    let device = storage
        .as_ref()
        .and_then(|s| s.facts.device.as_ref())
        .map(|d| d.name.clone());
    let filesystem = storage.as_ref().map(|s| s.facts.filesystem.clone());
    let weakest = match (is_storage, &device, &filesystem) {
        (true, Some(device), Some(filesystem)) => format!("{filesystem} on {device}"),
        (true, _, Some(filesystem)) => filesystem.clone(),
        _ => format!(
            "SQLite: journal_mode={}, synchronous={}",
            settings.journal_mode,
            synchronous.name()
        ),
    };
    let survives = decides.guarantee >= Guarantee::PowerLoss;
    let may_lose = match survives && decides.verdict >= Verdict::Declared {
        true => rule.may_lose,
        false if rule.may_lose == NOTHING_LOST => "what the storage did not keep".to_owned(),
        false => rule.may_lose,
    };
    Durability {
        summary: summary(&decides, &may_lose),
        guarantee: decides.guarantee.name(),
        verdict: decides.verdict.name(),
        method: storage.as_ref().map(|s| s.method.name()),
        evidence: match is_storage {
            true => format!("{}; {}", rule.why, decides.evidence),
            false => decides.evidence,
        },
        weakest,
        may_lose,
        advice: rule.advice,
        vfs: settings.vfs.clone(),
        journal_mode: settings.journal_mode.clone(),
        synchronous: synchronous.name(),
        force_within_ms: settings.own.as_ref().map(|own| own.force_within()),
        group_commit: settings.own.as_ref().map(|own| own.groups()),
        filesystem,
        device,
    }
}

fn summary(decides: &Assessment, may_lose: &str) -> String {
    let failures = match decides.guarantee {
        Guarantee::ProcessCrash | Guarantee::Nothing => "a crash of the program, not a power cut",
        Guarantee::OsCrash => "a crash of the system, not a power cut",
        _ => "a power cut",
    };
    let doubt = match decides.verdict {
        Verdict::Proven => ", as power cuts have shown",
        Verdict::Unknown => "; but no party answers for that",
        Verdict::Implausible => "; but the device is faster than physics allows",
        _ => "",
    };
    match decides.guarantee {
        Guarantee::Nothing => format!("No crash is survived for certain. One may take {may_lose}."),
        _ => format!("A commit survives {failures}{doubt}. A power cut may take {may_lose}."),
    }
}

impl Synchronous {
    fn name(self) -> &'static str {
        match self {
            Synchronous::Off => "off",
            Synchronous::Normal => "normal",
            Synchronous::Full => "full",
            Synchronous::Extra => "extra",
        }
    }
}
