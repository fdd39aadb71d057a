//! Checks before an opening: does a log exist, does the mode allow that, and is the guarantee available
//! here?

use crate::advisor::Question;
use crate::engine::config::ForceConfig;
use crate::error::{Error, Result};
use crate::names;
use crate::options::{OpenMode, Options};
use crate::recovery::listing;
use crate::storage::control_file::ControlFile;
use logforce_device::{
    Assessment, Barrier, DirEntry, Directory, Facts, FileState, ForceBy, Guarantee, Method, Plan,
    Runtime, Verdict,
};
use logforce_format::{Control, LogId, Lsn};
use std::path::Path;
use std::sync::Arc;

/// Returns true if there is a log. Fails if that does not match the mode.
pub(super) fn check_directory(dir: &Arc<dyn Directory>, mode: OpenMode) -> Result<bool> {
    let path = dir.path().to_owned();
    let mut entries = dir.entries().map_err(Error::io("list", &path))?;
    let has_control = |entries: &[DirEntry]| entries.iter().any(|e| e.name == names::CONTROL);
    if !has_control(&entries) {
        // A single listing without a control file does not prove that there is no log, and a new log
        // would overwrite an existing one. So lists until the names are stable. (If there is a control
        // file, a running writer may change the names all the time.)
        entries = listing::list(dir)?;
        if let Err(e) = listing::check_absence(dir, &entries, names::CONTROL) {
            // Another process may have created the control file since.
            entries = listing::list(dir)?;
            if !has_control(&entries) {
                return Err(e);
            }
        }
    }
    // Otherwise an opening would change the only copy of the records that a repair has removed.
    if entries.iter().any(|e| e.name == names::CONTROL_COPY) {
        let why = "it contains copies made by a repair: read them with `logforce salvage`";
        return Err(Error::NotALog {
            path,
            why: why.to_owned(),
        });
    }
    let kinds: Vec<_> = entries.iter().map(|e| (names::kind(&e.name), e)).collect();
    if kinds.iter().any(|(k, _)| *k == names::NameKind::Control) {
        if mode != OpenMode::CreateNew {
            return Ok(true);
        }
        return match ControlFile::load(dir) {
            // No segment was ever used: the opening that created the log failed or crashed.
            Ok(loaded) if loaded.control.prepared_end == Lsn::ORIGIN => Ok(true),
            Err(e @ Error::Io { .. }) => Err(e),
            _ => Err(Error::AlreadyExists { path }),
        };
    }
    if kinds.iter().any(|(k, _)| *k == names::NameKind::Backup) {
        return Err(Error::NoLog {
            path,
            why: names::UNFINISHED_BACKUP.to_owned(),
        });
    }
    // Never creates a log over the remains of another one, whose acknowledged records would be lost silently.
    if let Some((_, e)) = kinds.iter().find(|(k, _)| {
        matches!(
            k,
            names::NameKind::Segment | names::NameKind::Spare | names::NameKind::SetAside
        )
    }) {
        let why = format!(
            "its file '{}' is missing, but it contains files of a log, such as '{}': restore '{0}' from a copy, or inspect the log with `logforce dump --salvage` and save its records with `logforce salvage`",
            names::CONTROL,
            e.name
        );
        return Err(Error::NoLog { path, why });
    }
    if let Some((_, e)) = kinds.iter().find(|(k, _)| *k == names::NameKind::Foreign) {
        let why = format!("it contains '{}', but no '{}' file", e.name, names::CONTROL);
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
    ControlFile::create(dir, &control, None)
}

pub(super) struct Chosen {
    pub(super) force: ForceConfig,
    pub(super) barrier_is_durable: bool,
}

/// Returns the facts about a directory, including the evidence from power-cut tests there.
pub(super) fn facts(
    options: &Options,
    dir: &Arc<dyn Directory>,
    runtime: &dyn Runtime,
) -> Result<Facts> {
    let looking = "check the filesystem of";
    let facts = dir.facts_for_writing();
    let mut facts = facts.map_err(Error::io(looking, dir.path()))?;
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

/// Chooses the method. Fails if the guarantee is not available.
pub(super) fn choose(options: &Options, facts: &Facts, path: &Path) -> Result<Chosen> {
    let method = options.method.unwrap_or_else(|| facts.default_method());
    assess(
        method,
        options.require,
        options.require_verdict,
        facts,
        path,
    )
}

/// Chooses the advisor's method if the user has named none. Ignores the advice if the method is not
/// available, or guarantees less than `chosen`.
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
        .and_then(|method| {
            let Chosen { force, .. } = &chosen;
            // A method without a power-cut test counts as good as one that passed the test, but not a doubted
            // one.
            let verdict = force
                .verdict
                .min(Verdict::Declared)
                .max(options.require_verdict);
            assess(method, force.guarantee, verdict, facts, dir.path()).ok()
        })
        .unwrap_or(chosen)
}

fn assess(
    method: Method,
    require: Guarantee,
    require_verdict: Verdict,
    facts: &Facts,
    path: &Path,
) -> Result<Chosen> {
    let state = FileState::Zeroed;
    let Some(assessed) = facts.assess(method, state) else {
        return Err(Error::Method {
            path: path.to_owned(),
            method,
            why: facts.why_not_offered(method),
        });
    };
    let is_met = assessed.meets(require, require_verdict);
    let Assessment {
        guarantee,
        verdict,
        evidence,
        ..
    } = assessed;
    // A read-only mount is not rejected here: taking the lock fails there, and that error names the remedy.
    if guarantee < require && !facts.read_only {
        return Err(Error::Guarantee {
            path: path.to_owned(),
            method,
            wanted: require,
            got: guarantee,
            evidence,
        });
    }
    if !is_met && !facts.read_only {
        return Err(Error::Verdict {
            path: path.to_owned(),
            method,
            got: guarantee,
            verdict,
            wanted: require_verdict,
            evidence,
        });
    }
    let plan = method.plan();
    let unforced = Plan {
        direct: plan.direct,
        force: ForceBy::None,
    };
    let written = |state| {
        let assessed = facts.assess_plan(unforced, state);
        let written = assessed.map_or(Guarantee::ProcessCrash, |a| a.guarantee);
        written.min(guarantee)
    };
    // The log's own barriers use this plan with any method.
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
            written: written(state),
            first_written: written(FileState::Fallocated),
        },
        barrier_is_durable,
    })
}
