//! Settings of other systems that decide what an acknowledged commit survives: their values, what each
//! promises, the default, the manual, and the line that sets them.
//!
//! The data of each system stands in a file. [`choose`] selects the values to advise, [`judge`] says what a
//! value survives on a given disk.

mod cassandra;
mod choose;
mod etcd;
mod innodb;
mod judge;
mod kafka;
mod mongodb;
mod nats;
mod postgresql;
mod redis;
mod rocksdb;
mod sqlite;
mod zookeeper;

pub use choose::{Choice, Time, Times, choose, weakest};
pub use judge::{Answer, Judgement, judge, judge_all, strength};

use crate::System;
use logforce_device::{Guarantee, Method, Platform};

/// Settings of one system.
#[derive(Debug)]
pub struct SystemSettings {
    /// The system.
    pub system: System,
    /// Settings, in the order in which they are advised. A condition refers only to earlier ones, or to
    /// names in `also_read`.
    pub settings: &'static [Setting],
    /// Names of further settings that conditions refer to, each with its default.
    pub also_read: &'static [(&'static str, &'static str)],
    /// Directories that hold acknowledged data. A relative one starts at the first, if `are_below_first`.
    pub directories: &'static [Directory],
    /// True if relative directories start at the first one, and not where the server was started.
    pub are_below_first: bool,
    /// Form of the lines to paste.
    pub snippet: Snippet,
    /// Limits of what a configuration or a server can tell, in sentences.
    pub unseen: &'static [&'static str],
}

/// A directory that holds acknowledged data.
#[derive(Debug, Clone, Copy)]
pub struct Directory {
    /// Names of the settings that hold it; the first that is set counts. The text may be a list with commas.
    pub names: &'static [&'static str],
    /// Directory below it, which may be on another disk; empty if there is none.
    pub below: &'static str,
    /// True if its place is not known when it is not set. The default of another is below one of these.
    pub is_needed: bool,
    /// True if the text is the beginning of file names.
    pub is_file: bool,
}

/// A setting, and what each of its values promises.
#[derive(Debug)]
pub struct Setting {
    /// Name in the system's manual.
    pub name: &'static str,
    /// Line to paste; `{}` stands for the value.
    pub line: &'static str,
    /// Values. Those that are advised come first, the cheapest of them at the beginning.
    pub values: &'static [Value],
    /// Value that is in force if the setting is not made.
    pub default: fn(Platform) -> &'static str,
    /// Address of the page that describes the setting.
    pub manual: &'static str,
    /// Condition under which the setting has an effect.
    pub applies: Option<Condition>,
    /// Party that makes the setting.
    pub made_by: MadeBy,
    /// Platforms that have the setting.
    pub platforms: &'static [Platform],
}

/// Party that makes a setting.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MadeBy {
    /// The server, in its configuration.
    Server,
    /// The program that writes, for each connection or write. No file of the server tells its value.
    Program,
}

/// A value of a setting.
#[derive(Debug)]
pub struct Value {
    /// Text in the line to paste; empty to leave the setting unset.
    pub text: &'static str,
    /// Texts that mean this value.
    pub matches: Matches,
    /// Promise of the system's manual.
    pub promise: Promise,
    /// Another promise, which holds under a condition.
    pub unless: Option<(Condition, Promise)>,
    /// Page size in bytes. If the device writes pages of this size whole, `promise` is only doubtful.
    pub page: Option<u32>,
    /// True if the value may be advised.
    pub is_advised: bool,
    /// System call that this value relies on; `None` for the one by which the system commits.
    pub call: Option<Call>,
    /// Cost of the value.
    pub cost: Cost,
    /// Platforms that have the value.
    pub platforms: &'static [Platform],
}

/// Texts that mean a value. Letters count as lower-case.
#[derive(Debug, Clone, Copy)]
pub enum Matches {
    /// One of these words.
    Words(&'static [&'static str]),
    /// Any spelling of true.
    On,
    /// Any spelling of false.
    Off,
    /// A whole number within these limits.
    Number(u64, u64),
    /// A whole number with a unit of time, such as `10s` or `100ms`.
    Duration,
    /// This text, in these letters.
    Exactly(&'static str),
    /// Any text but this one, in these letters.
    Except(&'static str),
    /// Not set.
    Unset,
}

/// A condition on another setting of the system.
#[derive(Debug, Clone, Copy)]
pub struct Condition {
    /// Name of the other setting.
    pub setting: &'static str,
    /// Texts of its value under which the condition holds.
    pub is: Matches,
}

/// Promise of a system's manual for a commit that it has acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Promise {
    /// Strongest failure that all acknowledged commits survive.
    pub survives: Guarantee,
    /// Result of a stronger failure.
    pub beyond: Beyond,
    /// Reason why the manual leaves the promise open; empty if it does not.
    pub doubt: &'static str,
}

