//! Replies: written piece by piece by the module and by the server's commands, read as values.

/// A reply to a client.
#[derive(Clone, PartialEq, Debug)]
pub enum Reply {
    Simple(Vec<u8>),
    /// With its code, as in `ERR no such key`.
    Error(Vec<u8>),
    Int(i64),
    Bulk(Vec<u8>),
    Null,
    NullArray,
    Array(Vec<Reply>),
    Map(Vec<(Reply, Reply)>),
    Double(f64),
    Bool(bool),
    Push(Vec<Reply>),
}

/// A piece of a reply. The text of the first three is a range of the output's bytes.
#[derive(Clone, Copy)]
enum Piece {
    Simple(u32, u32),
    Error(u32, u32),
    Bulk(u32, u32),
    Int(i64),
    Null,
    NullArray,
    /// With its length; below 0: not known yet.
    Array(i64),
    Map(i64),
    Push(i64),
}

/// What a client is sent and has not read.
#[derive(Default)]
pub struct Output {
    pieces: Vec<Piece>,
    text: Vec<u8>,
    /// The places of arrays and maps whose length is not known yet, outermost first.
    open: Vec<usize>,
    /// 3 after HELLO 3.
    pub resp: u8,
}

impl Output {
    fn put(&mut self, bytes: &[u8]) -> (u32, u32) {
        let start = self.text.len();
        self.text.extend_from_slice(bytes);
        (start as u32, bytes.len() as u32)
    }

    pub fn simple(&mut self, bytes: &[u8]) {
        let (start, length) = self.put(bytes);
        self.pieces.push(Piece::Simple(start, length));
    }

    pub fn error(&mut self, bytes: &[u8]) {
        let (start, length) = self.put(bytes);
        self.pieces.push(Piece::Error(start, length));
    }

    pub fn bulk(&mut self, bytes: &[u8]) {
        let (start, length) = self.put(bytes);
        self.pieces.push(Piece::Bulk(start, length));
    }

    pub fn int(&mut self, number: i64) {
        self.pieces.push(Piece::Int(number));
    }

    pub fn null(&mut self) {
        self.pieces.push(Piece::Null);
    }

    pub fn null_array(&mut self) {
        self.pieces.push(Piece::NullArray);
    }

    fn begin(&mut self, length: i64, piece: Piece) {
        if length < 0 {
            self.open.push(self.pieces.len());
        }
        self.pieces.push(piece);
    }

    /// Begins an array. A length below 0 is set at its end.
    pub fn array(&mut self, length: i64) {
        self.begin(length, Piece::Array(length));
    }

    pub fn map(&mut self, length: i64) {
        self.begin(length, Piece::Map(length));
    }

    pub fn push(&mut self, length: i64) {
        self.begin(length, Piece::Push(length));
    }

    /// Sets the length of the innermost array or map that has none yet.
    pub fn set_length(&mut self, length: i64) {
        let at = self.open.pop().expect("an array without a length");
        match &mut self.pieces[at] {
            Piece::Array(it) | Piece::Map(it) | Piece::Push(it) => *it = length,
            _ => unreachable!("only these are open"),
        }
    }

    /// Returns how many arrays and maps have no length yet.
    pub fn open(&self) -> usize {
        self.open.len()
    }

    /// Returns the number of pieces, to see whether there was a reply.
    pub fn len(&self) -> usize {
        self.pieces.len()
    }

    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty()
    }

    pub fn value(&mut self, reply: &Reply) {
        match reply {
            Reply::Simple(text) => self.simple(text),
            Reply::Error(text) => self.error(text),
            Reply::Int(number) => self.int(*number),
            Reply::Bulk(text) => self.bulk(text),
            Reply::Null => self.null(),
            Reply::NullArray => self.null_array(),
            Reply::Array(items) => {
                self.array(items.len() as i64);
                items.iter().for_each(|item| self.value(item));
            }
            Reply::Push(items) => {
                self.push(items.len() as i64);
                items.iter().for_each(|item| self.value(item));
            }
            Reply::Map(items) => {
                self.map(items.len() as i64);
                items.iter().for_each(|(name, value)| {
                    self.value(name);
                    self.value(value);
                });
            }
            Reply::Double(number) => self.bulk(number.to_string().as_bytes()),
            Reply::Bool(is_true) => self.int((*is_true).into()),
        }
    }

    /// Returns all that was written, and forgets it.
    pub fn take(&mut self) -> Vec<Reply> {
        assert!(self.open.is_empty(), "an array whose length was never set");
        let mut replies = Vec::new();
        let mut at = 0;
        while at < self.pieces.len() {
            replies.push(self.read(&mut at));
        }
        self.clear();
        replies
    }

    pub fn clear(&mut self) {
        self.pieces.clear();
        self.text.clear();
        self.open.clear();
        if self.text.capacity() > 1 << 20 {
            self.text = Vec::new();
        }
    }

    fn text(&self, start: u32, length: u32) -> Vec<u8> {
        self.text[start as usize..][..length as usize].to_vec()
    }

    fn read(&self, at: &mut usize) -> Reply {
        let piece = *self.pieces.get(*at).expect("an array with fewer items than its length");
        *at += 1;
        match piece {
            Piece::Simple(start, length) => Reply::Simple(self.text(start, length)),
            Piece::Error(start, length) => Reply::Error(self.text(start, length)),
            Piece::Bulk(start, length) => Reply::Bulk(self.text(start, length)),
            Piece::Int(number) => Reply::Int(number),
            Piece::Null => Reply::Null,
            // RESP3 has one null.
            Piece::NullArray if self.resp == 3 => Reply::Null,
            Piece::NullArray => Reply::NullArray,
            Piece::Array(length) => Reply::Array((0..length).map(|_| self.read(at)).collect()),
            Piece::Push(length) if self.resp == 3 => {
                Reply::Push((0..length).map(|_| self.read(at)).collect())
            }
            Piece::Push(length) => Reply::Array((0..length).map(|_| self.read(at)).collect()),
            Piece::Map(length) if self.resp == 3 => {
                Reply::Map((0..length).map(|_| (self.read(at), self.read(at))).collect())
            }
            Piece::Map(length) => Reply::Array((0..2 * length).map(|_| self.read(at)).collect()),
        }
    }
}
