//! What was asked for.

use anyhow::{Context, Result, bail};
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Whether the tests are run as well.
    pub tests: bool,
    /// The folder whose disk is measured.
    pub dir: Option<PathBuf>,
    /// How long is measured.
    pub seconds: f64,
}

impl Options {
    pub fn read(words: &[&str]) -> Result<Options> {
        let mut options = Options {
            tests: true,
            dir: None,
            seconds: 30.0,
        };
        let mut words = words.iter();
        while let Some(word) = words.next() {
            match *word {
                "--without-tests" => options.tests = false,
                "--dir" => {
                    let dir = words.next().context("--dir needs a folder")?;
                    options.dir = Some(dir.into());
                }
                "--seconds" => {
                    let seconds = words.next().context("--seconds needs a number")?;
                    options.seconds = seconds
                        .parse()
                        .ok()
                        .filter(|s| (0.1..=3600.0).contains(s))
                        .with_context(|| format!("--seconds is 0.1 to 3600, not '{seconds}'"))?;
                }
                other => bail!("no such option: {other}; `cargo xtask` prints what there is"),
            }
        }
        Ok(options)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_read() {
        let read = |words: &[&str]| Options::read(words).map_err(|e| e.to_string());
        assert!(read(&[]).unwrap().tests);
        let all = read(&["--without-tests", "--dir", "d", "--seconds", "2.5"]).unwrap();
        assert_eq!((all.tests, all.seconds), (false, 2.5));
        assert_eq!(all.dir, Some("d".into()));
        for (words, said) in [
            (&["--dir"][..], "needs a folder"),
            (&["--seconds"], "needs a number"),
            (&["--seconds", "nan"], "'nan'"),
            (&["--seconds", "-1"], "'-1'"),
            (&["x"], "no such option"),
        ] {
            let error = read(words).unwrap_err();
            assert!(error.contains(said), "{error}");
        }
    }
}
