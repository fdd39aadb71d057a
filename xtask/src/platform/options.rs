//! Options of the command.

use std::path::PathBuf;

/// For Windows and macOS, on which we have run nothing: tests and measures this system, and writes one
/// JSON file that you can send us. docs/platforms.md describes its content.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct Options {
    /// Skips the tests.
    #[arg(long)]
    pub without_tests: bool,
    /// Folder whose disk is measured [default: the target folder].
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// Duration of the measurement, from 0.1 to 3600 seconds.
    #[arg(long, default_value = "30", value_parser = seconds)]
    pub seconds: f64,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|s| (0.1..=3600.0).contains(s));
    number.ok_or_else(|| "not a number from 0.1 to 3600".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_read() {
        assert_eq!(seconds("2.5"), Ok(2.5));
        for wrong in ["nan", "-1", "0", "x", "1e9"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
