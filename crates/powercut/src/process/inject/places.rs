//! Places where no log may promise to survive a power cut: whatever call fails while that is found
//! out, none is opened there.

use super::message::{Message, messages_in};
use super::scene::{OwnDisk, Run, Scene, wrong_messages};
use super::sessions::subject;
use super::subject::{End, Job, Opening, Task};
use crate::subject::seam::Fault;
use anyhow::{Context, Result, bail, ensure};
use logforce::Method;
use logforce::disk::cuts::{self, CutRun};
use logforce_crashtest::testbed::{Filesystem, fresh};
use std::ffi::OsString;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Something mounted for this; unmounted when dropped.
#[derive(Debug)]
pub struct Extra(PathBuf);

impl Extra {
    fn new(home: &Path, words: &[&str]) -> Result<Extra> {
        let at = fresh(home, "inject")?;
        let out = Command::new("mount")
            .arg("-n")
            .args(words)
            .arg(&at)
            .output();
        let out = out.context("mount")?;
        if !out.status.success() {
            bail!("{}", String::from_utf8_lossy(&out.stderr).trim());
        }
        Ok(Extra(at))
    }
}

impl Drop for Extra {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

/// A place that is refused.
#[derive(Debug)]
pub struct RefusedPlace {
    name: &'static str,
    /// Where the log would lie; else where the suite says.
    mounted: Option<Extra>,
    /// What cuts have shown, beside the log.
    recorded: Option<CutRun>,
    method: Option<Method>,
}

impl RefusedPlace {
    /// All of them. `home` is memory. Where the machine's own disk is good, each is refused for the
    /// one thing alone that is wrong with it.
    ///
    /// # Errors
    /// Of the machine.
    pub fn all(home: &Path, disk: &OwnDisk, memory: &Path) -> Result<Vec<RefusedPlace>> {
        let refused = |name, mounted| RefusedPlace {
            name,
            mounted: Some(mounted),
            recorded: None,
            method: None,
        };
        let own = disk.is_good.then_some(disk.path.as_path());
        // Where the disk itself is an overlay it takes no other one.
        let volatile = own.into_iter().chain([memory]);
        let volatile = volatile
            .map(|disk| overlay(home, disk))
            .find_map(Result::ok);
        let without = own.into_iter().chain([memory]);
        let without = without
            .map(|disk| nobarrier(home, disk))
            .find_map(Result::ok);
        let mut all = vec![
            refused(
                "overlay, volatile",
                volatile.context("no overlay can be mounted")?,
            ),
            refused(
                "ext4 without barriers",
                without.context("no ext4 can be mounted")?,
            ),
        ];
        if let Some(run) = lost(disk)? {
            all.push(RefusedPlace {
                name: "recorded losses",
                mounted: None,
                recorded: Some(run),
                method: Some(Method::Dsync),
            });
        }
        Ok(all)
    }
}

/// An overlay whose flushes do nothing.
fn overlay(home: &Path, disk: &Path) -> Result<Extra> {
    let mut words = "volatile".to_owned();
    for (key, part) in [
        ("lowerdir", "lower"),
        ("upperdir", "upper"),
        ("workdir", "work"),
    ] {
        let dir = disk.join(part);
        fs::create_dir(&dir)?;
        words = format!("{words},{key}={}", dir.display());
    }
    Extra::new(home, &["-t", "overlay", "overlay", "-o", &words])
}

/// An ext4 that sends no flushes.
fn nobarrier(home: &Path, disk: &Path) -> Result<Extra> {
    let file = disk.join("ext4");
    fs::File::create(&file)?.set_len(Filesystem::Ext4.size())?;
    let made = Command::new("mkfs.ext4")
        .args(["-q", "-F"])
        .arg(&file)
        .output();
    let made = made.context("mkfs.ext4")?;
    ensure!(
        made.status.success(),
        "mkfs.ext4: {}",
        String::from_utf8_lossy(&made.stderr)
    );
    let file = file.display().to_string();
    Extra::new(home, &["-t", "ext4", "-o", "loop,barrier=0", &file])
}

/// A loss by a method that would do there; `None` where it would not, so that a loss speaks against
/// nothing.
fn lost(disk: &OwnDisk) -> Result<Option<CutRun>> {
    let place = cuts::Place::of(&logforce::disk::facts(&disk.path)?);
    Ok(place.filter(|_| disk.is_good).map(|place| {
        let mut run = CutRun::new(place, Method::Dsync, 1);
        (run.cuts, run.acknowledged) = (2, 500);
        (run.lost, run.control_lost) = (3, 1);
        run
    }))
}

impl RefusedPlace {
    fn dir(&self, dir: &Path) -> PathBuf {
        let number = dir.file_name().unwrap_or_default();
        match &self.mounted {
            Some(extra) => extra.0.join(number),
            None => dir.join("log"),
        }
    }
}

impl Scene for RefusedPlace {
    fn name(&self) -> &str {
        self.name
    }

    fn group(&self) -> &'static str {
        "places"
    }

    fn is_about_disks(&self) -> bool {
        self.recorded.is_some()
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
            mode: Opening::Anywhere,
            method: self.method.map(|m| m.to_string()),
            demanding: true,
            fault: Fault::None,
            repairing: false,
            segment_size: 32 << 10,
            session: 1,
            seed: 1,
            steps: 2,
            end: End::Close,
        })
    }

    fn check(&self, dir: &Path, run: &Run<'_>) -> Result<Vec<String>> {
        let messages = messages_in(&run.ended.output);
        let mut found = wrong_messages(&messages, run.ended.crashed().is_some());
        found.extend(run.crashed());
        for s in &messages {
            match s {
                Message::Opened { method, .. } => {
                    found.push(format!("a log was opened, by {method}"));
                }
                Message::Failed { doing, kind, text } if kind != "Unavailable" => {
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
