//! Tests of the command, run as its users run it.
//!
//! All files form one program, because linking each by itself took longer than running it.

mod advise;
#[cfg(target_os = "linux")]
mod advise_servers;
#[cfg(feature = "archive")]
mod archive;
#[cfg(feature = "archive")]
mod archive_refused;
mod backup;
mod bench;
#[cfg(feature = "databases")]
mod bench_databases;
mod bench_inserts;
mod bench_map;
mod bench_pages;
mod bench_preflight;
mod bench_sweep;
mod calibrate;
mod common;
#[cfg(target_os = "linux")]
mod crashtest;
#[cfg(target_os = "linux")]
mod crashtest_explained;
#[cfg(target_os = "linux")]
mod crashtest_model;
#[cfg(all(target_os = "linux", feature = "databases"))]
mod crashtest_sqlite;
mod doctor;
#[cfg(target_os = "linux")]
mod doctor_stacks;
mod ended_early;
#[cfg(target_os = "linux")]
mod frozen;
mod grammar;
mod group;
#[path = "common/logs.rs"]
mod logs;
mod look;
mod look_damaged;
mod look_refused;
#[path = "common/methods.rs"]
mod methods;
#[path = "common/mutants.rs"]
mod mutants;
mod mutated;
#[cfg(target_os = "linux")]
#[path = "../../../logforce/tests/golden/packed.rs"]
#[allow(dead_code)]
mod packed;
mod pages;
mod quiet;
mod repair;
mod reports;
#[path = "common/runs.rs"]
mod runs;
mod salvage;
#[cfg(target_os = "linux")]
mod second_decoder;
#[path = "common/tiny.rs"]
mod tiny;
#[cfg(unix)]
mod watch;
mod words;
