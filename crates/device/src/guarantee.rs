use std::fmt;

/// What a completed force means: which failures the data survives. Ordered, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Guarantee {
    /// In this process's memory: nothing is survived.
    Nothing,
    /// In the operating system's cache: survives a crash of the process.
    ProcessCrash,
    /// In the device, perhaps in its volatile cache: survives a crash of the operating system.
    OsCrash,
    /// On the medium, or in a cache that the device protects against loss of power.
    PowerLoss,
}

impl Guarantee {
    /// All of them, weakest first.
    pub const ALL: [Guarantee; 4] = [
        Guarantee::Nothing,
        Guarantee::ProcessCrash,
        Guarantee::OsCrash,
        Guarantee::PowerLoss,
    ];

    /// The name used on the command line and in reports, such as `power-loss`.
    pub fn name(self) -> &'static str {
        match self {
            Guarantee::Nothing => "nothing",
            Guarantee::ProcessCrash => "process-crash",
            Guarantee::OsCrash => "os-crash",
            Guarantee::PowerLoss => "power-loss",
        }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// What we know of a method on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// A power-cut run on this device kept everything that was acknowledged.
    Proven,
    /// The device and the stack above it say so.
    Declared,
    /// Nothing says so, and nothing speaks against it.
    Unknown,
    /// Faster than physics or than the device's own flush allows.
    Implausible,
    /// A power cut lost acknowledged data, or the system or the device itself says that a force ends
    /// before the medium. The guarantee beside it is what is left.
    Contradicted,
}

impl Verdict {
    /// The name used in reports, such as `declared`.
    pub fn name(self) -> &'static str {
        match self {
            Verdict::Proven => "proven",
            Verdict::Declared => "declared",
            Verdict::Unknown => "unknown",
            Verdict::Implausible => "implausible",
            Verdict::Contradicted => "contradicted",
        }
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The guarantee of one method on one file of one filesystem, and how far to believe it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assessment {
    /// What a completed force means if the verdict holds.
    pub guarantee: Guarantee,
    /// How far the guarantee is to be believed.
    pub verdict: Verdict,
    /// Why, in words for the user.
    pub evidence: String,
}
