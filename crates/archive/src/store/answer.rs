//! Answers of a store to one try of one operation.

use super::error::StoreError;

/// Answer to one try.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Answer<T> {
    /// Success. Whatever was written is durable in the store.
    Done(T),
    /// An object with this name was there before. It may be the result of an earlier try whose answer was
    /// lost, so it must be read.
    Exists,
    /// No object has this name.
    Missing,
    /// The operation may have been done, may not have been done, or may be done later.
    Unknown(StoreError),
    /// The store refuses the operation, and would refuse it again.
    Refused(StoreError),
}

impl<T> Answer<T> {
    /// Returns the answer with another value of a success.
    pub fn map<U>(self, value: impl FnOnce(T) -> U) -> Answer<U> {
        match self {
            Answer::Done(x) => Answer::Done(value(x)),
            Answer::Exists => Answer::Exists,
            Answer::Missing => Answer::Missing,
            Answer::Unknown(error) => Answer::Unknown(error),
            Answer::Refused(error) => Answer::Refused(error),
        }
    }
}
