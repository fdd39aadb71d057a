//! `cargo run --release --features engines --bin engines -- --help`: a workload of storage engines for crash tests.

use std::process::ExitCode;

fn main() -> ExitCode {
    logforce_benches::engines::main()
}
