//! The project's own commands. `cargo xtask` prints what there is.

mod check;
mod fuzz;
mod platform;
mod powercut;
mod sim;
mod test;
mod workspace;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask check
    The rules of the house: which crate may use which, where `unsafe` may be, how long a file may
    get, what may not be written. Takes a second.

cargo xtask test [--keep-going] [--only STAGE]...
    Everything that can run on this machine, in stages, as CI does it. As root on a Debian it
    installs the system packages that are missing; otherwise it prints the line that would.
    --keep-going    goes on after a stage that failed
    --only STAGE    only this stage; may be given several times
    LOGFORCE_SCHEDULES=N in the environment: so many schedules of each test of interleavings
    (600 unless set); LOGFORCE_SEED=N runs those of one seed again.

cargo xtask platform [--dir DIR] [--seconds S] [--without-tests]
    For Windows and macOS, where we have run nothing: tests and measures this system, and writes one
    JSON file that you may send us. Measures the disk of DIR (the target folder unless named) for S
    seconds (30). docs/platforms.md says what is in it.

cargo xtask sim [--seeds N] [--from SEED] [--minutes M] [--threads T]
    Random lives of a log on a simulated disk: 10,000, or N, or for M minutes.
cargo xtask sim --seed N
    That life again, exactly.
cargo xtask planted [--search] [--seeds N] [NAME]...
    Turns known bugs on, one by one, and says which life found each.

cargo xtask powercut [suite OPTIONS...]
    Real power cuts on real filesystems, over a disk whose plug is pulled: self-checks, 1,000 live
    cuts, 20,000 replayed crash states. As root on Linux. `cargo xtask powercut suite --help`
    prints the options: --minutes M goes on for so long.
cargo xtask powercut process [--only PART] [OPTIONS...]
    Process faults: kills, full disks, errors of the disk, readers, several writers, system calls
    that fail (`--only inject`; `--whole --minutes M` every call by every error number).
cargo xtask powercut planted [NAME]...
    Turns known bugs of the log on, one by one, each of which cuts or failing calls have to find.

cargo xtask fuzz [--minutes M] [--minimise] [TARGET]...
    Builds the fuzz targets, replays what is kept in fuzz/, and fuzzes each target for 20 seconds.
    Needs no cargo-fuzz and no nightly compiler. All that it writes is below target/fuzz.
    --minutes M     for so long each
    --minimise      then puts the smallest corpus that reaches as much into fuzz/corpus
cargo xtask fuzz --planted
    Shows that each known bug is found within a bounded number of executions.
";

fn help() {
    print!("{HELP}\nStages:\n");
    for stage in test::Stage::ALL {
        println!("    {:<13} {}", stage.name(), stage.about());
    }
    println!(
        "\nWith CI=true a missing package and a skipped test are failures; elsewhere they are named."
    );
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let done = match words.as_slice() {
        [] | ["help" | "--help" | "-h"] => {
            help();
            Ok(true)
        }
        ["check"] => check::command(),
        ["sim", options @ ..] => sim::lives(options),
        ["planted", options @ ..] => sim::planted(options),
        ["fuzz", options @ ..] => fuzz::command(options),
        ["platform", options @ ..] => platform::command(options),
        ["powercut", options @ ..] => powercut::command(options),
        ["test", options @ ..] => test::command(options),
        other => Err(anyhow::anyhow!(
            "no such command: {}; `cargo xtask` prints what there is",
            other.join(" ")
        )),
    };
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::from(2)
        }
    }
}
