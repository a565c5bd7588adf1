//! REVIVE: bringing dead letters back from the stream that ONDUE names.
//!
//! A call keeps nothing between calls: it looks at some letters, from the first on or behind one that the client names, and the
//! reply says where to go on. So letters that cannot come back, because their ids are in use, stand before no others.
//!
//! A server command publishes events, and a listener may change anything. So letters are copied a page at a time, no key is open
//! while the stream is read or changed, and each id is looked at again before its element is stored. Stored elements leave the
//! stream, or the process ends: a panic in between would leave them in both places.

use crate::data_type::{Reading, Writing};
use crate::metrics::counters::PUSHES;
use crate::policy::{Policy, Route};
use crate::replicate::{self, Pushed};
use crate::server::guard::AbortOnPanic;
use crate::server::string::Args;
use crate::server::{CommandContext, Error, OwnedStr, Str, error::Result};

use super::args::options::{IfExists, Options};
use super::args::{counted, required, shown};
use super::checks;
use super::push::{PushResult, store};

/// The letters that a call looks at if COUNT does not say, and the most.
const COUNT: usize = 100;
const COUNT_MAX: usize = 1000;
/// The letters that are copied at once.
const PAGE: usize = 32;
/// After so many bytes of elements a call looks at no further page.
const BYTES_MAX: usize = 1 << 20;

/// `key [FROM letter] [COUNT n] [ELEMENT element] [IDS n letter [letter ...]]`
struct Revive<'a> {
    key: Str<'a>,
    from: Option<Str<'a>>,
    count: usize,
    element: Option<Str<'a>>,
    /// The first of the letters that are named, and their number.
    letters: Option<(usize, usize)>,
}

impl<'a> Revive<'a> {
    fn parse(args: Args<'a>) -> Result<Self> {
        let key = required(args, 1)?;
        let (mut from, mut count, mut element) = (None, None, None);
        let mut letters = None;
        let mut options = Options::new(args, 2);
        while let Some(option) = options.next() {
            match option.name() {
                b"FROM" if from.is_none() => from = Some(options.value("FROM")?),
                b"COUNT" if count.is_none() => count = Some(options.count()?),
                b"ELEMENT" if element.is_none() => element = Some(options.value("ELEMENT")?),
                b"IDS" => {
                    let number = counted("IDS", "ids", args, options.at())?;
                    let first = options.at() + 1;
                    letters = Some((first, number));
                    options = Options::new(args, first + number);
                    options.end()?;
                }
                _ => return Err(option.unexpected_among("FROM, COUNT, ELEMENT or IDS")),
            }
        }
        if letters.is_some() && (from.is_some() || count.is_some()) {
            return Err("syntax error, FROM and COUNT are not for IDS".into());
        }
        if element.is_some() && letters.is_none_or(|(_, number)| number > 1) {
            return Err("syntax error, ELEMENT needs IDS 1 and the id of a letter".into());
        }
        let count = count.unwrap_or(COUNT).min(COUNT_MAX);
        Ok(Self { key, from, count, element, letters })
    }
}

/// A dead letter, as it is in the stream.
struct Letter {
    /// The id of the stream's entry.
    entry: OwnedStr,
    id: OwnedStr,
    element: OwnedStr,
    group: Option<OwnedStr>,
}

/// Runs `REVIVE key [FROM letter] [COUNT n] [ELEMENT element] [IDS n letter [letter ...]]`: how many dead letters came back, and
/// the last one it looked at, behind which to go on, or nil.
pub fn revive(context: &CommandContext, args: Args<'_>) -> Result {
    let request = Revive::parse(args)?;
    let Revive { key, element, letters, .. } = request;
    let policy = Reading::open(context, key)?.dehydrator().map(|it| it.rules().clone());
    let (mut revived, mut next) = (0, None);
    if let Some(rules) = policy {
        let dest = match &rules.policy {
            Policy::HoldDeliveries { route: Route::Stream { dest, .. }, .. }
                if rules.trust.is_confirmed() =>
            {
                OwnedStr::new(dest)
            }
            _ => return Err(checks::no_letters()),
        };
        let mut reviving = Reviving { context, key, dest, policy: &rules.policy, element };
        match letters {
            Some((first, number)) => {
                for letter in args.from(first).take(number) {
                    match reviving.page(letter, letter, 1) {
                        // What came back before is replied.
                        Err(_) if revived > 0 => break,
                        page => revived += page?.revived,
                    }
                }
            }
            None => (revived, next) = reviving.pages(&request)?,
        }
    }
    let mut reply = context.reply_array(2);
    reply.push_integer(revived);
    reply.push_bulk(next.as_ref().map(OwnedStr::bytes));
    Ok(())
}

