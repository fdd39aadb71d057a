//! A run as a document: the results of every round, and what a reader has to know about them.

use super::bulk;
use super::described::{Described, with_version};
use super::filesystem::Filesystem;
use super::flags::Flags;
use super::report::Measured;
use super::rival::{ETCD_WAL, Entry, RAFT_WAL, Rival};
use super::subjects::{LOGFORCE, RAW, RECYCLING};
use crate::place;
use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::BufReader;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Results of a run, or of several runs that were merged.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub struct Document {
    /// Runs, in the order in which they were merged.
    pub runs: Vec<Run>,
    /// Filesystems in the order of the tables.
    pub filesystems: Vec<Described>,
    /// Settings of the rivals.
    pub settings: Vec<Setting>,
    /// Rivals that did not run.
    pub not_run: Vec<NotRun>,
    /// Commits, by line of the tables.
    pub commits: Vec<Measured>,
    /// Bulk, by line of the tables.
    pub bulk: Vec<bulk::Measured>,
}

/// One run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Run {
    /// Day, in UTC.
    pub date: String,
    /// Commit of the code.
    pub commit: String,
    /// Command line.
    pub command: String,
    /// Features of the package with which its rivals are built.
    pub features: Vec<String>,
    /// Number of rounds.
    pub rounds: u32,
    /// Duration of a slice, seconds.
    pub seconds: f64,
}

/// Settings of a rival.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Setting {
    /// Name and version.
    pub rival: String,
    /// Settings in words.
    pub settings: String,
}

/// A rival that did not run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct NotRun {
    /// Name.
    pub rival: String,
    /// Missing part.
    pub why: String,
}

impl Document {
    /// Returns the document of a run without results.
    ///
    /// # Errors
    /// If a filesystem cannot be described.
    pub fn new(
        flags: &Flags,
        filesystems: &[Filesystem],
        rivals: &[&dyn Rival],
        entries: &[Entry],
    ) -> Result<Document> {
        let described = |filesystem: &Filesystem| {
            let is_own = filesystem.ground.is_own_device();
            let mut machine = filesystem.ground.machine()?;
            if is_own {
                // The model of a loop device is the path of its image.
                machine.model = None;
            }
            Ok(Described {
                name: filesystem.name.clone(),
                title: filesystem.title.clone(),
                machine: machine.to_string(),
                counts_include_others: !is_own,
            })
        };
        let setting = |rival: &&dyn Rival| Setting {
            rival: with_version(rival.name(), &rival.version()),
            settings: format!("{}; {}", rival.settings(), rival.writers().in_words()),
        };
        let not_run = |entry: &Entry| match entry {
            Entry::Absent { name, why } => Some(NotRun {
                rival: (*name).to_owned(),
                why: why.clone(),
            }),
            Entry::Here(_) => None,
        };
        Ok(Document {
            runs: vec![Run {
                date: output_of("date", &["-u", "+%F"]),
                commit: output_of(
                    "git",
                    &[
                        "describe",
                        "--always",
                        "--dirty",
                        "--abbrev=8",
                        "--exclude=*",
                    ],
                ),
                command: without_paths(&place::command_line("rivals")),
                features: features(rivals),
                rounds: flags.rounds,
                seconds: flags.seconds.as_secs_f64(),
            }],
            filesystems: filesystems.iter().map(described).collect::<Result<_>>()?,
            settings: rivals.iter().map(setting).collect(),
            not_run: entries.iter().filter_map(not_run).collect(),
            commits: Vec::new(),
            bulk: Vec::new(),
        })
    }

    /// Reads the documents that `--json` wrote, and merges them.
    ///
    /// # Errors
    /// If a file cannot be read or is named twice, or [`Document::merge`] fails.
    pub fn read(files: &[PathBuf]) -> Result<Document> {
        let mut merged = Document::default();
        for (at, path) in files.iter().enumerate() {
            let named = || path.display().to_string();
            if files[..at].contains(path) {
                bail!("--merge names {} twice: leave one out", named());
            }
            let file = BufReader::new(File::open(path).with_context(named)?);
            let next: Document = serde_json::from_reader(file).with_context(named)?;
            merged.merge(next).with_context(named)?;
        }
        Ok(merged)
    }

