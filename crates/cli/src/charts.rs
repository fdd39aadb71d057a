//! A directory for charts.

use crate::exit::Usage;
use crate::output::{cannot_write, probe};
use anyhow::{Context, bail};
use std::fs;
use std::path::{Path, PathBuf};

/// A directory that charts can be written into. It is created when there are charts, so that an
/// interrupted run leaves no empty directory.
#[derive(Debug)]
pub struct Charts(PathBuf);

impl Charts {
    /// Refuses a directory that cannot be written, before minutes are spent measuring.
    pub fn open(dir: &Path) -> anyhow::Result<Charts> {
        if dir.exists() && !dir.is_dir() {
            bail!(Usage(format!("--svg {} is not a directory", dir.display())));
        }
        let missing: Vec<&Path> = dir
            .ancestors()
            .take_while(|d| !d.as_os_str().is_empty() && d.symlink_metadata().is_err())
            .collect();
        let tried = fs::create_dir_all(dir).and_then(|()| {
            let name = format!(".logforce-{}", std::process::id());
            probe(&dir.join(name))
        });
        // Removes the innermost first. A directory that another program has filled meanwhile stays.
        for made in missing {
            let _ = fs::remove_dir(made);
        }
        tried
            .map_err(|e| cannot_write::with_advice(dir, e))
            .with_context(|| cannot_write::charts(dir))?;
        Ok(Charts(dir.to_owned()))
    }

    /// Writes each chart to the file with its name.
    pub fn fill(self, charts: Vec<(String, String)>) -> anyhow::Result<()> {
        let Charts(dir) = self;
        let failed = || cannot_write::charts(&dir);
        fs::create_dir_all(&dir).with_context(failed)?;
        for (name, svg) in charts {
            fs::write(dir.join(name), svg).with_context(failed)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_try_leaves_nothing_and_removes_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c");
        Charts::open(&deep).unwrap();
        assert!(!dir.path().join("a").exists());
        fs::create_dir(dir.path().join("a")).unwrap();
        let charts = Charts::open(&deep).unwrap();
        assert_eq!(fs::read_dir(dir.path().join("a")).unwrap().count(), 0);
        charts.fill(vec![("x.svg".into(), "x".into())]).unwrap();
        Charts::open(&deep).unwrap();
        assert_eq!(fs::read_dir(&deep).unwrap().count(), 1);
    }

    #[test]
    fn a_place_that_cannot_be_written_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        fs::write(&file, "").unwrap();
        let refused = Charts::open(&file).unwrap_err();
        assert!(refused.is::<Usage>());
        let below = Charts::open(&file.join("charts")).unwrap_err();
        assert!(format!("{below:#}").contains("cannot write the charts into"));
    }
}