/// The stream of dead letters and the key they go back to.
struct Reviving<'a> {
    context: &'a CommandContext,
    key: Str<'a>,
    dest: OwnedStr,
    policy: &'a Policy,
    element: Option<Str<'a>>,
}

/// Some letters that were looked at.
#[derive(Default)]
struct Page {
    /// How many came back.
    revived: i64,
    /// How many were looked at, and their bytes.
    seen: usize,
    bytes: usize,
    /// The last of them.
    last: Option<OwnedStr>,
    /// Set if there was no room for the one after it.
    is_full: bool,
}

impl Reviving<'_> {
    /// Brings letters back, from the first or behind one on. Returns how many, and the last one, if there may be more behind it.
    fn pages(&mut self, request: &Revive<'_>) -> Result<(i64, Option<OwnedStr>)> {
        let (mut revived, mut left, mut bytes) = (0, request.count, 0);
        let mut last = request.from.map(|letter| OwnedStr::new(letter.bytes()));
        while left > 0 && bytes < BYTES_MAX {
            let from = match &last {
                Some(letter) => [b"(", letter.bytes()].concat(),
                None => b"-".to_vec(),
            };
            let most = left.min(PAGE);
            let from = OwnedStr::new(&from);
            let page = match self.page(from.as_str(), OwnedStr::new(b"+").as_str(), most) {
                // What came back before is replied.
                Err(_) if revived > 0 => break,
                page => page?,
            };
            (revived, bytes) = (revived + page.revived, bytes + page.bytes);
            left -= page.seen;
            last = page.last.or(last);
            if page.is_full {
                break;
            }
            if page.seen < most {
                return Ok((revived, None));
            }
        }
        Ok((revived, last))
    }

    /// Brings back what it can of the letters between two entries, at most so many. Fails if the stream cannot be read,
    /// or there is no room for any of them.
    fn page(&mut self, from: Str<'_>, end: Str<'_>, most: usize) -> Result<Page> {
        let (seen, letters, last) = self.read(from, end, most)?;
        let bytes = letters.iter().map(|letter| letter.element.bytes().len()).sum();
        let mut page = Page { seen, bytes, last, ..Page::default() };
        let whole = AbortOnPanic::begin();
        let stored = self.store(&letters, &mut page)?;
        if !stored.is_empty() {
            let words: Vec<_> = [self.dest.as_str()]
                .into_iter()
                .chain(stored.iter().map(|it| it.entry.as_str()))
                .collect();
            // A listener may have removed them before.
            if let Err(reason) = self.context.call(c"XDEL", &words) {
                self.take_back(&stored);
                return Err(cannot(&reason));
            }
            page.revived = stored.len() as i64;
        }
        drop(whole);
        Ok(page)
    }

    /// Reads letters. Returns how many entries there were, those that are letters, and the last entry.
    fn read(
        &self,
        from: Str<'_>,
        end: Str<'_>,
        most: usize,
    ) -> Result<(usize, Vec<Letter>, Option<OwnedStr>)> {
        let (word, count) = (OwnedStr::new(b"COUNT"), OwnedStr::of_number(most as u64));
        let words = [self.dest.as_str(), from, end, word.as_str(), count.as_str()];
        let reply = self.context.ask(c"XRANGE", c"Ev", &words);
        let reply = reply.ok_or_else(|| cannot("the server does not run XRANGE"))?;
        if reply.root().is_error() {
            let reason = reply.root().text().unwrap_or_default();
            return Err(cannot(String::from_utf8_lossy(reason).trim_end()));
        }
        let (mut seen, mut letters, mut last) = (0, Vec::new(), None);
        for entry in reply.root().array().into_iter().flatten() {
            let Some(mut parts) = entry.array() else { continue };
            let Some(entry) = parts.next().and_then(|entry| entry.text()) else { continue };
            seen += 1;
            last = Some(OwnedStr::new(entry));
            let mut words = parts.next().and_then(|it| it.array()).into_iter().flatten();
            let (mut id, mut element, mut group) = (None, None, None);
            while let (Some(name), Some(value)) = (words.next(), words.next()) {
                let field = match name.text() {
                    Some(b"id") => &mut id,
                    Some(b"element") => &mut element,
                    Some(b"group") => &mut group,
                    _ => continue,
                };
                *field = value.text().map(OwnedStr::new);
            }
            let element = self.element.map(|element| OwnedStr::new(element.bytes())).or(element);
            if let Some((id, element)) = id.zip(element) {
                letters.push(Letter { entry: OwnedStr::new(entry), id, element, group });
            }
        }
        Ok((seen, letters, last))
    }

    /// Stores the elements of letters whose ids are not in use, as PUSH does, due at once. Returns the letters. Fails if
    /// there is no room for the first that could be stored.
    fn store<'l>(&self, letters: &'l [Letter], page: &mut Page) -> Result<Vec<&'l Letter>> {
        let Self { context, key, policy, .. } = *self;
        let mut stored = Vec::new();
        let mut dehydrator = Writing::open(context, key)?;
        let now = dehydrator.now();
        // Reading the stream called out.
        if dehydrator.rules().policy != *policy {
            return Ok(stored);
        }
        let length = dehydrator.rules().limits().length;
        let mut before = None;
        for letter in letters {
            let (id, element) = (letter.id.as_str(), letter.element.as_str());
            let group = letter.group.as_ref().map(OwnedStr::as_str);
            let new = Pushed {
                key,
                ttl: 0,
                element,
                id,
                deadline: now,
                bounds: Default::default(),
                group,
            };
            let is_new = |lawn: &mut lawn::Lawn| {
                let is_within = checks::is_within_length(lawn, length);
                match store(lawn, &new, IfExists::Keep, length)? {
                    PushResult::Stored => Ok(true),
                    PushResult::Kept => Ok(false),
                    // Its group is full, and others may not be.
                    PushResult::BeyondLength if is_within => Ok(false),
                    PushResult::BeyondLength => Err(checks::too_long(lawn, length, None)),
                }
            };
            match dehydrator.lawn_or_new(is_new) {
                Ok(false) => {}
                Ok(true) => {
                    dehydrator.forget(id.bytes());
                    replicate::pushed(context, &new);
                    PUSHES.add(1);
                    stored.push(letter);
                }
                Err(error) if stored.is_empty() => return Err(error),
                Err(_) => {
                    (page.is_full, page.last) = (true, before);
                    break;
                }
            }
            before = Some(OwnedStr::new(letter.entry.bytes()));
        }
        if !stored.is_empty() {
            dehydrator.finish(c"dehydrator.push");
        }
        Ok(stored)
    }

    /// Removes what was stored, because it is still in the stream.
    fn take_back(&self, stored: &[&Letter]) {
        let Ok(mut dehydrator) = Writing::open(self.context, self.key) else { return };
        let mut removal = dehydrator.removal(None);
        stored.iter().for_each(|letter| _ = removal.remove(letter.id.bytes()));
        if removal.finish() {
            dehydrator.finish(c"dehydrator.rem");
        }
    }
}

/// Returns the error for a stream that cannot be read or changed.
fn cannot(reason: &str) -> Error {
    format!("the dead letters cannot come back: {}", shown_reason(reason)).into()
}

/// Returns the reason of the server without what ends a line.
fn shown_reason(reason: &str) -> String {
    if reason.len() > 200 { shown(reason.as_bytes()) } else { reason.escape_debug().to_string() }
}
