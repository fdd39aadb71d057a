//! Signs of guarantees: a colour and a shape, so that a reader need not distinguish colours.

use logforce_device::Guarantee as Promise;
use logforce_device::Verdict;
use logforce_measure::Row;

/// Guarantee of a row, as it is drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guarantee {
    /// Survives power loss.
    PowerLoss,
    /// Survives a crash of the system.
    OsCrash,
    /// Survives the end of the process.
    ProcessCrash,
    /// Survives nothing.
    Nothing,
}

impl Guarantee {
    /// All guarantees, the strongest first.
    pub const ALL: [Guarantee; 4] = [
        Guarantee::PowerLoss,
        Guarantee::OsCrash,
        Guarantee::ProcessCrash,
        Guarantee::Nothing,
    ];

    /// Returns the guarantee of a row. A row without one guarantees nothing.
    pub fn of(row: &Row) -> Guarantee {
        match row.guarantee {
            Some(Promise::PowerLoss) => Guarantee::PowerLoss,
            Some(Promise::OsCrash) => Guarantee::OsCrash,
            Some(Promise::ProcessCrash) => Guarantee::ProcessCrash,
            _ => Guarantee::Nothing,
        }
    }

    /// Returns the guarantee in words.
    pub fn words(self) -> &'static str {
        match self {
            Guarantee::PowerLoss => "survives a power loss",
            Guarantee::OsCrash => "survives a system crash, but no power loss",
            Guarantee::ProcessCrash => "survives only a crash of the process",
            Guarantee::Nothing => "survives nothing",
        }
    }

    /// Returns a character for tables.
    pub fn character(self) -> &'static str {
        match self {
            Guarantee::PowerLoss => "●",
            Guarantee::OsCrash => "■",
            Guarantee::ProcessCrash => "▲",
            Guarantee::Nothing => "✕",
        }
    }

    /// Returns the class of the colour in the style sheet.
    pub fn class(self) -> &'static str {
        match self {
            Guarantee::PowerLoss => "g0",
            Guarantee::OsCrash => "g1",
            Guarantee::ProcessCrash => "g2",
            Guarantee::Nothing => "g3",
        }
    }
}

/// A colour, a shape and their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sign {
    /// Class of the colour in the style sheet.
    pub class: &'static str,
    /// Number of the shape.
    pub shape: usize,
    /// Meaning.
    pub words: &'static str,
}

impl From<Guarantee> for Sign {
    fn from(guarantee: Guarantee) -> Sign {
        Sign {
            class: guarantee.class(),
            shape: guarantee as usize,
            words: guarantee.words(),
        }
    }
}

/// Returns the mark after a name; empty if the guarantee is declared or proven.
pub fn doubt(row: &Row) -> &'static str {
    match row.verdict {
        Some(Verdict::Unknown) => " ?",
        Some(Verdict::Implausible | Verdict::Contradicted) => " !",
        _ => "",
    }
}

/// Meaning of the marks of [`doubt`].
pub const DOUBT: &str = "?: it is unknown whether the device keeps that promise. !: the time is implausibly short, or a power cut has shown otherwise";
