//! Put of one object that is created once: tries until it is decided what the key holds.

use super::request::{Answer, Request};
use crate::fault::fault;
use crate::object::Object;

/// Put of one object, with as many tries as it takes.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Put {
    object: Object,
    is_reading: bool,
}

/// Decision about a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Decided {
    /// It holds the object.
    Mine,
    /// It holds another one.
    Other(Object),
}

impl Put {
    /// Begins a put.
    pub(crate) fn new(object: Object) -> Put {
        let is_reading = false;
        Put { object, is_reading }
    }

    /// Returns the request to be sent now.
    pub(crate) fn request(&self) -> Request {
        match self.is_reading {
            true => Request::Get(self.object.key()),
            false => Request::Create(self.object.clone()),
        }
    }

    /// Takes the answer to the request. Returns the decision; `None` if the next request is to be sent.
    pub(crate) fn answer(&mut self, answer: Answer) -> Option<Decided> {
        match (self.is_reading, answer) {
            (false, Answer::Done) => return Some(Decided::Mine),
            (false, Answer::Exists) if fault!(ExistingIsMine) => return Some(Decided::Mine),
            // Not success: it may be another's object, or a conflict with nothing there. Read it.
            (false, Answer::Exists) => self.is_reading = true,
            (true, Answer::Found(there)) => return Some(self.compare(there)),
            (true, Answer::Missing) => self.is_reading = false,
            // The put may have landed, or may land later. The next try is answered by what is there.
            _ => {}
        }
        None
    }

    fn compare(&self, there: Object) -> Decided {
        let is_mine = match (&self.object, &there) {
            (Object::Chunk(mine), Object::Chunk(there)) => mine.nonce == there.nonce,
            (mine, there) => mine == there,
        };
        match is_mine {
            true => Decided::Mine,
            false => Decided::Other(there),
        }
    }
}
