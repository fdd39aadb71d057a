//! Wrappers of directories and files. A wrapper implements only the methods that it changes.

use crate::{
    Barrier, Blocks, Completion, DirEntry, DirectAlignment, Directory, Facts, File, FileIdentity,
    OpenFile, ReadSource, System, Ticket, Whereabouts, Write, WriteQueue,
};
use std::io;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Defines a trait with a provided method for each method of the contract that passes the call on. Also
/// implements the contract for all types that implement that trait.
macro_rules! forward {
    (
        $(#[$about:meta])*
        $forward:ident to $contract:ident {
            $(fn $method:ident(&self $(, $arg:ident: $type:ty)*) $(-> $answer:ty)?;)*
        }
        $(
            but not {
                $(
                    $(#[$why:meta])*
                    fn $kept:ident(self: Arc<Self> $(, $kept_arg:ident: $kept_type:ty)*) -> $kept_answer:ty
                        = $default:expr;
                )*
            }
        )?
    ) => {
        $(#[$about])*
        pub trait $forward: Send + Sync {
            /// Returns the object that calls are passed on to.
            fn inner(&self) -> &dyn $contract;

            $(
                #[doc = concat!("[`", stringify!($contract), "::", stringify!($method), "`]: passed on.")]
                fn $method(&self $(, $arg: $type)*) $(-> $answer)? {
                    self.inner().$method($($arg),*)
                }
            )*

            $($(
                $(#[$why])*
                fn $kept(self: Arc<Self> $(, $kept_arg: $kept_type)*) -> $kept_answer {
                    $(let _ = $kept_arg;)*
                    $default
                }
            )*)?
        }

        // The lint catches a provided method of the contract that is missing from the list below. It would
        // not be passed on.
        #[deny(clippy::missing_trait_methods)]
        impl<T: $forward> $contract for T {
            $(
                fn $method(&self $(, $arg: $type)*) $(-> $answer)? {
                    $forward::$method(self $(, $arg)*)
                }
            )*

            $($(
                fn $kept(self: Arc<Self> $(, $kept_arg: $kept_type)*) -> $kept_answer {
                    $forward::$kept(self $(, $kept_arg)*)
                }
            )*)?
        }
    };
}

forward! {
    /// [`Directory`] around another one. A method that is not implemented passes its call on.
    ForwardDirectory to Directory {
        fn path(&self) -> &Path;
        fn identity(&self) -> FileIdentity;
        fn entries(&self) -> io::Result<Vec<DirEntry>>;
        fn open(&self, name: &str, how: OpenFile) -> io::Result<Arc<dyn File>>;
        fn rename(&self, from: &str, to: &str) -> io::Result<()>;
        fn remove(&self, name: &str) -> io::Result<()>;
        fn sync(&self) -> io::Result<()>;
        fn lock(&self, name: &str) -> io::Result<Box<dyn Send + Sync>>;
        fn lock_file(&self, name: &str) -> io::Result<Box<dyn Send + Sync>>;
        fn is_locked(&self, name: &str) -> io::Result<bool>;
        fn facts(&self) -> io::Result<Facts>;
        fn facts_for_writing(&self) -> io::Result<Facts>;
        fn free_space(&self) -> io::Result<u64>;
        fn whereabouts(&self) -> io::Result<Whereabouts>;
        fn keep_closed(&self);
        fn set_file_mode(&self, mode: u32);
        fn set_mode(&self, mode: u32) -> io::Result<()>;
        fn system(&self) -> io::Result<Arc<dyn System>>;
        fn identity_of(&self, name: &str) -> io::Result<FileIdentity>;
    }
}

forward! {
    /// [`File`] around another one. A method that is not implemented passes its call on.
    ForwardFile to File {
        fn len(&self) -> io::Result<u64>;
        fn is_empty(&self) -> io::Result<bool>;
        fn direct_alignment(&self) -> Option<DirectAlignment>;
        fn read_at(&self, offset: u64, buf: &mut [u8], source: ReadSource) -> io::Result<usize>;
        fn submit(&self, write: Write) -> Ticket;
        fn complete(&self, ticket: Ticket) -> Completion;
        fn barrier(&self, barrier: Barrier) -> io::Result<()>;
        fn next_data(&self, offset: u64) -> io::Result<Option<u64>>;
        fn blocks(&self, range: Range<u64>) -> Blocks;
        fn begin_write_back(&self, range: Range<u64>);
        fn reserve(&self, len: u64) -> io::Result<bool>;
        fn write_zeroes(&self, range: Range<u64>) -> io::Result<bool>;
        fn punch(&self, range: Range<u64>) -> io::Result<bool>;
        fn drop_cache(&self, range: Range<u64>);
    } but not {
        /// Returns `None`: a wrapper that watches or changes [`File::submit`] would not see the writes of a
        /// queue.
        fn write_queue(self: Arc<Self>, depth: usize) -> Option<Box<dyn WriteQueue>> = None;
    }
}
