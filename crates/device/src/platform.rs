use std::fmt;

/// The family of operating systems whose calls a place is written by. It decides which methods there
/// are, and what a call of the same name is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Platform {
    /// Linux, and whatever imitates its calls (the simulated disk).
    Linux,
    /// Windows.
    Windows,
    /// macOS.
    Macos,
}

impl Platform {
    /// All of them.
    pub const ALL: [Platform; 3] = [Platform::Linux, Platform::Windows, Platform::Macos];

    /// What this program was compiled for. Systems without a backend of their own are counted as
    /// Linux.
    pub const HERE: Platform = if cfg!(windows) {
        Platform::Windows
    } else if cfg!(target_os = "macos") {
        Platform::Macos
    } else {
        Platform::Linux
    };

    /// The name used in messages and reports, such as `Windows`.
    pub fn name(self) -> &'static str {
        match self {
            Platform::Linux => "Linux",
            Platform::Windows => "Windows",
            Platform::Macos => "macOS",
        }
    }

    /// Whether the system itself completes a write through by a flush where the device has no FUA.
    /// Linux does; elsewhere what the device makes of it is the device's own affair.
    pub fn completes_write_through(self) -> bool {
        self == Platform::Linux
    }
}

impl fmt::Display for Platform {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}
