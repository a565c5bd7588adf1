//! The tokens of Rust code: names and signs, without comments, strings and code for tests.

/// A token of code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Word {
    Name(String),
    /// `::`
    Path,
    Sign(char),
}

impl Word {
    pub fn is(&self, sign: char) -> bool {
        *self == Self::Sign(sign)
    }

    pub fn is_named(&self, name: &str) -> bool {
        matches!(self, Self::Name(it) if it == name)
    }
}

/// Splits code into tokens. Skips lifetimes and strings.
pub fn words(code: &str) -> Vec<Word> {
    let mut words = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let behind = &rest[first.len_utf8()..];
        if rest.starts_with("//") {
            rest = rest.find('\n').map_or("", |end| &rest[end..]);
        } else if rest.starts_with("/*") {
            rest = behind_comment(rest);
        } else if let Some(text) = raw_text(rest) {
            rest = text;
        } else if first == '"' {
            rest = behind_text(behind, '"');
        } else if first == '\'' {
            rest = behind_quote(behind);
        } else if is_name(first) {
            let end = rest.find(|letter| !is_name(letter)).unwrap_or(rest.len());
            let name = &rest[..end];
            rest = &rest[end..];
            // `b"..."` and `c"..."` are strings too.
            if !(["b", "c"].contains(&name) && rest.starts_with(['"', '\''])) {
                words.push(Word::Name(name.to_owned()));
            }
        } else if let Some(behind) = rest.strip_prefix("::") {
            words.push(Word::Path);
            rest = behind;
        } else {
            if !first.is_whitespace() {
                words.push(Word::Sign(first));
            }
            rest = behind;
        }
    }
    words
}

fn is_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Skips a block comment, which may be nested.
fn behind_comment(code: &str) -> &str {
    let (mut rest, mut depth) = (&code[2..], 1);
    while depth > 0 {
        let Some(at) = rest.find(['/', '*']) else { return "" };
        let sign = rest.get(at..at + 2).unwrap_or_default();
        depth = match sign {
            "/*" => depth + 1,
            "*/" => depth - 1,
            _ => depth,
        };
        rest = &rest[at + if ["/*", "*/"].contains(&sign) { 2 } else { 1 }..];
    }
    rest
}

/// Returns the code after a raw string, if there is one here.
fn raw_text(code: &str) -> Option<&str> {
    let head = ["br", "cr", "r"].into_iter().find_map(|head| code.strip_prefix(head))?;
    let text = head.trim_start_matches('#');
    let end = format!("\"{}", &head[..head.len() - text.len()]);
    let text = text.strip_prefix('"')?;
    Some(text.find(&end).map_or("", |at| &text[at + end.len()..]))
}

/// Returns the code after a string, whose opening quote has been read.
fn behind_text(text: &str, quote: char) -> &str {
    let mut letters = text.char_indices();
    while let Some((at, letter)) = letters.next() {
        if letter == '\\' {
            letters.next();
        } else if letter == quote {
            return &text[at + 1..];
        }
    }
    ""
}

/// Returns the code after a character in quotes, or after a lifetime.
fn behind_quote(text: &str) -> &str {
    let mut letters = text.chars();
    match (letters.next(), letters.next()) {
        (Some('\\'), _) | (Some(_), Some('\'')) => behind_text(text, '\''),
        _ => text.trim_start_matches(is_name),
    }
}

/// Removes items after `#[cfg(test)]`. Also returns the names of modules declared there.
pub fn without_tests(words: Vec<Word>) -> (Vec<Word>, Vec<String>) {
    let test = self::words("#[cfg(test)]");
    let (mut kept, mut modules) = (Vec::new(), Vec::new());
    let mut rest = &words[..];
    while let Some((first, behind)) = rest.split_first() {
        if let Some(item) = rest.strip_prefix(&test[..]) {
            let length = item_length(item);
            if let [.., mark, Word::Name(name), end] = &item[..length]
                && mark.is_named("mod")
                && end.is(';')
            {
                modules.push(name.clone());
            }
            rest = &item[length..];
        } else {
            kept.push(first.clone());
            rest = behind;
        }
    }
    (kept, modules)
}

/// Returns the number of tokens of an item: up to its semicolon, or to the brace that ends its body.
fn item_length(words: &[Word]) -> usize {
    let is_import = words.iter().take(5).any(|word| word.is_named("use"));
    let mut depth = 0;
    for (at, word) in words.iter().enumerate() {
        match word {
            Word::Sign('{' | '(' | '[') => depth += 1,
            Word::Sign('}' | ')' | ']') => depth -= 1,
            _ => {}
        }
        if depth == 0 && (word.is(';') || word.is('}') && !is_import) {
            return at + 1;
        }
    }
    words.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(code: &str) -> String {
        let one = |word: &Word| match word {
            Word::Name(name) => name.clone(),
            Word::Path => "::".to_owned(),
            Word::Sign(sign) => sign.to_string(),
        };
        words(code).iter().map(one).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn comments_and_strings_are_not_tokens() {
        assert_eq!(said("a // use b;\n/* c /* d */ e */ f"), "a f");
        assert_eq!(said(r###"a "use b; \" c" d r#"e " f"# g b"h" c"i" br"j" k"###), "a d g k");
        assert_eq!(said(r#"'"' a '\'' b 'c' b'd' <'e, 'static> f"#), "a b < , > f");
        assert_eq!(said("rest br crate r"), "rest br crate r");
    }

    #[test]
    fn items_for_tests_are_removed_with_their_bodies() {
        let code = "a; #[cfg(test)] mod b; #[cfg(test)] pub mod c { { } x; } #[cfg(test)] use d::{e, f}; g \
                    #[cfg(test)] #[path = \"h\"] mod i; fn j() { }";
        let (kept, modules) = without_tests(words(code));
        assert_eq!(kept, words("a; g fn j() { }"));
        assert_eq!(modules, ["b", "i"]);
    }
}
