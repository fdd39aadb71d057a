//! Sources as modules and items, and the public ones among them.

use anyhow::{Context, Result};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use syn::{Attribute, Item, ItemImpl, UseTree, Visibility};

/// Public types that a macro defines, and the macro. They are listed by the words that the macro gets.
const MADE_BY_MACROS: &[(&str, &str)] = &[("Counters", "counters")];

/// Path of a module, starting with its crate.
type Module = Rc<[String]>;

/// All modules of the crates.
pub struct Sources {
    modules: BTreeMap<Module, Vec<Item>>,
}

/// A public item under the name that users write.
pub struct Public<'a> {
    pub name: String,
    pub item: &'a Item,
    /// Implementations for the item.
    pub impls: Vec<&'a ItemImpl>,
    /// Implementations for the type that it dereferences to.
    pub dereferenced: Vec<&'a ItemImpl>,
}

/// Public API of a crate.
pub struct Surface<'a> {
    pub items: Vec<Public<'a>>,
    pub root_names: usize,
}

/// Target of a path.
#[derive(Clone)]
enum Found<'a> {
    Module(Module),
    Item(&'a Item),
}

impl Sources {
    /// Reads the crates, each with its name.
    pub fn read(crates: &[(String, PathBuf)]) -> Result<Sources> {
        let mut modules = BTreeMap::new();
        for (name, src) in crates {
            let items = parsed(&src.join("lib.rs"))?;
            read_module(vec![name.clone()], src, items, &mut modules)?;
        }
        Ok(Sources { modules })
    }

