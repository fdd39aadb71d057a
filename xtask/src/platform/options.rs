//! What was asked for.

use std::path::PathBuf;

/// For Windows and macOS, where we have run nothing: tests and measures this system, and writes one
/// JSON file that you may send us. docs/platforms.md says what is in it.
#[derive(Debug, Clone, PartialEq, clap::Args)]
pub struct Options {
    /// Leaves the tests out.
    #[arg(long)]
    pub without_tests: bool,
    /// The folder whose disk is measured: the target folder unless named.
    #[arg(long)]
    pub dir: Option<PathBuf>,
    /// How long is measured, from 0.1 to 3600 seconds.
    #[arg(long, default_value = "30", value_parser = seconds)]
    pub seconds: f64,
}

fn seconds(text: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|s| (0.1..=3600.0).contains(s));
    number.ok_or_else(|| "it is a number from 0.1 to 3600".to_owned())
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
