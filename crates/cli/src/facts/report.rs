//! Output of `logforce facts` as JSON. Field names are kept compatible; see `docs/cli-json.md`.

use super::next::Next;
use logforce::disk::calibration::Report;
use logforce::{Guarantee, Method, Verdict, disk::FileState};
use logforce_device::{Assessment, Facts, FilesystemKind, ForceBy, Platform};
use logforce_measure::machine::Machine;
use serde::Serialize;
use std::path::Path;

/// One run of the command.
#[derive(Debug, Serialize)]
pub struct FactsReport {
    schema: &'static str,
    version: u32,
    command: String,
    /// Directory, as it was given.
    pub directory: String,
    /// Platform whose methods are listed.
    pub platform: &'static str,
    /// System, filesystem and device.
    pub machine: Machine,
    /// Kind of the filesystem, by what it does with a write.
    pub kind: &'static str,
    /// Identity of the filesystem; null if unknown.
    pub volume: Option<String>,
    /// True if that stays the same as long as the filesystem exists, so that evidence can be stored.
    pub volume_lasts: bool,
    /// Size of the filesystem in bytes.
    pub capacity: Option<u64>,
    /// Alignment that direct I/O needs; null if direct I/O is not offered.
    pub direct: Option<Direct>,
    /// Answer to the question of whether the device honours write-through.
    pub write_through: WriteThrough,
    /// Method that is used without measuring.
    pub default: &'static str,
    /// Reason for the default.
    pub default_why: String,
    /// Every method of this system.
    pub methods: Vec<MethodLine>,
    /// Method that a log opened here now would use.
    pub next: Next,
    /// Results of power cuts.
    pub power_cuts: Vec<Cuts>,
    /// Reasons for which some of them cannot be read, with the remedy. A loss may be recorded there.
    pub power_cuts_unread: Vec<String>,
}

/// Alignment in bytes.
#[derive(Debug, Serialize)]
pub struct Direct {
    pub memory: u32,
    pub offset: u32,
}

/// Answer to the question: does this device honour write-through?
#[derive(Debug, Serialize)]
pub struct WriteThrough {
    /// `yes`, `no`, or `unknown`.
    pub answer: &'static str,
    pub guarantee: &'static str,
    pub verdict: &'static str,
    /// The party that the verdict rests on.
    pub source: &'static str,
    pub evidence: String,
    /// True if the system completes a write-through by a flush where the device has no FUA.
    pub completed_by_flush: bool,
    /// Explanation of what durability depends on here.
    pub what_matters: String,
}

/// One method.
#[derive(Debug, Serialize)]
pub struct MethodLine {
    pub method: &'static str,
    pub is_default: bool,
    /// Reason for which it is not offered. Null if it is offered; then all following fields but
    /// `unprepared` are set.
    pub why_not: Option<String>,
    pub guarantee: Option<&'static str>,
    pub verdict: Option<&'static str>,
    pub source: Option<&'static str>,
    pub evidence: Option<String>,
    /// Guarantee on a file that was not filled beforehand; null if it is the same.
    pub unprepared: Option<Worth>,
}

/// Guarantee of a force, with the verdict and its evidence.
#[derive(Debug, Clone, Serialize)]
pub struct Worth {
    pub guarantee: &'static str,
    pub verdict: &'static str,
    /// The party that the verdict rests on.
    pub source: &'static str,
    pub evidence: String,
    /// The source, as the end of a sentence.
    #[serde(skip)]
    pub by: &'static str,
}

/// Results of power cuts with one method.
#[derive(Debug, Serialize)]
pub struct Cuts {
    pub method: &'static str,
    pub kept: bool,
    pub evidence: String,
}

impl From<Assessment> for Worth {
    fn from(a: Assessment) -> Worth {
        Worth {
            guarantee: a.granted().name(),
            verdict: a.verdict.name(),
            source: a.source.name(),
            by: a.source.by(),
            evidence: a.evidence,
        }
    }
}

impl FactsReport {
    /// Builds the report from what is known of a directory.
    pub fn new(command: String, dir: &Path, machine: Machine, known: &Report) -> FactsReport {
        let facts = &known.facts;
        FactsReport {
            schema: "logforce-facts",
            version: 1,
            command,
            directory: dir.display().to_string(),
            platform: facts.platform.name(),
            machine,
            kind: facts.kind.name(),
            volume: Some(facts.volume.clone()).filter(|v| !v.is_empty()),
            volume_lasts: facts.lasting_volume().is_some(),
            capacity: facts.capacity,
            direct: facts.direct.map(|d| Direct {
                memory: d.memory,
                offset: d.offset,
            }),
            write_through: WriteThrough::new(facts),
            default: facts.default_method().name(),
            default_why: facts.why_default(),
            methods: facts
                .platform
                .methods()
                .iter()
                .map(|&m| MethodLine::new(facts, m))
                .collect(),
            next: Next::new(known),
            power_cuts: facts
                .tried
                .iter()
                .map(|t| Cuts {
                    method: t.method.name(),
                    kept: t.kept,
                    evidence: t.evidence.clone(),
                })
                .collect(),
            power_cuts_unread: facts.unread.clone(),
        }
    }
}

