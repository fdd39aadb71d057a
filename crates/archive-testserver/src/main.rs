//! The server as a program, for tests in shells and other languages.
//!
//! Prints its address and the variables of the environment, and ends when its standard input does.

use logforce_archive_testserver::{BUCKET, Faults, Options, Server};
use std::io::Read as _;
use std::time::Duration;

const USAGE: &str = "usage: logforce-archive-testserver [--put-latency MS] [--faults PROBABILITY] \
    [--seed N] [--without-conditional-create]";

fn main() -> Result<(), Box<dyn std::error::Error>> {
    use lexopt::prelude::*;
    let mut options = Options::default();
    let (mut probability, mut seed) = (0.0, 0);
    let mut parser = lexopt::Parser::from_env();
    while let Some(argument) = parser.next()? {
        match argument {
            Long("put-latency") => {
                options.put_latency = Duration::from_millis(parser.value()?.parse()?);
            }
            Long("faults") => probability = parser.value()?.parse()?,
            Long("seed") => seed = parser.value()?.parse()?,
            Long("without-conditional-create") => options.has_conditional_create = false,
            _ => return Err(USAGE.into()),
        }
    }
    options.faults = Faults::each(probability, seed);
    let server = Server::start(options)?;
    println!("s3://{BUCKET}/archive");
    for (name, value) in server.environment() {
        println!("{name}={value}");
    }
    // A test that is killed leaves no server behind.
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}
