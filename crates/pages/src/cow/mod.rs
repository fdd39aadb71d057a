//! Copy-on-write commit.
//!
//! A page has a number, which its user gives, and a *place* in the file, which changes with every
//! write of it. The *page table*, a tree, leads from numbers to places. A commit writes the new pages
//! and the nodes of the table that lead to them to places that nothing reaches, makes them durable,
//! and then stores a header that reaches them. After any crash one header is current, and what it
//! reaches is whole.
//!
//! To read: `tree` (a committed state), `commit` (how the next one is decided), `plan` and `force`
//! (how it gets durable), `full_disk` (where the file cannot grow), `held_headers` (when a place may be used again).
//!
//! | file | what |
//! |---|---|
//! | `tree`, `plan` | the page table in memory; what differs between two states of it |
//! | `places`, `held_headers` | which places are free; what keeps those that were freed |
//! | `conflicts` | who has changed a page last |
//! | `medium` | reading places, verified; what they hold in memory |
//! | `commit_group`, `state`, `store` | commits that get durable together; what the mutex guards; all parts |
//! | `view`, `commit`, `force`, `full_disk`, `background`, `schedule`, `location`, `table_scan`, `lifecycle` | what is done with them |

mod allocator;
mod background;
mod commit;
mod commit_group;
mod conflicts;
mod force;
mod full_disk;
mod lifecycle;
pub(crate) mod node_store;
mod reclamation;
mod state;
mod store;
pub(crate) mod table_scan;
pub(crate) mod tree;
mod view;
mod write_plan;

pub(crate) use commit::CowCommit;
pub(crate) use store::CowStore;
pub(crate) use view::CowView;

use crate::error::Result;
use std::sync::Arc;

impl CowStore {
    /// Everything committed.
    pub(crate) fn latest(self: &Arc<Self>) -> Result<CowView> {
        CowView::latest(self)
    }

    /// What is durable.
    pub(crate) fn durable(self: &Arc<Self>) -> Result<CowView> {
        CowView::durable(self)
    }
}
