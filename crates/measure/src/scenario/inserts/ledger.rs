//! Ledger of sales: a database or the log, under one setting.

use super::{Options, ReadBack, Sale};
use crate::MeasureError;
use crate::run::Setup;
use logforce::disk::Facts;
use logforce_device::Assessment;

/// Time at which an insert is forced. The numbers are those of `innodb_flush_log_at_trx_commit`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Policy {
    /// 1: forced at each commit.
    Force,
    /// 2: written at each commit, forced later.
    Write,
    /// 0: neither written nor forced at the commit, but later.
    Later,
}

impl Policy {
    /// All policies, in the published order.
    pub const ALL: [Policy; 3] = [Policy::Force, Policy::Write, Policy::Later];

    /// Returns the number of the policy.
    pub fn number(self) -> u8 {
        match self {
            Policy::Force => 1,
            Policy::Write => 2,
            Policy::Later => 0,
        }
    }
}

/// Description of a ledger, in words and in terms that can be compared.
#[derive(Debug, Clone)]
pub struct Setting {
    /// System, such as `PostgreSQL`. Ratios are taken between rows of one system.
    pub system: String,
    /// Version of the system; empty for this build's own.
    pub version: String,
    /// Settings, as the system's manual names them.
    pub settings: String,
    /// Policy that the settings amount to; `None` if it is none of the three.
    pub policy: Option<Policy>,
    /// True if each transaction goes into a second log as well; `None` if the system has no second log.
    pub second_log: Option<bool>,
    /// True for the default setting among several of one policy. Ratios use this one.
    pub usual: bool,
    /// Guarantee of an acknowledged insert; `None` if the disk is unknown.
    pub worth: Option<Assessment>,
    /// True if the device's counters belong to the disk of this ledger.
    pub on_this_disk: bool,
    /// True if each write uses direct I/O and is durable by itself, so that a commit needs no flush. The
    /// system uses FUA for that if the device supports it.
    pub by_fua: bool,
}

/// Systems that are measured in addition to the log.
pub trait Others {
    /// Returns the bytes needed on the disk, and the flags that help if there is not enough space.
    fn need(&self) -> (u64, &'static str);

    /// Adds the ledgers of these systems. Returns notes on them, in sentences.
    ///
    /// # Errors
    /// A system that the user requested is not available.
    fn add(
        &self,
        ledgers: &mut Vec<Box<dyn SalesLedger>>,
        setup: &Setup,
        facts: &Facts,
        options: &Options,
    ) -> Result<Vec<String>, MeasureError>;
}

/// A database under one setting.
pub trait SalesLedger {
    /// Returns the description.
    fn setting(&self) -> &Setting;

    /// Opens the system, with an empty table. Not timed.
    ///
    /// # Errors
    /// The system cannot be started with the setting, or refuses it.
    fn open(&self) -> Result<Box<dyn Table>, MeasureError>;

    /// Reads all rows of the table that was opened last, after it was closed; from the disk if that is
    /// possible. Leaves no table behind. Not timed.
    ///
    /// # Errors
    /// The table cannot be read.
    fn read_back(&self, found: &mut ReadBack) -> Result<(), MeasureError>;
}

/// An open system with its table.
pub trait Table: Sync {
    /// Opens a session for one client.
    ///
    /// # Errors
    /// The connection failed.
    fn session(&self) -> Result<Box<dyn Session>, MeasureError>;

    /// Returns how many times the system has made something durable since it was opened, by its own
    /// count; `None` if the system does not report this.
    fn forces(&self) -> Option<u64> {
        None
    }
}

/// The session of one client.
pub trait Session: Send {
    /// Inserts a row and commits it: one transaction.
    ///
    /// # Errors
    /// The row was not acknowledged.
    fn insert_and_commit(&mut self, sale: &Sale) -> Result<(), MeasureError>;
}
