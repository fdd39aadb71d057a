//! The format: its bytes, its rejections, and its document.
//!
//! One program, because linking each file separately took longer than running it.

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
