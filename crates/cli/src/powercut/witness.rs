//! `logforce powercut witness`.

use super::Witness as Args;
use crate::exit::End;
use crate::output::{complain, print};
use crate::signal;
use logforce_measure::Interrupt;
use logforce_witness::{Serving, Witness};
use std::sync::{Arc, Mutex};

struct Telling;

impl Serving for Telling {
    fn happened(&self, line: &str) {
        complain(line);
    }
}

/// Serves until Ctrl-C.
pub fn run(args: &Args) -> anyhow::Result<End> {
    let interrupt = Interrupt::new();
    signal::install(interrupt.clone(), Arc::new(Mutex::new(None)))?;
    let witness = Witness::bind(&args.listen, &args.store)?;
    print(
        &format!(
            "listening at {}; what is acknowledged is kept in {}. Ctrl-C ends.\n",
            witness.address(),
            args.store.display()
        ),
        false,
    )?;
    witness.serve(interrupt.flag(), &Telling);
    complain("ended; what was told is kept");
    Ok(End::Done)
}
