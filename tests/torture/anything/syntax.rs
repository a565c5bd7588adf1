//! The syntax of a command, as HELP prints it, and words that fit it: `[...]` is left out or not, `<...>` and `[...]` are one of
//! what stands between `|`, `[id ...]` is repeated, and so is what stands before `[...]`.

use crate::random::Random;

#[derive(Debug)]
enum Part {
    Word(String),
    /// Whether it may be left out, and the alternatives.
    One(bool, Vec<Vec<Part>>),
    /// A part that is repeated: what stands before it, if it is empty.
    Again(Vec<Part>),
}

#[derive(Debug)]
pub struct Syntax(Vec<Part>);

/// A drawn word: its name in the syntax, and what stands for it.
pub type Drawn = (String, Vec<u8>);

impl Syntax {
    pub fn new(line: &str) -> Self {
        let mut spaced = line.to_owned();
        for sign in ["[", "]", "<", ">", "|"] {
            spaced = spaced.replace(sign, &format!(" {sign} "));
        }
        let mut alternatives = parse(&mut spaced.split_whitespace());
        assert_eq!(alternatives.len(), 1, "{line}");
        Self(alternatives.remove(0))
    }

    pub fn name(&self) -> &str {
        let Part::Word(name) = &self.0[0] else { panic!("{self:?} has no name") };
        name
    }

    /// Draws words. `value` returns what stands for a name behind the word before it.
    pub fn draw(
        &self,
        random: &mut Random,
        value: &mut impl FnMut(&mut Random, &str, &str) -> Vec<u8>,
    ) -> Vec<Drawn> {
        let mut drawn = Vec::new();
        walk(&self.0, random, value, &mut drawn);
        // A number that says how many of the next follow.
        for at in 0..drawn.len() {
            let is_count = drawn[at].0 == "numkeys"
                || drawn[at].0 == "n" && at > 0 && drawn[at - 1].0 == "IDS";
            if let Some((name, _)) = drawn.get(at + 1).filter(|_| is_count) {
                let count = drawn[at + 1..].iter().filter(|it| it.0 == *name).count();
                drawn[at].1 = count.to_string().into_bytes();
            }
        }
        drawn
    }
}

fn is_literal(word: &str) -> bool {
    !word.chars().any(|it| it.is_ascii_lowercase())
}

/// Parses alternatives up to the closing bracket or the end.
fn parse<'a>(words: &mut impl Iterator<Item = &'a str>) -> Vec<Vec<Part>> {
    let mut alternatives = vec![Vec::new()];
    while let Some(word) = words.next() {
        let parts = alternatives.last_mut().expect("one");
        match word {
            "]" | ">" => break,
            "|" => alternatives.push(Vec::new()),
            "[" => {
                let mut inner = parse(words);
                let is_repeated = inner.len() == 1
                    && matches!(inner[0].last(), Some(Part::Word(word)) if word == "...");
                parts.push(if is_repeated {
                    inner[0].pop();
                    Part::Again(inner.remove(0))
                } else {
                    Part::One(true, inner)
                });
            }
            "<" => parts.push(Part::One(false, parse(words))),
            word => parts.push(Part::Word(word.to_owned())),
        }
    }
    alternatives
}

fn walk(
    parts: &[Part],
    random: &mut Random,
    value: &mut impl FnMut(&mut Random, &str, &str) -> Vec<u8>,
    drawn: &mut Vec<Drawn>,
) {
    for (at, part) in parts.iter().enumerate() {
        match part {
            Part::Word(word) if is_literal(word) || at == 0 && drawn.is_empty() => {
                drawn.push((word.clone(), word.as_bytes().to_vec()));
            }
            Part::Word(word) => {
                let before = drawn.last().map_or(String::new(), |it| it.0.clone());
                let value = value(random, &before, word);
                drawn.push((word.clone(), value));
            }
            Part::One(true, _) if random.one_in(2) => {}
            Part::One(_, all) => {
                let one = random.below(all.len() as u64) as usize;
                walk(&all[one], random, value, drawn);
            }
            Part::Again(inner) => {
                let inner = if inner.is_empty() { &parts[at - 1..at] } else { inner };
                for _ in 0..random.below(3) {
                    walk(inner, random, value, drawn);
                }
            }
        }
    }
}
