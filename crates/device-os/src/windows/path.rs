//! Paths in the form that Windows accepts without a limit on their length, and names in them.

use std::io;

/// Returns an absolute path with the prefix `\\?\`, in UTF-16 and without a NUL. With the prefix it may be
/// longer than 260, and Windows takes it literally (no `..`, no names of devices, dots and spaces at an end
/// kept).
pub fn verbatim(absolute: &[u16]) -> Vec<u16> {
    let wide = |text: &str| text.encode_utf16().collect::<Vec<u16>>();
    let (slash, backslash) = (u16::from(b'/'), u16::from(b'\\'));
    let mut path: Vec<u16> = absolute
        .iter()
        .map(|c| if *c == slash { backslash } else { *c })
        .collect();
    let starts = |path: &[u16], with: &str| path.starts_with(&wide(with));
    if starts(&path, r"\\?\") || starts(&path, r"\\.\") || starts(&path, r"\??\") {
        return path;
    }
    if starts(&path, r"\\") {
        path.splice(..2, wide(r"\\?\UNC\"));
    } else {
        path.splice(..0, wide(r"\\?\"));
    }
    path
}

/// Returns the path of `name` in the directory `base`, ended by a NUL.
pub fn child(base: &[u16], name: &str) -> Vec<u16> {
    let mut path = base.to_vec();
    if path.last() != Some(&u16::from(b'\\')) {
        path.push(u16::from(b'\\'));
    }
    path.extend(name.encode_utf16());
    path.push(0);
    path
}

/// Refuses a name that is not a plain file name. It would lead out of the directory, end at the NUL, name a
/// stream of another file (the colon), or be a pattern.
pub fn check(name: &str) -> io::Result<()> {
    let strange = |c: char| c < ' ' || r#"/\:*?"<>|"#.contains(c);
    // Without the prefix `\\?\` other programs cannot open a name with such an end.
    let ends_badly = name.ends_with(['.', ' ']);
    if name.is_empty() || ends_badly || name.contains(strange) {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("{name:?} is not a plain file name"),
        ));
    }
    Ok(())
}

/// Beginning of the names that only this crate uses.
pub const HIDDEN: &str = "~logforce-";

/// Returns true if a name is one of those that only this crate uses.
pub fn is_hidden(name: &str) -> bool {
    name.starts_with(HIDDEN)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(path: &str) -> String {
        let wide: Vec<u16> = path.encode_utf16().collect();
        String::from_utf16(&verbatim(&wide)).unwrap()
    }

    #[test]
    fn prefixes() {
        assert_eq!(of(r"C:\a\b"), r"\\?\C:\a\b");
        assert_eq!(of(r"C:/a/ü"), r"\\?\C:\a\ü");
        assert_eq!(of(r"\\server\share\a"), r"\\?\UNC\server\share\a");
        assert_eq!(of(r"\\?\C:\a"), r"\\?\C:\a");
        assert_eq!(of(r"\\.\pipe\a"), r"\\.\pipe\a");
    }

    #[test]
    fn children() {
        for base in [r"\\?\C:\", r"\\?\C:\a"] {
            let wide: Vec<u16> = base.encode_utf16().collect();
            let path = String::from_utf16(&child(&wide, "日本")).unwrap();
            let base = base.trim_end_matches('\\');
            assert_eq!(path, format!("{base}\\日本\0"));
        }
    }

    #[test]
    fn only_plain_names() {
        for bad in [
            "", ".", "..", "a/b", "/a", "a\\b", "a\0b", "a:b", "a.", "a ", "a*", "\n",
        ] {
            assert_eq!(
                check(bad).unwrap_err().kind(),
                io::ErrorKind::InvalidInput,
                "{bad:?}"
            );
        }
        for good in ["a", ".hidden", "a b", "ä", "日本", "con", "a.tmp"] {
            check(good).unwrap();
        }
    }
}
