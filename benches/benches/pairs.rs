//! `cargo bench --bench pairs`; `-- --help` lists the flags.

use std::process::ExitCode;

fn main() -> ExitCode {
    logforce_benches::pairs::main()
}
