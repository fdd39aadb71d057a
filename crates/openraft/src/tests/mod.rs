//! The store on a simulated disk: its power is cut at any operation, and the store that is opened then must be
//! the one after some prefix of the calls, with all that was acknowledged.

mod model;
mod power;

use crate::error::Error;
use crate::record::{self, Line, Purged};
use crate::store::{NewEntry, Store};
use logforce::{Guarantee, Options};
use logforce_testkit::{SimDisk, SimRuntime};
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

const LINE: Line = Line::V09;

/// Runs a future in the simulation. Its waker does nothing, because a thread of the simulation may only wait
/// by the simulation's clock.
fn wait<T>(runtime: &SimRuntime, future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return value;
        }
        runtime.sleep(Duration::from_micros(20));
    }
}

fn open(runtime: &SimRuntime, disk: &SimDisk) -> Result<Store, Error> {
    let options = Options::new()
        .create(true)
        .segment_size(32 << 10)
        .max_batch_size(16 << 10)
        .buffer_size(64 << 10)
        .require(Guarantee::PowerLoss);
    let log = logforce::internal::open(&*disk.system(runtime), "/log", options)?;
    wait(runtime, Store::open(LINE, log))
}

fn new_entry(index: u64, body: &[u8]) -> NewEntry {
    let write = |bytes: &mut Vec<u8>| {
        bytes.extend(body);
        Ok::<(), ()>(())
    };
    let record = record::entry(LINE, index, write).unwrap();
    NewEntry { index, record }
}

fn purged(index: u64) -> Purged {
    let id = format!("id {index}").into_bytes();
    Purged { index, id }
}
