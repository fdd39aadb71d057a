use crate::planted;
use std::fmt;

/// Guarantee of a completed force: the failures that the data survives. Ordered, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Guarantee {
    /// In this process's memory: survives nothing.
    Nothing,
    /// In the operating system's cache: survives a crash of the process.
    ProcessCrash,
    /// In the device, perhaps in its volatile cache: survives a crash of the operating system.
    OsCrash,
    /// On the medium, or in a cache that the device protects against loss of power.
    PowerLoss,
    /// On the medium here, and confirmed by a replica elsewhere: survives the loss of the machine. A device
    /// cannot give this guarantee.
    MachineLoss,
}

impl Guarantee {
    /// The guarantees that a force can have, weakest first. [`Guarantee::MachineLoss`] is not among them: a
    /// replica gives it.
    pub const ALL: [Guarantee; 4] = [
        Guarantee::Nothing,
        Guarantee::ProcessCrash,
        Guarantee::OsCrash,
        Guarantee::PowerLoss,
    ];

    /// Returns the name used on the command line and in reports, such as `power-loss`.
    pub fn name(self) -> &'static str {
        match self {
            Guarantee::Nothing => "nothing",
            Guarantee::ProcessCrash => "process-crash",
            Guarantee::OsCrash => "os-crash",
            Guarantee::PowerLoss => "power-loss",
            Guarantee::MachineLoss => "machine-loss",
        }
    }
}

impl fmt::Display for Guarantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Degree to which a guarantee can be believed. Ordered, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Verdict {
    /// A power cut lost acknowledged data, or the system or the device itself reports that a force stops
    /// before the medium. The guarantee beside this verdict is the one that remains.
    Contradicted,
    /// Faster than physics or the device's own flush allows.
    Implausible,
    /// No party answers for the guarantee, and no measurement contradicts it.
    Unknown,
    /// The parties that answer for the guarantee declare it: see [`Source`].
    Declared,
    /// A power-cut run on this device kept all acknowledged data.
    Proven,
}

impl Verdict {
    /// Returns the name used in reports, such as `declared`.
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

/// Party that a guarantee rests on. Ordered, the least reliable first. If several parties have to keep their
/// word, the source is the first of them in this order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Source {
    /// No visible party.
    Nobody,
    /// A program or another machine that serves the filesystem or the device.
    Server,
    /// A setting of the kernel, which a user or a rule may have changed.
    Setting,
    /// The hypervisor that offers a virtual disk.
    Hypervisor,
    /// The documentation of the filesystem.
    Filesystem,
    /// The device.
    Device,
    /// The operating system, by its own implementation.
    System,
    /// A power-cut run.
    PowerCut,
}

