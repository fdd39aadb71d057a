//! `cargo bench --bench rivals`; `-- --help` lists the flags.

use std::process::ExitCode;

fn main() -> ExitCode {
    logforce_benches::rivals::main()
}
