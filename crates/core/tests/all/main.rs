//! Tests of the log on systems in which calls fail, or files change, at chosen moments.
//!
//! All files are linked into one program, because linking each of them took longer than running it.

mod advisor;
mod busy;
mod displaced;
mod openings;
mod reads;
mod repairs;
mod verdicts;
