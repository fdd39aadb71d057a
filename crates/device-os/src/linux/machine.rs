/// What computer this is, for the head of a report.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Machine {
    /// Name of the operating system, such as `Linux`.
    pub system: String,
    /// Release of its kernel, such as `6.12.9-amd64`.
    pub kernel: String,
    /// Instruction set, such as `x86_64`.
    pub architecture: String,
    /// Processors that this process may use; 1 if the system does not say.
    pub cpus: usize,
}

/// Asks the system what computer this is.
pub fn machine() -> Machine {
    let name = rustix::system::uname();
    Machine {
        system: name.sysname().to_string_lossy().into_owned(),
        kernel: kernel(),
        architecture: name.machine().to_string_lossy().into_owned(),
        cpus: std::thread::available_parallelism().map_or(1, usize::from),
    }
}

/// Release of the running kernel.
pub fn kernel() -> String {
    let name = rustix::system::uname();
    name.release().to_string_lossy().into_owned()
}
