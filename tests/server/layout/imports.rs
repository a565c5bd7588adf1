//! The imports of a file: the full paths in its code.

use super::words::{Word, without_tests, words};

/// The path of a module from the root of the crate.
pub type Path = Vec<String>;

/// A module within a file, and the names that it uses.
#[derive(PartialEq, Eq, Debug)]
pub struct Module {
    pub path: Path,
    pub uses: Vec<Use>,
    /// Paths within code.
    pub mentions: Vec<Path>,
    /// Names within code, which may come from `uses`.
    pub names: Vec<String>,
    /// Child modules that are only for tests.
    pub for_tests: Vec<String>,
}

/// A name from a `use`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Use {
    /// Its local name; `*` for a glob.
    pub name: String,
    pub path: Path,
    /// Whether it is re-exported.
    pub is_public: bool,
}

/// Parses the module of a file, which comes first, and the modules within it. `children` are the names of child modules
/// in files of their own. Ignores paths to other crates.
pub fn modules(path: &[&str], children: &[&str], code: &str, with_tests: bool) -> Vec<Module> {
    let (without, for_tests) = without_tests(words(code));
    let kept = if with_tests { words(code) } else { without };
    let path: Path = path.iter().map(|name| (*name).to_owned()).collect();
    let children: Vec<_> = children.iter().map(|name| (*name).to_owned()).collect();
    let mut modules = Vec::new();
    read(path, children, for_tests, &kept, &mut modules);
    modules
}

fn read(
    path: Path,
    mut children: Vec<String>,
    for_tests: Vec<String>,
    words: &[Word],
    modules: &mut Vec<Module>,
) {
    let at = modules.len();
    let (uses, mentions, names) = (Vec::new(), Vec::new(), Vec::new());
    modules.push(Module { path: path.clone(), uses, mentions, names, for_tests });
    let inner = inner_modules(words);
    children.extend(inner.iter().map(|(name, _)| name.clone()));
    let full = |segments: &[String]| full(&path, &children, segments);
    let mut rest = 0;
    while rest < words.len() {
        if let Some((name, body)) = inner.iter().find(|(_, body)| body.start == rest + 3) {
            let below = [&path[..], std::slice::from_ref(name)].concat();
            read(below, Vec::new(), Vec::new(), &words[body.clone()], modules);
            rest = body.end + 1;
        } else if words[rest].is_named("use") {
            let length = words[rest..].iter().position(|word| word.is(';'));
            let end = length.map_or(words.len(), |length| rest + length);
            let is_public =
                rest > 0 && (words[rest - 1].is_named("pub") || words[rest - 1].is(')'));
            for (name, segments) in tree(&words[rest + 1..end]) {
                let path = full(&segments);
                modules[at].uses.extend(path.map(|path| Use { name, path, is_public }));
            }
            rest = end;
        } else if let Word::Name(name) = &words[rest] {
            let is_new = rest == 0 || !matches!(words[rest - 1], Word::Path | Word::Sign('.'));
            if !is_new {
                rest += 1;
                continue;
            }
            let segments = segments(&words[rest..]);
            if segments.len() > 1 {
                modules[at].mentions.extend(full(&segments));
            }
            modules[at].names.push(name.clone());
            rest += 1;
        } else {
            rest += 1;
        }
    }
}

/// Returns the inline modules, and the positions of their bodies.
fn inner_modules(words: &[Word]) -> Vec<(String, std::ops::Range<usize>)> {
    let mut found = Vec::new();
    let mut at = 0;
    while at + 2 < words.len() {
        if let [mark, Word::Name(name), brace, ..] = &words[at..]
            && mark.is_named("mod")
            && brace.is('{')
        {
            let mut depth = 1;
            let mut end = at + 3;
            while end < words.len() {
                depth += i32::from(words[end].is('{')) - i32::from(words[end].is('}'));
                if depth == 0 {
                    break;
                }
                end += 1;
            }
            found.push((name.clone(), at + 3..end));
            at = end;
        }
        at += 1;
    }
    found
}

/// Returns the leading names of a path.
fn segments(words: &[Word]) -> Path {
    let mut segments = Vec::new();
    for pair in words.chunks(2) {
        let Word::Name(name) = &pair[0] else { break };
        segments.push(name.clone());
        if pair.get(1) != Some(&Word::Path) {
            break;
        }
    }
    segments
}

