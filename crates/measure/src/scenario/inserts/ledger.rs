//! What is measured: a database, or the log, under one setting, that keeps lines of sales.

use super::{Options, ReadBack, Sale};
use crate::MeasureError;
use crate::run::Setup;
use logforce::disk::Facts;
use logforce_device::Assessment;

/// When an insert is forced; the numbers are those of `innodb_flush_log_at_trx_commit`.
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
    /// All of them, in the published order.
    pub const ALL: [Policy; 3] = [Policy::Force, Policy::Write, Policy::Later];

    /// Its number.
    pub fn number(self) -> u8 {
        match self {
            Policy::Force => 1,
            Policy::Write => 2,
            Policy::Later => 0,
        }
    }
}

/// What is measured, in words and in terms that compare.
#[derive(Debug, Clone)]
pub struct Setting {
    /// The system, such as `PostgreSQL`: rows of one system are ratios of each other.
    pub system: String,
    /// Its version; nothing where it is this build's.
    pub version: String,
    /// Its settings, as its manual names them.
    pub settings: String,
    /// The policy that they come to; `None` if none of the three.
    pub policy: Option<Policy>,
    /// Whether each transaction goes into a second log as well; `None` where there is no such thing.
    pub second_log: Option<bool>,
    /// Of several rows of one policy this is the one by default, which the ratios are of.
    pub usual: bool,
    /// What an acknowledged insert survives; `None` where nothing is known of the disk.
    pub worth: Option<Assessment>,
    /// The device's counters are those of its disk.
    pub on_this_disk: bool,
    /// It writes past the system's cache and has each write durable by itself (FUA, where the device
    /// takes that), so that a commit needs no flush.
    pub by_fua: bool,
}

/// Systems that are measured beside the log.
pub trait Others {
    /// Bytes that it needs on the disk, and which flags would help where they are not there.
    fn need(&self) -> (u64, &'static str);

    /// Adds its ledgers. Returns what is to be said of them, in sentences.
    ///
    /// # Errors
    /// One that was asked for cannot be had.
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
    /// What it is.
    fn setting(&self) -> &Setting;

    /// Opens it, with an empty table. Not timed.
    ///
    /// # Errors
    /// The system cannot be started so, or refuses the setting.
    fn open(&self) -> Result<Box<dyn Table>, MeasureError>;

    /// Reads all rows of the table that was opened last, when nobody has it any more; anew from the
    /// disk where that is possible. Leaves no table behind. Not timed.
    ///
    /// # Errors
    /// It cannot be read.
    fn read_back(&self, found: &mut ReadBack) -> Result<(), MeasureError>;
}

/// An open one, with its table.
pub trait Table: Sync {
    /// For one client.
    ///
    /// # Errors
    /// No connection.
    fn session(&self) -> Result<Box<dyn Session>, MeasureError>;

    /// How often it has made something durable since it was opened, by its own count; `None` where it
    /// does not say.
    fn forces(&self) -> Option<u64> {
        None
    }
}

/// A client.
pub trait Session: Send {
    /// Inserts a row and commits it: one transaction.
    ///
    /// # Errors
    /// The row was not acknowledged.
    fn insert_and_commit(&mut self, sale: &Sale) -> Result<(), MeasureError>;
}
