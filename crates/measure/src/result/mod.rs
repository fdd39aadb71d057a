//! Results: one document and one row for all scenarios, what follows from a figure alone, and how a
//! result is written and read.

pub mod distribution;
pub mod document;
pub mod guarantee_label;
pub mod kind;
pub mod legend;
pub mod machine;
pub mod name;
pub mod output;
pub mod plausible;
pub mod row;

pub use distribution::Distribution;
pub use document::{Document, ReportError};
pub use kind::{Fields, Kind};
pub use name::{Name, Named};
pub use row::{Quantity, Row};
