//! Rule: links between pages of the documentation point to existing files and headings.

use super::{Violation, all_files, shown};
use anyhow::{Context, Result};
use std::path::{Path, PathBuf};

/// Finds links to missing files or headings.
pub fn check(root: &Path) -> Result<Vec<Violation>> {
    let mut found = Vec::new();
    for page in pages(root)? {
        let text = read(&page)?;
        for target in targets(&text) {
            if !leads_somewhere(&page, target)? {
                found.push(Violation::new(
                    shown(root, &page),
                    format!("links to {target}, which is not there"),
                    "use the current name of the file and the heading",
                ));
            }
        }
    }
    Ok(found)
}

/// Returns the pages of the documentation, in any folder.
pub fn pages(root: &Path) -> Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    all_files(root, root, &mut files)?;
    files.retain(|file| file.ends_with(".md"));
    Ok(files.into_iter().map(|file| root.join(file)).collect())
}

fn read(page: &Path) -> Result<String> {
    std::fs::read_to_string(page).with_context(|| page.display().to_string())
}

/// Returns the link targets, except other sites.
fn targets(text: &str) -> impl Iterator<Item = &str> {
    text.split("](").skip(1).filter_map(|rest| {
        let (target, _) = rest.split_once(')')?;
        (!target.contains("://") && !target.contains(char::is_whitespace)).then_some(target)
    })
}

fn leads_somewhere(page: &Path, target: &str) -> Result<bool> {
    let (file, heading) = match target.split_once('#') {
        Some((file, heading)) => (file, Some(heading)),
        None => (target, None),
    };
    let path = match (file, page.parent()) {
        ("", _) | (_, None) => page.to_owned(),
        (file, Some(folder)) => folder.join(file),
    };
    Ok(match heading {
        _ if !path.exists() => false,
        Some(heading) if path.is_file() => {
            let text = read(&path)?;
            text.lines()
                .any(|line| anchor(line).as_deref() == Some(heading))
        }
        Some(_) => false,
        None => true,
    })
}

/// Returns the fragment by which a heading is linked.
fn anchor(line: &str) -> Option<String> {
    let heading = line.strip_prefix('#')?.trim_start_matches('#');
    let heading = heading.strip_prefix(' ')?.trim().to_lowercase();
    let kept = |c: &char| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_');
    Some(
        heading
            .chars()
            .filter(kept)
            .collect::<String>()
            .replace(' ', "-"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_to_nothing_is_found() {
        let root = tempfile::tempdir().unwrap();
        let write = |file: &str, text: &str| {
            let path = root.path().join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write(
            "docs/b.md",
            "# B\n\n### What it *is*, and why\n[up](../README.md)\n",
        );
        write(
            "README.md",
            "# A\n\
             [b](docs/b.md) [here](#a) [deep](docs/b.md#what-it-is-and-why) [site](https://x.y/z)\n\
             `a[0](no link)` [folder](docs)\n",
        );
        assert_eq!(check(root.path()).unwrap(), []);
        for wrong in ["c.md", "#b", "docs/b.md#what", "docs#b"] {
            write("README.md", &format!("# A\n[x]({wrong})\n"));
            let found = check(root.path()).unwrap();
            assert_eq!(found.len(), 1, "{wrong}");
            assert!(found[0].to_string().contains(wrong), "{}", found[0]);
        }
    }
}
