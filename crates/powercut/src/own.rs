//! `logforce powercut`, the test for users' machines, on the disk whose power can be cut: the built command, its
//! witness on loopback, and a power cut in each round. On an honest disk it must prove the log; on one that lies about
//! flushes it must contradict it.

use crate::ledger::SubjectLedger;
use anyhow::{Context, Result, bail};
use logforce_crashtest::disk::{Cut, Flushes, Settings, Survival};
use logforce_crashtest::outage::Disks;
use logforce_crashtest::testbed::{Filesystem, Mounted, Powered};
use logforce_testkit::Rng;
use serde::Serialize;
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Bytes by which the witness's file grows until the power cut: some hundred unforced writes, some thousand commits.
const CONTROL: u64 = 4 << 10;
const MEASURED: u64 = 32 << 10;
/// Largest number of rounds until one shows a cut.
const ROUNDS: u32 = 8;
/// Longest duration of a round.
const TIMEOUT: Duration = Duration::from_secs(120);

/// Result of a run of the command.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct OwnRun {
    /// Name of the filesystem.
    pub filesystem: &'static str,
    /// True if the disk reports flushes as done and does nothing.
    pub lying_disk: bool,
    /// Verdict of the command.
    pub verdict: String,
    /// Commits that were acknowledged and had to be there.
    pub expected: u64,
    /// Commits of these that were missing.
    pub lost: u64,
    /// Commits that the control phase lost.
    pub control_lost: u64,
    /// Conclusion of the command, in words.
    pub conclusion: String,
}

impl OwnRun {
    /// Returns true if the log was proven on an honest disk, or contradicted on one that lies.
    pub fn is_as_it_should_be(&self) -> bool {
        self.control_lost > 0
            && self.expected > 0
            && match self.lying_disk {
                false => self.verdict == "proven" && self.lost == 0,
                true => self.verdict == "contradicted" && self.lost > 0,
            }
    }
}

/// Returns the path of the built command, beside this program.
///
/// # Errors
/// If the file does not exist.
pub fn program() -> Result<PathBuf> {
    let path = std::env::current_exe()?.with_file_name("logforce");
    if !path.is_file() {
        bail!(
            "{} is missing: `cargo xtask powercut` builds it",
            path.display()
        );
    }
    Ok(path)
}

/// Process that ends with its owner.
struct Process(Child);

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Witness {
    _process: Process,
    address: String,
    store: PathBuf,
}

struct Run<'a> {
    program: &'a Path,
    filesystem: Filesystem,
    settings: Settings,
    disks: &'a Disks,
    home: &'a Path,
    place: &'a Path,
    witness: Witness,
}

/// Runs the control phase and a measured round, each with a cut.
///
/// # Errors
/// Errors of the machine, and if the command does something that it should not.
pub fn run(
    program: &Path,
    filesystem: Filesystem,
    lying: bool,
    home: &Path,
    seed: u64,
) -> Result<OwnRun> {
    let mut rng = Rng::new(seed);
    let disks = Disks::new(filesystem.size())?;
    disks.stable.copy_from(&filesystem.make()?)?;
    let place = home.join(format!("own-{filesystem}-{lying}"));
    fs::create_dir(&place)?;
    let run = Run {
        program,
        filesystem,
        settings: Settings {
            seed: rng.bits(),
            hold: 0,
            flushes: if lying {
                Flushes::Ignored
            } else {
                Flushes::Honest
            },
        },
        disks: &disks,
        home,
        place: &place,
        witness: witness(program, &place.join("store"))?,
    };
    let id = run.round(CONTROL, &mut rng)?;
    let mut report = run.check(&id)?;
    // Where the filesystem forces more than was asked for, a cut may not show.
    for _ in 0..ROUNDS {
        if !matches!(report["verdict"].as_str(), Some("ready" | "inconclusive")) {
            break;
        }
        run.round(MEASURED, &mut rng)?;
        report = run.check(&id)?;
    }
    drop(run);
    fs::remove_dir_all(&place)?;
    let number = |name: &str| report[name].as_u64().unwrap_or(0);
    let text = |name: &str| report[name].as_str().unwrap_or_default().to_owned();
    Ok(OwnRun {
        filesystem: filesystem.name(),
        lying_disk: lying,
        verdict: text("verdict"),
        expected: number("expected"),
        lost: number("lost"),
        control_lost: number("control_lost"),
        conclusion: text("conclusion"),
    })
}