impl Source {
    /// Returns the name used in reports, such as `device`.
    pub fn name(self) -> &'static str {
        match self {
            Source::Nobody => "nobody",
            Source::Server => "server",
            Source::Setting => "setting",
            Source::Hypervisor => "hypervisor",
            Source::Filesystem => "filesystem",
            Source::Device => "device",
            Source::System => "system",
            Source::PowerCut => "power-cut",
        }
    }

    /// Returns the party as the end of a sentence, such as `by the device's word`.
    pub fn by(self) -> &'static str {
        match self {
            Source::Nobody => "by an unknown party's word",
            Source::Server => "by its server's word",
            Source::Setting => "by the kernel's setting",
            Source::Hypervisor => "by the hypervisor's word",
            Source::Filesystem => "by the filesystem's word",
            Source::Device => "by the device's word",
            Source::System => "by the system's word",
            Source::PowerCut => "by power cuts",
        }
    }

    /// Returns true for the device and for the hypervisor, which acts as the device. A write without a flush
    /// is on the medium by their word alone.
    pub fn is_device(self) -> bool {
        matches!(self, Source::Device | Source::Hypervisor)
    }

    /// Returns the evidence that no flush is needed.
    #[doc(hidden)]
    pub fn says_no_cache(self, device: &str) -> String {
        match self {
            Source::Hypervisor => {
                format!("by the hypervisor's word {device} has no volatile cache")
            }
            Source::Server => {
                format!("by its server's word {device} has no volatile cache")
            }
            source if source.is_device() => {
                "the device says that it has no volatile cache".to_owned()
            }
            _ => format!(
                "by the kernel's setting {device} has no volatile cache (`write through`), so no flush \
                 is sent; the device itself was not asked"
            ),
        }
    }

    /// Returns the evidence that a flush is sent.
    #[doc(hidden)]
    pub fn says_flushed(self) -> String {
        let by = match self {
            Source::Hypervisor => ", to a medium by the hypervisor's word",
            _ => "",
        };
        format!("the device has a volatile cache and the system flushes it{by}")
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Guarantee of one method on one file of one filesystem, and how far to believe it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Assessment {
    /// Guarantee of a completed force, if the verdict holds.
    pub guarantee: Guarantee,
    /// Degree to which the guarantee can be believed.
    pub verdict: Verdict,
    /// Party that the verdict rests on.
    pub source: Source,
    /// Reason, in words for the user.
    pub evidence: String,
}

impl Assessment {
    /// Returns true if this is at least `guarantee`, with at least `verdict`. A guarantee below
    /// [`Guarantee::PowerLoss`] counts as `Declared`, because it is what remains certain. A crash of the
    /// process needs no verdict, because nothing contradicts that it is survived.
    pub fn meets(&self, guarantee: Guarantee, verdict: Verdict) -> bool {
        let known = match self.guarantee {
            Guarantee::PowerLoss => self.verdict,
            _ => Verdict::Declared,
        };
        let is_enough = known >= verdict || guarantee <= Guarantee::ProcessCrash;
        self.guarantee >= guarantee && (is_enough || planted!("doubt-accepted"))
    }

    /// Returns the guarantee, marked as doubted if the verdict does not support it.
    pub fn granted(&self) -> Granted {
        Granted::new(self.guarantee, self.verdict)
    }

    /// Makes an assessment of these parts.
    pub fn new(
        guarantee: Guarantee,
        verdict: Verdict,
        source: Source,
        evidence: impl Into<String>,
    ) -> Assessment {
        Assessment {
            guarantee,
            verdict,
            source,
            evidence: evidence.into(),
        }
    }
}

/// A guarantee as a log or a page file gives it. It prints as `power-loss?` if the opening accepted a verdict
/// below [`Verdict::Declared`]. It can be compared with a [`Guarantee`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Granted {
    /// Failures that are survived.
    pub guarantee: Guarantee,
    /// No party answers for the guarantee, or evidence contradicts it.
    pub is_doubted: bool,
}

impl Granted {
    /// Makes the guarantee. It is doubted if it is [`Guarantee::PowerLoss`] with a verdict below
    /// [`Verdict::Declared`].
    pub fn new(guarantee: Guarantee, verdict: Verdict) -> Granted {
        Granted {
            guarantee,
            is_doubted: guarantee == Guarantee::PowerLoss && verdict < Verdict::Declared,
        }
    }

    /// Returns the name used in reports: the guarantee's, with a `?` if it is doubted.
    pub fn name(self) -> &'static str {
        match (self.guarantee, self.is_doubted) {
            (Guarantee::PowerLoss, true) => "power-loss?",
            (guarantee, _) => guarantee.name(),
        }
    }
}

impl From<Guarantee> for Granted {
    fn from(guarantee: Guarantee) -> Granted {
        Granted::new(guarantee, Verdict::Declared)
    }
}

impl From<Granted> for Guarantee {
    fn from(granted: Granted) -> Guarantee {
        granted.guarantee
    }
}

impl PartialEq<Guarantee> for Granted {
    fn eq(&self, other: &Guarantee) -> bool {
        self.guarantee == *other
    }
}

impl PartialOrd<Guarantee> for Granted {
    fn partial_cmp(&self, other: &Guarantee) -> Option<std::cmp::Ordering> {
        self.guarantee.partial_cmp(other)
    }
}

impl PartialOrd for Granted {
    fn partial_cmp(&self, other: &Granted) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Granted {
    fn cmp(&self, other: &Granted) -> std::cmp::Ordering {
        let rank = |g: &Granted| (g.guarantee, !g.is_doubted);
        rank(self).cmp(&rank(other))
    }
}

impl fmt::Display for Granted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests;
