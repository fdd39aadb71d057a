//! How many writes may be in flight at once, and when another is worth it.

use crate::options::Options;
use logforce_device::Plan;

/// How many writes may be in flight at once, and when.
#[derive(Debug, Clone, Copy)]
pub(crate) struct InFlightLimits {
    /// At most so many.
    pub(crate) most: usize,
    /// A further one only for so many bytes: writing every record at once would halve the records
    /// per write, and small writes are limited by how many the device does.
    pub(crate) from: usize,
}

impl InFlightLimits {
    /// What the options ask for, as far as the method allows it.
    ///
    /// Past the system's cache each write is told its own failure. Through it, Linux tells a failed
    /// write-back to whoever asks first of the file description, and each failure once: of two
    /// writes through in flight one would be told the other's, and the one that failed be told
    /// success, and acknowledged. Seen in real errors of a disk: an acknowledged record was gone.
    pub(crate) fn of(plan: Plan, options: &Options) -> InFlightLimits {
        let most = match plan.direct {
            true => options.max_in_flight_writes,
            false => 1,
        };
        InFlightLimits {
            most,
            from: options.pipeline_threshold,
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
        let most = |method: Method| InFlightLimits::of(method.plan(), &options).most;
        assert_eq!(most(Method::DirectDsync), 4);
        assert_eq!(most(Method::Dsync), 1);
    }
}
