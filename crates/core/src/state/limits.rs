//! How many writes may be in flight.

use crate::options::Options;
use logforce_device::Plan;

/// Limits of the write pipeline.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlightLimits {
    /// Maximum of writes in flight.
    pub(crate) max_writes: usize,
    /// A further write starts only with this many staged bytes. Writing every record at once would
    /// halve the records per write, and for small writes the device's limit is operations per
    /// second.
    pub(crate) threshold: usize,
}

impl InFlightLimits {
    /// The limits in `options`, as far as the method allows them.
    ///
    /// A direct write reports its own failure. Through the page cache, Linux reports a failed
    /// write-back once per file description, to the first caller that asks: of two write-through
    /// writes in flight, one would get the other's error, and the failed one would report success
    /// and be acknowledged. Real disk errors have shown this: an acknowledged record was lost.
    ///
    /// Where the filesystem `relocates` what is written, each durable write commits a tree of the
    /// filesystem, and one waits for the other: on btrfs 16 threads with records of 16 KiB made 1,100
    /// commits a second by up to four writes in flight, and 7,900 by other logs' one.
    pub(crate) fn of(plan: Plan, relocates: bool, options: &Options) -> InFlightLimits {
        let max_writes = match plan.direct && !relocates {
            true => options.max_in_flight_writes,
            false => 1,
        };
        InFlightLimits {
            max_writes,
            threshold: options.pipeline_threshold,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use logforce_device::Method;

    #[test]
    fn through_the_cache_one_write_is_in_flight() {
        let options = Options::new().max_in_flight_writes(4);
        let max_writes = |method: Method, relocates| {
            InFlightLimits::of(method.plan(), relocates, &options).max_writes
        };
        assert_eq!(max_writes(Method::DirectDsync, false), 4);
        assert_eq!(max_writes(Method::DirectDsync, true), 1);
        assert_eq!(max_writes(Method::Dsync, false), 1);
    }
}
