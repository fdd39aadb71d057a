//! Command-line flags.

use crate::place::Common;
use crate::rivals::filesystem::Filesystems;
use crate::rivals::records::BULK_RECORD;
use crate::rivals::records::SHORTEST;
use clap::Parser;
use logforce_terminal::arguments;
use std::path::PathBuf;
use std::time::Duration;

/// Compares Logforce with other logs and stores. All write the same records in the same run, in turns;
/// each commit is durable.
#[derive(Debug, Clone, Parser)]
#[command(name = "rivals")]
pub struct Flags {
    /// Flags of every bench.
    #[command(flatten)]
    pub common: Common,

    /// Record sizes, such as 128,16KiB
    #[arg(long, value_delimiter = ',', default_value = "128,16KiB", value_parser = size)]
    pub records: Vec<usize>,

    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1,16,64", value_parser = arguments::within::<u32>(1, 1024))]
    pub threads: Vec<u32>,

    /// Duration of a slice, seconds
    #[arg(long, default_value = "1", value_parser = arguments::seconds)]
    pub seconds: Duration,

    /// Number of rounds; medians are printed
    #[arg(long, default_value_t = 5, value_parser = arguments::within::<u32>(1, u32::MAX))]
    pub rounds: u32,

    /// Size appended in bulk, with one force at the end, and read back, in every round; 0 skips this
    /// part
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = bulk)]
    pub bulk: u64,

    /// Rivals to run, such as logforce,sqlite; the raw loop and logforce always run, because the ratios
    /// refer to them
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,

    /// Flags that choose the filesystems.
    #[command(flatten)]
    pub filesystems: Filesystems,

    /// Measure nothing, and print the results of earlier runs that --json wrote, merged
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    pub merge: Vec<PathBuf>,

    /// Replace the tables in these Markdown files, between the lines `<!-- rivals: NAME -->` and
    /// `<!-- end -->`: `tables` has all results, `summary` the commits in --dir with the smallest records
    #[arg(long, value_name = "FILES", value_delimiter = ',')]
    pub markdown: Vec<PathBuf>,
}

fn size(text: &str) -> Result<usize, String> {
    let size = usize::try_from(arguments::size(text)?).unwrap_or(usize::MAX);
    if !(SHORTEST..=1 << 20).contains(&size) {
        return Err(format!("record sizes are from {SHORTEST} bytes to 1 MiB"));
    }
    Ok(size)
}

fn bulk(text: &str) -> Result<u64, String> {
    if text == "0" {
        return Ok(0);
    }
    let size = arguments::size(text)?;
    if size < BULK_RECORD as u64 {
        return Err(format!(
            "--bulk must be 0 or at least {BULK_RECORD} bytes (one record)"
        ));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rivals::filesystem::NO_LOOP;

    #[test]
    fn flags_and_their_defaults() {
        let flags = Flags::try_parse_from(["rivals", "--bench"]).unwrap();
        assert_eq!(flags.records, [128, 16 << 10]);
        assert_eq!(flags.threads, [1, 16, 64]);
        assert_eq!((flags.seconds, flags.rounds), (Duration::from_secs(1), 5));
        assert_eq!(
            (flags.filesystems.names, flags.bulk),
            (vec![NO_LOOP.to_owned()], 1 << 30)
        );
        let line = [
            "rivals",
            "--records",
            "4KiB",
            "--seconds",
            "0.5",
            "--only",
            "a,b",
            "--loop",
            "none,xfs",
        ];
        let flags = Flags::try_parse_from(line).unwrap();
        assert_eq!((flags.records, flags.only.len()), (vec![4096], 2));
        assert_eq!(flags.filesystems.names, [NO_LOOP, "xfs"]);
        for bad in ["8", "2MiB", "1GiB", "x"] {
            assert!(Flags::try_parse_from(["rivals", "--records", bad]).is_err());
        }
        for (bulk, good) in [("0", true), ("1023", false), ("1KiB", true)] {
            let parsed = Flags::try_parse_from(["rivals", "--bulk", bulk]);
            assert_eq!(parsed.is_ok(), good, "{bulk}");
        }
    }
}
