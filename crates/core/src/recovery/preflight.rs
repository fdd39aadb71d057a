//! Is there a log, may the caller have what it asks for, and can the guarantee be had here?

use crate::advisor::Question;
use crate::engine::config::ForceConfig;
use crate::error::{Error, Result};
use crate::names;
use crate::options::{OpenMode, Options};
use crate::recovery::steady;
use crate::storage::control_file::ControlFile;
use logforce_device::{
    Assessment, Barrier, DirEntry, Directory, Facts, FileState, ForceBy, Guarantee, Method, Plan,
    Runtime, Verdict,
};
use logforce_format::{Control, LogId, Lsn};
use std::path::Path;
use std::sync::Arc;

/// Whether there is a log, and whether the caller may have what it asks for.
pub(super) fn look(dir: &Arc<dyn Directory>, mode: OpenMode) -> Result<bool> {
    let path = dir.path().to_owned();
    let mut entries = dir.entries().map_err(Error::io("list", &path))?;
    let has_control = |entries: &[DirEntry]| entries.iter().any(|e| e.name == names::CONTROL);
    if !has_control(&entries) {
        // What a log is made over is gone: that there is none is not believed at once. With a log
        // the names may change all the time, while its writer is at work.
        entries = steady::entries(dir)?;
        if let Err(e) = steady::check_absence(dir, &entries, names::CONTROL) {
            // Unless somebody has made it since.
            entries = steady::entries(dir)?;
            if !has_control(&entries) {
                return Err(e);
            }
        }
    }
    let kinds: Vec<_> = entries.iter().map(|e| (names::kind(&e.name), e)).collect();
    if kinds.iter().any(|(k, _)| *k == names::NameKind::Control) {
        if mode != OpenMode::CreateNew {
            return Ok(true);
        }
        return match ControlFile::load(dir) {
            // No segment ever came into use: an opening that was to make it failed, or crashed.
            Ok(loaded) if loaded.control.prepared_end == Lsn::ORIGIN => Ok(true),
            Err(e @ Error::Io { .. }) => Err(e),
            _ => Err(Error::AlreadyExists { path }),
        };
    }
    // Never a fresh log over the remains of one: its acknowledged records would be gone in silence.
    if let Some((_, e)) = kinds.iter().find(|(k, _)| {
        matches!(
            k,
            names::NameKind::Segment | names::NameKind::Spare | names::NameKind::GivenUp
        )
    }) {
        let why = format!(
            "its file '{}' is missing, and there are files of a log ('{}' is one): put '{0}' back from a copy, or look with `logforce dump --salvage` and save what there is with `logforce salvage`",
            names::CONTROL,
            e.name
        );
        return Err(Error::NoLog { path, why });
    }
    if let Some((_, e)) = kinds.iter().find(|(k, _)| *k == names::NameKind::Foreign) {
        let why = format!("it holds '{}' and no '{}' file", e.name, names::CONTROL);
        return Err(Error::NotALog { path, why });
    }
    match mode {
        OpenMode::OpenExisting => Err(Error::NoLog {
            path,
            why: "the directory is empty".to_owned(),
        }),
        _ => Ok(false),
    }
}

pub(super) fn create(dir: &Arc<dyn Directory>, runtime: &dyn Runtime) -> Result<()> {
    let mut id = [0; 16];
    id[..8].copy_from_slice(&runtime.random().to_le_bytes());
    id[8..].copy_from_slice(&runtime.random().to_le_bytes());
    let control = Control {
        log_id: LogId(id),
        sequence: 1,
        clean: true,
        ..Control::default()
    };
    ControlFile::create(dir, &control)
}

pub(super) struct Chosen {
    pub(super) force: ForceConfig,
    pub(super) barrier_is_durable: bool,
}

/// The facts of a directory, with what is known there from cuts of power.
pub(super) fn facts(
    options: &Options,
    dir: &Arc<dyn Directory>,
    runtime: &dyn Runtime,
) -> Result<Facts> {
    let looking = "look at the filesystem of";
    let mut facts = dir.facts().map_err(Error::io(looking, dir.path()))?;
    if let Some(advisor) = options.advisor() {
        let evidence = advisor.tried(&Question {
            dir,
            runtime,
            facts: &facts,
            write_unit: facts.write_unit(),
            require: options.require,
            cache: options.calibration_cache.as_deref(),
        });
        facts.heed(evidence);
    }
    Ok(facts)
}

/// Settles the method, and refuses what cannot be had.
pub(super) fn choose(options: &Options, facts: &Facts, path: &Path) -> Result<Chosen> {
    let method = options.method.unwrap_or_else(|| facts.default_method());
    settle(method, options.require, facts, path)
}

/// As [`choose`], with the method that the advisor names where the user named none. Its answer is
/// worth no more than the facts allow: what cannot be had, or guarantees less than `chosen`, is
/// not taken.
pub(super) fn advise(
    chosen: Chosen,
    options: &Options,
    facts: &Facts,
    write_unit: u32,
    dir: &Arc<dyn Directory>,
    runtime: &dyn Runtime,
) -> Chosen {
    let Some(advisor) = options.advisor_to_ask() else {
        return chosen;
    };
    let advised = advisor.method(&Question {
        dir,
        runtime,
        facts,
        write_unit,
        require: options.require,
        cache: options.calibration_cache.as_deref(),
    });
    advised
        .and_then(|method| settle(method, chosen.force.guarantee, facts, dir.path()).ok())
        .unwrap_or(chosen)
}

fn settle(method: Method, require: Guarantee, facts: &Facts, path: &Path) -> Result<Chosen> {
    let state = FileState::Zeroed;
    let Some(Assessment {
        guarantee,
        verdict,
        evidence,
    }) = facts.assess(method, state)
    else {
        return Err(Error::Method {
            path: path.to_owned(),
            method,
            why: facts.why_not_offered(method),
        });
    };
    if guarantee < require {
        return Err(Error::Guarantee {
            path: path.to_owned(),
            method,
            wanted: require,
            got: guarantee,
            evidence,
        });
    }
    let plan = method.plan();
    let unforced = Plan {
        direct: plan.direct,
        force: ForceBy::None,
    };
    let written = facts
        .assess_plan(unforced, state)
        .map_or(Guarantee::ProcessCrash, |a| a.guarantee);
    // What the log's own barriers ask for, whatever the method.
    let barrier = Plan {
        direct: false,
        force: ForceBy::Barrier(Barrier::Data),
    };
    let barrier_is_durable = facts
        .assess_plan(barrier, state)
        .is_some_and(|a| a.guarantee == Guarantee::PowerLoss && a.verdict != Verdict::Contradicted);
    Ok(Chosen {
        force: ForceConfig {
            method,
            plan: method.plan(),
            guarantee,
            verdict,
            evidence,
            written: written.min(guarantee),
        },
        barrier_is_durable,
    })
}
