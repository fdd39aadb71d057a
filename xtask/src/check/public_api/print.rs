//! Lines of the listing.

use super::source::{Public, Surface, is_hidden};
use quote::ToTokens;
use syn::{Attribute, Fields, ImplItem, Item, TraitItem, Visibility};

/// Returns the lines of the whole public API.
pub fn lines(surface: &Surface<'_>) -> Vec<String> {
    surface.items.iter().flat_map(of_item).collect()
}

/// Returns the public methods of a type that is not a trait.
pub fn methods(public: &Public<'_>) -> Vec<String> {
    let own = public.impls.iter().map(|block| (block, false));
    let all = own.chain(public.dereferenced.iter().map(|block| (block, true)));
    let inherent = all.filter(|(block, _)| block.trait_.is_none());
    let items =
        inherent.flat_map(|(block, by)| block.items.iter().map(move |item| (block, by, item)));
    let mut found: Vec<String> = items
        .filter_map(|(block, is_dereferenced, item)| {
            let bounds = match block.generics.where_clause {
                Some(_) => format!(" {}", tidy(&block.generics.where_clause)),
                None => String::new(),
            };
            match item {
                // A dereference gives a reference, so no method that takes the value.
                ImplItem::Fn(f)
                    if is_dereferenced
                        && f.sig.receiver().is_none_or(|own| own.reference.is_none()) =>
                {
                    None
                }
                ImplItem::Fn(f) if is_seen(&f.vis, &f.attrs) => Some(tidy(&f.sig) + &bounds),
                _ => None,
            }
        })
        .collect();
    found.sort();
    found
}

fn constants(public: &Public<'_>) -> Vec<String> {
    let own = public.impls.iter().filter(|block| block.trait_.is_none());
    let items = own.flat_map(|block| &block.items);
    let constant = |item: &ImplItem| match item {
        ImplItem::Const(c) if is_seen(&c.vis, &c.attrs) => {
            Some(format!("const {}: {}", c.ident, tidy(&c.ty)))
        }
        _ => None,
    };
    items.filter_map(constant).collect()
}

fn is_seen(visibility: &Visibility, attributes: &[Attribute]) -> bool {
    matches!(visibility, Visibility::Public(_)) && !is_hidden(attributes)
}

fn of_item(public: &Public<'_>) -> Vec<String> {
    let name = public.name.trim_end_matches("()");
    let traits = || {
        let mut traits = derives(attributes(public.item));
        for block in &public.impls {
            if let Some((_, path, _)) = &block.trait_ {
                let of = path.segments.last().map(tidy);
                traits.extend(of);
            }
        }
        traits.sort();
        traits.dedup();
        traits.retain(|name| name != "Drop");
        match traits.is_empty() {
            true => String::new(),
            false => format!(": {}", traits.join(", ")),
        }
    };
    let (head, members): (String, Vec<String>) = match public.item {
        Item::Mod(_) | Item::Use(_) => (format!("mod {name}"), Vec::new()),
        Item::Fn(f) => {
            let sig = tidy(&f.sig);
            let own = f.sig.ident.to_string();
            (sig.replacen(&own, name, 1), Vec::new())
        }
        Item::Const(c) => (format!("const {name}: {}", tidy(&c.ty)), Vec::new()),
        Item::Static(c) => (format!("static {name}: {}", tidy(&c.ty)), Vec::new()),
        Item::Type(t) => {
            let generics = tidy(&t.generics);
            (
                format!("type {name}{generics} = {}", tidy(&t.ty)),
                Vec::new(),
            )
        }
        Item::Struct(s) => {
            let seen = |field: &&syn::Field| is_seen(&field.vis, &field.attrs);
            let fields = s.fields.iter().filter(seen).map(field).collect();
            let generics = tidy(&s.generics);
            (format!("struct {name}{generics}{}", traits()), fields)
        }
        Item::Enum(e) => {
            let seen = e.variants.iter().filter(|v| !is_hidden(&v.attrs));
            (
                format!("enum {name}{}{}", tidy(&e.generics), traits()),
                seen.map(variant).collect(),
            )
        }
        Item::Trait(t) => {
            let supers = match t.supertraits.is_empty() {
                true => String::new(),
                false => format!(": {}", tidy(&t.supertraits)),
            };
            let method = |item: &TraitItem| match item {
                TraitItem::Fn(f) if !is_hidden(&f.attrs) => Some(tidy(&f.sig)),
                TraitItem::Type(t) => Some(tidy(t)),
                _ => None,
            };
            let members = t.items.iter().filter_map(method).collect();
            (format!("trait {name}{supers}"), members)
        }
        Item::Macro(made) => {
            let tokens = made.mac.tokens.clone().into_iter();
            let words = tokens.filter_map(|token| match token {
                proc_macro2::TokenTree::Ident(word) => Some(word.to_string()),
                _ => None,
            });
            (format!("struct {name}, by a macro"), words.collect())
        }
        _ => (name.to_owned(), Vec::new()),
    };
    let open = attributes(public.item)
        .iter()
        .any(|a| a.path().is_ident("non_exhaustive"));
    let head = match open {
        true => format!("{head} (non_exhaustive)"),
        false => head,
    };
    let all = members
        .into_iter()
        .chain(constants(public))
        .chain(methods(public));
    let indented = all.map(|line| format!("    {line}"));
    std::iter::once(head).chain(indented).collect()
}

