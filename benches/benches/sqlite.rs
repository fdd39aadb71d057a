//! `cargo bench --bench sqlite --features sqlite`; `-- --help` lists the flags.

use std::process::ExitCode;

fn main() -> ExitCode {
    logforce_benches::sqlite::main()
}