/// Result of a failure that is stronger than the one that is survived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beyond {
    /// No stronger failure is considered.
    Nothing,
    /// The data stays consistent, but acknowledged commits are missing: how many.
    Loses(&'static str),
    /// The data may be damaged: in what way.
    Damages(&'static str),
}

/// System call by which a commit is forced.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Call {
    /// A write, then `fsync`.
    Fsync,
    /// A write to a file that was opened with `O_DSYNC`.
    Dsync,
    /// A direct write without a force.
    Direct,
    /// A write, then `fsync` through the device's cache (`F_FULLFSYNC` on macOS).
    FullFsync,
}

/// Cost of a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cost {
    /// Nothing that a commit waits for.
    Nothing,
    /// Forces of the log that a commit waits for, if no other commit shares them.
    Forces(u32),
    /// A force of a second log that a commit waits for.
    SecondLog,
    /// Work that no commit waits for, in words.
    Work(&'static str),
}

/// Form of the lines to paste.
#[derive(Debug)]
pub struct Snippet {
    /// Usual name of the file.
    pub file: &'static str,
    /// Beginning of a comment.
    pub comment: &'static str,
    /// Lines before the settings.
    pub before: &'static [&'static str],
    /// Lines after the settings.
    pub after: &'static [&'static str],
}

const ALL: &[Platform] = &Platform::ALL;

/// A value that is advised, and which the system's usual call makes durable.
const VALUE: Value = Value {
    text: "",
    matches: Matches::Unset,
    promise: Promise::POWER_LOSS,
    unless: None,
    page: None,
    is_advised: true,
    call: None,
    cost: Cost::Nothing,
    platforms: ALL,
};

/// A setting of the server, on all platforms.
const SETTING: Setting = Setting {
    name: "",
    line: "",
    values: &[],
    default: |_| "",
    manual: "",
    applies: None,
    made_by: MadeBy::Server,
    platforms: ALL,
};

/// A system of which nothing is known.
const SYSTEM: SystemSettings = SystemSettings {
    system: System::Etcd,
    settings: &[],
    also_read: &[],
    directories: &[],
    are_below_first: false,
    snippet: HASH,
    unseen: &[],
};

/// A directory whose place is known only if it is set.
const NEEDED: Directory = Directory {
    names: &[],
    below: "",
    is_needed: true,
    is_file: false,
};

/// A directory that is below one of the others if it is not set.
const OPTIONAL: Directory = Directory {
    is_needed: false,
    ..NEEDED
};

/// A file with comments behind `#`.
const HASH: Snippet = Snippet {
    file: "",
    comment: "#",
    before: &[],
    after: &[],
};

impl Promise {
    /// Promise that a commit survives a loss of power.
    pub const POWER_LOSS: Promise = Promise {
        survives: Guarantee::PowerLoss,
        beyond: Beyond::Nothing,
        doubt: "",
    };

    /// Returns the promise that a commit survives `survives`, and that a stronger failure loses `what`.
    const fn loses(survives: Guarantee, what: &'static str) -> Promise {
        Promise {
            survives,
            beyond: Beyond::Loses(what),
            doubt: "",
        }
    }

    /// Returns the promise that a commit survives a crash of the process, and that a stronger failure may
    /// damage the data.
    const fn damaging(what: &'static str) -> Promise {
        Promise {
            survives: Guarantee::ProcessCrash,
            beyond: Beyond::Damages(what),
            doubt: "",
        }
    }
}

impl Promise {
    /// Returns true if a failure that is not survived may damage the data, on any disk.
    pub fn damages(&self) -> bool {
        matches!(self.beyond, Beyond::Damages(_)) && self.survives < Guarantee::PowerLoss
    }
}

