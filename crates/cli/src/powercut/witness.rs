//! `logforce powercut witness`.

use super::Witness as Args;
use crate::exit::End;
use crate::output::{complain, print};
use crate::signal;
use logforce_measure::Interrupt;
use logforce_witness::{Serving, Witness};
use std::sync::Arc;

struct Printing;

impl Serving for Printing {
    fn happened(&self, line: &str) {
        complain(line);
    }
}

/// Serves until Ctrl-C.
pub fn run(args: &Args) -> anyhow::Result<End> {
    let interrupt = Interrupt::new();
    signal::install(interrupt.clone(), Arc::default())?;
    let witness = Witness::bind(&args.listen, &args.store)?;
    print(
        &format!(
            "listening at {}; acknowledgements are stored in {}. Ctrl-C ends.\n",
            witness.address(),
            args.store.display()
        ),
        false,
    )?;
    witness.serve(interrupt.flag(), &Printing);
    complain("ended; what was received is stored");
    Ok(End::Done)
}