    /// Adds another document. Further rounds of the same lines count as rounds of one run.
    ///
    /// # Errors
    /// If it is of another commit, or has other lines for a filesystem that both have: the ratios compare
    /// rounds of the same run.
    pub fn merge(&mut self, other: Document) -> Result<()> {
        let commits = |document: &Document| document.runs.first().map(|run| run.commit.clone());
        if let (Some(ours), Some(theirs)) = (commits(self), commits(&other))
            && ours != theirs
        {
            bail!("it was measured at commit {theirs}, the files before it at {ours}");
        }
        for filesystem in &other.filesystems {
            let name = &filesystem.name;
            let lines = |document: &Document| {
                let of = document.commits.iter().filter(|l| &l.filesystem == name);
                let bulk = document.bulk.iter().filter(|l| &l.filesystem == name);
                (
                    of.map(Measured::key).collect::<Vec<_>>(),
                    bulk.map(|l| l.subject.clone()).collect::<Vec<_>>(),
                )
            };
            let is_known = self.filesystems.iter().any(|known| &known.name == name);
            if is_known && lines(self) != lines(&other) {
                bail!("it has other rivals or workloads on `{name}` than the files before it");
            }
        }
        add_new(&mut self.filesystems, other.filesystems, |a, b| {
            a.name == b.name
        });
        add_new(&mut self.settings, other.settings, Setting::eq);
        add_new(&mut self.not_run, other.not_run, |a, b| a.rival == b.rival);
        self.runs.extend(other.runs);
        for line in other.commits {
            let same = |l: &&mut Measured| l.filesystem == line.filesystem && l.key() == line.key();
            match self.commits.iter_mut().find(same) {
                Some(known) => known.rounds.extend(line.rounds),
                None => self.commits.push(line),
            }
        }
        for line in other.bulk {
            let same = |l: &&mut bulk::Measured| {
                l.filesystem == line.filesystem && l.subject == line.subject
            };
            match self.bulk.iter_mut().find(same) {
                Some(known) => known.rounds.extend(line.rounds),
                None => self.bulk.push(line),
            }
        }
        Ok(())
    }
}

fn add_new<T>(all: &mut Vec<T>, more: Vec<T>, same: impl Fn(&T, &T) -> bool) {
    for new in more {
        if !all.iter().any(|known| same(known, &new)) {
            all.push(new);
        }
    }
}

/// Returns the features with which the rivals are built.
fn features(rivals: &[&dyn Rival]) -> Vec<String> {
    let mut features = Vec::new();
    for rival in rivals {
        let feature = match rival.name() {
            RAW | LOGFORCE | RECYCLING => continue,
            ETCD_WAL | RAFT_WAL => "go",
            name => name,
        };
        if !features.iter().any(|known| known == feature) {
            features.push(feature.to_owned());
        }
    }
    features
}

/// Returns the trimmed output of a program, or a question mark if it fails.
fn output_of(program: &str, arguments: &[&str]) -> String {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(program)
        .args(arguments)
        .current_dir(home)
        .output();
    match output {
        Ok(output) if output.status.success() => {
            String::from_utf8_lossy(&output.stdout).trim().to_owned()
        }
        _ => "?".to_owned(),
    }
}

/// Returns a command line without the paths of this machine: the value of `--dir`, and the output files.
fn without_paths(command: &str) -> String {
    let mut words = command.split(' ');
    let mut kept = Vec::new();
    while let Some(word) = words.next() {
        match word {
            "--dir" => {
                words.next();
                kept.extend(["--dir", "DIR"]);
            }
            "--json" | "--markdown" => drop(words.next()),
            _ => kept.push(word),
        }
    }
    kept.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_line_names_no_path() {
        let line = "rivals --dir /a/b --json /c --rounds 3 --markdown d,e";
        assert_eq!(without_paths(line), "rivals --dir DIR --rounds 3");
    }
}
