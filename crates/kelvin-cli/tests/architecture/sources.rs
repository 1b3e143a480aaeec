//! The sources of a crate as modules: what each imports, and which file each name leads to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use syn::visit::{self, Visit};

/// A module's path below its crate: `["sampler", "sghmc"]`; the crate itself is empty.
pub type Module = Vec<String>;

/// A file of a crate.
struct Source {
    /// Paths it uses, as they stand.
    imports: BTreeSet<Vec<String>>,
    /// Names it passes on (`pub use`), with the paths they come from.
    passed_on: Vec<(String, Vec<String>)>,
}

/// All files of a crate.
pub struct Sources(BTreeMap<Module, Source>);

impl Sources {
    /// Reads the folder `src` of a crate of the workspace.
    pub fn of(name: &str) -> Self {
        let root = folder(name);
        let mut files = Vec::new();
        collect(&root, &mut files);
        assert!(!files.is_empty(), "{} holds no sources", root.display());
        let is_library = root.join("lib.rs").exists();
        let files = files.into_iter().filter(|path| !(is_library && *path == root.join("main.rs")));
        Self(files.map(|path| (module(&root, &path), Source::read(&path))).collect())
    }

    /// The modules of the crate.
    pub fn modules(&self) -> impl Iterator<Item = &Module> {
        self.0.keys()
    }

    /// The modules that each module uses, as the files that define what it names; a module of tests does not count.
    pub fn arrows(&self) -> BTreeMap<&Module, BTreeSet<&Module>> {
        let used = |(module, source): (_, &Source)| {
            let found = source.imports.iter().filter_map(|path| self.definition(module, path, 0));
            (module, found.filter(|other| *other != module).collect())
        };
        self.0.iter().map(|(module, source)| used((module, source))).collect()
    }

    /// The module in which the last name of a path is defined, seen from another; none of another crate's.
    fn definition(&self, from: &Module, path: &[String], depth: usize) -> Option<&Module> {
        let (mut at, mut rest): (Module, &[String]) = match path.first()?.as_str() {
            "crate" => (Vec::new(), &path[1..]),
            "self" => (from.clone(), &path[1..]),
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                (from[..from.len().checked_sub(ups)?].to_vec(), &path[ups..])
            }
            first => {
                let child: Module = from.iter().cloned().chain([first.to_owned()]).collect();
                self.0.contains_key(&child).then_some((from.clone(), path))?
            }
        };
        while let [next, others @ ..] = rest {
            let child: Module = at.iter().cloned().chain([next.clone()]).collect();
            if !self.0.contains_key(&child) {
                break;
            }
            (at, rest) = (child, others);
        }
        let (module, source) = self.0.get_key_value(&at)?;
        let from_elsewhere = rest.first().filter(|_| depth < 8).and_then(|name| {
            let path = source.passed_on.iter().find(|(known, _)| known == name).map(|(_, path)| path)?;
            self.definition(module, path, depth + 1)
        });
        Some(from_elsewhere.unwrap_or(module))
    }

    /// Groups of modules that use each other in a circle.
    pub fn cycles(&self) -> Vec<Vec<&Module>> {
        let arrows = self.arrows();
        let reached: BTreeMap<&Module, BTreeSet<&Module>> =
            self.modules().map(|module| (module, reached_from(module, &arrows))).collect();
        let mut cycles: Vec<Vec<&Module>> = Vec::new();
        for module in self.modules().filter(|module| reached[*module].contains(*module)) {
            if !cycles.iter().any(|cycle| cycle.contains(&module)) {
                let together = reached[module].iter().filter(|other| reached[**other].contains(module));
                cycles.push(together.copied().collect());
            }
        }
        cycles
    }
}

/// All modules that lie behind the arrows of one.
fn reached_from<'m>(start: &'m Module, arrows: &BTreeMap<&'m Module, BTreeSet<&'m Module>>) -> BTreeSet<&'m Module> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![start]);
    while let Some(next) = open.pop() {
        open.extend(arrows.get(next).into_iter().flatten().filter(|other| seen.insert(**other)));
    }
    seen
}

/// The sources of a crate of the workspace.
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name).join("src")
}

/// Every Rust file below a folder, but for folders of tests.
pub fn collect(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "tests") {
            collect(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs")
            && path.file_stem().is_some_and(|stem| stem != "tests")
        {
            files.push(path);
        }
    }
}

fn module(root: &Path, path: &Path) -> Module {
    let below = path.strip_prefix(root).expect("below the sources").with_extension("");
    let mut parts: Module = below.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| ["mod", "lib", "main"].contains(&last.as_str())) {
        parts.pop();
    }
    parts
}

