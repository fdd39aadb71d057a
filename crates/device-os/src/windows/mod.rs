//! Windows: not a backend yet, only the proof that the contract can be met there.

mod overlapped;

pub use overlapped::OverlappedFile;
