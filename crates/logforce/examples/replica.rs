//! A replica: follows the log of a primary in another process and keeps a log of its own with the
//! same records. Kill either of them at any point and start it again.
//!
//! `cargo run -p logforce --example replica PRIMARY COPY [SECONDS]`
//!
//! Beside a primary such as `cargo run -p logforce --example till PRIMARY 100000`. It ends after
//! that many seconds without a new record (never, if none are given) and says what it has.

use logforce::{Error, Log, Lsn, Options, Policy, RemoteFollower};
use std::time::Duration;

type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// How far the copy may be behind after a crash.
const LAZY: Policy = Policy::Interval {
    within: Duration::from_millis(100),
};

/// The copy: each of its records is one of the primary's, with where that lies in front.
struct Copy {
    log: Log,
    /// Where each record of the copy begins, and where its original lies.
    places: Vec<(Lsn, Lsn)>,
    /// Where to go on in the primary's log.
    position: Lsn,
}

impl Copy {
    fn open(path: &str) -> Result<Copy> {
        let log = logforce::open_or_create(path, Options::new().segment_len(1 << 20).policy(LAZY))?;
        let mut copy = Copy {
            places: Vec::new(),
            position: Lsn::ORIGIN,
            log,
        };
        for record in copy.log.read_from(copy.log.front_lsn())? {
            let record = record?;
            let (start, rest) = record.data.split_first_chunk().ok_or("no copy's record")?;
            let (end, _) = rest.split_first_chunk().ok_or("no copy's record")?;
            let start = Lsn(u64::from_le_bytes(*start));
            copy.places.push((record.start, start));
            copy.position = Lsn(u64::from_le_bytes(*end));
        }
        Ok(copy)
    }

    /// Staged at once and forced within the interval: what a crash takes can be had from the primary
    /// again. Records that belong together in the log of a real replica would be applied together.
    fn apply(&mut self, start: Lsn, end: Lsn, data: &[u8]) -> Result<()> {
        let (from, to) = (start.0.to_le_bytes(), end.0.to_le_bytes());
        let at = self.log.commit(&[&from[..], &to, data].concat())?;
        self.places.push((at.start, start));
        self.position = end;
        Ok(())
    }

    /// The primary has taken back what it had from `from` on.
    fn undo(&mut self, from: Lsn) -> Result<()> {
        let kept = self
            .places
            .partition_point(|(_, original)| *original < from);
        if let Some((own, _)) = self.places.get(kept) {
            self.log.truncate_back(*own)?;
        }
        self.places.truncate(kept);
        self.position = from;
        println!("undone from {from}");
        Ok(())
    }

    /// A follower that goes on where the copy is.
    fn follow(&mut self, primary: &str) -> Result<RemoteFollower> {
        loop {
            let follower = logforce::read_only(primary).and_then(|log| {
                let from = self.position.max(match self.places.is_empty() {
                    true => log.front_lsn(),
                    false => Lsn::ORIGIN,
                });
                log.follow(from)
            });
            match follower {
                // Taken back while nobody was following.
                Err(Error::Voided { from, .. }) => self.undo(from)?,
                Err(Error::NoLog { .. }) => std::thread::sleep(Duration::from_millis(20)),
                other => return Ok(other?),
            }
        }
    }
}

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let (primary, copy, patience) = match &args[..] {
        [primary, copy] => (primary, copy, None),
        [primary, copy, seconds] => (primary, copy, Some(seconds.parse()?)),
        _ => return Err("usage: replica PRIMARY COPY [SECONDS]".into()),
    };
    let patience = patience.map(Duration::from_secs_f64);
    let mut copy = Copy::open(copy)?;
    println!("found {}", copy.places.len());
    let mut follower = copy.follow(primary)?;
    loop {
        match follower.next_blocking(patience) {
            Ok(Some(record)) => copy.apply(record.start, record.end, &record.data)?,
            Ok(None) => break,
            Err(Error::Voided { from, .. }) => copy.undo(from)?,
            // The primary no longer has what comes next: another copy must be made of it.
            Err(e) => return Err(e.into()),
        }
    }
    println!("has {}", copy.places.len());
    Ok(copy.log.close()?)
}
