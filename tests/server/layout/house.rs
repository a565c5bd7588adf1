//! The files of a crate, and their imports.

use std::collections::{BTreeMap, BTreeSet};

use super::imports::{Module, Path, modules};

/// The files of a crate.
pub struct House {
    modules: BTreeMap<Path, (String, Module)>,
}

impl House {
    /// Reads files, each with its path below `src`.
    pub fn new(files: &BTreeMap<String, String>, with_tests: bool) -> Self {
        let paths: BTreeMap<Path, &String> =
            files.keys().map(|file| (module_of(file), file)).collect();
        let mut house = Self { modules: BTreeMap::new() };
        let mut for_tests: Vec<Path> = Vec::new();
        // A module comes before its children.
        for (path, file) in &paths {
            if for_tests.iter().any(|it| path.starts_with(it)) {
                continue;
            }
            let below = |it: &&Path| it.len() == path.len() + 1 && it.starts_with(path);
            let children: Vec<_> =
                paths.keys().filter(below).map(|it| &it[path.len()][..]).collect();
            let names: Vec<_> = path.iter().map(String::as_str).collect();
            for module in modules(&names, &children, &files[*file], with_tests) {
                if !with_tests {
                    let full = |name: &String| [&path[..], std::slice::from_ref(name)].concat();
                    for_tests.extend(module.for_tests.iter().map(full));
                }
                house.modules.insert(module.path.clone(), ((*file).clone(), module));
            }
        }
        house
    }

    /// Returns each file, and the paths that it names, from the root of the crate.
    pub fn named(&self) -> impl Iterator<Item = (&str, &Path)> {
        self.modules.values().flat_map(|(file, module)| {
            let paths = module.uses.iter().map(|it| &it.path).chain(&module.mentions);
            paths.map(move |path| (&file[..], path))
        })
    }

    /// Returns the edges: from each file to those that it imports, with the imported names. A re-export counts for the
    /// file that uses it.
    pub fn arrows(&self) -> BTreeMap<(&str, &str), BTreeSet<String>> {
        let mut arrows: BTreeMap<(&str, &str), BTreeSet<String>> = BTreeMap::new();
        for (file, module) in self.modules.values() {
            let is_used = |name: &String| name == "*" || module.names.contains(name);
            let uses = module.uses.iter().filter(|it| !it.is_public || is_used(&it.name));
            let paths = uses.map(|it| &it.path).chain(&module.mentions);
            for path in paths {
                let (to, name) = self.resolved(path, 0);
                if to != file {
                    arrows.entry((file, to)).or_default().insert(name);
                }
            }
        }
        arrows
    }

    /// Returns the file in which a path ends, and the item there. Follows re-exports.
    fn resolved(&self, path: &[String], depth: usize) -> (&str, String) {
        let length =
            (0..=path.len()).rev().find(|length| self.modules.contains_key(&path[..*length]));
        let length = length.expect("the root is there");
        let (file, module) = &self.modules[&path[..length]];
        let Some(name) = path.get(length) else { return (file, "itself".to_owned()) };
        let handed_on = module.uses.iter().find(|it| it.name == *name);
        match handed_on.filter(|it| it.path[..] != path[..=length] && depth < 8) {
            Some(it) => self.resolved(&[&it.path[..], &path[length + 1..]].concat(), depth + 1),
            None => (file, name.clone()),
        }
    }

    /// Returns files that import each other, directly or through others.
    pub fn circles(&self) -> Vec<BTreeSet<&str>> {
        let arrows = self.arrows();
        let reach = |from: &str| {
            let mut reached = BTreeSet::new();
            let mut todo = vec![from.to_owned()];
            while let Some(at) = todo.pop() {
                for (_, to) in arrows.keys().filter(|(from, _)| *from == at) {
                    if reached.insert(*to) {
                        todo.push((*to).to_owned());
                    }
                }
            }
            reached
        };
        let files: BTreeSet<&str> = self.modules.values().map(|(file, _)| &file[..]).collect();
        let reached: BTreeMap<&str, BTreeSet<&str>> =
            files.iter().map(|file| (*file, reach(file))).collect();
        let circles: BTreeSet<BTreeSet<&str>> = files
            .iter()
            .filter(|file| reached[*file].contains(*file))
            .map(|file| {
                let both =
                    |other: &&str| reached[file].contains(other) && reached[other].contains(file);
                files.iter().copied().filter(both).collect()
            })
            .collect();
        circles.into_iter().collect()
    }
}

