//! Settings of a store.

use std::fmt;
use std::time::Duration;

/// Settings of a store. Credentials, region and the like come from the environment, under the names that
/// the tools of the service use (`AWS_ACCESS_KEY_ID`, `AWS_REGION`, …).
#[derive(Clone)]
pub struct StoreOptions {
    /// Address of the service, instead of the one in the environment.
    pub(super) endpoint: Option<String>,
    /// Settings that go before those in the environment.
    pub(super) settings: Vec<(String, String)>,
    /// Time limit of an operation on a small object.
    pub(super) time_limit: Duration,
}

impl Default for StoreOptions {
    /// Returns a time limit of 10 s and the settings in the environment.
    fn default() -> StoreOptions {
        StoreOptions {
            endpoint: None,
            settings: Vec::new(),
            time_limit: Duration::from_secs(10),
        }
    }
}

impl fmt::Debug for StoreOptions {
    /// Shows the names of the settings only, because values may be secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&String> = self.settings.iter().map(|(name, _)| name).collect();
        f.debug_struct("StoreOptions")
            .field("endpoint", &self.endpoint)
            .field("settings", &names)
            .field("time_limit", &self.time_limit)
            .finish()
    }
}

impl StoreOptions {
    /// Sets the address of the service, instead of the one in the environment. `http://` is permitted.
    pub fn endpoint(mut self, url: impl Into<String>) -> StoreOptions {
        self.endpoint = Some(url.into());
        self
    }

    /// Sets what a variable of the environment would set, such as `AWS_REGION`.
    pub fn setting(mut self, name: impl Into<String>, value: impl Into<String>) -> StoreOptions {
        self.settings.push((name.into(), value.into()));
        self
    }

    /// Sets the time limit of one operation. A large object has a second more for each MiB.
    pub fn time_limit(mut self, limit: Duration) -> StoreOptions {
        self.time_limit = limit;
        self
    }
}

/// Time added to the limit of an operation for each MiB of its object.
const TIME_PER_MIB: Duration = Duration::from_secs(1);

/// Time limit of operations, which depends on the length of the object.
#[derive(Debug, Clone, Copy)]
pub(super) struct TimeLimit(pub(super) Duration);

impl TimeLimit {
    /// Returns the limit for an object of `len` bytes.
    pub(super) fn of(self, len: u64) -> Duration {
        let mebibytes = u32::try_from(len >> 20).unwrap_or(u32::MAX);
        self.0
            .saturating_add(TIME_PER_MIB.saturating_mul(mebibytes))
    }
}
