//! The tokens of Rust code: names and signs, without comments, literals and code for tests.

use proc_macro2::{Delimiter, Spacing, TokenStream, TokenTree};

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

/// Splits code into tokens. Skips comments, lifetimes and literals.
pub fn words(code: &str) -> Vec<Word> {
    let mut words = Vec::new();
    add(code.parse().expect("code of Rust"), &mut words);
    words
}

fn add(code: TokenStream, words: &mut Vec<Word>) {
    let mut tokens = code.into_iter().peekable();
    while let Some(token) = tokens.next() {
        match token {
            TokenTree::Ident(name) => words.push(Word::Name(name.to_string())),
            TokenTree::Literal(_) => {}
            TokenTree::Group(group) => {
                let (open, close) = match group.delimiter() {
                    Delimiter::Parenthesis => ('(', ')'),
                    Delimiter::Brace => ('{', '}'),
                    Delimiter::Bracket => ('[', ']'),
                    Delimiter::None => unreachable!("only macros make these"),
                };
                words.push(Word::Sign(open));
                add(group.stream(), words);
                words.push(Word::Sign(close));
            }
            TokenTree::Punct(sign) => {
                let next = tokens.peek();
                let is_joint = sign.spacing() == Spacing::Joint;
                match (sign.as_char(), next) {
                    // A lifetime.
                    ('\'', Some(TokenTree::Ident(_))) => _ = tokens.next(),
                    (':', Some(TokenTree::Punct(it))) if is_joint && it.as_char() == ':' => {
                        words.push(Word::Path);
                        tokens.next();
                    }
                    (sign, _) => words.push(Word::Sign(sign)),
                }
            }
        }
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
    fn comments_and_literals_are_not_tokens() {
        assert_eq!(said("a // use b;\n/* c /* d */ e */ f"), "a f");
        assert_eq!(said(r###"a "use b; \" c" d r#"e " f"# g b"h" c"i" br"j" k"###), "a d g k");
        assert_eq!(said(r#"'"' a '\'' b 'c' b'd' <'e, 'static> f 1"#), "a b < , > f");
        assert_eq!(said("a::b : c"), "a :: b : c");
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
