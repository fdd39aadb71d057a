//! The format: its bytes, its rejections, and its document.
//!
//! One program: to link each file by itself took longer than to run it.

mod bits;
mod document;
mod document_fields;
mod golden;
mod page_file;
mod properties;
mod rejects;
#[path = "support/strategies.rs"]
mod strategies;
mod support;
