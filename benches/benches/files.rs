//! `cargo bench --bench files`; `-- --help` lists the flags.

use std::process::ExitCode;

fn main() -> ExitCode {
    logforce_benches::files::main()
}
