//! Logs that are made, worked, opened again and read while calls fail.

use super::message::{Message, entries, messages_in};
use super::scene::{Files, Run, Scene, unexpected_files, wrong_messages};
use super::subject::{End, Job, Opening, Task};
use super::tracer;
use crate::check::{self, Promises, Session};
use crate::ledger::{Entry, Kind};
use crate::started::Role;
use crate::subject::seam::Fault;
use anyhow::{Context, Result, ensure};
use logforce::{Guarantee, Method};
use std::ffi::OsString;
use std::fs;
use std::path::Path;

/// A log that is there before a program opens it.
#[derive(Debug, Clone, Default)]
pub struct Base {
    /// Its name in reports.
    name: &'static str,
    files: Files,
    promises: Promises,
    sessions: u64,
    /// A repair before its last opening reported a loss.
    lost: bool,
}

/// Returns the words that start a subject.
pub fn subject(job: &Job) -> Result<Vec<OsString>> {
    let own = std::env::current_exe()?.into_os_string();
    let arguments = Role::Inject.arguments(job)?.map(OsString::from);
    Ok(std::iter::once(own).chain(arguments).collect())
}

/// A session in which nothing fails.
fn usual(dir: &Path) -> Job {
    Job {
        task: Task::Work,
        dir: dir.to_owned(),
        mode: Opening::Either,
        method: Some(Method::DirectDsync.to_string()),
        demanding: false,
        fault: Fault::None,
        repairing: false,
        segment_size: 32 << 10,
        session: 1,
        seed: 1,
        steps: 26,
        end: End::Close,
    }
}

impl Base {
    /// Its name in reports.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// What lies in its directory.
    pub fn files(&self) -> &Files {
        &self.files
    }

    /// None.
    fn nothing() -> Base {
        Base::default()
    }

    /// The log after one more session, one in which nothing fails.
    fn after_session(
        &self,
        name: &'static str,
        home: &Path,
        change: impl Fn(&mut Job),
    ) -> Result<Base> {
        let place = home.join("base");
        fs::create_dir(&place)?;
        let dir = place.join("log");
        if self.sessions > 0 {
            self.files.write(&dir)?;
        }
        let mut job = usual(&dir);
        job.session = self.sessions + 1;
        job.seed = self.sessions + 1;
        change(&mut job);
        let ended = tracer::run(&subject(&job)?, None, &dir, &place)?;
        let messages = messages_in(&ended.output);
        let whole = matches!(messages.last(), Some(Message::Done));
        ensure!(
            whole,
            "{name} cannot be made: {messages:?}, {}",
            ended.errors
        );
        let mut promises = self.promises.clone();
        promises.add(session(job.session, &messages));
        let base = Base {
            name,
            files: Files::read(&dir)?,
            promises,
            sessions: job.session,
            lost: cut(&messages).is_some(),
        };
        fs::remove_dir_all(&place)?;
        Ok(base)
    }

    /// Those that are opened again: killed, closed, of one segment, and one in which acknowledged
    /// data was damaged and cut, which went on afterwards.
    ///
    /// # Errors
    /// Of the machine.
    pub fn all(home: &Path) -> Result<Vec<Base>> {
        let none = Base::nothing();
        let killed = none.after_session("killed", home, |job| job.end = End::Exit)?;
        let closed = killed.after_session("closed", home, |job| job.steps = 13)?;
        let small = || {
            none.after_session("small", home, |job| {
                job.end = End::Exit;
                job.steps = 6;
            })
        };
        // Where the control file has a segment behind the damage, the next opening begins above it.
        let cut = (0..50)
            .map(|_| small()?.cut("cut", home))
            .find_map(Result::transpose);
        let (small, cut) = (small()?, cut.context("no repair met the damage")??);
        Ok(vec![killed, closed, small, cut])
    }

    /// Damages its last acknowledged record, and goes on after a repair that is reported.
    fn cut(&self, name: &'static str, home: &Path) -> Result<Option<Base>> {
        let mut damaged = self.clone();
        let acked = damaged
            .promises
            .sessions
            .iter()
            .flat_map(|l| l.all(Kind::Acked));
        let last = acked.map(|e| (e.start, e.end)).max().context("no record")?;
        // By what its record holds: where it lies is the format's matter.
        let place = home.join("look");
        self.files.write(&place)?;
        let data = logforce::read_only(&place)?
            .read_at(logforce::Lsn(last.0))?
            .data;
        fs::remove_dir_all(&place)?;
        let mut hit = false;
        for (_, bytes) in &mut damaged.files.0 {
            let at = bytes.windows(data.len()).position(|w| w == data);
            if let Some(byte) = at.and_then(|at| bytes.get_mut(at + data.len() / 2)) {
                *byte ^= 1;
                hit = true;
            }
        }
        ensure!(hit, "the last record is nowhere");
        let mut cut = damaged.after_session(name, home, |job| {
            job.repairing = true;
            job.steps = 8;
            job.end = End::Exit;
        })?;
        if !cut.lost {
            return Ok(None);
        }
        // What it shows after the cut, and what it was promised since.
        let after = cut.promises.sessions.pop().context("no session")?;
        let mut promises = Promises::default();
        promises.add(after);
        cut.promises = promises;
        // What a log shows when it is looked at now counts as shown.
        let place = home.join("look");
        cut.files.write(&place)?;
        let mut shown = Promises::default();
        let outcome = check::check(&place, opening(), &mut shown)?;
        fs::remove_dir_all(&place)?;
        ensure!(outcome.opened, "{name}: {:?}", outcome.broken);
        let base = shown.base.get_or_insert_default();
        // What was under way when it ended is there or is not; only what was shown or promised
        // counts.
        base.end = base.present.values().map(|p| p.end).max().unwrap_or(0);
        let promised = cut.promises.sessions.first().map(Session::records);
        let own = |start: &u64| promised.as_ref().is_some_and(|p| p.contains_key(start));
        let first = cut.sessions;
        base.present
            .retain(|start, p| p.identity.session != first || own(start));
        cut.promises = shown;
        Ok(Some(cut))
    }
}

