//! The flags.

use crate::place::Common;
use crate::rivals::records::BULK_RECORD;
use crate::rivals::records::SHORTEST;
use clap::Parser;
use logforce_terminal::arguments;
use std::time::Duration;

/// In the list of filesystems: the directory itself.
pub const NO_LOOP: &str = "none";

/// Logforce side by side with other logs and stores: the same records in the same run, each
/// commit durable, all of them in turns.
#[derive(Debug, Clone, Parser)]
#[command(name = "rivals")]
pub struct Flags {
    #[command(flatten)]
    pub common: Common,

    /// Sizes of a record, such as 128,16KiB
    #[arg(long, value_delimiter = ',', default_value = "128,16KiB", value_parser = size)]
    pub records: Vec<usize>,

    /// Numbers of threads
    #[arg(long, value_delimiter = ',', default_value = "1,16,64", value_parser = arguments::within::<u32>(1, 1024))]
    pub threads: Vec<u32>,

    /// Seconds that each rival commits at a time
    #[arg(long, default_value = "1", value_parser = arguments::seconds)]
    pub seconds: Duration,

    /// How often everybody has a turn; the medians are printed
    #[arg(long, default_value_t = 5, value_parser = arguments::within::<u32>(1, u32::MAX))]
    pub rounds: u32,

    /// Bytes that are appended in bulk, with one force at the end, and read back, in every round; 0
    /// leaves that out
    #[arg(long, value_name = "SIZE", default_value = "1GiB", value_parser = bulk)]
    pub bulk: u64,

    /// Only these, such as logforce,sqlite; the raw loop and logforce are run all the same where
    /// something is compared with them
    #[arg(long, value_delimiter = ',')]
    pub only: Vec<String>,

    /// Make filesystems (ext4, ext4-nojournal, xfs, btrfs) in images in --dir, each on a loop
    /// device of its own, so that the device's counts are this run's alone; needs root. `none` in
    /// the list is --dir itself: with none,ext4,xfs one run compares all three
    #[arg(long = "loop", value_name = "KINDS", value_delimiter = ',', default_value = NO_LOOP)]
    pub filesystems: Vec<String>,

    /// MiB of each such filesystem; its image takes them all. Bulk needs three times --bulk
    #[arg(long, default_value_t = 4096, value_name = "MIB")]
    pub loop_size: u64,
}

fn size(text: &str) -> Result<usize, String> {
    let size = usize::try_from(arguments::size(text)?).unwrap_or(usize::MAX);
    if !(SHORTEST..=1 << 20).contains(&size) {
        return Err(format!("records have {SHORTEST} bytes to 1 MiB"));
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
            "bulk is 0 or at least one record of {BULK_RECORD} bytes"
        ));
    }
    Ok(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_and_their_defaults() {
        let flags = Flags::try_parse_from(["rivals", "--bench"]).unwrap();
        assert_eq!(flags.records, [128, 16 << 10]);
        assert_eq!(flags.threads, [1, 16, 64]);
        assert_eq!((flags.seconds, flags.rounds), (Duration::from_secs(1), 5));
        assert_eq!(
            (flags.filesystems, flags.bulk),
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
        assert_eq!(flags.filesystems, [NO_LOOP, "xfs"]);
        for bad in ["8", "2MiB", "1GiB", "x"] {
            assert!(Flags::try_parse_from(["rivals", "--records", bad]).is_err());
        }
        for (bulk, good) in [("0", true), ("1023", false), ("1KiB", true)] {
            let parsed = Flags::try_parse_from(["rivals", "--bulk", bulk]);
            assert_eq!(parsed.is_ok(), good, "{bulk}");
        }
    }
}
