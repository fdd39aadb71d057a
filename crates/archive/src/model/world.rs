//! State of the model: machines, a bucket, and requests that may land late.

use super::bucket::{Bucket, Message};
use super::node::Node;
use super::restorer::Restorer;
use super::search::Shared;
use crate::key::Key;
use crate::object::{Nonce, Object};
use crate::protocol::{Listing, Request};
use std::collections::{BTreeMap, BTreeSet};

/// Number of times that each kind of step may be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct Budget {
    /// Openings, takeovers and restarts.
    pub(super) openings: u8,
    pub(super) records: u8,
    /// Requests that are lost, land late or twice, lose their answer, or are refused falsely.
    pub(super) faults: u8,
    pub(super) truncations: u8,
    /// Runs of the second level.
    pub(super) levels: u8,
    pub(super) prunes: u8,
    pub(super) restores: u8,
    /// Restarts from an older copy of the disk.
    pub(super) rollbacks: u8,
}

/// Acknowledged records by LSN, each with its epoch.
pub(super) type Acknowledged = BTreeMap<u64, (u8, u64)>;

#[derive(Debug, Clone, Hash)]
pub(super) struct World {
    pub(super) bucket: Shared<Bucket>,
    pub(super) nodes: Vec<Shared<Node>>,
    /// Writes that may land at any time, as often as they like.
    pub(super) late: Shared<BTreeSet<Message>>,
    pub(super) restorer: Option<Shared<Watched>>,
    pub(super) acknowledged: Shared<Acknowledged>,
    /// Owner and start of each epoch.
    pub(super) owners: Shared<BTreeMap<u64, (Nonce, u64)>>,
    pub(super) left: Budget,
    pub(super) nonces: u64,
    pub(super) records: u8,
}

/// Restorer that runs beside the machines.
#[derive(Debug, Clone, Hash)]
pub(super) struct Watched {
    pub(super) restorer: Restorer,
    pub(super) open: BTreeSet<Request>,
    /// Records that had been acknowledged when it began.
    pub(super) before: Shared<Acknowledged>,
}

impl World {
    pub(super) fn new(machines: usize, budget: Budget) -> World {
        World {
            bucket: Shared::new(Default::default()),
            nodes: (0..machines)
                .map(|number| Shared::new(Node::new(number == 0)))
                .collect(),
            late: Shared::new(Default::default()),
            restorer: None,
            acknowledged: Shared::new(Default::default()),
            owners: Shared::new(Default::default()),
            left: budget,
            nonces: 0,
            records: 0,
        }
    }

    /// Adds writes that may land late.
    pub(super) fn late_too(&mut self, messages: Vec<Message>) {
        if messages.iter().any(|message| !self.late.contains(message)) {
            self.late.change(|late| late.extend(messages));
        }
    }

    /// Drops the late puts that can have no effect: their key exists, and nothing will be deleted any more.
    pub(super) fn drop_without_effect(&mut self) {
        let has_no_effect = |message: &Message| match &message.request {
            Request::Create(object) => self.bucket.contains(&object.key()),
            _ => false,
        };
        if self.late.iter().any(has_no_effect) && !self.has_removals() {
            let mut late = BTreeSet::clone(&self.late);
            late.retain(|message| !has_no_effect(message));
            self.late = Shared::new(late);
        }
    }

    /// Returns true if the answer to a read can never change again.
    pub(super) fn is_stable(&self, request: &Request) -> bool {
        let exists = |key: &Key| self.bucket.contains(key);
        match request {
            Request::Get(Key::Identity) => exists(&Key::Identity),
            Request::Get(key @ Key::Place { epoch, .. }) => {
                exists(key) && (epoch.0 == 0 || !self.has_removals())
            }
            Request::Get(key @ Key::Segment { .. }) => exists(key) && !self.has_removals(),
            Request::List(Listing::Floors(epoch)) => epoch.0 == 0 || !self.has_removals(),
            Request::List(Listing::Segments(_) | Listing::Pruned) => !self.has_removals(),
            _ => false,
        }
    }

    /// Returns true if objects may still be deleted, or segments and floors be put.
    fn has_removals(&self) -> bool {
        self.left.levels + self.left.prunes > 0
            || self.nodes.iter().any(|node| node.has_job())
            || self.late.iter().any(|message| match &message.request {
                Request::Delete(_) => true,
                Request::Create(object) => matches!(
                    object,
                    Object::Floor(_) | Object::Segment(_) | Object::Pruned(_)
                ),
                _ => false,
            })
    }
}
