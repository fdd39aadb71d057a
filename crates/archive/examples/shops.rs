//! Shops, each with a log of its sales. Each sale is in the archive before the customer has the receipt, so that
//! it survives the machine. A standby keeps a copy of one shop, and takes over.
//!
//! `cargo run -p logforce-archive --example shops sell ARCHIVES HOME SHOP...`
//! `cargo run -p logforce-archive --example shops stand-by ARCHIVES HOME SHOP`
//!
//! ARCHIVES is a directory, or with `--features s3` an address such as `s3://bucket/shops`. Kill a seller, lose
//! its machine, or press Return in the standby while it sells: each receipt stays, once.

use logforce::{Guarantee, Log, Policy};
use logforce_archive::{Archive, ArchiveOptions, AttachOptions, Error};
use std::io::{self, BufRead, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

const USAGE: &str = "\
usage: shops sell ARCHIVES HOME SHOP...     sells in each shop, with a log in HOME/SHOP
       shops stand-by ARCHIVES HOME SHOP    keeps a copy in HOME/SHOP; takes over at the end of a line";

fn options() -> logforce::Options {
    // A shop writes little, so segments of 1 MiB suffice.
    logforce::Options::new()
        .segment_size(1 << 20)
        .require(minimum())
}

/// Returns the guarantee for this machine. A sale survives its loss by the archive, so a weak disk will do.
fn minimum() -> Guarantee {
    Guarantee::ProcessCrash
}

/// Opens the archive of one shop, which is a folder beside those of the others.
fn archive_of(archives: &str, shop: &str) -> Result<Archive> {
    if !archives.contains("://") {
        std::fs::create_dir_all(Path::new(archives).join(shop))?;
    }
    let url = format!("{archives}/{shop}");
    Ok(Archive::open(&url, ArchiveOptions::default())?)
}

/// Reads the number of sales so far, and their total in cents.
fn recover(log: &Log) -> Result<(u64, u64)> {
    let (mut count, mut total) = (0, 0);
    for record in log.read_from(log.front_lsn())? {
        let sale: [u8; 16] = record?.data.try_into().map_err(|_| "not a sale")?;
        let (number, cents) = sale.split_at(8);
        if number != (count + 1_u64).to_le_bytes() {
            return Err(format!("sale {} is missing", count + 1).into());
        }
        count += 1;
        total += u64::from_le_bytes(cents.try_into()?);
    }
    Ok((count, total))
}

fn say(line: &str) -> io::Result<()> {
    // Several shops print. One write for each line keeps them apart.
    io::stdout()
        .lock()
        .write_all(format!("{line}\n").as_bytes())
}

/// Sells in one shop until another machine takes it over, or this one is killed.
fn sell(archive: &Archive, home: &Path, shop: &str) -> Result<()> {
    std::fs::create_dir_all(home)?;
    let log = logforce::open_or_create(home.join(shop), options())?;
    let owner = format!("process {}", std::process::id());
    // Fails if another machine has taken over since this log was last open.
    let attached = archive.attach(&log, AttachOptions::new().synchronous().owner(owner))?;
    let (mut count, mut total) = recover(&log)?;
    say(&format!("{shop}: found {count} sales, {total} cents"))?;
    let ended = loop {
        let cents = 250 + 37 * count % 900;
        let sale = [(count + 1).to_le_bytes(), cents.to_le_bytes()].concat();
        // The customer gets the receipt only after this has returned. If it fails, the sale may be recorded or
        // not: the next owner finds out.
        if let Err(error) = log.commit_with(sale, Policy::Replicated) {
            break error;
        }
        count += 1;
        total += cents;
        say(&format!(
            "{shop}: sale {count}, {cents} cents, {total} in total"
        ))?;
    };
    // The archive knows why: the log has only lost its replica.
    attached.close()?;
    Err(ended.into())
}

fn sell_in_all(archives: &str, home: &Path, shops: &[String]) -> Result<()> {
    std::thread::scope(|scope| {
        let mut threads = Vec::new();
        for shop in shops {
            threads.push(scope.spawn(move || sell(&archive_of(archives, shop)?, home, shop)));
        }
        for thread in threads {
            thread.join().map_err(|_| "a shop panicked")??;
        }
        Ok(())
    })
}

/// Keeps a copy until a line is read, and takes over.
fn stand_by(archives: &str, home: &Path, shop: &str) -> Result<()> {
    let archive = archive_of(archives, shop)?;
    std::fs::create_dir_all(home)?;
    let copy = home.join(shop);
    // The copy is not a log before the takeover, so that this machine cannot open it by mistake.
    let is_asked = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let is_asked = &is_asked;
        scope.spawn(move || {
            let _ = io::stdin().lock().read_line(&mut String::new());
            is_asked.store(true, Relaxed);
        });
        while !is_asked.load(Relaxed) {
            let followed =
                archive.follow(&copy, minimum(), &|| is_asked.load(Relaxed), &mut |_| {});
            match followed {
                Ok(()) => {}
                // The shop has not opened yet, or its archive cannot be reached.
                Err(error @ (Error::State(_) | Error::Store(_))) => {
                    say(&format!("{shop}: {error}"))?;
                    std::thread::sleep(Duration::from_secs(1));
                }
                Err(error) => return Err(error.into()),
            }
        }
        Result::Ok(())
    })?;
    let owner = format!("standby {}", std::process::id());
    // From here on the seller before gives no further receipt, even if it only was slow.
    let (epoch, report) = archive.takeover(&copy, &owner, minimum(), &mut |_| {})?;
    say(&format!(
        "{shop}: taken over at {} in epoch {}",
        report.end, epoch.0
    ))?;
    sell(&archive, home, shop)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let result = match &args.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["sell", archives, home, _, ..] => sell_in_all(archives, Path::new(home), &args[3..]),
        ["stand-by", archives, home, shop] => stand_by(archives, Path::new(home), shop),
        _ => {
            eprintln!("{USAGE}");
            return ExitCode::from(2);
        }
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