    /// Returns the public API of a crate.
    pub fn surface(&self, name: &str) -> Result<Surface<'_>> {
        let root: Module = Rc::from([name.to_owned()]);
        let mut items = BTreeMap::new();
        self.public_items(&root, name, &mut items)?;
        let is_at_root = |listed: &&String| listed.matches("::").count() == 1;
        let root_names = items.keys().filter(is_at_root).count();
        let names: BTreeSet<String> = items.values().filter_map(|i| item_name(i)).collect();
        let impls = self.impls(&names);
        let items = items.into_iter().map(|(name, item)| {
            let of = |item: &Item| -> Vec<&ItemImpl> {
                let of_item = impls.iter().filter(|(of, _, _)| std::ptr::eq(*of, item));
                of_item.map(|(_, _, found)| *found).collect()
            };
            let target = impls.iter().find_map(|(of, module, block)| {
                let target = std::ptr::eq(*of, item).then(|| deref_target(block))??;
                match self.resolve(module, &segments(&target.path), 0)? {
                    Found::Item(target) => Some(target),
                    Found::Module(_) => None,
                }
            });
            Public {
                name,
                item,
                impls: of(item),
                dereferenced: target.map(of).unwrap_or_default(),
            }
        });
        Ok(Surface {
            items: items.collect(),
            root_names,
        })
    }

    fn public_items<'a>(
        &'a self,
        module: &Module,
        prefix: &str,
        out: &mut BTreeMap<String, &'a Item>,
    ) -> Result<()> {
        let items = self.modules.get(module).context("no such module")?;
        for item in items.iter().filter(|item| is_public(item)) {
            match item {
                Item::Use(used) => {
                    for (path, name) in leaves(&used.tree) {
                        let found = self
                            .resolve(module, &path, 0)
                            .with_context(|| format!("{prefix}: no {}", path.join("::")))?;
                        match (found, name.as_str()) {
                            (Found::Module(of), "*") => self.public_items(&of, prefix, out)?,
                            (Found::Module(of), name) => {
                                // The module is listed as the item that re-exports it.
                                let name = format!("{prefix}::{name}");
                                self.public_items(&of, &name, out)?;
                                out.insert(name, item);
                            }
                            (Found::Item(found), name) => {
                                out.insert(format!("{prefix}::{name}"), found);
                            }
                        }
                    }
                }
                Item::Mod(inner) => {
                    let name = format!("{prefix}::{}", inner.ident);
                    self.public_items(&below(module, &inner.ident.to_string()), &name, out)?;
                    out.insert(name, item);
                }
                item => {
                    if let Some(name) = item_name(item) {
                        // A function may have the name of a module.
                        let name = match out.contains_key(&format!("{prefix}::{name}")) {
                            true => format!("{prefix}::{name}()"),
                            false => format!("{prefix}::{name}"),
                        };
                        out.insert(name, item);
                    }
                }
            }
        }
        Ok(())
    }

    /// Returns all implementations for types of these crates, each with its module, except
    /// implementations of non-public traits.
    fn impls(&self, public: &BTreeSet<String>) -> Vec<(&Item, &Module, &ItemImpl)> {
        let mut found = Vec::new();
        for (module, items) in &self.modules {
            for item in items {
                let Item::Impl(block) = item else { continue };
                let syn::Type::Path(of) = &*block.self_ty else {
                    continue;
                };
                let Some(Found::Item(of)) = self.resolve(module, &segments(&of.path), 0) else {
                    continue;
                };
                let of_trait = block.trait_.as_ref().map(|(_, path, _)| segments(path));
                let is_seen = of_trait.is_none_or(|path| {
                    let own = self.resolve(module, &path, 0).is_some();
                    !own || path.last().is_some_and(|name| public.contains(name))
                });
                if is_seen && !is_hidden(&block.attrs) {
                    found.push((of, module, block));
                }
            }
        }
        found
    }

    /// Finds the module or item that `path` refers to in `module`.
    fn resolve(&self, module: &Module, path: &[String], depth: usize) -> Option<Found<'_>> {
        // Glob imports may form a cycle.
        if depth > 20 {
            return None;
        }
        let (first, rest) = path.split_first()?;
        let mut at = match first.as_str() {
            "crate" => Found::Module(Rc::from([module[0].clone()])),
            "self" => Found::Module(module.clone()),
            "super" => Found::Module(Rc::from(&module[..module.len() - 1])),
            name => self.child(module, name, depth).or_else(|| {
                let root: Module = Rc::from([name.to_owned()]);
                self.modules
                    .contains_key(&root)
                    .then_some(Found::Module(root))
            })?,
        };
        for name in rest {
            let Found::Module(of) = at else { return None };
            at = match name.as_str() {
                "super" => Found::Module(Rc::from(&of[..of.len() - 1])),
                "self" | "*" => Found::Module(of),
                name => self.child(&of, name, depth)?,
            };
        }
        Some(at)
    }

    /// Finds a name in a module: defined there, or imported.
    fn child(&self, module: &Module, name: &str, depth: usize) -> Option<Found<'_>> {
        let items = self.modules.get(module)?;
        let inner = below(module, name);
        let own = items
            .iter()
            .find(|item| item_name(item).as_deref() == Some(name) && !matches!(item, Item::Mod(_)));
        if let Some(item) = own.filter(|item| !matches!(item, Item::Fn(_))) {
            return Some(Found::Item(item));
        }
        if self.modules.contains_key(&inner) {
            return Some(Found::Module(inner));
        }
        if let Some(item) = own {
            return Some(Found::Item(item));
        }
        if let Some((_, by)) = MADE_BY_MACROS.iter().find(|(made, _)| *made == name) {
            let makes = |item: &&Item| match item {
                Item::Macro(made) => made.ident.is_none() && made.mac.path.is_ident(by),
                _ => false,
            };
            if let Some(item) = items.iter().find(makes) {
                return Some(Found::Item(item));
            }
        }
        let mut globs = Vec::new();
        for item in items {
            let Item::Use(used) = item else { continue };
            for (path, imported) in leaves(&used.tree) {
                if imported == name && path.first().map(String::as_str) != Some(name) {
                    if let Some(found) = self.resolve(module, &path, depth + 1) {
                        return Some(found);
                    }
                } else if imported == "*" {
                    globs.push(path);
                }
            }
        }
        globs.into_iter().find_map(|mut path| {
            path.pop();
            path.push(name.to_owned());
            self.resolve(module, &path, depth + 1)
        })
    }
}

/// Returns the target of an implementation of `Deref`.
fn deref_target(block: &ItemImpl) -> Option<&syn::TypePath> {
    let (_, of, _) = block.trait_.as_ref()?;
    let is_deref = of.segments.last().is_some_and(|s| s.ident == "Deref");
    block
        .items
        .iter()
        .filter(|_| is_deref)
        .find_map(|item| match item {
            syn::ImplItem::Type(target) => match &target.ty {
                syn::Type::Path(path) => Some(path),
                _ => None,
            },
            _ => None,
        })
}

