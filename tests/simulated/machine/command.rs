//! Commands: the server's own and the module's. Where their keys are.

use super::client::Client;
use super::server::Server;
use super::text::{self, Words};
use std::ffi::{c_int, c_void};

/// A command of the module.
pub type ModuleCommand = unsafe extern "C" fn(*mut c_void, *mut text::Raw, c_int) -> c_int;

#[derive(Clone, Copy)]
pub enum Run {
    Own(fn(&Server, &Client, &Words)),
    Module(ModuleCommand),
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Find {
    /// From the beginning to the `last`th key after it, each `step`th; below 0: from the end.
    Range { last: i32, step: usize },
    /// The first number says how many follow.
    Counted,
}

/// Where some keys of a command are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeySpec {
    /// The word before them; without it, they begin at `from`.
    pub keyword: Option<Vec<u8>>,
    pub from: i32,
    pub find: Find,
}

pub struct Command {
    /// In lower case.
    pub name: Box<[u8]>,
    /// Below 0: at least so many words.
    pub arity: i32,
    pub run: Run,
    pub is_write: bool,
    pub denies_oom: bool,
    /// Also commands that only may write, such as EXEC with a write in it.
    pub may_replicate: bool,
    pub has_no_script: bool,
    pub keys: Vec<KeySpec>,
}

impl Command {
    pub fn accepts(&self, words: usize) -> bool {
        let arity = self.arity.unsigned_abs() as usize;
        if self.arity < 0 { words >= arity } else { words == arity }
    }

    /// Returns the positions of the keys.
    pub fn keys(&self, words: &Words) -> Vec<usize> {
        let mut found = Vec::new();
        for spec in &self.keys {
            let begin = match &spec.keyword {
                None => Some(spec.from as usize),
                Some(keyword) => {
                    let is_it = |at: &usize| {
                        words.get(*at).is_some_and(|word| word.eq_ignore_ascii_case(keyword))
                    };
                    let from = if spec.from < 0 { 1 } else { spec.from as usize };
                    (from..words.len()).find(is_it).map(|at| at + 1)
                }
            };
            let Some(begin) = begin.filter(|at| *at < words.len()) else { continue };
            match spec.find {
                Find::Range { last, step } => {
                    let end = match last {
                        last if last < 0 => words.len() as i32 + last,
                        last => begin as i32 + last,
                    };
                    found.extend((begin..=(end.max(0) as usize)).step_by(step.max(1)));
                }
                Find::Counted => {
                    let count = words.get(begin).and_then(number).unwrap_or(0).max(0) as usize;
                    found.extend((begin + 1..).take(count.min(words.len())));
                }
            }
        }
        found.retain(|at| *at < words.len());
        found
    }
}

/// Reads a number as the server does.
pub fn number(word: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(word).ok()?;
    let is_plain =
        !text.starts_with('+') && (text == "0" || !text.trim_start_matches('-').starts_with('0'));
    text.parse().ok().filter(|_| is_plain)
}
