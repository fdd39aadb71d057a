//! `cargo bench`: group commit, which is `logforce bench group` with its flags behind `--`. It
//! measures the disk of this package, or of the directory in `LOGFORCE_BENCH_DIR`, or of `--dir`;
//! not the one for temporary files, which is often in memory.

use std::ffi::OsString;
use std::process::Command;

fn main() -> std::io::Result<()> {
    let mut arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let before = arguments.len();
    arguments.retain(|a| a != "--bench");
    if arguments.len() == before {
        println!("nothing is measured in a test");
        return Ok(());
    }
    let mut command = Command::new(env!("CARGO_BIN_EXE_logforce"));
    command.args(["bench", "group"]);
    let is_dir = |a: &OsString| a.to_string_lossy().starts_with("--dir");
    if let Some(dir) = std::env::var_os("LOGFORCE_BENCH_DIR")
        && !arguments.iter().any(is_dir)
    {
        command.arg("--dir").arg(dir);
    }
    command.args(arguments);
    // In this one's place, so that Ctrl-C is the command's.
    #[cfg(unix)]
    return Err(std::os::unix::process::CommandExt::exec(&mut command));
    // Windows sends Ctrl-C to all processes of a console.
    #[cfg(not(unix))]
    std::process::exit(command.status()?.code().unwrap_or(1))
}
