use anyhow::Result;
use logforce::Method;
use logforce_powercut::live::{self, Cell};
use logforce_powercut::report::Sink;
use logforce_powercut::rig::{Filesystem, enclosure};
use std::process::ExitCode;

pub fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(e) => {
            eprintln!("error: {e:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args[0].as_str() {
        "disk" => {
            logforce_powercut::disk::run(&serde_json::from_str(&args[1])?)?;
            return Ok(ExitCode::SUCCESS);
        }
        "work" => {
            logforce_powercut::subject::run(&serde_json::from_str(&args[1])?)?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    if !enclosure::is_inside() {
        return enclosure::run_inside();
    }
    let home = enclosure::settle()?;
    let sink = Sink::new(None);
    let filesystem: Filesystem = args[1].parse().map_err(anyhow::Error::msg)?;
    let method: Method = args[2].parse()?;
    let n: u64 = args[3].parse()?;
    let t = std::time::Instant::now();
    live::cell(
        Cell::new(filesystem, method),
        n,
        &home,
        args.get(4).map_or(1, |s| s.parse().unwrap()),
        &sink,
    )?;
    println!("{:?}", sink.rows());
    println!("{:?} {:?}", sink.total(), t.elapsed());
    Ok(ExitCode::SUCCESS)
}