fn witness(program: &Path, store: &Path) -> Result<Witness> {
    let child = Command::new(program)
        .args(["powercut", "witness", "--listen", "127.0.0.1:0", "--store"])
        .arg(store)
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .context("the witness")?;
    let mut process = Process(child);
    let mut line = String::new();
    let out = process.0.stdout.take().context("no pipe")?;
    BufReader::new(out).read_line(&mut line)?;
    let address = line
        .strip_prefix("listening at ")
        .and_then(|l| l.split(';').next())
        .with_context(|| format!("the witness says {line:?}"))?
        .to_owned();
    Ok(Witness {
        _process: process,
        address,
        store: store.to_owned(),
    })
}

impl Run<'_> {
    fn command(&self, part: &str, dir: &Path) -> Command {
        let mut command = Command::new(self.program);
        command
            .args(["powercut", part, "--witness", &self.witness.address])
            .arg("--cache")
            .arg(self.place.join("cache"))
            .arg(dir.join("run"))
            .stdin(Stdio::null());
        command
    }

    /// Returns the number of bytes that the witness has recorded.
    fn recorded(&self) -> Result<u64> {
        let mut sum = 0;
        for entry in fs::read_dir(&self.witness.store)? {
            sum += entry?.metadata()?.len();
        }
        Ok(sum)
    }

    /// Writes until enough is acknowledged, and cuts the power. Returns the run's id.
    fn round(&self, enough: u64, rng: &mut Rng) -> Result<String> {
        let ledger = SubjectLedger::new()?;
        let stable = &self.disks.stable;
        self.filesystem.check_at_boot(stable)?;
        let switched = self
            .disks
            .switched(self.filesystem, ledger.image(), self.settings);
        let mut powered = Powered::on(switched, self.home, None)?;
        let dir = powered.mounted().context("not mounted")?.to_owned();
        let child = self
            .command("write", &dir)
            .args(["--method", "fdatasync", "--size", "4MiB"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .context("the writer")?;
        let mut writer = Process(child);
        let mut line = String::new();
        let out = writer.0.stdout.take().context("no pipe")?;
        BufReader::new(out).read_line(&mut line)?;
        let Some(id) = line.strip_prefix("run ").and_then(|l| l.get(..32)) else {
            let out = writer.0.stderr.take().context("no pipe")?;
            let stderr = std::io::read_to_string(out)?;
            bail!("the writer says {line:?} {stderr}");
        };
        let (from, began) = (self.recorded()?, Instant::now());
        while self.recorded()? < from + enough {
            if began.elapsed() > TIMEOUT || writer.0.try_wait()?.is_some() {
                bail!("the writer acknowledges nothing any more");
            }
            std::thread::sleep(Duration::from_millis(2));
        }
        let survival = Survival {
            seed: rng.bits(),
            // Whole blocks: a tear inside of one may take the filesystem itself, which live cuts and
            // replayed states count apart, and which would end this.
            grain: 4096,
            // Of a disk that lies nothing is left; a filesystem in shreds would end the test.
            keep: match self.settings.flushes {
                Flushes::Honest => 50,
                _ => 0,
            },
        };
        powered.cut(Cut { survival })?;
        // The machine is gone with its disk.
        drop(writer);
        powered.off()?;
        Ok(id.to_owned())
    }

    /// Runs the check, as after a restart.
    fn check(&self, id: &str) -> Result<Value> {
        let stable = &self.disks.stable;
        self.filesystem.check_at_boot(stable)?;
        let mounted = Mounted::image(self.filesystem, stable, self.home)?;
        let out = self
            .command("check", mounted.path())
            .args(["--json", "-", "--run", id])
            .output()
            .context("the check")?;
        mounted.unmount()?;
        let stderr = String::from_utf8_lossy(&out.stderr);
        let report: Value = serde_json::from_slice(&out.stdout)
            .with_context(|| format!("the check says {}", stderr.trim()))?;
        let expected = match report["verdict"].as_str() {
            Some("proven" | "ready") => 0,
            Some("contradicted") => 1,
            _ => 3,
        };
        if out.status.code() != Some(expected) {
            bail!("the check ends with {}: {}", out.status, stderr.trim());
        }
        Ok(report)
    }
}