impl MethodLine {
    fn new(facts: &Facts, method: Method) -> MethodLine {
        let prepared = facts.assess(method, FileState::Zeroed).map(Worth::from);
        // The weakest guarantee among the file states that a log's files are never in.
        let other = FileState::ALL
            .into_iter()
            .filter(|s| !s.is_written())
            .filter_map(|s| facts.assess(method, s))
            .min_by_key(|a| a.guarantee)
            .map(Worth::from);
        let same = |a: &Worth, b: &Worth| (a.guarantee, a.verdict) == (b.guarantee, b.verdict);
        let unprepared = other.filter(|o| prepared.as_ref().is_some_and(|p| !same(p, o)));
        let known = prepared.as_ref();
        MethodLine {
            method: method.name(),
            is_default: method == facts.default_method(),
            why_not: prepared.is_none().then(|| facts.why_not_offered(method)),
            guarantee: known.map(|p| p.guarantee),
            verdict: known.map(|p| p.verdict),
            source: known.map(|p| p.source),
            evidence: known.map(|p| p.evidence.clone()),
            unprepared,
        }
    }
}

impl WriteThrough {
    fn new(facts: &Facts) -> WriteThrough {
        let declared = facts.write_through();
        // The result of a power cut counts for more than what a device or a system declares.
        let assessed = by_fua_alone(facts).and_then(|m| facts.assess(m, FileState::Zeroed));
        let shown = assessed.filter(|a| {
            let is_shown = matches!(a.verdict, Verdict::Proven | Verdict::Contradicted);
            (!facts.tried.is_empty() && is_shown) || !facts.unread.is_empty()
        });
        let a = shown.unwrap_or(declared);
        WriteThrough {
            answer: match (a.verdict, a.guarantee) {
                (Verdict::Proven | Verdict::Declared, Guarantee::PowerLoss) => "yes",
                (Verdict::Contradicted, _) => "no",
                _ => "unknown",
            },
            guarantee: a.granted().name(),
            verdict: a.verdict.name(),
            source: a.source.name(),
            evidence: a.evidence,
            completed_by_flush: facts.platform.completes_write_through(),
            what_matters: what_matters(facts),
        }
    }
}

/// Returns a method that relies on the device's own write-through, without a flush after it.
fn by_fua_alone(facts: &Facts) -> Option<Method> {
    let has_fua = facts.device.as_ref().and_then(|d| d.fua) == Some(true);
    match facts.platform {
        Platform::Linux => has_fua.then_some(Method::DirectDsync),
        platform => platform
            .methods()
            .iter()
            .copied()
            .find(|m| m.plan().force == ForceBy::Through),
    }
}

fn what_matters(facts: &Facts) -> String {
    let worth = |method: Method| {
        facts
            .assess(method, FileState::Zeroed)
            .map_or_else(String::new, |a| {
                format!(
                    "{method} is {}, {}: {}.",
                    a.granted(),
                    a.verdict,
                    a.evidence
                )
            })
    };
    if facts.kind == FilesystemKind::Volatile {
        return "Files are kept in memory here, on no medium, so the method makes no difference."
            .to_owned();
    }
    match facts.platform {
        Platform::Linux => {
            let mut text = String::from(
                "Linux completes a write-through by a flush where the device has no FUA, so what matters is the flush: ",
            );
            text.push_str(&worth(Method::Dsync));
            if by_fua_alone(facts).is_some() && facts.direct.is_some() {
                text.push_str(&format!(
                    " Where the device has FUA, as here, {} relies on that in place of a flush.",
                    Method::DirectDsync
                ));
            }
            text
        }
        Platform::Macos => format!(
            "macOS has no write-through: what matters is the flush that F_FULLFSYNC asks for: {}",
            worth(Method::FullFsync)
        ),
        _ => format!(
            "Windows sends no flush in place of a missing FUA, so the guarantee of the two methods with write-through depends on the device. The methods that flush do not depend on it: {}",
            worth(Method::Flush)
        ),
    }
}

#[cfg(test)]
mod tests;