fn session(number: u64, messages: &[Message]) -> Session {
    let all: Vec<Entry> = entries(messages);
    Session {
        number,
        claimed: vec![all.clone()],
        all: vec![all],
    }
}

fn opening() -> check::Opening {
    check::Opening {
        method: Method::DirectDsync,
        claims: Guarantee::ProcessCrash,
    }
}

/// A session of a subject.
#[derive(Debug)]
pub struct SessionScene {
    name: String,
    group: &'static str,
    base: Base,
    job: Job,
}

impl SessionScene {
    /// Every session that is looked at.
    pub fn all(bases: &[Base]) -> Vec<SessionScene> {
        let mut all = Vec::new();
        let mut add = |name: &str, base: &Base, change: &dyn Fn(&mut Job)| {
            let mut job = usual(Path::new(""));
            job.session = base.sessions + 1;
            job.seed = 17;
            change(&mut job);
            let name = match base.name {
                "" => name.to_owned(),
                base => format!("{name}, {base}"),
            };
            let group = match (job.task, base.sessions) {
                (Task::Work, 0) => "work",
                (Task::Work, _) => "reopen",
                _ => "read",
            };
            all.push(SessionScene {
                name,
                group,
                base: base.clone(),
                job,
            });
        };
        let nothing = Base::nothing();
        add("create", &nothing, &|job| {
            job.mode = Opening::New;
            job.steps = 2;
        });
        add("work", &nothing, &|job| job.steps = 60);
        add("work by fdatasync", &nothing, &|job| {
            job.method = Some(Method::Fdatasync.to_string());
        });
        add("work by dsync", &nothing, &|job| {
            job.method = Some(Method::Dsync.to_string());
        });
        for base in bases {
            add("reopen", base, &|job| {
                job.mode = Opening::Existing;
                job.steps = 4;
            });
            add("repair", base, &|job| {
                job.mode = Opening::Existing;
                job.repairing = true;
                job.steps = 4;
            });
            add("read", base, &|job| job.task = Task::Read);
            add("follow", base, &|job| job.task = Task::Follow);
        }
        all
    }

    /// A log by `fdatasync` over a backend that takes errors of the system for success: a known fault
    /// that has to be found.
    pub fn ignoring_errors() -> SessionScene {
        let mut job = usual(Path::new(""));
        job.method = Some(Method::Fdatasync.to_string());
        job.fault = Fault::ErrorsIgnored;
        SessionScene {
            name: "a backend that ignores errors".to_owned(),
            group: "work",
            base: Base::nothing(),
            job,
        }
    }

    /// What was shown to a reader, in order.
    fn shown(messages: &[Message]) -> Vec<Entry> {
        let mut shown = entries(messages);
        shown.retain(|e| e.kind == Kind::Shown);
        shown
    }

    fn check_reader(&self, dir: &Path, run: &Run<'_>, messages: &[Message]) -> Result<Vec<String>> {
        let mut found = Vec::new();
        if Files::read(dir)? != self.base.files {
            found.push("a reader has changed the log".to_owned());
        }
        if let Some((_, usual)) = run.faulty {
            let (shown, usual) = (
                Self::shown(messages),
                Self::shown(&messages_in(&usual.output)),
            );
            let whole = matches!(messages.last(), Some(Message::Done));
            if !usual.starts_with(&shown) {
                found.push("a reader is shown what is not there".to_owned());
            } else if whole && shown != usual {
                let (some, all) = (shown.len(), usual.len());
                found.push(format!(
                    "a reader is shown {some} of {all} records, and no error"
                ));
            }
        }
        Ok(found)
    }

    /// A write or a sync of what was promised that failed, and that no call reported. That what it had
    /// to bring about is there all the same says nothing: the cache has it.
    fn unreported(run: &Run<'_>, messages: &[Message]) -> Option<String> {
        let reported = messages.iter().any(|s| matches!(s, Message::Failed { .. }));
        let failed = run.ended.failed().find(|call| is_promised(call));
        failed
            .filter(|_| !reported)
            .map(|call| format!("no call reported: {call}"))
    }

