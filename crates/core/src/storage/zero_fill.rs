//! Filling of new segments with zeroes.

use logforce_device::failure::is_no_space;
use logforce_device::sync::AtomicBool;
use logforce_device::{Blocks, Facts, File, FilesystemKind, ForceBy, Plan};
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Condition on which new segments are filled with zeroes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Filling {
    /// Never: the filesystem never overwrites in place, so zeroes are useless.
    Never,
    /// Always: a force does not make first writes as durable as other writes, or this is unknown.
    Always,
    /// Zero-fill unless the workload is bandwidth-bound. The value is the number of bytes per force from
    /// which on it counts as such on any device; on a device with little bandwidth, fewer bytes do.
    Unless(u64),
}

/// Returns true if filling with zeroes makes later writes cheaper on this filesystem.
pub(crate) fn zeroes_help(kind: FilesystemKind) -> bool {
    kind != FilesystemKind::Relocating
}

impl Filling {
    /// Returns the best condition for this filesystem and plan. From `bulk` bytes per force on, a segment is
    /// only reserved, if a force by `plan` guarantees the same on reserved blocks.
    pub(crate) fn here(facts: &Facts, plan: Plan, bulk: u64) -> Filling {
        if !zeroes_help(facts.kind) {
            Filling::Never
        } else if facts.forces_first_writes() && plan.force != ForceBy::None {
            Filling::Unless(bulk)
        } else {
            Filling::Always
        }
    }

    /// Returns true if segments are filled while the workload is unknown.
    pub(crate) fn begins(self) -> bool {
        self != Filling::Never
    }

    /// Returns true if a segment of `len` bytes should be filled after the workload `load`. `break_even`:
    /// bytes per force for which filling costs as much as forces into reserved blocks do, if that is known.
    pub(crate) fn pays(self, load: Workload, len: u64, break_even: Option<u64>) -> bool {
        match self {
            Filling::Never => false,
            Filling::Always => true,
            Filling::Unless(bulk) => {
                let bulk = break_even.map_or(bulk, |bytes| bytes.clamp(bulk / LEAST_BULK, bulk));
                !load.is_bulk(len / 8, bulk)
            }
        }
    }
}

/// Fraction of the usual limit below which forces never count as bulk: the measurements are rough.
const LEAST_BULK: u64 = 16;
/// Number of small writes that take as long as a force into reserved blocks takes longer than one into
/// written blocks. Such a force also commits the filesystem's journal. Measured as 1.5 to 2; twice that,
/// because the fill was measured beside commits, with which it shares the device.
const RESERVED_COSTS: u32 = 4;
/// Bytes over which the speed of fills is averaged.
const RATE_OVER: u64 = 8 << 20;

/// Speed of fills: of their writes, a moving average, and of what follows the last write.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct FillRate {
    bytes: u64,
    took: Duration,
    finish: Duration,
}

impl FillRate {
    /// Notes the bytes of a write, and its duration.
    pub(crate) fn note(&mut self, (bytes, took): (u64, Duration)) {
        self.bytes += bytes;
        self.took += took;
        if self.bytes > RATE_OVER {
            self.bytes /= 2;
            self.took /= 2;
        }
    }

    /// Notes the time from the end of a fill until appends could use the segment.
    pub(crate) fn finished(&mut self, took: Duration) {
        self.finish = took.max(self.finish / 2);
    }

    /// Returns a recent maximum of the time from the end of a fill until appends can use the segment.
    pub(crate) fn finish(&self) -> Duration {
        self.finish
    }

    /// Notes that a segment was reserved and not filled. The speed counts a little less then, so that some
    /// later segment is filled and the speed measured again: the device may be faster by then.
    pub(crate) fn age(&mut self) {
        self.took -= self.took / 8;
    }

    /// Returns the number of bytes per force for which filling costs as much as forces into reserved blocks.
    /// `small_write`: usual duration of a small write. Returns `None` before both were measured.
    pub(crate) fn break_even(&self, small_write: Duration) -> Option<u64> {
        let is_known =
            self.bytes >= RATE_OVER / 4 && !self.took.is_zero() && !small_write.is_zero();
        let time = u128::from(RESERVED_COSTS) * small_write.as_nanos();
        let bytes = || u128::from(self.bytes) * time / self.took.as_nanos().max(1);
        is_known.then(|| u64::try_from(bytes()).unwrap_or(u64::MAX))
    }
}

/// Zeroes by the device, which are tried until one attempt is refused.
pub(crate) struct DeviceZeroes(AtomicBool);

impl DeviceZeroes {
    /// Makes one that is tried only if `tries` is set.
    pub(crate) fn new(tries: bool) -> DeviceZeroes {
        DeviceZeroes(AtomicBool::new(tries))
    }

    /// Has the device zero the range. Returns false if it must be written instead. That is also the case if
    /// the filesystem does not report the blocks as written: a crash could lose a later write to them.
    pub(crate) fn zero(&self, file: &dyn File, range: Range<u64>) -> io::Result<bool> {
        if !self.0.load(Relaxed) {
            return Ok(false);
        }
        let is_offered = match file.write_zeroes(range.clone()) {
            Err(e) if is_no_space(&e) => return Err(e),
            // Any other failure counts as a refusal: a container's filter or the device may refuse the
            // command although writes work. Nothing depends on the file yet, and its barrier reports a device
            // that has failed.
            answer => answer.unwrap_or(false),
        };
        let is_zeroed = is_offered && file.blocks(range) == Blocks::Written;
        self.0.store(is_zeroed, Relaxed);
        Ok(is_zeroed)
    }
}

/// Work that was done, since the opening or in a part of it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Workload {
    /// Number of appended bytes of log, including padding.
    pub(crate) bytes: u64,
    /// Number of forces.
    pub(crate) forces: u64,
    /// Number of requests to write without a force.
    pub(crate) writes: u64,
}

