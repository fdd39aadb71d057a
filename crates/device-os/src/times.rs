use std::time::Duration;

/// Processor time of this process since it began, all its threads together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessTimes {
    /// In its own code.
    pub user: Duration,
    /// In the system, on its behalf.
    pub system: Duration,
}

#[cfg(test)]
mod tests {
    use crate::process_times;
    use std::time::Instant;

    #[test]
    fn work_takes_processor_time() {
        let before = process_times().unwrap();
        let start = Instant::now();
        // The coarsest clock ticks every 16 ms.
        loop {
            let now = process_times().unwrap();
            assert!(now.user >= before.user && now.system >= before.system);
            if now.user + now.system > before.user + before.system {
                break;
            }
            assert!(start.elapsed().as_secs() < 60, "no time passes");
        }
    }
}
