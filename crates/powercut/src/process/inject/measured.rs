//! The methods are measured while calls fail. What was not measured for want of a descriptor or of
//! memory is no slower for it: an error is no answer, and is not kept as one.

use super::message::{Message, messages_in};
use super::scene::{Files, Run, Scene, unexpected_files, wrong_messages};
use super::sessions::{Base, subject};
use super::subject::{End, Job, Opening, Task};
use crate::subject::seam::Fault;
use anyhow::Result;
use logforce::disk::calibration::{self, Decision};
use std::ffi::OsString;
use std::path::Path;

/// A measuring beside a log.
#[derive(Debug)]
pub struct MeasureScene {
    files: Files,
}

impl MeasureScene {
    /// Beside this log.
    pub fn beside(base: &Base) -> MeasureScene {
        MeasureScene {
            files: base.files().clone(),
        }
    }
}

/// What is wrong with what is kept beside a log. How fast the methods were depends on the machine,
/// and whether there was time to measure all of them; the default of the place does not.
fn kept_wrong(dir: &Path) -> Result<Option<String>> {
    let known = calibration::known(dir, None)?;
    let default = known.facts.default_method();
    let Some(kept) = known.calibration else {
        return Ok(None);
    };
    let Decision {
        method, figures, ..
    } = kept.decision;
    let right = match figures.is_empty() {
        true => method == default,
        false => figures.iter().any(|f| f.method == default),
    };
    let wrong = || format!("{method} is kept as measured, and {default} was not considered");
    Ok((!right).then(wrong))
}

impl Scene for MeasureScene {
    fn name(&self) -> &str {
        "measure"
    }

    fn group(&self) -> &'static str {
        "places"
    }

    fn is_about_disks(&self) -> bool {
        true
    }

    fn set_up(&self, dir: &Path) -> Result<()> {
        self.files.write(&dir.join("log"))
    }

    fn program(&self, dir: &Path) -> Result<Vec<OsString>> {
        subject(&Job {
            task: Task::Measure,
            dir: dir.join("log"),
            mode: Opening::Existing,
            method: None,
            demanding: false,
            fault: Fault::None,
            repairing: false,
            segment_size: 32 << 10,
            session: 1,
            seed: 1,
            steps: 0,
            end: End::Close,
        })
    }

    fn check(&self, dir: &Path, run: &Run<'_>) -> Result<Vec<String>> {
        let dir = dir.join("log");
        let messages = messages_in(&run.ended.output);
        let mut found = wrong_messages(&messages, run.ended.crashed().is_some());
        found.extend(run.crashed());
        for s in &messages {
            if let Message::Failed { doing, kind, text } = s {
                found.extend(run.error(doing, kind, text));
            }
        }
        found.extend(kept_wrong(&dir)?);
        // The log's own files do not matter here.
        let mut files = Files::read(&dir)?;
        files
            .0
            .retain(|file| self.files.0.iter().any(|f| f.0 == file.0));
        if files != self.files {
            found.push("measuring has changed the log".to_owned());
        }
        if run.ended.crashed().is_none() && !run.cannot_clean() {
            found.extend(unexpected_files(&dir, &self.files)?);
        }
        Ok(found)
    }
}