impl Workload {
    /// Returns the work that was done after `earlier`, of the same opening.
    pub(crate) fn since(self, earlier: Workload) -> Workload {
        Workload {
            bytes: self.bytes.saturating_sub(earlier.bytes),
            forces: self.forces.saturating_sub(earlier.forces),
            writes: self.writes.saturating_sub(earlier.writes),
        }
    }

    /// Returns true if at least `least` bytes were appended, and at least `per_force` bytes for each force.
    /// Returns false if callers rely on writes without a force ([`Policy::Write`](crate::Policy::Write)): a
    /// crash of the system may lose such a write if it was the first one to its blocks.
    pub(crate) fn is_bulk(self, least: u64, per_force: u64) -> bool {
        self.writes == 0 && self.bytes >= least && self.bytes / self.forces.max(1) >= per_force
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce_device::ForwardFile;
    use logforce_device::sync::AtomicU64;

    const MIB: u64 = 1 << 20;

    /// File with given answers to [`File::write_zeroes`] and [`File::blocks`].
    struct Answering {
        zeroes: Result<bool, io::ErrorKind>,
        blocks: Blocks,
        asked: AtomicU64,
    }

    impl ForwardFile for Answering {
        fn inner(&self) -> &dyn File {
            unreachable!("no other call is made")
        }

        fn write_zeroes(&self, range: Range<u64>) -> io::Result<bool> {
            assert_eq!(range, 0..MIB);
            self.asked.fetch_add(1, Relaxed);
            self.zeroes.map_err(io::Error::from)
        }

        fn blocks(&self, range: Range<u64>) -> Blocks {
            assert_eq!(range, 0..MIB);
            self.blocks
        }
    }

    #[test]
    fn the_device_is_asked_until_it_refuses() {
        use io::ErrorKind::{InvalidInput, StorageFull};
        for (zeroes, blocks, tries, answer, asked) in [
            (Ok(true), Blocks::Written, true, Ok(true), 2),
            (Ok(true), Blocks::Written, false, Ok(false), 0),
            (Ok(false), Blocks::Written, true, Ok(false), 1),
            (Ok(true), Blocks::Reserved, true, Ok(false), 1),
            (Ok(true), Blocks::Unknown, true, Ok(false), 1),
            (Err(InvalidInput), Blocks::Written, true, Ok(false), 1),
            // A full disk says nothing about the device.
            (Err(StorageFull), Blocks::Missing, true, Err(StorageFull), 2),
        ] {
            let file = Answering {
                zeroes,
                blocks,
                asked: AtomicU64::new(0),
            };
            let device = DeviceZeroes::new(tries);
            for _ in 0..2 {
                let zeroed = device.zero(&file, 0..MIB).map_err(|e| e.kind());
                assert_eq!(zeroed, answer, "{zeroes:?} {blocks:?} {tries}");
            }
            assert_eq!(file.asked.load(Relaxed), asked, "{zeroes:?} {blocks:?}");
        }
    }

    #[test]
    fn a_slow_device_reserves_for_smaller_forces() {
        let load = |per_force: u64| Workload {
            bytes: 64 * MIB,
            forces: 64 * MIB / per_force,
            writes: 0,
        };
        let pays = |rate: &FillRate, per_force| {
            let small_write = Duration::from_micros(250);
            Filling::Unless(MIB).pays(load(per_force), 64 * MIB, rate.break_even(small_write))
        };
        let measured = |chunk_took| {
            let mut rate = FillRate::default();
            for _ in 0..200 {
                rate.note((MIB / 8, chunk_took));
            }
            rate
        };
        let unknown = FillRate::default();
        assert!(pays(&unknown, MIB / 2) && !pays(&unknown, MIB));
        // 128 KiB in 1 ms are 125 MiB a second, so 1 ms of four small writes fills 128 KiB.
        let slow = measured(Duration::from_millis(1));
        assert!(pays(&slow, MIB / 16) && !pays(&slow, MIB / 8));
        let stalled = measured(Duration::from_secs(1));
        assert!(pays(&stalled, MIB / 32), "too small for any device");
        assert!(!pays(&stalled, MIB / 16));
        let mut fast = measured(Duration::from_micros(200));
        assert!(pays(&fast, MIB / 2) && !pays(&fast, MIB));
        fast.age();
        assert!(fast.break_even(Duration::from_micros(250)) > Some(5 * MIB / 8));
    }

    #[test]
    fn a_slow_finish_is_remembered_for_some_segments() {
        let ms = Duration::from_millis;
        let mut rate = FillRate::default();
        rate.finished(ms(40));
        assert_eq!(rate.finish(), ms(40));
        rate.finished(ms(1));
        assert_eq!(rate.finish(), ms(20));
        rate.finished(ms(30));
        assert_eq!(rate.finish(), ms(30));
    }

    #[test]
    fn bulk_is_much_by_few_forces() {
        let load = |bytes, forces, writes| Workload {
            bytes,
            forces,
            writes,
        };
        let is_bulk = |load: Workload| load.is_bulk(8 * MIB, MIB);
        assert!(is_bulk(load(8 * MIB, 0, 0)));
        assert!(is_bulk(load(8 * MIB, 8, 0)));
        assert!(!is_bulk(load(8 * MIB - 1, 0, 0)), "too few bytes");
        assert!(!is_bulk(load(8 * MIB, 9, 0)), "smaller forces");
        assert!(!is_bulk(load(64 * MIB, 1, 1)), "a caller relies on a write");
        let earlier = load(64 * MIB, 1000, 7);
        assert!(is_bulk(load(80 * MIB, 1016, 7).since(earlier)));
    }
}
