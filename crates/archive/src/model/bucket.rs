//! Bucket of the model: objects with their bytes, each request at once.

use crate::key::Key;
use crate::object::Object;
use crate::protocol::{Answer, Request};
use std::collections::BTreeMap;
use std::rc::Rc;

/// Bytes of a chunk or segment: one record for each LSN.
pub(super) type Bytes = Rc<[u8]>;

/// Request with the bytes that its driver adds.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct Message {
    pub(super) request: Request,
    pub(super) bytes: Bytes,
}

impl Message {
    pub(super) fn is_write(&self) -> bool {
        matches!(
            self.request,
            Request::Create(_) | Request::Replace(_) | Request::Delete(_)
        )
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub(super) struct Bucket {
    objects: BTreeMap<Key, (Object, Bytes)>,
}

impl Bucket {
    /// Returns the bucket as it is after a write; `None` if that changes nothing.
    pub(super) fn after(&self, message: &Message) -> Option<Bucket> {
        let changes = match &message.request {
            Request::Create(object) => !self.objects.contains_key(&object.key()),
            Request::Replace(hint) => {
                let there = self.objects.get(&Key::Hint).map(|(object, _)| object);
                there != Some(&Object::Hint(hint.clone()))
            }
            Request::Delete(key) => self.objects.contains_key(key),
            Request::List(_) | Request::Get(_) => false,
        };
        changes.then(|| {
            let mut after = self.clone();
            match &message.request {
                Request::Create(object) => {
                    let value = (object.clone(), message.bytes.clone());
                    after.objects.insert(object.key(), value);
                }
                Request::Replace(hint) => {
                    let value = (Object::Hint(hint.clone()), Bytes::from([]));
                    after.objects.insert(Key::Hint, value);
                }
                Request::Delete(key) => {
                    after.objects.remove(key);
                }
                Request::List(_) | Request::Get(_) => {}
            }
            after
        })
    }

    /// Returns the answer to a request that comes now, with the object's bytes.
    pub(super) fn answer(&self, request: &Request) -> (Answer, Bytes) {
        let answer = match request {
            Request::List(listing) => {
                let keys = self.objects.keys().filter(|key| listing.contains(key));
                Answer::Listed(keys.cloned().collect())
            }
            Request::Get(key) => match self.objects.get(key) {
                Some((object, bytes)) => return (Answer::Found(object.clone()), bytes.clone()),
                None => Answer::Missing,
            },
            Request::Create(object) => match self.objects.contains_key(&object.key()) {
                true => Answer::Exists,
                false => Answer::Done,
            },
            Request::Replace(_) | Request::Delete(_) => Answer::Done,
        };
        (answer, Bytes::from([]))
    }

    pub(super) fn contains(&self, key: &Key) -> bool {
        self.objects.contains_key(key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = Key> {
        self.objects.keys().cloned()
    }

    /// Returns the bucket without its hint, which decides nothing.
    pub(super) fn without_hint(&self) -> Bucket {
        let mut bucket = self.clone();
        bucket.objects.remove(&Key::Hint);
        bucket
    }
}
