//! Places where no log may promise to survive a loss of power: whatever fails while that is found
//! out, none is opened there.

use super::lives::subject;
use super::said::{Said, heard};
use super::scene::{Run, Scene, said_wrong};
use super::subject::{End, Job, Opening, Task};
use crate::rig::{Filesystem, Image};
use anyhow::{Context, Result, bail, ensure};
use logforce::cuts::{self, CutRun};
use logforce::{FileState, Guarantee, Method};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Something mounted for this; unmounted when dropped.
#[derive(Debug)]
pub struct Extra {
    at: PathBuf,
    /// What it lies on, if that is an image.
    _image: Option<Image>,
}

impl Extra {
    fn new(at: PathBuf, image: Option<Image>, words: &[&str]) -> Result<Extra> {
        fs::create_dir(&at)?;
        let out = Command::new("mount")
            .arg("-n")
            .args(words)
            .arg(&at)
            .output();
        let out = out.context("mount")?;
        if !out.status.success() {
            bail!("{}", String::from_utf8_lossy(&out.stderr).trim());
        }
        Ok(Extra { at, _image: image })
    }
}

impl Drop for Extra {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.at, rustix::mount::UnmountFlags::DETACH);
    }
}

/// A place that is refused.
#[derive(Debug)]
pub struct Refused {
    name: &'static str,
    /// Where the log would lie; else where the suite says.
    mounted: Option<Extra>,
    /// What cuts have shown, beside the log.
    recorded: Option<CutRun>,
    method: Option<Method>,
}

impl Refused {
    /// All of them. `home` is memory, `disk` a filesystem where nothing speaks against a log.
    ///
    /// # Errors
    /// Of the machine.
    pub fn all(home: &Path, disk: &Path) -> Result<Vec<Refused>> {
        let refused = |name, mounted| Refused {
            name,
            mounted,
            recorded: None,
            method: None,
        };
        let overlay = |name: &str| -> Result<String> {
            let mut words = "volatile".to_owned();
            for (key, part) in [
                ("lowerdir", "lower"),
                ("upperdir", "upper"),
                ("workdir", "work"),
            ] {
                let dir = disk.join(format!("{name}-{part}"));
                fs::create_dir(&dir)?;
                words = format!("{words},{key}={}", dir.display());
            }
            Ok(words)
        };
        let options = overlay("overlay")?;
        let words = ["-t", "overlay", "overlay", "-o", &options];
        let volatile = Extra::new(home.join("overlay"), None, &words)?;
        let image = Filesystem::Ext4.make()?;
        let device = image.path().display().to_string();
        let words = ["-t", "ext4", "-o", "loop,barrier=0", &device];
        let unsafe_mount = Extra::new(home.join("nobarrier"), Some(image), &words)?;
        let mut all = vec![
            refused("overlay, volatile", Some(volatile)),
            refused("ext4 without barriers", Some(unsafe_mount)),
        ];
        if let Some(run) = lost(disk)? {
            all.push(Refused {
                recorded: Some(run),
                method: Some(Method::Dsync),
                ..refused("recorded losses", None)
            });
        }
        Ok(all)
    }
}

/// A loss by a method that would do there; `None` where it would not, so that a loss speaks against
/// nothing.
fn lost(disk: &Path) -> Result<Option<CutRun>> {
    let facts = logforce::facts(disk)?;
    let assessed = facts.assess(Method::Dsync, FileState::Zeroed);
    let good = assessed.is_some_and(|a| a.guarantee == Guarantee::PowerLoss);
    let place = cuts::Place::of(&facts).filter(|_| good);
    Ok(place.map(|place| CutRun {
        place,
        method: Method::Dsync,
        run: 1,
        cuts: 2,
        acknowledged: 500,
        lost: 3,
        control_lost: 1,
        at: cuts::now(),
        kernel: String::new(),
        tool: "inject".to_owned(),
    }))
}

impl Refused {
    fn dir(&self, dir: &Path) -> PathBuf {
        let number = dir.file_name().unwrap_or_default();
        match &self.mounted {
            Some(extra) => extra.at.join(number),
            None => dir.join("log"),
        }
    }
}

impl Scene for Refused {
    fn name(&self) -> &str {
        self.name
    }

    fn set_up(&self, dir: &Path) -> Result<()> {
        if let Some(run) = &self.recorded {
            let log = self.dir(dir);
            fs::create_dir(&log)?;
            cuts::record(&log, run)?;
        }
        Ok(())
    }

    fn program(&self, dir: &Path) -> Result<Vec<OsString>> {
        subject(&Job {
            task: Task::Work,
            dir: self.dir(dir),
            creation: Opening::Either,
            method: self.method.map(|m| m.to_string()),
            demanding: true,
            truncating: false,
            calibrating: false,
            segment_len: 32 << 10,
            life: 1,
            seed: 1,
            steps: 2,
            end: End::Close,
        })
    }

    fn judge(&self, dir: &Path, run: &Run<'_>) -> Result<Vec<String>> {
        let said = heard(&run.ended.output);
        let mut found = said_wrong(&said, run.ended.crashed().is_some());
        found.extend(run.crashed());
        for s in &said {
            match s {
                Said::Opened { method, .. } => {
                    found.push(format!("a log was opened, by {method}"));
                }
                Said::Erred { doing, kind, text } if kind != "Unavailable" => {
                    found.extend(run.error(doing, kind, text));
                }
                _ => {}
            }
        }
        if self.mounted.is_some() {
            let log = self.dir(dir);
            match fs::remove_dir_all(&log) {
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                removed => removed.with_context(|| log.display().to_string())?,
            }
        }
        ensure!(run.faulty.is_some() || found.is_empty(), "{found:?}");
        Ok(found)
    }
}
