//! The functions of programs and libraries, from their files.

use object::{Object, ObjectSegment, ObjectSymbol, SymbolKind};
use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Functions of the files that were asked for.
#[derive(Default)]
pub(super) struct Symbols(HashMap<PathBuf, Option<Functions>>);

impl Symbols {
    /// Returns true if a function covers this offset in the file. A stripped file names only what it exports, and
    /// `strace` gives the code behind such a function its name too. A file that cannot be read is believed.
    pub(super) fn covers(&mut self, file: &Path, offset: u64) -> bool {
        let functions = self.0.entry(file.to_owned());
        let functions = functions.or_insert_with(|| Functions::read(file));
        functions.as_ref().is_none_or(|known| known.covers(offset))
    }
}

/// Functions of a file.
struct Functions {
    /// Parts of the file, and the address of each.
    segments: Vec<(Range<u64>, u64)>,
    /// Addresses of the functions.
    functions: Vec<Range<u64>>,
}

impl Functions {
    fn read(file: &Path) -> Option<Functions> {
        let bytes = std::fs::read(file).ok()?;
        let object = object::File::parse(&*bytes).ok()?;
        let segments = object.segments().map(|segment| {
            let (start, len) = segment.file_range();
            (start..start.saturating_add(len), segment.address())
        });
        let symbols = object.symbols().chain(object.dynamic_symbols());
        let functions = symbols.filter(|s| s.kind() == SymbolKind::Text);
        let functions = functions.map(|s| s.address()..s.address().saturating_add(s.size()));
        Some(Functions {
            segments: segments.collect(),
            functions: functions.collect(),
        })
    }

    fn covers(&self, offset: u64) -> bool {
        let here = self
            .segments
            .iter()
            .find(|(range, _)| range.contains(&offset));
        let Some((range, address)) = here else {
            return false;
        };
        let at = address.saturating_add(offset - range.start);
        self.functions.iter().any(|function| function.contains(&at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_of_an_offset_decides() {
        let known = Functions {
            segments: vec![(0..100, 0), (100..200, 4196)],
            functions: vec![4200..4210, 4300..4310],
        };
        assert_eq!(
            [103, 104, 113, 114, 300].map(|at| known.covers(at)),
            [false, true, true, false, false]
        );
    }

    #[test]
    fn own_functions_are_found() {
        let mut symbols = Symbols::default();
        let own = std::env::current_exe().unwrap();
        let bytes = std::fs::read(&own).unwrap();
        let object = object::File::parse(&*bytes).unwrap();
        let known = Functions::read(&own).unwrap();
        let entry = object.entry();
        let (range, address) = known
            .segments
            .iter()
            .find(|(range, address)| {
                (*address..address + (range.end - range.start)).contains(&entry)
            })
            .unwrap();
        assert!(
            symbols.covers(&own, range.start + (entry - address)),
            "_start"
        );
        assert!(!symbols.covers(&own, 1), "the header");
        assert!(symbols.covers(Path::new("/no/such/file"), 1));
    }
}
