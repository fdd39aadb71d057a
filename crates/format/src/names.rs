/// Implements the names of an enum of reasons. A missing variant does not compile, so a list that is compared
/// with `NAMES` is complete.
macro_rules! names {
    ($enum:ident: $($variant:ident),+ $(,)?) => {
        impl $enum {
            /// Names of all variants.
            pub const NAMES: &[&str] = &[$(stringify!($variant)),+];

            /// Returns the variant's name, as `docs/format.md` lists it.
            pub fn name(&self) -> &'static str {
                match self {
                    $($enum::$variant { .. } => stringify!($variant),)+
                }
            }
        }
    };
}

pub(crate) use names;
