//! What a commit survives, as a colour and a sign: nobody has to tell colours apart.

use logforce_device::Guarantee as Promise;
use logforce_device::Verdict;
use logforce_measure::Row;

/// The sign of a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Guarantee {
    /// Survives a loss of power.
    PowerLoss,
    /// Survives a crash of the system.
    OsCrash,
    /// Survives the end of the process.
    ProcessCrash,
    /// Survives nothing.
    Nothing,
}

impl Guarantee {
    /// All, the strongest first.
    pub const ALL: [Guarantee; 4] = [
        Guarantee::PowerLoss,
        Guarantee::OsCrash,
        Guarantee::ProcessCrash,
        Guarantee::Nothing,
    ];

    /// Of a row; what says nothing guarantees nothing.
    pub fn of(row: &Row) -> Guarantee {
        match row.guarantee {
            Some(Promise::PowerLoss) => Guarantee::PowerLoss,
            Some(Promise::OsCrash) => Guarantee::OsCrash,
            Some(Promise::ProcessCrash) => Guarantee::ProcessCrash,
            _ => Guarantee::Nothing,
        }
    }

    /// In words.
    pub fn words(self) -> &'static str {
        match self {
            Guarantee::PowerLoss => "survives a power loss",
            Guarantee::OsCrash => "survives a system crash, no power loss",
            Guarantee::ProcessCrash => "survives the end of the process only",
            Guarantee::Nothing => "survives nothing",
        }
    }

    /// A character for tables.
    pub fn character(self) -> &'static str {
        match self {
            Guarantee::PowerLoss => "●",
            Guarantee::OsCrash => "■",
            Guarantee::ProcessCrash => "▲",
            Guarantee::Nothing => "✕",
        }
    }

    /// Of its colour in the style sheet.
    pub fn class(self) -> &'static str {
        match self {
            Guarantee::PowerLoss => "g0",
            Guarantee::OsCrash => "g1",
            Guarantee::ProcessCrash => "g2",
            Guarantee::Nothing => "g3",
        }
    }
}

/// A colour, a shape and what they mean.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sign {
    /// Of its colour in the style sheet.
    pub class: &'static str,
    /// Its shape.
    pub shape: usize,
    /// What it means.
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

/// Behind a name: nothing where the guarantee is declared or proven.
pub fn doubt(row: &Row) -> &'static str {
    match row.verdict {
        Some(Verdict::Unknown) => " ?",
        Some(Verdict::Implausible | Verdict::Contradicted) => " !",
        _ => "",
    }
}

/// What [`doubt`] means.
pub const DOUBT: &str = "?: nothing says whether the device keeps that promise. !: it is faster than it can be, or a power cut has shown otherwise";
