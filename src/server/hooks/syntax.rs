//! The syntax of a command's arguments, parsed from one line of text. The server's description of the arguments, HELP and the
//! documentation all use this line, so they cannot disagree. `tests/server/operator.rs` compares what the server makes of it.
//!
//! ```text
//!   key ttl element id [NX | REPLACE] [SLACK ms]     capitals are literal tokens, brackets are optional
//!   key id [id ...]                                  the preceding argument, or arguments, repeated
//!   key <HOLD | STREAM dest>                         one of several
//!   key <LENGTH n | HELD n> [...]                    the preceding choice, repeated
//! ```

use std::ffi::{CString, c_char, c_int};
use std::ptr;

use redis_module::raw::{
    self, RedisModuleCommandArg, RedisModuleCommandArgType,
    RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_BLOCK as BLOCK,
    RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_INTEGER as INTEGER,
    RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_KEY as KEY,
    RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_ONEOF as ONEOF,
    RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PATTERN as PATTERN,
    RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_PURE_TOKEN as PURE_TOKEN,
    RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_STRING as STRING,
    RedisModuleCommandArgType_REDISMODULE_ARG_TYPE_UNIX_TIME as UNIX_TIME,
};

/// An argument, or a group of arguments.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Arg {
    name: String,
    kind: RedisModuleCommandArgType,
    /// The literal word before the argument, or the argument itself.
    token: Option<String>,
    optional: bool,
    multiple: bool,
    parts: Vec<Self>,
}

/// Parses a line of syntax.
///
/// # Panics
///
/// If `line` is malformed; the module's own lines never are.
pub fn parse(line: &str) -> Vec<Arg> {
    let spaced = ["[", "]", "<", ">", "|"]
        .iter()
        .fold(line.to_owned(), |line, sign| line.replace(sign, &format!(" {sign} ")));
    let words: Vec<_> = spaced.split_whitespace().collect();
    let mut rest = &words[..];
    let args = sequence(&mut rest);
    assert!(rest.is_empty(), "a bracket too many in '{line}'");
    args
}

/// Parses a sequence of arguments, up to a closing bracket or a bar.
fn sequence(rest: &mut &[&str]) -> Vec<Arg> {
    let mut args: Vec<Arg> = Vec::new();
    while let Some((word, tail)) = rest.split_first() {
        match *word {
            "]" | ">" | "|" => break,
            "[" | "<" => {
                *rest = tail;
                let inner = rest.iter().take_while(|word| !["[", "<", "]"].contains(*word));
                let repeats = *word == "[" && inner.last() == Some(&"...");
                let alternatives = alternatives(rest);
                if repeats {
                    repeat(&mut args, alternatives[0].len().max(1));
                } else {
                    args.push(Arg { optional: *word == "[", ..one_of(alternatives) });
                }
            }
            "..." => *rest = tail,
            _ => {
                *rest = tail;
                args.push(Arg::word(word));
            }
        }
    }
    join_tokens(args)
}

/// Parses the alternatives in brackets, and the closing bracket.
fn alternatives(rest: &mut &[&str]) -> Vec<Vec<Arg>> {
    let mut alternatives = vec![sequence(rest)];
    while let Some((word, tail)) = rest.split_first() {
        *rest = tail;
        if *word != "|" {
            break;
        }
        alternatives.push(sequence(rest));
    }
    alternatives
}

fn one_of(alternatives: Vec<Vec<Arg>>) -> Arg {
    let mut parts: Vec<_> = alternatives.into_iter().map(block).collect();
    if parts.len() == 1 { parts.remove(0) } else { Arg::group(ONEOF, parts) }
}

fn block(mut args: Vec<Arg>) -> Arg {
    if args.len() == 1 { args.remove(0) } else { Arg::group(BLOCK, args) }
}

/// Marks the last `count` arguments as repeatable.
fn repeat(args: &mut Vec<Arg>, count: usize) {
    let repeated = args.split_off(args.len() - count);
    args.push(Arg { multiple: true, ..block(repeated) });
}

/// Joins each token and the argument after it into one argument.
fn join_tokens(args: Vec<Arg>) -> Vec<Arg> {
    let mut joined: Vec<Arg> = Vec::new();
    for arg in args {
        let is_value = arg.token.is_none() && arg.parts.is_empty() && !arg.optional;
        match joined.last_mut() {
            Some(last) if last.kind == PURE_TOKEN && is_value => {
                *last = Arg { token: last.token.take(), ..arg };
            }
            _ => joined.push(arg),
        }
    }
    joined
}

