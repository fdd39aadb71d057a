//! Names in a result. A file may come from a newer program, so an unknown name is kept as it was
//! written.

use crate::run::SubjectKind;
use logforce_device::{FileState, Guarantee, Method, Verdict};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// Values that are written by name.
pub trait Named: Copy + 'static {
    /// All values.
    const ALL: &'static [Self];

    /// Returns the name used in results.
    fn name(self) -> &'static str;
}

/// Implements [`Named`] for types that already have `ALL` and `name`.
macro_rules! named {
    ($($type:ty),*) => {$(
        impl $crate::result::name::Named for $type {
            const ALL: &'static [Self] = &<$type>::ALL;

            fn name(self) -> &'static str {
                <$type>::name(self)
            }
        }
    )*};
}
pub(crate) use named;

named!(Method, FileState, Guarantee, SubjectKind);

impl Named for Verdict {
    const ALL: &'static [Verdict] = &[
        Verdict::Proven,
        Verdict::Declared,
        Verdict::Unknown,
        Verdict::Implausible,
        Verdict::Contradicted,
    ];

    fn name(self) -> &'static str {
        Verdict::name(self)
    }
}

/// A name, possibly one that this program does not know. No name is an empty text, and null in JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Name(Cow<'static, str>);

impl Name {
    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Returns whether there is no name.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Returns the value that has this name, if this program knows it.
    pub fn known<T: Named>(&self) -> Option<T> {
        T::ALL.iter().copied().find(|value| self == value)
    }
}

impl<T: Named> PartialEq<T> for Name {
    fn eq(&self, other: &T) -> bool {
        self.0 == other.name()
    }
}

impl PartialEq<str> for Name {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl<T: Named> From<T> for Name {
    fn from(value: T) -> Name {
        Name(Cow::Borrowed(value.name()))
    }
}

impl<T: Named> From<Option<T>> for Name {
    fn from(value: Option<T>) -> Name {
        value.map_or_else(Name::default, Name::from)
    }
}

impl From<&'static str> for Name {
    fn from(text: &'static str) -> Name {
        Name(Cow::Borrowed(text))
    }
}

impl From<String> for Name {
    fn from(text: String) -> Name {
        Name(Cow::Owned(text))
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl Serialize for Name {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self.is_empty() {
            true => serializer.serialize_none(),
            false => serializer.serialize_str(&self.0),
        }
    }
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Name, D::Error> {
        let text = Option::<String>::deserialize(deserializer)?;
        Ok(text.map_or_else(Name::default, Name::from))
    }
}

/// Serde functions for an optional value that is written by name. An unknown name is read as `None`.
pub(super) mod optional {
    use super::{Name, Named};
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    pub fn serialize<T: Named, S: Serializer>(
        value: &Option<T>,
        serializer: S,
    ) -> Result<S::Ok, S::Error> {
        Name::from(*value).serialize(serializer)
    }

    pub fn deserialize<'de, T: Named, D: Deserializer<'de>>(
        deserializer: D,
    ) -> Result<Option<T>, D::Error> {
        Name::deserialize(deserializer).map(|name| name.known())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_of_a_newer_program_is_kept_and_is_none_of_ours() {
        let newer: Name = serde_json::from_str("\"direct+later\"").unwrap();
        assert_eq!(newer.known::<Method>(), None);
        assert_eq!(serde_json::to_string(&newer).unwrap(), "\"direct+later\"");
        let ours: Name = serde_json::from_str("\"direct+dsync\"").unwrap();
        assert_eq!(ours.known(), Some(Method::DirectDsync));
        assert_eq!(ours, Name::from(Method::DirectDsync));
        let none: Name = serde_json::from_str("null").unwrap();
        assert!(none.is_empty() && serde_json::to_string(&none).unwrap() == "null");
    }
}
