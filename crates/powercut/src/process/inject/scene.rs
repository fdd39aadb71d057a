//! What a program does while its calls fail, and what has to hold afterwards.

use super::calls::{Answer, is_about_memory, is_about_threads};
use super::message::Message;
use super::tracer::{Ended, Injection};
use anyhow::{Context, Result};
use logforce::{Guarantee, Method, disk::FileState};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};

/// One thing that programs do with logs.
pub trait Scene: Sync {
    /// Its name in reports.
    fn name(&self) -> &str;

    /// With which other scenes it is counted.
    fn group(&self) -> &'static str;

    /// How many cases are tried of it for each one of another scene.
    fn weight(&self) -> usize {
        1
    }

    /// Whether it is about what disks are made of: an image in memory is no disk.
    fn is_about_disks(&self) -> bool {
        false
    }

    /// Puts into `dir`, which is empty, what the program finds there.
    ///
    /// # Errors
    /// Of the machine.
    fn set_up(&self, dir: &Path) -> Result<()>;

    /// The program and its arguments.
    ///
    /// # Errors
    /// Of the machine.
    fn program(&self, dir: &Path) -> Result<Vec<OsString>>;

    /// What is wrong with what the program did and left, one line each.
    ///
    /// # Errors
    /// Of the machine.
    fn check(&self, dir: &Path, run: &Run<'_>) -> Result<Vec<String>>;
}

/// A run of a scene.
#[derive(Debug)]
pub struct Run<'a> {
    /// How it went.
    pub ended: &'a Ended,
    /// What failed, and how it goes when nothing does; `None` if this is that run.
    pub faulty: Option<(&'a Injection, &'a Ended)>,
}

impl Run<'_> {
    /// What failed.
    pub fn injection(&self) -> Option<&Injection> {
        self.faulty.map(|(injection, _)| injection)
    }

    /// Whether bytes may really be gone.
    pub fn is_lasting_damage(&self) -> bool {
        self.injection().is_some_and(Injection::is_lasting_damage)
    }

    /// A directory that lists nothing has lost its files, for all that can be known.
    pub fn lists_nothing(&self) -> bool {
        self.injection()
            .is_some_and(|i| i.call == "getdents64" && i.answer == Answer::Nothing)
    }

    /// Whether what is to be taken away may not be, or nothing can be found any more.
    pub fn cannot_clean(&self) -> bool {
        self.injection()
            .is_some_and(|i| i.on || i.call.starts_with("unlink"))
    }

    /// A crash or a hang. A program that gets no memory may end at once.
    pub fn crashed(&self) -> Option<String> {
        let out_of_memory = self.injection().is_some_and(|i| is_about_memory(&i.call))
            && [
                "memory allocation of",
                "failed to allocate an alternative stack",
            ]
            .iter()
            .any(|words| self.ended.errors.contains(words));
        self.ended.crashed().filter(|_| !out_of_memory)
    }

    /// What is wrong with an error: its kind, or that it does not say what the system answered.
    pub fn error(&self, doing: &str, kind: &str, text: &str) -> Option<String> {
        let Some(injection) = self.injection() else {
            return Some(format!("{doing} fails by itself: {kind}: {text}"));
        };
        if injection.is_signal() {
            return Some(format!(
                "{doing} takes a signal for a failure: {kind}: {text}"
            ));
        }
        let gone = self.is_lasting_damage() || self.lists_nothing();
        let locking = matches!(injection.call.as_str(), "fcntl" | "flock");
        let fits = match kind {
            "Io" | "NoSpace" => true,
            "Damaged" | "NoLog" | "NotALog" => gone,
            "Locked" => locking,
            "Unavailable" => is_refusal_of_service(injection.answer),
            // Of the log as a whole, once it is open.
            "Poisoned" => !matches!(doing, "open" | "repair"),
            _ => false,
        };
        if !fits {
            return Some(format!("{doing} answers {kind}: {text}"));
        }
        (!injection.is_named_in(text) && !gone && !matches!(kind, "Locked" | "Unavailable"))
            .then(|| format!("{doing} does not say what the system answered: {kind}: {text}"))
    }
}