impl Arg {
    fn word(word: &str) -> Self {
        let is_token = !word.chars().any(|letter| letter.is_ascii_lowercase());
        let kind = match word {
            _ if is_token => PURE_TOKEN,
            "key" | "dest" => KEY,
            "ttl" | "ms" | "n" | "numkeys" | "cursor" => INTEGER,
            "unix-ms" => UNIX_TIME,
            "pattern" => PATTERN,
            _ => STRING,
        };
        Self {
            name: word.to_lowercase(),
            kind,
            token: is_token.then(|| word.to_owned()),
            optional: false,
            multiple: false,
            parts: Vec::new(),
        }
    }

    fn group(kind: RedisModuleCommandArgType, parts: Vec<Self>) -> Self {
        // Named by its tokens, if it has any.
        let name_of = |part: &Self| match part.token.as_deref() {
            Some("=") => "equal".to_owned(),
            Some("~") => "approximately".to_owned(),
            Some(token) => token.to_lowercase(),
            None => part.name.clone(),
        };
        let has_word = parts[0].token.is_some() && kind == BLOCK;
        let named = if has_word { &parts[..1] } else { &parts[..] };
        let name = named.iter().map(name_of).collect::<Vec<_>>().join("-");
        Self { name, kind, token: None, optional: false, multiple: false, parts }
    }

    fn to_raw(&self) -> RedisModuleCommandArg {
        // Leaked rather than tracked: descriptions are made once, while loading.
        let text = |text: &str| CString::new(text).unwrap_or_default().into_raw().cast_const();
        let optional = if self.optional { raw::REDISMODULE_CMD_ARG_OPTIONAL } else { 0 };
        let multiple = if self.multiple { raw::REDISMODULE_CMD_ARG_MULTIPLE } else { 0 };
        // The key specs are in the order of the keys: the first key, then the key after a keyword.
        let key_spec = match self.kind {
            KEY => c_int::from(self.name == "dest"),
            _ => -1,
        };
        let parts = if self.parts.is_empty() { ptr::null_mut() } else { to_raw(&self.parts) };
        RedisModuleCommandArg {
            name: text(&self.name),
            type_: self.kind,
            key_spec_index: key_spec,
            token: self.token.as_deref().map_or(ptr::null(), text),
            summary: ptr::null(),
            since: ptr::null(),
            flags: (optional | multiple) as c_int,
            deprecated_since: ptr::null::<c_char>(),
            subargs: parts,
            display_text: ptr::null(),
        }
    }
}

/// Converts arguments to the server's list, which ends with a nameless argument.
pub fn to_raw(args: &[Arg]) -> *mut RedisModuleCommandArg {
    let mut list: Vec<_> = args.iter().map(Arg::to_raw).collect();
    // SAFETY: the structure is plain C data, for which all zeroes are the end-of-list marker.
    list.push(unsafe { std::mem::zeroed() });
    Vec::leak(list).as_mut_ptr()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_named_by_their_tokens() {
        let names = |line: &str| {
            let args = parse(line);
            args.iter().map(|arg| arg.name.clone()).collect::<Vec<_>>()
        };
        let policy = "<HOLD | DROP | STREAM dest [MAXLEN [= | ~] n] | PUBLISH channel>";
        assert_eq!(names(policy), ["hold-drop-stream-publish"]);
        assert_eq!(names("[AT unix-ms [DELIVERIES n]]"), ["at"]);
        assert_eq!(names("[= | ~]"), ["equal-approximately"]);
        assert_eq!(names("ttl id [ttl id ...]"), ["ttl-id"]);
    }

    #[test]
    fn arguments_and_choices_can_be_repeated() {
        let read = |line: &str| {
            let args = parse(line);
            args.iter().map(|arg| (arg.kind, arg.multiple)).collect::<Vec<_>>()
        };
        assert_eq!(read("key id [id ...]"), [(KEY, false), (STRING, true)]);
        assert_eq!(read("key token id [token id ...]"), [(KEY, false), (BLOCK, true)]);
        assert_eq!(read("key <HELD n | DROP> [...]"), [(KEY, false), (ONEOF, true)]);
    }

    #[test]
    fn a_token_belongs_to_the_argument_after_it() {
        let [option] = &parse("[BLOCK ms]")[..] else { panic!("one argument") };
        assert_eq!((option.kind, option.token.as_deref()), (INTEGER, Some("BLOCK")));
        assert!(option.optional);
        let [flag] = &parse("[WITHIDS]")[..] else { panic!("one argument") };
        assert_eq!((flag.kind, flag.token.as_deref()), (PURE_TOKEN, Some("WITHIDS")));
    }
}
