//! A replica: follows the log of a primary in another process, and keeps the same records in a second log.
//! Kill either process at any point and start it again.
//!
//! `cargo run -p logforce --example replica [--wait] PRIMARY COPY [SECONDS]`
//!
//! Run it beside a primary such as `cargo run -p logforce --example till PRIMARY 100000`. It ends after
//! SECONDS without a new record, and prints the number of its records. Without SECONDS it never ends. With
//! `--wait` it waits for the same time until a log exists in PRIMARY.

use logforce::{Batch, Error, Log, Lsn, Options, Policy, Position, ReadOnlyFollower};
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

const USAGE: &str = "\
usage: replica [--wait] PRIMARY COPY [SECONDS]

Follows the log in PRIMARY, which another process may be writing, and keeps a copy of its records in
the log in COPY, which is created if it is missing. Ends after SECONDS without a new record; without
SECONDS it runs until it is killed. It can be started again.
  --wait  wait for a log in PRIMARY if there is none yet";

/// Policy of the copy's commits: a crash loses at most the last 100 ms.
const LAZY: Policy = Policy::Interval {
    within: Duration::from_millis(100),
};

/// The copy. Each of its records contains, in this order: the LSN of the primary's record, the length of a
/// position as text, the position after the record, and the bytes of the record.
struct Copy {
    log: Log,
    /// Start of each record in the copy, and start of its original in the primary.
    places: Vec<(Lsn, Lsn)>,
    /// Position to continue at in the primary's log; `None` before the first record.
    position: Option<Position>,
}

impl Copy {
    fn open(path: &str) -> Result<Copy> {
        let log = logforce::open_or_create(path, Options::new().segment_size(1 << 20))?;
        let mut copy = Copy {
            places: Vec::new(),
            position: None,
            log,
        };
        for record in copy.log.read_from(copy.log.front_lsn())? {
            let record = record?;
            let other =
                || format!("{path} holds another log, not a copy that this program has written");
            let (start, rest) = record.data.split_first_chunk().ok_or_else(other)?;
            let (len, rest) = rest.split_first_chunk().ok_or_else(other)?;
            let len = u64::from_le_bytes(*len) as usize;
            let text = rest.get(..len).ok_or_else(other)?;
            let start = Lsn(u64::from_le_bytes(*start));
            copy.places.push((record.start, start));
            copy.position = Some(std::str::from_utf8(text)?.parse()?);
        }
        Ok(copy)
    }

    /// Stages a record at once; the log forces it within the interval. After a crash the replica reads lost
    /// records from the primary again. A real replica would apply records together that belong together.
    fn apply(&mut self, start: Lsn, position: Position, data: &[u8]) -> Result<()> {
        let text = position.to_string();
        let (from, len) = (start.0.to_le_bytes(), (text.len() as u64).to_le_bytes());
        let mut record = Batch::new();
        let record = record.push_parts(&[&from, &len, text.as_bytes(), data]);
        let at = self.log.commit_with(record, LAZY)?;
        self.places.push((at.start, start));
        self.position = Some(position);
        Ok(())
    }

    /// Undoes the records from `from` on. Either the primary has truncated them, or the primary was restored
    /// from a backup whose records differ from there on.
    fn undo(&mut self, from: Lsn) -> Result<()> {
        let kept = self
            .places
            .partition_point(|(_, original)| *original < from);
        if let Some((own, _)) = self.places.get(kept) {
            self.log.truncate_back(*own)?;
        }
        self.places.truncate(kept);
        self.position = self.position.take().map(|p| p.back_to(from));
        writeln!(io::stdout(), "undone from {from}")?;
        Ok(())
    }

    /// Returns a follower that continues after the last record of the copy.
    fn follow(&mut self, primary: &str) -> Result<ReadOnlyFollower> {
        loop {
            let follower = logforce::read_only(primary).and_then(|log| match &self.position {
                Some(position) => log.follow(position),
                None => log.follow_lsn(log.front_lsn()),
            });
            match follower {
                // The primary was truncated or restored while this replica did not follow.
                Err(Error::Voided { from, .. } | Error::Diverged { from, .. }) => {
                    self.undo(from)?;
                }
                other => return Ok(other?),
            }
        }
    }
}

struct Arguments<'a> {
    waits: bool,
    primary: &'a str,
    copy: &'a str,
    timeout: Option<Duration>,
}

/// Parses the arguments. Returns `None` if they are invalid.
fn arguments<'a>(args: &[&'a str]) -> Option<Arguments<'a>> {
    let (waits, args) = match args {
        ["--wait", rest @ ..] => (true, rest),
        all => (false, all),
    };
    let (primary, copy, timeout) = match *args {
        [primary, copy] => (primary, copy, None),
        [primary, copy, seconds] => {
            let seconds = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
            (primary, copy, Some(seconds))
        }
        _ => return None,
    };
    let flag = [primary, copy].iter().any(|a| a.starts_with('-'));
    (!flag).then_some(Arguments {
        waits,
        primary,
        copy,
        timeout,
    })
}

/// Waits until there is a log in `primary`, and prints once that it waits.
fn wait_for(primary: &str, timeout: Option<Duration>) -> Result<()> {
    let began = Instant::now();
    let mut told = false;
    loop {
        let missing = match logforce::read_only(primary) {
            Err(missing @ Error::NoLog { .. }) => missing,
            // The follower reports any other error.
            _ => return Ok(()),
        };
        if timeout.is_some_and(|p| began.elapsed() >= p) {
            return Err(missing.into());
        }
        if !told {
            eprintln!("waiting for a log: {missing}");
            told = true;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

fn run(args: &Arguments) -> Result<()> {
    let Arguments {
        primary, timeout, ..
    } = *args;
    if args.waits {
        wait_for(primary, timeout)?;
    }
    // Checks the primary before a copy is created.
    if let Err(e) = logforce::read_only(primary) {
        let hint = match e {
            Error::NoLog { .. } => ". Start the primary first, or wait for it with --wait",
            _ => "",
        };
        return Err(format!("{e}{hint}").into());
    }
    let mut copy = Copy::open(args.copy)?;
    writeln!(io::stdout(), "found {}", copy.places.len())?;
    let mut follower = copy.follow(primary)?;
    loop {
        let next = match timeout {
            Some(timeout) => follower.next_timeout(timeout),
            None => follower.next_blocking().transpose(),
        };
        match next {
            Ok(Some(record)) => {
                let position = follower.position();
                copy.apply(record.start, position, &record.data)?;
            }
            Ok(None) => break,
            Err(Error::Voided { from, .. }) => copy.undo(from)?,
            Err(Error::Diverged { from, .. }) => {
                copy.undo(from)?;
                follower = copy.follow(primary)?;
            }
            // For example, the primary no longer contains the next record: a new copy must be made.
            Err(e) => return Err(e.into()),
        }
    }
    writeln!(io::stdout(), "has {}", copy.places.len())?;
    Ok(copy.log.close()?)
}

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args_os()
        .skip(1)
        .map(|a| a.to_string_lossy().into_owned())
        .collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    if args.contains(&"--help") || args.contains(&"-h") {
        println!("{USAGE}");
        return ExitCode::SUCCESS;
    }
    let Some(args) = arguments(&args) else {
        eprintln!("{USAGE}");
        return ExitCode::from(2);
    };
    // Prints the error's message instead of its debug form.
    match run(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(e) => {
            eprintln!("error: {e}");
            ExitCode::FAILURE
        }
    }
}
