//! Page of statistics that a running log keeps in its directory, for other processes to read.

use crate::bytes::{crc_with_hole, get_epoch, get_id, get_u16, get_u32, get_u64, put, put_epoch};
use crate::{Epoch, FORMAT_VERSION, LogId, Lsn};

/// Length of the page, and of the file, in bytes.
pub const LIVE_LEN: usize = 4096;
/// Largest number of counters in a page.
pub const LIVE_COUNTERS: usize = 128;
/// Largest number of summaries of histograms in a page.
pub const LIVE_SUMMARIES: usize = 32;
/// Length of one summary, in bytes.
pub const LIVE_SUMMARY_LEN: usize = 56;

const MAGIC: &[u8; 6] = b"LFLIVE";
const COUNTERS_AT: usize = 128;
const SUMMARIES_AT: usize = COUNTERS_AT + 8 * LIVE_COUNTERS;
const END: usize = SUMMARIES_AT + LIVE_SUMMARY_LEN * LIVE_SUMMARIES;
const _: () = assert!(END <= LIVE_LEN);

/// Summary of a histogram in a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct LiveSummary {
    /// Number of values.
    pub count: u64,
    /// Sum of the values.
    pub sum: u64,
    /// Largest value of the lower 50 %.
    pub p50: u64,
    /// Largest value of the lower 90 %.
    pub p90: u64,
    /// Largest value of the lower 99 %.
    pub p99: u64,
    /// Largest value of the lower 99.9 %.
    pub p999: u64,
    /// Largest value.
    pub max: u64,
}

/// Contents of the file `live`. Nothing depends on them: a missing, an old and an invalid page are all
/// treated as no information.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Live {
    /// Log of the page.
    pub log_id: LogId,
    /// Opening that wrote the page.
    pub epoch: Epoch,
    /// Number of the process that wrote the page, as its system numbers processes.
    pub pid: u64,
    /// Time of the write, in nanoseconds since 1970 by the system's clock.
    pub written_at: u64,
    /// Time for which the log had been open then, in nanoseconds.
    pub open_for: u64,
    /// Durable LSN then.
    pub durable: Lsn,
    /// Age of the oldest device call in flight then, in nanoseconds; 0 for none.
    pub oldest_io_age: u64,
    /// Counters, in the order of `docs/format.md`; at most [`LIVE_COUNTERS`].
    pub counters: Vec<u64>,
    /// Summaries of histograms, in the order of `docs/format.md`; at most [`LIVE_SUMMARIES`].
    pub summaries: Vec<LiveSummary>,
}

/// Reason why a page is rejected.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
#[non_exhaustive]
pub enum LiveReject {
    /// The page is too short, or does not begin with the magic bytes.
    #[error("no page of statistics")]
    Magic,
    /// The checksum is wrong.
    #[error("checksum of the page of statistics")]
    Checksum,
    /// The format version is unknown to this program.
    #[error("format version {0}")]
    Version(u16),
    /// Reserved bytes are not zero.
    #[error("reserved bytes in use")]
    Reserved,
}

crate::names::names!(LiveReject: Magic, Checksum, Version, Reserved);

impl Live {
    /// Returns the page's bytes. Excess counters and summaries are left out.
    pub fn encode(&self) -> [u8; LIVE_LEN] {
        let mut b = [0; LIVE_LEN];
        let counters = &self.counters[..self.counters.len().min(LIVE_COUNTERS)];
        let summaries = &self.summaries[..self.summaries.len().min(LIVE_SUMMARIES)];
        put(&mut b, 0, MAGIC);
        put(&mut b, 6, &FORMAT_VERSION.to_le_bytes());
        put(&mut b, 12, &(counters.len() as u16).to_le_bytes());
        put(&mut b, 14, &(summaries.len() as u16).to_le_bytes());
        put(&mut b, 16, &self.log_id.0);
        put_epoch(&mut b, 32, self.epoch);
        let single = [
            self.pid,
            self.written_at,
            self.open_for,
            self.durable.0,
            self.oldest_io_age,
        ];
        for (i, value) in single.iter().enumerate() {
            put(&mut b, 48 + 8 * i, &value.to_le_bytes());
        }
        for (i, value) in counters.iter().enumerate() {
            put(&mut b, COUNTERS_AT + 8 * i, &value.to_le_bytes());
        }
        for (i, s) in summaries.iter().enumerate() {
            let values = [s.count, s.sum, s.p50, s.p90, s.p99, s.p999, s.max];
            for (j, value) in values.iter().enumerate() {
                let at = SUMMARIES_AT + LIVE_SUMMARY_LEN * i + 8 * j;
                put(&mut b, at, &value.to_le_bytes());
            }
        }
        let crc = crc_with_hole(&b, 8);
        put(&mut b, 8, &crc.to_le_bytes());
        b
    }

    /// Reads a page.
    pub fn decode(bytes: &[u8]) -> Result<Live, LiveReject> {
        let Some(b) = bytes.get(..LIVE_LEN) else {
            return Err(LiveReject::Magic);
        };
        if &b[..6] != MAGIC {
            return Err(LiveReject::Magic);
        }
        if get_u32(b, 8) != crc_with_hole(b, 8) {
            return Err(LiveReject::Checksum);
        }
        let version = get_u16(b, 6);
        if version != FORMAT_VERSION {
            return Err(LiveReject::Version(version));
        }
        let counters = usize::from(get_u16(b, 12));
        let summaries = usize::from(get_u16(b, 14));
        let blank = |bytes: &[u8]| bytes.iter().all(|&x| x == 0);
        if counters > LIVE_COUNTERS
            || summaries > LIVE_SUMMARIES
            || !blank(&b[88..COUNTERS_AT])
            || !blank(&b[COUNTERS_AT + 8 * counters..SUMMARIES_AT])
            || !blank(&b[SUMMARIES_AT + LIVE_SUMMARY_LEN * summaries..])
        {
            return Err(LiveReject::Reserved);
        }
        let summary = |i: usize| {
            let value = |j: usize| get_u64(b, SUMMARIES_AT + LIVE_SUMMARY_LEN * i + 8 * j);
            LiveSummary {
                count: value(0),
                sum: value(1),
                p50: value(2),
                p90: value(3),
                p99: value(4),
                p999: value(5),
                max: value(6),
            }
        };
        Ok(Live {
            log_id: get_id(b, 16),
            epoch: get_epoch(b, 32),
            pid: get_u64(b, 48),
            written_at: get_u64(b, 56),
            open_for: get_u64(b, 64),
            durable: Lsn(get_u64(b, 72)),
            oldest_io_age: get_u64(b, 80),
            counters: (0..counters)
                .map(|i| get_u64(b, COUNTERS_AT + 8 * i))
                .collect(),
            summaries: (0..summaries).map(summary).collect(),
        })
    }
}
