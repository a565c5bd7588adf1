//! A payload in memory, for tests of the encodings and the fuzzer.

use std::collections::VecDeque;

use super::encoding::{Corrupt, Sink, Source};

/// A number or a string.
#[derive(Clone, PartialEq, Debug)]
pub enum Field {
    Unsigned(u64),
    Bytes(Vec<u8>),
}

/// A payload in memory.
#[derive(Default)]
pub struct Fields(pub VecDeque<Field>);

impl Sink for Fields {
    fn unsigned(&mut self, number: u64) {
        self.0.push_back(Field::Unsigned(number));
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.0.push_back(Field::Bytes(bytes.to_vec()));
    }
}

impl Source for Fields {
    type Bytes = Vec<u8>;

    fn unsigned(&mut self) -> Result<u64, Corrupt> {
        match self.0.pop_front() {
            Some(Field::Unsigned(number)) => Ok(number),
            _ => Err(Corrupt("no number")),
        }
    }

    fn bytes(&mut self) -> Result<Vec<u8>, Corrupt> {
        match self.0.pop_front() {
            Some(Field::Bytes(bytes)) => Ok(bytes),
            _ => Err(Corrupt("no string")),
        }
    }
}