/// Returns the module of a file: `a/b.rs` and `a/b/mod.rs` are `a::b`.
fn module_of(file: &str) -> Path {
    let path = file.strip_suffix(".rs").expect("a file of Rust");
    let path = path.strip_suffix("/mod").unwrap_or(path);
    if path == "lib" { Vec::new() } else { path.split('/').map(str::to_owned).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> BTreeMap<String, String> {
        files.iter().map(|(file, code)| ((*file).to_owned(), (*code).to_owned())).collect()
    }

    fn circles(all: &[(&str, &str)]) -> Vec<Vec<String>> {
        let house = House::new(&files(all), false);
        let circles = house.circles();
        circles.into_iter().map(|it| it.into_iter().map(str::to_owned).collect()).collect()
    }

    #[test]
    fn two_files_of_a_folder_that_import_each_other_are_a_cycle() {
        // The old test compared only folders.
        let all = [
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod b; mod c;"),
            ("a/b.rs", "use super::c::C; pub struct B;"),
            ("a/c.rs", "use super::b::B; pub struct C;"),
        ];
        assert_eq!(circles(&all), [["a/b.rs", "a/c.rs"]]);
    }

    #[test]
    fn a_cycle_through_a_third_file_or_through_code_is_found() {
        let all = [
            ("lib.rs", "mod a; mod b; mod c; mod d;"),
            ("a.rs", "use crate::{b::{B, D}, d::E};"),
            ("b.rs", "pub fn f() { crate::c::f() }"),
            ("c.rs", "pub fn f(a: &super::a::A) {}"),
            ("d.rs", "pub struct E;"),
        ];
        assert_eq!(circles(&all), [["a.rs", "b.rs", "c.rs"]]);
    }

    #[test]
    fn a_re_export_leads_to_the_definition() {
        let all = [
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod b; mod c; pub use b::B; pub use c::C;"),
            ("a/b.rs", "pub struct B;"),
            ("a/c.rs", "use super::B; pub struct C;"),
        ];
        assert_eq!(circles(&all), [[""; 0]; 0]);
        let house = House::new(&files(&all), false);
        assert_eq!(house.arrows().into_keys().collect::<Vec<_>>(), [("a/c.rs", "a/b.rs")]);
        // Not if it is used there as well.
        let uses =
            ("a/mod.rs", "mod b; mod c; pub use b::B; pub use c::C; fn f(_: C) {} pub struct D;");
        let takes = ("a/c.rs", "use super::D; pub struct C;");
        assert_eq!(circles(&[all[0], uses, all[2], takes]), [["a/c.rs", "a/mod.rs"]]);
    }

    #[test]
    fn a_module_that_calls_its_child_by_name_imports_it() {
        let all = [
            ("lib.rs", "mod a;"),
            ("a/mod.rs", "mod b; pub fn f() { b::g() } pub fn h() {}"),
            ("a/b.rs", "pub fn g() { super::h() }"),
        ];
        assert_eq!(circles(&all), [["a/b.rs", "a/mod.rs"]]);
    }

    #[test]
    fn code_for_tests_makes_no_cycle() {
        let all = [
            ("lib.rs", "mod a; mod b; #[cfg(test)] mod c;"),
            ("a.rs", "use crate::b::B; pub struct A;"),
            ("b.rs", "pub struct B; #[cfg(test)] mod tests { use crate::a::A; use super::*; }"),
            ("c.rs", "use crate::a::A; pub use crate::b::B;"),
        ];
        assert_eq!(circles(&all), [[""; 0]; 0]);
        let house = House::new(&files(&all), true);
        assert_eq!(house.circles(), [BTreeSet::from(["a.rs", "b.rs"])]);
    }
}
