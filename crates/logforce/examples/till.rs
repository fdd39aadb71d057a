//! A cash register. After a crash, a `kill -9` or a loss of power it contains every acknowledged sale once,
//! and in order.
//!
//! `cargo run -p logforce --example till DIR [COUNT]` records sales until there are COUNT of them (default
//! 500). Kill it at any point and start it again: it continues after the last sale.

use logforce::{Log, Options};
use std::error::Error;
use std::ffi::OsString;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, SystemTime};

const USAGE: &str = "\
usage: till DIR [COUNT]

Records sales in the log in DIR, which is created if it is missing, until there are COUNT (default 500).
Kill it at any point and start it again: it continues after the last sale.";

struct Sale {
    number: u64,
    cents: u64,
    time: Duration,
}

impl Sale {
    // The log stores and checks bytes. Their meaning is up to the program.
    fn encode(&self) -> [u8; 24] {
        let time = self.time.as_micros() as u64;
        let mut bytes = [0; 24];
        for (to, word) in bytes.chunks_mut(8).zip([self.number, self.cents, time]) {
            to.copy_from_slice(&word.to_le_bytes());
        }
        bytes
    }

    fn decode(bytes: &[u8]) -> Result<Sale, Box<dyn Error>> {
        let bytes: [u8; 24] = bytes.try_into().map_err(|_| "this record is not a sale")?;
        let word = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| bytes[8 * i + k]));
        Ok(Sale {
            number: word(0),
            cents: word(1),
            time: Duration::from_micros(word(2)),
        })
    }
}

fn sales(count: u64) -> &'static str {
    if count == 1 { "sale" } else { "sales" }
}

fn euros(cents: u64) -> String {
    format!("{}.{:02}", cents / 100, cents % 100)
}

/// Reads the number of sales so far, and their total in cents.
fn recover(log: &Log) -> Result<(u64, u64), Box<dyn Error>> {
    let (mut count, mut total) = (0, 0);
    for record in log.read_from(log.front_lsn())? {
        let sale = Sale::decode(&record?.data)?;
        if sale.number != count + 1 {
            return Err(format!("sale {} follows sale {count}", sale.number).into());
        }
        count = sale.number;
        total += sale.cents;
    }
    Ok((count, total))
}

/// Parses the arguments: the log's directory and the number of sales. Returns `None` if they are invalid.
fn arguments(args: &[OsString]) -> Option<(&OsString, u64)> {
    match args {
        [dir, ..] if dir.as_encoded_bytes().starts_with(b"-") => None,
        [dir] => Some((dir, 500)),
        [dir, count] => Some((dir, count.to_str()?.parse().ok()?)),
        _ => None,
    }
}

fn main() -> ExitCode {
    let args: Vec<OsString> = std::env::args_os().skip(1).collect();
    if args.iter().any(|a| a == "--help" || a == "-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some((dir, wanted)) = arguments(&args) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // Prints the error's message instead of its debug form.
    match sell(dir, wanted) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}

fn sell(dir: &OsString, wanted: u64) -> Result<(), Box<dyn Error>> {
    // Opening recovers the log. A cash register writes little, so segments of 1 MiB suffice.
    let log = logforce::open_or_create(dir, Options::new().segment_size(1 << 20))?;
    let (mut count, mut total) = recover(&log)?;
    let mut out = io::stdout().lock();
    writeln!(out, "found {count} {}, {}", sales(count), euros(total))?;

    while count < wanted {
        let sale = Sale {
            number: count + 1,
            cents: 250 + 37 * count % 900,
            time: SystemTime::now().duration_since(SystemTime::UNIX_EPOCH)?,
        };
        // The customer gets the receipt only after this call has returned. If it fails, the sale may be
        // recorded or not: the next start finds out.
        log.commit(&sale.encode())?;
        count = sale.number;
        total += sale.cents;
        let second = sale.time.as_secs();
        writeln!(out, "sale {count} of {} at {second}", euros(sale.cents))?;
        out.flush()?;
    }
    log.close()?;
    writeln!(out, "total {count} {}, {}", sales(count), euros(total))?;
    Ok(())
}