fn field(field: &syn::Field) -> String {
    match &field.ident {
        Some(name) => format!("{name}: {}", tidy(&field.ty)),
        None => tidy(&field.ty),
    }
}

fn variant(variant: &syn::Variant) -> String {
    let fields: Vec<String> = variant.fields.iter().map(field).collect();
    let open = match variant
        .attrs
        .iter()
        .any(|a| a.path().is_ident("non_exhaustive"))
    {
        true => " (non_exhaustive)",
        false => "",
    };
    match variant.fields {
        Fields::Unit => format!("{}{open}", variant.ident),
        Fields::Named(_) => format!("{} {{ {} }}{open}", variant.ident, fields.join(", ")),
        Fields::Unnamed(_) => format!("{}({}){open}", variant.ident, fields.join(", ")),
    }
}

fn attributes(item: &Item) -> &[Attribute] {
    match item {
        Item::Enum(i) => &i.attrs,
        Item::Struct(i) => &i.attrs,
        _ => &[],
    }
}

fn derives(attributes: &[Attribute]) -> Vec<String> {
    let derived = attributes.iter().filter(|a| a.path().is_ident("derive"));
    let lists = derived.filter_map(|a| a.meta.require_list().ok());
    let names = lists.map(|list| list.tokens.to_string());
    let names: Vec<String> = names.collect();
    let names = names.iter().flat_map(|list| list.split(','));
    names
        .filter_map(|name| name.rsplit("::").next())
        .map(|name| name.trim().to_owned())
        .filter(|name| !name.is_empty())
        .collect()
}

/// Returns the tokens without needless spaces and without a trailing comma.
fn tidy(tokens: &impl ToTokens) -> String {
    let mut text = tokens.to_token_stream().to_string();
    for (from, to) in [
        (" :: ", "::"),
        (":: ", "::"),
        (" ::", "::"),
        (" ,", ","),
        (" :", ":"),
        (" ;", ";"),
        (" <", "<"),
        ("< ", "<"),
        (" >", ">"),
        ("& ", "&"),
        (" (", "("),
        ("( ", "("),
        (" )", ")"),
        ("[ ", "["),
        (" ]", "]"),
        (",)", ")"),
        (",>", ">"),
        ("->(", "-> ("),
        ("? Sized", "?Sized"),
        // `mut` on an argument is not visible to callers.
        ("(mut ", "("),
        (", mut ", ", "),
    ] {
        text = text.replace(from, to);
    }
    text
}
