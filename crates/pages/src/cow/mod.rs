//! Copy-on-write commit.
//!
//! A page has a number, which its user gives, and a *place* in the file, which changes with every write. The
//! *page table*, a tree, leads from numbers to places. A commit writes the new pages, and the nodes of the
//! table that lead to them, to free places and makes them durable. Then it stores a header that refers to
//! them. After any crash one header is current, and everything that it refers to is whole.
//!
//! To read the code, begin with `tree` (a committed state) and `commit` (the order of commits). Then read
//! `write_plan` and `force` (durability), `full_disk` (a file that cannot grow) and `reclamation` (reuse of
//! places).
//!
//! | file | contents |
//! |---|---|
//! | `tree`, `write_plan` | the page table in memory; the difference between two states of it |
//! | `allocator`, `reclamation` | free places; freed places that are still needed |
//! | `conflicts` | the commits that changed each page last |
//! | `node_store` | verified reads of places, and their cache |
//! | `standing` | holds of states that new readers share, by lanes of threads |
//! | `commit_group` | commits that become durable together |
//! | `state`, `store` | data under the mutex; all parts of an open file |
//! | `view`, `commit`, `force`, `full_disk`, `background`, `table_scan`, `lifecycle` | operations on them |

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
mod standing;
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
use standing::Wanted;
use std::sync::Arc;

impl CowStore {
    /// Returns a view of everything committed.
    pub(crate) fn latest(self: &Arc<Self>) -> Result<CowView> {
        CowView::of(self, Wanted::Latest)
    }

    /// Returns a view of the durable state.
    pub(crate) fn durable(self: &Arc<Self>) -> Result<CowView> {
        CowView::of(self, Wanted::Durable)
    }
}
