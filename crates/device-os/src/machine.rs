//! Facts about this computer, and the processor time of this process.

use std::time::Duration;

/// Description of this computer, for the head of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Name of this computer in its network; empty if the system does not report it.
    pub name: String,
    /// Name of the operating system, such as `Linux`.
    pub system: String,
    /// Release of its kernel, such as `6.12.9-amd64`.
    pub kernel: String,
    /// Instruction set, such as `x86_64`.
    pub architecture: String,
    /// Number of processors that this process may use; 1 if the system does not report it.
    pub cpus: usize,
    /// Reason why times measured here mean nothing, in a sentence: an emulation of the system. `None` if they
    /// are meaningful.
    pub caveat: Option<&'static str>,
}

impl Machine {
    /// Makes the description from the parts that each system reports in its own way.
    pub(crate) fn of(
        name: String,
        system: String,
        kernel: String,
        architecture: String,
    ) -> Machine {
        Machine {
            name,
            system,
            kernel,
            architecture,
            cpus: std::thread::available_parallelism().map_or(1, usize::from),
            caveat: None,
        }
    }
}

/// Processor time of this process since it began, all its threads together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ProcessTimes {
    /// Time in its own code.
    pub user: Duration,
    /// Time in the system, on its behalf.
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