/// Parses the words between `use` and its semicolon: each name, and its path.
fn tree(words: &[Word]) -> Vec<(String, Path)> {
    // A path from the root of all crates leads out of this one.
    if words.first() == Some(&Word::Path) {
        return Vec::new();
    }
    let path = segments(words);
    let behind = (path.len() * 2).min(words.len());
    match words.get(behind) {
        Some(Word::Sign('{')) => {
            let list = &words[behind + 1..words.len() - 1];
            let below = list_items(list).into_iter().flat_map(tree);
            below
                .map(|(name, below)| {
                    let is_self = below == ["self"];
                    let full = if is_self { path.clone() } else { [&path[..], &below].concat() };
                    let name = if name == "self" { last(&full) } else { name };
                    (name, full)
                })
                .collect()
        }
        Some(Word::Sign('*')) => vec![("*".to_owned(), path)],
        // `a::b as c`: without a `::`, the last name follows directly.
        _ => {
            let name = match words {
                [.., mark, Word::Name(name)] if mark.is_named("as") => name.clone(),
                _ => last(&path),
            };
            vec![(name, path)]
        }
    }
}

fn last(path: &[String]) -> String {
    path.last().cloned().unwrap_or_default()
}

/// Returns the items of a list, split at commas outside of braces.
fn list_items(words: &[Word]) -> Vec<&[Word]> {
    let mut depth = 0;
    let items = words.split(|word| {
        depth += i32::from(word.is('{')) - i32::from(word.is('}'));
        depth == 0 && word.is(',')
    });
    items.filter(|item| !item.is_empty()).collect()
}

/// Resolves a path in a module to a path from the root of the crate. Returns `None` if it leads to another crate.
fn full(module: &[String], children: &[String], segments: &[String]) -> Option<Path> {
    let (first, behind) = segments.split_first()?;
    let (mut path, mut behind) = match &first[..] {
        "crate" => (Vec::new(), behind),
        "self" => (module.to_vec(), behind),
        "super" => (module[..module.len().checked_sub(1)?].to_vec(), behind),
        _ if children.contains(first) => (module.to_vec(), segments),
        _ => return None,
    };
    while let [first, rest @ ..] = behind
        && first == "super"
    {
        path.pop()?;
        behind = rest;
    }
    path.extend_from_slice(behind);
    Some(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the imports of the first module of some code, which is `a::b` and has a child `c`.
    fn uses(code: &str) -> Vec<String> {
        let all = modules(&["a", "b"], &["c"], code, false);
        let said = |it: &Use| format!("{} {}", it.name, it.path.join("::"));
        all[0].uses.iter().map(said).collect()
    }

    #[test]
    fn a_list_is_parsed_to_its_end() {
        // The old test stopped at the first closing brace, and saw only x and y.
        let code = "use crate::{x::{X, Y}, y,\n    z::{self, w::{W as V}, *}};";
        let full = ["X x::X", "Y x::Y", "y y", "z z", "V z::w::W", "* z"];
        assert_eq!(uses(code), full);
    }

    #[test]
    fn a_path_is_resolved_from_its_module() {
        assert_eq!(
            uses("use super::x; use super::super::y::Y; use self::c::Z;"),
            ["x a::x", "Y y::Y", "Z a::b::c::Z"]
        );
        assert_eq!(uses("use c::C; use std::mem; use ::crate_of_others::X;"), ["C a::b::c::C"]);
        assert_eq!(uses("use super::{super::y, x::X};"), ["y y", "X a::x::X"]);
    }

    #[test]
    fn re_exports_are_recognized() {
        let all = modules(&["a"], &["c"], "pub use c::C; pub(crate) use c::D; use c::E;", false);
        let public: Vec<_> = all[0].uses.iter().map(|it| it.is_public).collect();
        assert_eq!(public, [true, true, false]);
    }

    #[test]
    fn paths_within_code_are_found_and_strings_are_ignored() {
        let code = "fn f(x: &super::X<crate::y::Y>) { c::g(); $crate::z::h::<u8>(); \"crate::n\"; x.c::<u8>(); }";
        let all = modules(&["a", "b"], &["c"], code, false);
        let mentions: Vec<_> = all[0].mentions.iter().map(|path| path.join("::")).collect();
        assert_eq!(mentions, ["a::X", "y::Y", "a::b::c::g", "z::h"]);
    }

    #[test]
    fn a_module_within_a_file_has_its_own_path() {
        let code = "use crate::x; mod d { use super::y; pub mod e { use super::super::z; } } fn f() { d::g() }";
        let all = modules(&["a"], &[], code, false);
        let said: Vec<_> =
            all.iter().map(|it| (it.path.join("::"), it.uses[0].path.join("::"))).collect();
        let pairs = [("a", "x"), ("a::d", "a::y"), ("a::d::e", "a::z")];
        assert_eq!(said, pairs.map(|(path, used)| (path.to_owned(), used.to_owned())));
        assert_eq!(all[0].mentions, [["a", "d", "g"]]);
    }

    #[test]
    fn tests_are_parsed_on_request() {
        let code = "#[cfg(test)] mod tests { use crate::x; } #[cfg(test)] mod fields;";
        assert_eq!(modules(&["a"], &[], code, false).len(), 1);
        assert_eq!(modules(&["a"], &[], code, false)[0].for_tests, ["fields"]);
        assert_eq!(modules(&["a"], &[], code, true)[1].uses[0].path, ["x"]);
    }
}
