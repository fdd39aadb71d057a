//! `cargo bench --bench group`; `-- --help` lists the flags.

use std::process::ExitCode;

fn main() -> ExitCode {
    logforce_benches::group::main()
}