    /// Opens it when nothing fails any more.
    fn check_log(&self, dir: &Path, messages: &[Message]) -> Result<Vec<String>> {
        let mut promises = self.base.promises.clone();
        promises.add(session(self.job.session, messages));
        let outcome = check::check(dir, opening(), &mut promises)?;
        let mut found: Vec<String> = outcome.broken;
        found.extend(outcome.filesystem_lost);
        found.extend(unexpected_files(dir, &self.base.files)?);
        Ok(found)
    }
}

/// Whether a call in a trace writes or syncs what a log promises: not what is only being prepared, or
/// reported to readers. One that is interrupted is made again.
fn is_promised(call: &str) -> bool {
    let name = call.split('(').next().unwrap_or_default();
    let writes = ["fsync", "fdatasync", "pwritev2", "pwrite64", "pwritev"].contains(&name);
    let whose = [".seg>", "/control>", "/log>"]
        .iter()
        .any(|end| call.contains(end));
    writes && whose && !call.contains("= -1 EINTR")
}

/// The guarantee with which it was opened.
fn opened(messages: &[Message]) -> Option<u64> {
    messages.iter().find_map(|s| match s {
        Message::Opened { guarantee, .. } => Some(*guarantee),
        _ => None,
    })
}

/// The damage at which a repair has cut it.
fn cut(messages: &[Message]) -> Option<&str> {
    messages.iter().find_map(|s| match s {
        Message::Cut(lost) => Some(lost.as_str()),
        _ => None,
    })
}

/// Copies that a repair has made of a log that is whole.
fn copies_beside(log: &Path) -> Result<Option<String>> {
    let beside = log.parent().context("a log in no directory")?;
    for entry in fs::read_dir(beside)? {
        let name = entry?.file_name();
        let name = name.to_string_lossy();
        if name.starts_with("log.cut-") {
            return Ok(Some(format!("a repair of a whole log has made {name}")));
        }
    }
    Ok(None)
}

impl Scene for SessionScene {
    fn name(&self) -> &str {
        &self.name
    }

    fn group(&self) -> &'static str {
        self.group
    }

    /// What was promised is at stake here, and most calls come in several places.
    fn weight(&self) -> usize {
        match self.group {
            "work" => 4,
            "reopen" => 2,
            _ => 1,
        }
    }

    fn set_up(&self, dir: &Path) -> Result<()> {
        if self.base.sessions > 0 {
            self.base.files.write(&dir.join("log"))?;
        }
        Ok(())
    }

    fn program(&self, dir: &Path) -> Result<Vec<OsString>> {
        let dir = dir.join("log");
        subject(&Job {
            dir,
            ..self.job.clone()
        })
    }

    fn check(&self, dir: &Path, run: &Run<'_>) -> Result<Vec<String>> {
        let dir = dir.join("log");
        let messages = messages_in(&run.ended.output);
        let crashed = run.crashed();
        let mut found = wrong_messages(&messages, run.ended.crashed().is_some());
        found.extend(crashed);
        for s in &messages {
            if let Message::Failed { doing, kind, text } = s {
                found.extend(run.error(doing, kind, text));
            }
        }
        let usual = run.faulty.map(|(_, usual)| messages_in(&usual.output));
        let usually = usual.as_deref().and_then(opened);
        let guarantee = opened(&messages).unwrap_or_default();
        if usually.is_some_and(|usually| guarantee > usually) {
            found.push(format!("the guarantee rose to rank {guarantee}"));
        }
        if let Some(lost) = cut(&messages) {
            if run.is_lasting_damage() {
                // It reported that: what is left is less than was promised.
                return Ok(found);
            }
            found.push(format!("reported as lost: {lost}"));
        }
        if !run.is_lasting_damage() {
            found.extend(copies_beside(&dir)?);
        }
        if run.ended.crashed().is_none() {
            found.extend(Self::unreported(run, &messages));
        }
        found.extend(match self.job.task {
            Task::Work => self.check_log(&dir, &messages)?,
            _ => self.check_reader(&dir, run, &messages)?,
        });
        Ok(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_prepared_is_not_promised() {
        let promised = |call: &str| is_promised(&format!("{call} = -1 EIO (Input/output error)"));
        assert!(promised("fdatasync(5</a/log/control>)"));
        assert!(promised(
            "pwritev2(5</a/log/0000000000008000.seg>, [..], 1, 0, RWF_DSYNC)"
        ));
        assert!(promised("fsync(3</a/log>)"));
        assert!(!promised("pwrite64(7</a/log/live>, \"\", 4096, 0)"));
        assert!(!promised("fdatasync(5</a/log/0000000000008000.tmp>)"));
        assert!(!promised(
            "unlinkat(3</a/log>, \"0000000000008000.seg\", 0)"
        ));
        assert!(!is_promised(
            "fsync(3</a/log>) = -1 EINTR (Interrupted system call) (INJECTED)"
        ));
    }
}