impl Injection {
    /// Whether a call was only interrupted: it is to be made again.
    pub fn is_signal(&self) -> bool {
        matches!(self.answer, Answer::Error(e) if e.name == "EINTR")
    }

    /// Whether words for people say what the system answered.
    pub fn is_named_in(&self, text: &str) -> bool {
        let says = |number: i32| text.contains(&format!("os error {number})"));
        match self.answer {
            Answer::Error(e) => says(e.number) || (is_about_threads(&self.call) && says(11)),
            Answer::Nothing => !text.trim().is_empty(),
        }
    }
}

/// Whether the system says that it has no such service: where it is asked what it offers, that is
/// an answer.
fn is_refusal_of_service(answer: Answer) -> bool {
    let names = ["EINVAL", "ENOTTY", "EOPNOTSUPP", "ENOSYS", "EPERM"];
    matches!(answer, Answer::Error(e) if names.contains(&e.name))
}

/// What is wrong in the messages, and whether it ended in order.
pub fn wrong_messages(messages: &[Message], crashed: bool) -> Vec<String> {
    let mut found: Vec<String> = messages
        .iter()
        .filter_map(|s| match s {
            Message::Wrong(what) => Some(what.clone()),
            _ => None,
        })
        .collect();
    let done = |s: &Message| matches!(s, Message::Done | Message::Failed { .. });
    if !crashed && !messages.last().is_some_and(done) {
        found.push(format!(
            "it ended in the midst of its work: {:?}",
            messages.last()
        ));
    }
    found
}

/// The files of a directory.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Files(pub Vec<(OsString, Vec<u8>)>);

impl Files {
    /// All of a directory, in the order of their names.
    ///
    /// # Errors
    /// Of the machine.
    pub fn read(dir: &Path) -> Result<Files> {
        let mut files = Vec::new();
        for entry in fs::read_dir(dir).with_context(|| dir.display().to_string())? {
            let entry = entry?;
            files.push((entry.file_name(), fs::read(entry.path())?));
        }
        files.sort();
        Ok(Files(files))
    }

    /// Writes them into a directory that is made for it.
    ///
    /// # Errors
    /// Of the machine.
    pub fn write(&self, dir: &Path) -> Result<()> {
        fs::create_dir(dir).with_context(|| dir.display().to_string())?;
        for (name, bytes) in &self.0 {
            fs::write(dir.join(name), bytes)?;
        }
        Ok(())
    }
}

/// Files in a log's directory that were not `there`, and that an opening should have cleaned away or
/// should not have made.
///
/// # Errors
/// Of the machine.
pub fn unexpected_files(dir: &Path, there: &Files) -> Result<Vec<String>> {
    let Ok(entries) = fs::read_dir(dir) else {
        return Ok(Vec::new());
    };
    let mut left = Vec::new();
    for entry in entries {
        let name = entry?.file_name();
        let text = name.to_string_lossy();
        let odd = [".tmp", ".damaged", ".cut"]
            .iter()
            .any(|end| text.ends_with(end));
        if odd && !there.0.iter().any(|(n, _)| *n == name) {
            left.push(format!("{text} is left behind"));
        }
    }
    Ok(left)
}

/// A directory of the machine's own disk, beside the program; removed when dropped.
#[derive(Debug)]
pub struct OwnDisk {
    /// Where it is.
    pub path: PathBuf,
    /// Whether logs may promise to survive a power cut there.
    pub is_good: bool,
}

impl OwnDisk {
    /// Makes one.
    ///
    /// # Errors
    /// Of the machine.
    pub fn new() -> Result<OwnDisk> {
        let path = logforce_crashtest::testbed::enclosure::own_disk()?;
        fs::create_dir(&path).with_context(|| path.display().to_string())?;
        let mut disk = OwnDisk {
            path,
            is_good: false,
        };
        let facts = logforce::disk::facts(&disk.path)?;
        let assessed = facts.assess(Method::Dsync, FileState::Zeroed);
        disk.is_good = assessed.is_some_and(|a| a.guarantee == Guarantee::PowerLoss);
        Ok(disk)
    }
}

impl Drop for OwnDisk {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.path);
    }
}
