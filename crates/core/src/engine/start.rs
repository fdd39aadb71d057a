//! Construction of the engine from the parts that recovery returns.

use crate::engine::config::Config;
use crate::engine::events::Events;
use crate::engine::location::Location;
use crate::engine::membership::Membership;
use crate::engine::pin_table::PinTable;
use crate::engine::{Engine, Files};
use crate::environment::fd_budget::OpenFiles;
use crate::metrics::Metrics;
use crate::options::Options;
use crate::read::view::View;
use crate::state::State;
use crate::state::buffers::Buffers;
use crate::state::log_buffer::LogBuffer;
use crate::state::pipeline::{Durability, Identity, WritePipeline};
use crate::state::segment_queue::SegmentQueue;
use crate::storage::builder::Spare;
use crate::storage::control_file::ControlFile;
use crate::storage::retired_files::RetiredFiles;
use crate::storage::segment::Segment;
use crate::storage::segment_sizes::SegmentSizes;
use crate::storage::segments::Segments;
use crate::storage::voids::Voids;
use crate::storage::zero_fill::{DeviceZeroes, Filling};
use crate::sync::poison::Poison;
use crate::types::RecoveryReport;
use logforce_commit::method::ForceConfig;
use logforce_commit::write_concurrency::WriteConcurrency;
use logforce_device::sync::{AtomicBool, Mutex};
use logforce_device::{Directory, Runtime};
use logforce_format::{Anchor, Epoch, LogId, Lsn};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Result of recovery: all parts of a log that is ready for appends.
pub(crate) struct Parts {
    pub(crate) dir: Arc<dyn Directory>,
    pub(crate) runtime: Arc<dyn Runtime>,
    pub(crate) log_id: LogId,
    pub(crate) decided: OpenSettings,
    pub(crate) end: LogEnd,
    pub(crate) found: LogFiles,
    pub(crate) report: RecoveryReport,
    pub(crate) poison: Poison,
    pub(crate) metrics: Arc<Metrics>,
    /// The writer lock.
    pub(crate) lock: Box<dyn Send + Sync>,
}

/// Settings that an opening decides before it reads the log.
pub(crate) struct OpenSettings {
    pub(crate) options: Options,
    pub(crate) force: ForceConfig,
    /// Records that a barrier covers survive loss of power in this directory.
    pub(crate) barrier_is_durable: bool,
    /// Write unit of new segments, bytes.
    pub(crate) unit: u32,
    pub(crate) sizes: SegmentSizes,
    /// Rule for filling new segments with zeroes.
    pub(crate) filling: Filling,
    /// Zeroes by the device for that.
    pub(crate) zeroes: DeviceZeroes,
}

/// Position where appends continue: behind this opening's first batch, which is durable.
pub(crate) struct LogEnd {
    pub(crate) epoch: Epoch,
    /// The segment of the next batch.
    pub(crate) segment: Arc<Segment>,
    pub(crate) anchor: Anchor,
    /// Position below which all records survive loss of power.
    pub(crate) stamp: Lsn,
    pub(crate) front: Lsn,
}

/// The log's files and what recovery found in them.
pub(crate) struct LogFiles {
    pub(crate) control: ControlFile,
    pub(crate) segments: Segments,
    pub(crate) spares: Vec<Spare>,
    pub(crate) voids: Voids,
}

impl Engine {
    /// Returns the engine of a recovered log. Does not start its threads.
    pub(crate) fn start(parts: Parts) -> Engine {
        let Parts {
            dir,
            runtime,
            log_id,
            decided,
            end,
            found,
            report,
            poison,
            metrics,
            lock,
        } = parts;
        let OpenSettings {
            options,
            force,
            barrier_is_durable,
            unit,
            sizes,
            filling,
            zeroes,
        } = decided;
        let written = end.anchor.lsn;
        poison.durable.store(written.0, Ordering::Release);
        let upcoming: VecDeque<Arc<Segment>> =
            found.segments.above(end.segment.header.start).into();
        let in_use = std::iter::once(&end.segment).chain(&upcoming);
        let location = Location::new(&dir, in_use, written);
        // Segments of an earlier opening may have a larger write unit than this opening's options.
        let units = std::iter::once(&end.segment).chain(&upcoming);
        let longest_unit = units.map(|s| s.header.write_unit).max().unwrap_or(unit);
        // The opening has checked that the value is a valid batch length.
        let max_batch = (options.max_batch as u32).max(2 * longest_unit);
        let identity = Identity {
            log_id,
            epoch: end.epoch,
        };
        let guarantee = force.guarantee;
        let pipeline = WritePipeline::new(
            identity,
            guarantee,
            barrier_is_durable,
            end.anchor,
            end.stamp,
            WriteConcurrency::here(
                force.plan,
                filling == Filling::Never,
                options.write_limits(),
            ),
        );
        let membership = options.shared().map(|shared| {
            let files = OpenFiles::new(&shared.fd_budget);
            found.segments.report_to(files.clone());
            Membership::new(shared, files)
        });
        let max_batch = max_batch.next_multiple_of(longest_unit) as usize;
        // Keeps the buffers of only a few writes in flight, because few writes are large. Small buffers are
        // cheap to allocate again.
        let kept = options.max_in_flight_writes.min(4);
        // A value beyond the address space means no limit.
        let buffer_size = usize::try_from(options.buffer_size).unwrap_or(usize::MAX);
        let buffers = Buffers::new(
            max_batch,
            longest_unit as usize,
            buffer_size / max_batch + kept,
            membership.as_ref().map(|m| m.shared.memory.clone()),
        );
        let state = State::new(
            LogBuffer::new(max_batch, buffer_size, buffers),
            SegmentQueue::new(
                end.segment,
                upcoming,
                pipeline.sealed(),
                found.control.current().write_limit,
                options.write_limit_step,
            ),
            pipeline,
            Durability::new(force.plan, guarantee),
        );
        let pins = PinTable::new(runtime.clone(), end.front, options.max_pinned_size);
        let view = View::new(
            dir,
            runtime,
            log_id,
            found.segments,
            found.voids,
            end.front..written,
        );
        Engine {
            view,
            config: Config {
                options,
                epoch: end.epoch,
                force,
                unit,
                sizes,
                filling,
                zeroes,
                report,
            },
            state: Mutex::new(state),
            files: Files {
                control: found.control,
                spares: Mutex::new(found.spares),
                retired: RetiredFiles::default(),
                lock: Mutex::new(Some(lock)),
            },
            pins,
            location,
            poison,
            written: written.0.into(),
            events: Events::default(),
            threads: Mutex::default(),
            stop: AtomicBool::new(false),
            metrics,
            membership,
        }
    }
}
