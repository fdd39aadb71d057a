//! Random setup of a run: the disk, the properties fixed at creation, and the options of each boot.

use super::model::Universe;
use logforce_core::{FileState, Guarantee, Method, Options as LogOptions};
use logforce_pages::{CommitMode, Options, WriteThroughLimit};
use logforce_testkit::{Rng, SimOptions};
use std::time::Duration;

/// Properties that are fixed when the file is created.
#[derive(Debug, Clone)]
pub struct Fixed {
    /// Commit mode.
    pub mode: CommitMode,
    /// Size of a page, bytes.
    pub page_size: u32,
    /// True if each page has a checksum.
    pub checksums: bool,
    /// Pages that are used.
    pub universe: Universe,
}

impl Fixed {
    /// Draws the properties.
    pub fn random(rng: &mut Rng) -> Fixed {
        let mode = rng.pick(&[CommitMode::Logged, CommitMode::CopyOnWrite]);
        let page_size = rng.pick(&[512, 512, 512, 4096, 4096, 4096, 16384, 65536]);
        let near = match page_size {
            65536 => 8,
            _ => 6 + rng.below(16),
        };
        // A logged file holds each page at its fixed place, and reads its map up to the last page.
        let last = match mode {
            CommitMode::CopyOnWrite => rng.pick(&[0, 1024, 1 << 40]),
            CommitMode::Logged => rng.pick(&[0, 0, 1024, 65_536]),
        };
        Fixed {
            mode,
            page_size,
            checksums: !rng.one_in(3),
            universe: Universe::new(page_size, near, last),
        }
    }

    /// Draws the options of a boot.
    pub fn options(&self, rng: &mut Rng, disk: &SimOptions) -> Options {
        let page = u64::from(self.page_size);
        let mut options = Options::new()
            .mode(self.mode)
            .page_size(self.page_size)
            .checksums(self.checksums)
            .cache(rng.pick(&[0, 4, 64, 4096]) * self.page_size as usize)
            .writers(rng.pick(&[1, 2, 4]))
            // Draws from a separate generator, so that the other choices of a seed stay the same.
            .direct(Rng::new(rng.clone().bits() ^ 0x5d1e).one_in(2))
            .checkpoint_distance(page * rng.pick(&[16, 16, 64, 4096]))
            .log(log_options(rng, disk, page));
        if rng.one_in(2) {
            options = options.write_through(WriteThroughLimit {
                runs: rng.below(6) as usize,
                bytes: rng.pick(&[0, 8192, 1 << 20]),
            });
        }
        options
    }
}

fn log_options(rng: &mut Rng, disk: &SimOptions, page: u64) -> LogOptions {
    let facts = disk.facts();
    let unit = facts.write_unit();
    let covers = |m: &Method| {
        let assessed = facts.assess(*m, FileState::Zeroed);
        assessed.is_some_and(|a| a.guarantee == Guarantee::PowerLoss)
    };
    let methods: Vec<Method> = Method::LINUX.into_iter().filter(covers).collect();
    let max_batch = unit * (2 + rng.below(4) as u32);
    LogOptions::new()
        .method(rng.pick(&methods))
        .segment_size((u64::from(unit) * (8 + rng.below(16))).max(8 * page))
        .max_batch_size(max_batch.into())
        .buffer_size(u64::from(max_batch) * (1 + rng.below(4)))
        .idle_stamp(Duration::from_micros(rng.pick(&[100, 2_000, 50_000])))
        .max_spare_segments(rng.below(3) as usize)
        .max_in_flight_writes(1 + rng.below(4) as usize)
        .in_flight_at_first(4)
        .large_write_size(rng.pick(&[1, 4096, 65_536]))
        .live_stats(false)
}