impl Source {
    fn read(path: &Path) -> Self {
        let text = std::fs::read_to_string(path).expect("a readable source");
        Self::parse(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    fn parse(text: &str) -> syn::Result<Self> {
        let mut source = Self { imports: BTreeSet::new(), passed_on: Vec::new() };
        source.visit_file(&syn::parse_file(text)?);
        Ok(source)
    }
}

impl<'s> Visit<'s> for Source {
    fn visit_item(&mut self, item: &'s syn::Item) {
        let attributes = match item {
            syn::Item::Mod(item) => &item.attrs[..],
            syn::Item::Fn(item) => &item.attrs[..],
            syn::Item::Impl(item) => &item.attrs[..],
            syn::Item::Use(item) => &item.attrs[..],
            _ => &[],
        };
        if !attributes.iter().any(is_for_tests) {
            visit::visit_item(self, item);
        }
    }

    fn visit_item_use(&mut self, item: &'s syn::ItemUse) {
        let mut found = Vec::new();
        expand(&item.tree, &mut Vec::new(), &mut found);
        match item.vis {
            // What only this module and its children see is for its own use.
            syn::Visibility::Inherited => self.imports.extend(found.into_iter().map(|(_, path)| path)),
            _ => self.passed_on.extend(found),
        }
    }

    fn visit_path(&mut self, path: &'s syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        if parts.len() > 1 {
            self.imports.insert(parts);
        }
        visit::visit_path(self, path);
    }

    /// A macro's words are no syntax yet: paths are read off them.
    fn visit_macro(&mut self, called: &'s syn::Macro) {
        let text = called.tokens.to_string().replace(" :: ", "::");
        for start in ["crate::", "super::"] {
            for rest in text.split(start).skip(1) {
                let path: String = rest.chars().take_while(|c| c.is_alphanumeric() || "_:".contains(*c)).collect();
                let parts = std::iter::once(&start[..5]).chain(path.split("::").filter(|part| !part.is_empty()));
                self.imports.insert(parts.map(str::to_owned).collect());
            }
        }
        visit::visit_macro(self, called);
    }
}

fn is_for_tests(attribute: &syn::Attribute) -> bool {
    matches!(&attribute.meta, syn::Meta::List(list) if list.path.is_ident("cfg") && list.tokens.to_string() == "test")
}

/// Every name of a tree of imports, with its whole path.
fn expand(tree: &syn::UseTree, before: &mut Vec<String>, found: &mut Vec<(String, Vec<String>)>) {
    match tree {
        syn::UseTree::Path(path) => {
            before.push(path.ident.to_string());
            expand(&path.tree, before, found);
            before.pop();
        }
        syn::UseTree::Group(group) => group.items.iter().for_each(|item| expand(item, before, found)),
        syn::UseTree::Glob(_) => found.push(("*".into(), before.clone())),
        syn::UseTree::Name(name) if name.ident == "self" => {
            found.push((before.last().cloned().unwrap_or_default(), before.clone()));
        }
        syn::UseTree::Name(name) => {
            let path = before.iter().cloned().chain([name.ident.to_string()]).collect();
            found.push((name.ident.to_string(), path));
        }
        syn::UseTree::Rename(rename) => {
            let path = before.iter().cloned().chain([rename.ident.to_string()]).collect();
            found.push((rename.rename.to_string(), path));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Sources {
        let module = |path: &str| path.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        Sources(files.iter().map(|(path, text)| (module(path), Source::parse(text).unwrap())).collect())
    }

    /// A scan that sees nothing would pass everything.
    #[test]
    fn what_a_list_passes_on_leads_to_its_file() {
        let seen = sources(&[
            ("", "pub mod a; pub mod b;"),
            ("a", "mod x; pub use x::Thing;"),
            ("a/x", "pub struct Thing;"),
            ("b", "use crate::a::Thing; fn f() { crate::a::x::g(); }"),
        ]);
        let arrows = seen.arrows();
        let b: Module = vec!["b".into()];
        assert_eq!(arrows[&b].iter().map(|module| module.join("/")).collect::<Vec<_>>(), ["a/x"]);
        assert!(seen.cycles().is_empty());
    }

    #[test]
    fn circles_are_found_through_lists_and_macros_but_not_through_tests() {
        let circle = sources(&[
            ("", ""),
            ("a", "use crate::b::{c::{self, Inner}, Outer as Other};"),
            ("b", "mod c; pub struct Outer;"),
            ("b/c", "pub struct Inner; fn f() { println!(\"{}\", crate::a::NAME); }"),
        ]);
        assert_eq!(circle.cycles().len(), 1);
        assert_eq!(circle.cycles()[0].iter().map(|module| module.join("/")).collect::<Vec<_>>(), ["a", "b/c"]);
        let tested = sources(&[("a", "use crate::b;"), ("b", "#[cfg(test)] mod tests { use crate::a; }")]);
        assert!(tested.cycles().is_empty());
    }
}
