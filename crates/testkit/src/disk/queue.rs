//! The queue of a simulated file: writes end in any order.

use super::file::SimFile;
use logforce_device::{Completion, File, Ticket, Write, WriteQueue};
use std::collections::BTreeMap;
use std::sync::Arc;

pub(super) struct SimQueue {
    file: Arc<SimFile>,
    depth: usize,
    next: u64,
    in_flight: BTreeMap<u64, Ticket>,
    ended: Vec<(u64, Completion)>,
}

impl SimQueue {
    pub fn new(file: Arc<SimFile>, depth: usize) -> SimQueue {
        SimQueue {
            file,
            depth,
            next: 0,
            in_flight: BTreeMap::new(),
            ended: Vec::new(),
        }
    }

    /// Waits for one of those in flight.
    fn end_one(&mut self) {
        if self.in_flight.is_empty() {
            return;
        }
        let nth = self.file.at.below(self.in_flight.len());
        let number = self.in_flight.keys().copied().nth(nth);
        let ended = number.and_then(|n| Some((n, self.in_flight.remove(&n)?)));
        if let Some((number, ticket)) = ended {
            self.ended.push((number, self.file.complete(ticket)));
        }
    }
}

impl WriteQueue for SimQueue {
    fn submit(&mut self, write: Write) -> u64 {
        if self.in_flight.len() >= self.depth {
            self.end_one();
        }
        let number = self.next;
        self.next += 1;
        let ticket = self.file.begin(write);
        self.in_flight.insert(number, ticket);
        number
    }

    fn complete(&mut self) -> Option<(u64, Completion)> {
        if self.ended.is_empty() {
            self.end_one();
        }
        self.ended.pop()
    }
}

impl Drop for SimQueue {
    fn drop(&mut self) {
        while !self.in_flight.is_empty() {
            self.end_one();
        }
    }
}