impl Matches {
    /// Returns true if `text` means this value. `None` stands for a setting that is not made.
    pub fn fits(self, text: Option<&str>) -> bool {
        let Some(text) = text else {
            return matches!(self, Matches::Unset);
        };
        let exact = text.trim();
        let text = exact.to_ascii_lowercase();
        match self {
            Matches::Exactly(word) => exact == word,
            Matches::Except(word) => exact != word,
            Matches::Words(words) => words.contains(&text.as_str()),
            Matches::On => ["on", "true", "yes", "1", "t", "y"].contains(&text.as_str()),
            Matches::Off => ["off", "false", "no", "0", "f", "n"].contains(&text.as_str()),
            Matches::Number(low, high) => text.parse().is_ok_and(|n| (low..=high).contains(&n)),
            Matches::Duration => {
                let digits = text.trim_start_matches(|c: char| c.is_ascii_digit());
                digits.len() < text.len() && digits.chars().all(|c| c.is_ascii_alphanumeric())
            }
            Matches::Unset => false,
        }
    }
}

impl Call {
    /// Returns the method of `platform` that stands for this call.
    pub fn method(self, platform: Platform) -> Method {
        match (platform, self) {
            (Platform::Linux, Call::Fsync | Call::FullFsync) => Method::Fsync,
            (Platform::Linux, Call::Dsync) => Method::Dsync,
            (Platform::Linux, Call::Direct) => Method::Direct,
            (Platform::Windows, Call::Dsync) => Method::WriteThrough,
            (Platform::Windows, Call::Direct) => Method::NoBuffering,
            (Platform::Windows, _) => Method::Flush,
            (Platform::Macos, Call::FullFsync) => Method::FullFsync,
            (Platform::Macos, Call::Direct) => Method::Buffered,
            (Platform::Macos, _) => Method::Fsync,
            _ => platform.first_choice(),
        }
    }
}

impl Setting {
    /// Returns the value that `text` means, or `None` if the text is not known. `None` as the text stands for
    /// a setting that is not made.
    pub fn value(&self, text: Option<&str>, platform: Platform) -> Option<&'static Value> {
        let default = (self.default)(platform);
        let text = match text {
            None if !default.is_empty() => Some(default),
            text => text,
        };
        self.values.iter().find(|v| v.matches.fits(text))
    }

    /// Returns true if the platform has this setting.
    pub fn is_of(&self, platform: Platform) -> bool {
        self.platforms.contains(&platform)
    }
}

impl Condition {
    /// Returns whether the condition holds. `read` returns the text of a setting in force.
    pub fn holds(&self, read: &dyn Fn(&str) -> Option<String>) -> bool {
        self.is.fits(read(self.setting).as_deref())
    }
}

impl SystemSettings {
    /// Returns the settings of a system.
    pub fn of(system: System) -> &'static SystemSettings {
        match system {
            System::Etcd => &etcd::SETTINGS,
            System::Postgresql => &postgresql::SETTINGS,
            System::Mysql => &innodb::MYSQL,
            System::Mariadb => &innodb::MARIADB,
            System::Sqlite => &sqlite::SETTINGS,
            System::Kafka => &kafka::SETTINGS,
            System::Redis => &redis::SETTINGS,
            System::Nats => &nats::SETTINGS,
            System::Zookeeper => &zookeeper::SETTINGS,
            System::Rocksdb => &rocksdb::SETTINGS,
            System::Cassandra => &cassandra::SETTINGS,
            System::Mongodb => &mongodb::SETTINGS,
        }
    }

    /// Returns the method that stands for the call by which the system forces a commit.
    pub fn usual_method(&self, platform: Platform) -> Method {
        match (platform, self.system.commit()) {
            (Platform::Linux, Some(commit)) => {
                let call = commit.forces.first().map(|force| force.call);
                call.unwrap_or(Method::Fdatasync)
            }
            // Not all systems are known to call F_FULLFSYNC. So none counts as if it did,
            // unless a value says so.
            _ => Call::Fsync.method(platform),
        }
    }

    /// Returns the method that stands for the call that a value relies on.
    pub fn method(&self, value: &Value, platform: Platform) -> Method {
        let usual = || self.usual_method(platform);
        value.call.map_or_else(usual, |call| call.method(platform))
    }

    /// Returns the settings that a platform has.
    pub fn on(&self, platform: Platform) -> impl Iterator<Item = &'static Setting> {
        self.settings.iter().filter(move |s| s.is_of(platform))
    }

    /// Returns the names of all settings to read from a configuration or a server.
    pub fn names(&self) -> impl Iterator<Item = &'static str> {
        let own = self.settings.iter().map(|s| s.name);
        let also = self.also_read.iter().map(|(name, _)| *name);
        own.chain(also).chain(
            self.directories
                .iter()
                .flat_map(|d| d.names.iter().copied()),
        )
    }
}

#[cfg(test)]
mod tests;
