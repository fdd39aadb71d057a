//! `cargo bench -p logforce-rivals --features rivals`; `-- --help` lists the flags.

use std::process::ExitCode;

fn main() -> ExitCode {
    logforce_rivals::main()
}