/// Reads the modules among `items`, whose files are in `dir`.
fn read_module(
    path: Vec<String>,
    dir: &Path,
    items: Vec<Item>,
    modules: &mut BTreeMap<Module, Vec<Item>>,
) -> Result<()> {
    let mut items: Vec<Item> = items.into_iter().filter(|i| !is_for_tests(i)).collect();
    for item in &mut items {
        let Item::Mod(inner) = item else { continue };
        let name = inner.ident.to_string();
        let inside = dir.join(&name);
        let content = match inner.content.take() {
            Some((_, content)) => content,
            None => {
                let files = [dir.join(format!("{name}.rs")), inside.join("mod.rs")];
                let Some(file) = files.iter().find(|file| file.is_file()) else {
                    continue;
                };
                parsed(file)?
            }
        };
        let mut path = path.clone();
        path.push(name);
        read_module(path, &inside, content, modules)?;
    }
    modules.insert(Rc::from(path), items);
    Ok(())
}

fn parsed(path: &Path) -> Result<Vec<Item>> {
    let name = || path.display().to_string();
    let text = std::fs::read_to_string(path).with_context(name)?;
    Ok(syn::parse_file(&text).with_context(name)?.items)
}

fn below(module: &Module, name: &str) -> Module {
    let mut path = module.to_vec();
    path.push(name.to_owned());
    path.into()
}

/// Returns the paths of an import, each with the name that it introduces.
fn leaves(tree: &UseTree) -> Vec<(Vec<String>, String)> {
    let with = |first: String, rest: Vec<(Vec<String>, String)>| {
        let put = |(mut path, name): (Vec<String>, String)| {
            path.insert(0, first.clone());
            (path, name)
        };
        rest.into_iter().map(put).collect::<Vec<_>>()
    };
    match tree {
        UseTree::Path(path) => {
            let mut below = with(path.ident.to_string(), leaves(&path.tree));
            for (path, name) in &mut below {
                // `a::b::{self}` imports `b`.
                if name == "self" && path.pop().is_some() {
                    *name = path.last().cloned().unwrap_or_default();
                }
            }
            below
        }
        UseTree::Name(name) => vec![(vec![name.ident.to_string()], name.ident.to_string())],
        UseTree::Rename(name) => vec![(vec![name.ident.to_string()], name.rename.to_string())],
        UseTree::Glob(_) => vec![(vec!["*".to_owned()], "*".to_owned())],
        UseTree::Group(group) => group.items.iter().flat_map(leaves).collect(),
    }
}

fn segments(path: &syn::Path) -> Vec<String> {
    path.segments.iter().map(|s| s.ident.to_string()).collect()
}

fn item_name(item: &Item) -> Option<String> {
    let ident = match item {
        Item::Const(i) => &i.ident,
        Item::Enum(i) => &i.ident,
        Item::Fn(i) => &i.sig.ident,
        Item::Static(i) => &i.ident,
        Item::Struct(i) => &i.ident,
        Item::Trait(i) => &i.ident,
        Item::Type(i) => &i.ident,
        _ => return None,
    };
    Some(ident.to_string())
}

fn is_public(item: &Item) -> bool {
    let (visibility, attributes) = match item {
        Item::Const(i) => (&i.vis, &i.attrs),
        Item::Enum(i) => (&i.vis, &i.attrs),
        Item::Fn(i) => (&i.vis, &i.attrs),
        Item::Mod(i) => (&i.vis, &i.attrs),
        Item::Static(i) => (&i.vis, &i.attrs),
        Item::Struct(i) => (&i.vis, &i.attrs),
        Item::Trait(i) => (&i.vis, &i.attrs),
        Item::Type(i) => (&i.vis, &i.attrs),
        Item::Use(i) => (&i.vis, &i.attrs),
        _ => return false,
    };
    matches!(visibility, Visibility::Public(_)) && !is_hidden(attributes)
}

/// Returns true if `#[doc(hidden)]` is among the attributes.
pub fn is_hidden(attributes: &[Attribute]) -> bool {
    has(attributes, "doc", "hidden")
}

fn is_for_tests(item: &Item) -> bool {
    let attributes = match item {
        Item::Mod(i) => &i.attrs,
        Item::Impl(i) => &i.attrs,
        Item::Fn(i) => &i.attrs,
        Item::Use(i) => &i.attrs,
        _ => return false,
    };
    has(attributes, "cfg", "test")
}

fn has(attributes: &[Attribute], name: &str, word: &str) -> bool {
    attributes.iter().any(|attribute| {
        let list = attribute.meta.require_list();
        attribute.path().is_ident(name) && list.is_ok_and(|list| list.tokens.to_string() == word)
    })
}
