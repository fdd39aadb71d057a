//! Directories to measure in, as arguments.

use crate::exit::Usage;
use anyhow::{Context, bail};
use std::io;
use std::path::{Path, PathBuf};

/// The directory to measure in.
#[derive(Debug, clap::Args)]
pub struct Where {
    /// Directory on the disk to measure; a temporary directory is made in it and removed
    #[arg(long, value_name = "DIR", default_value = ".")]
    dir: PathBuf,
}

impl Where {
    /// The directory.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Checks that `--dir` is a directory.
    pub fn check(&self) -> anyhow::Result<()> {
        check_directory(&self.dir)
    }
}

/// The directory to measure, with or without the name of the flag.
#[derive(Debug, clap::Args)]
pub struct DirArgs {
    /// The same as --dir DIR
    #[arg(value_name = "DIR", conflicts_with = "dir")]
    positional: Option<PathBuf>,
    #[command(flatten)]
    flag: Where,
}

impl DirArgs {
    /// The directory.
    pub fn dir(&self) -> &Path {
        self.positional.as_deref().unwrap_or(self.flag.dir())
    }

    /// Checks that the path is a directory.
    pub fn check(&self) -> anyhow::Result<()> {
        check_directory(self.dir())
    }
}

/// The directory to measure, or two that are measured in turns and compared.
#[derive(Debug, clap::Args)]
pub struct DirsArgs {
    /// The same as --dir DIR
    #[arg(value_name = "DIR", conflicts_with = "dirs", value_parser = directory_or_scenario)]
    positional: Option<PathBuf>,
    /// Directory on the disk to measure; a temporary directory is made in it and removed. Given twice, both
    /// directories are measured in turns and compared [default: .]
    #[arg(long = "dir", value_name = "DIR")]
    dirs: Vec<PathBuf>,
}

impl DirsArgs {
    /// Returns the first directory, and the second one if there are two. Checks that they are directories.
    pub fn checked(&self) -> anyhow::Result<(&Path, Option<&Path>)> {
        let given = self.positional.iter().chain(&self.dirs);
        let given: Vec<&Path> = given.map(PathBuf::as_path).collect();
        let (first, second) = match given[..] {
            [] => (Path::new("."), None),
            [one] => (one, None),
            [one, two] => (one, Some(two)),
            _ => bail!(Usage(format!(
                "{} directories are too many: give --dir at most twice",
                given.len()
            ))),
        };
        check_directory(first)?;
        second.map_or(Ok(()), check_directory)?;
        Ok((first, second))
    }

    /// Returns the only directory, for a flag that measures one.
    pub fn only(&self, flag: &str) -> anyhow::Result<&Path> {
        match self.checked()? {
            (dir, None) => Ok(dir),
            (_, Some(_)) => bail!(Usage(format!(
                "{flag} measures one directory: give --dir once"
            ))),
        }
    }
}

/// Parses a directory. A single word that is not there is more likely a scenario with a typing error.
fn directory_or_scenario(text: &str) -> Result<PathBuf, String> {
    let path = PathBuf::from(text);
    let is_word = !text.is_empty() && text.chars().all(char::is_alphabetic);
    match is_word && path.symlink_metadata().is_err() {
        true => Err(
            "neither a directory nor one of the commands journal, group, pages, map, inserts"
                .to_owned(),
        ),
        false => Ok(path),
    }
}

/// Checks that `--dir` is a directory. A missing one fails like the directory of a log: its disk may not be
/// mounted.
pub fn check_directory(dir: &Path) -> anyhow::Result<()> {
    let why = match dir.metadata() {
        Ok(found) if found.is_dir() => return Ok(()),
        Ok(_) => "is not a directory",
        Err(e) if e.kind() == io::ErrorKind::NotFound => "does not exist",
        Err(e) => return Err(e).with_context(|| format!("cannot look at {}", dir.display())),
    };
    bail!(
        "--dir {} {why}: give a directory on the disk in question",
        dir.display()
    )
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    /// A path that the system cannot examine is not reported as missing.
    #[test]
    fn what_cannot_be_looked_at_is_no_missing_directory() {
        let dir = tempfile::tempdir().unwrap();
        let refusal = |path: &Path| {
            let error = check_directory(path).unwrap_err();
            assert!(!error.is::<Usage>(), "{error:#}");
            format!("{error:#}")
        };
        check_directory(dir.path()).unwrap();
        let words = refusal(&dir.path().join("no"));
        assert!(words.contains("does not exist"), "{words}");
        let around = dir.path().join("around");
        std::os::unix::fs::symlink(&around, &around).unwrap();
        let words = refusal(&around);
        assert!(words.contains("cannot look at"), "{words}");
    }
}
