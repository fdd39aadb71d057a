//! `cargo bench --bench pages`; `-- --help` lists the flags.

use std::process::ExitCode;

fn main() -> ExitCode {
    logforce_benches::pages::main()
}
