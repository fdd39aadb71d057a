//! `cargo bench --bench tree --features trees`; `-- --help` lists the flags.

use std::process::ExitCode;

fn main() -> ExitCode {
    logforce_benches::tree::main()
}
