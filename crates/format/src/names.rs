/// Gives an enum of reasons its names. A variant left out does not compile, so a list that is held
/// against `NAMES` is complete.
macro_rules! names {
    ($enum:ident: $($variant:ident),+ $(,)?) => {
        impl $enum {
            /// The names of all variants.
            pub const NAMES: &[&str] = &[$(stringify!($variant)),+];

            /// The variant's name, as `docs/format.md` lists it.
            pub fn name(&self) -> &'static str {
                match self {
                    $($enum::$variant { .. } => stringify!($variant),)+
                }
            }
        }
    };
}

pub(crate) use names;
