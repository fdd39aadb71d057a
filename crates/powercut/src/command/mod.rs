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
        name if logforce_powercut::process::is_role(name) => {
            logforce_powercut::process::role(name, &args[1])?;
            return Ok(ExitCode::SUCCESS);
        }
        _ => {}
    }
    if !enclosure::is_inside() {
        return enclosure::run_inside();
    }
    let home = enclosure::settle()?;
    if args[0] == "process" {
        return process(&home, &args[1..]);
    }
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

/// `process [--kills N] [--seed S] [--only PART]`.
fn process(home: &std::path::Path, args: &[String]) -> Result<ExitCode> {
    use logforce_powercut::process::{self, Plan};
    let value = |name: &str| {
        let at = args.iter().position(|a| a == name)?;
        args.get(at + 1).cloned()
    };
    let seed = value("--seed").map_or(Ok(1), |s| s.parse())?;
    let mut plan = Plan::ci(seed);
    if let Some(kills) = value("--kills") {
        plan.kills = kills.parse()?;
    }
    let rows = process::run(home, &plan, value("--only").as_deref(), &mut |row| {
        println!("{row}");
    })?;
    let broken = rows.iter().any(|r| !r.broken.is_empty());
    Ok(ExitCode::from(u8::from(broken)))
}
