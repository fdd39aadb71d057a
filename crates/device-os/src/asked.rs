//! Result of asking a device about its own cache.

/// One device that was asked, or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    /// Kernel name of the device.
    pub device: String,
    /// Command and answer in words; otherwise the reason why there is none.
    pub answer: Result<String, String>,
}
