//! The operations, and their words.

use crate::judges::Bytes;
use crate::judges::dehydrator::Policy;
use crate::machine::Reply;

use super::schedule::{Back, OfSchedules, Revive};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    Refuse,
    Nx,
    Replace,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum At {
    /// So many milliseconds from now.
    In(i64),
    /// This moment.
    On(u64),
}

impl At {
    pub fn moment(self, now: u64) -> u64 {
        match self {
            At::In(ms) => now.saturating_add_signed(ms),
            At::On(at) => at,
        }
    }
}

/// An element that is held, and a token.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Held {
    /// One of those that are held, with its token.
    Nth(usize),
    /// An id with the token of one of those that are held.
    Lent(usize, Bytes),
    /// Whatever that is by now.
    Named(Bytes, Bytes),
}

/// The options of PUSH.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Options {
    pub at: Option<At>,
    pub slack: Option<u64>,
    pub most: Option<u64>,
    pub within: Option<u64>,
    pub group: Option<Bytes>,
}

#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Poll {
    pub keys: Vec<Bytes>,
    pub is_many: bool,
    pub count: Option<u64>,
    pub block: Option<u64>,
    pub lease: Option<u64>,
    pub token: Option<Bytes>,
    pub with_ids: bool,
}

impl Poll {
    /// Returns a request for so many elements of a key, leased for so many milliseconds.
    pub fn of(key: &Bytes, count: u64, lease: u64) -> Self {
        let (keys, count, lease) = (vec![key.clone()], Some(count), Some(lease));
        Self { keys, count, lease, ..Self::default() }
    }
}

/// Numbers of LIMIT.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Numbers {
    pub share: Option<u64>,
    pub length: Option<u64>,
    pub held: Option<u64>,
    pub rate: Option<(u64, u64)>,
    pub remember: Option<u64>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Op {
    Push { elements: Vec<(u64, Bytes)>, is_many: bool, how: How, options: Options, size: usize },
    GidPush { ttl: u64, group: Option<Bytes> },
    Pull(Bytes),
    Rem(Vec<Bytes>),
    XAck(Vec<Bytes>),
    XPoll(Option<u64>),
    Poll(Poll),
    Settle(Vec<Held>),
    Renew(u64, Vec<Held>),
    Release(u64, Vec<Held>, Back),
    Reject(Vec<Held>, Back),
    Revive(Revive),
    OfSchedules(OfSchedules),
    Look(Bytes, bool),
    Range(Option<Bytes>, Option<u64>),
    Info,
    InfoGroup(Bytes),
    Late,
    Update(Bytes),
    Touch { ids: Vec<Bytes>, ttl: u64, at: Option<At>, only: Option<bool> },
    TouchGroup(Bytes, u64, Option<u64>),
    Purge(Bytes, Option<u64>),
    OnDue(Policy),
    OnDueNx(Policy),
    Pause { ms: Option<u64>, group: Option<Bytes> },
    Resume(Option<Bytes>),
    Limit(Numbers),
    LimitGroup(Option<Bytes>, Numbers),
    Ttn,
    Pttl(Bytes),
    Len(Option<Bytes>),
    Copy { to: Bytes, db: usize, replace: bool },
    Rename { to: Bytes, nx: bool },
    Move(usize),
    SwapDb,
    Del(bool),
    FlushDb,
    Set,
}

fn text(text: &str) -> Bytes {
    text.as_bytes().to_vec()
}

fn number(number: u64) -> Bytes {
    number.to_string().into_bytes()
}

fn policy_words(policy: &Policy) -> Vec<Bytes> {
    match policy {
        Policy::Hold => vec![text("HOLD")],
        Policy::Drop => vec![text("DROP")],
        Policy::Stream(to) => vec![text("STREAM"), to.clone()],
        Policy::List(to) => vec![text("LIST"), to.clone()],
        Policy::Publish(to) => vec![text("PUBLISH"), to.clone()],
        Policy::Limit(most, route) => {
            let mut words = vec![text("HOLD"), text("DELIVERIES"), number(*most)];
            words.extend(policy_words(route));
            words
        }
    }
}

impl Op {
    /// Returns whether it only reads.
    pub fn reads(&self) -> bool {
        use Op::{Info, InfoGroup, Late, Len, Look, Pttl, Range, Ttn, XPoll};
        matches!(
            self,
            Look(..) | Range(..) | Info | InfoGroup(_) | Late | Ttn | Pttl(_) | Len(_) | XPoll(_)
        ) || matches!(self, Self::OfSchedules(OfSchedules::List(_)))
    }

    /// Returns whether it is of the keyspace, so that the module may hear of it only at the next tick.
    pub fn is_of_keyspace(&self) -> bool {
        use Op::{Copy, Move, Rename, SwapDb};
        matches!(self, Copy { .. } | Rename { .. } | Move(_) | SwapDb)
    }

    /// Returns the ids that it names.
    pub fn ids_mut(&mut self) -> Vec<&mut Bytes> {
        match self {
            Op::Push { elements, .. } => elements.iter_mut().map(|it| &mut it.1).collect(),
            Op::Pull(id) | Op::Look(id, _) | Op::Update(id) | Op::Pttl(id) => vec![id],
            Op::Rem(ids) | Op::XAck(ids) | Op::Touch { ids, .. } => ids.iter_mut().collect(),
            _ => Vec::new(),
        }
    }

    /// Returns whether the reply says that something has changed.
    pub fn has_changed(&self, reply: &Reply) -> bool {
        match (self, reply) {
            (Op::Settle(_) | Op::Renew(..) | Op::Release(..), Reply::Array(replies)) => {
                replies.contains(&Reply::Int(1))
            }
            (Op::Rem(_) | Op::Touch { .. } | Op::Del(_), Reply::Int(count)) => *count > 0,
            (Op::Pull(_) | Op::Update(_), Reply::Bulk(_)) => true,
            (Op::Push { is_many: false, .. }, Reply::Simple(_)) => true,
            (Op::Poll(poll), Reply::Array(rows)) => poll.token.is_none() && !rows.is_empty(),
            _ => false,
        }
    }

    /// Returns the command, with these elements, tokens and ids.
    pub fn words(
        &self,
        key: &Bytes,
        now: u64,
        elements: &[Bytes],
        pairs: &[(Bytes, Bytes)],
    ) -> Vec<Bytes> {
        let verb = |verb: &str| vec![text(&format!("DEHYDRATOR.{verb}")), key.clone()];
        let option = |name: &str, value: Option<u64>| {
            value.map(|value| [text(name), number(value)]).into_iter().flatten().collect::<Vec<_>>()
        };
        let grouped = |group: &Option<Bytes>| -> Vec<Bytes> {
            group.iter().flat_map(|group| [text("GROUP"), group.clone()]).collect()
        };
        let flag =
            |name: &str, is_set: bool| is_set.then(|| text(name)).into_iter().collect::<Vec<_>>();
        let held =
            || pairs.iter().flat_map(|(token, id)| [token.clone(), id.clone()]).collect::<Vec<_>>();
        let numbers = |it: &Numbers| {
            [
                option("SHARE", it.share),
                option("LENGTH", it.length),
                option("HELD", it.held),
                option("RATE", it.rate.map(|it| it.0)),
                option("PER", it.rate.map(|it| it.1)),
                option("REMEMBER", it.remember),
            ]
            .concat()
        };
        match self {
            Op::Push { elements: pushed, is_many, how, options, .. } => {
                let mut words = verb(if *is_many { "MPUSH" } else { "PUSH" });
                for ((ttl, id), element) in pushed.iter().zip(elements) {
                    words.extend([number(*ttl), element.clone(), id.clone()]);
                }
                words.extend(flag("NX", *how == How::Nx));
                words.extend(flag("REPLACE", *how == How::Replace));
                words.extend(option("SLACK", options.slack));
                words.extend(option("AT", options.at.map(|at| at.moment(now))));
                words.extend(option("DELIVERIES", options.most));
                words.extend(option("WITHIN", options.within));
                words.extend(grouped(&options.group));
                words
            }
            Op::GidPush { ttl, group } => {
                [verb("GIDPUSH"), vec![number(*ttl), elements[0].clone()], grouped(group)].concat()
            }
            Op::Pull(id) => [verb("PULL"), vec![id.clone()]].concat(),
            Op::Rem(ids) => [verb("REM"), ids.clone()].concat(),
            Op::XAck(ids) => [verb("XACK"), ids.clone()].concat(),
            Op::XPoll(count) => [verb("XPOLL"), option("COUNT", *count)].concat(),
            Op::Poll(poll) => {
                let mut words = if poll.is_many {
                    vec![text("DEHYDRATOR.MPOLL"), number(poll.keys.len() as u64)]
                } else {
                    vec![text("DEHYDRATOR.POLL")]
                };
                words.extend(poll.keys.iter().cloned());
                words.extend(option("LEASE", poll.lease));
                words.extend(poll.token.iter().flat_map(|token| [text("TOKEN"), token.clone()]));
                words.extend(flag("WITHIDS", poll.with_ids));
                words.extend(option("COUNT", poll.count));
                words.extend(option("BLOCK", poll.block));
                words
            }
            Op::Settle(_) => [verb("SETTLE"), held()].concat(),
            Op::Renew(ttl, _) => [verb("RENEW"), vec![number(*ttl)], held()].concat(),
            Op::Release(ms, _, back) => {
                [verb("RELEASE"), vec![number(*ms)], held(), back.words(elements)].concat()
            }
            Op::Reject(_, back) => [verb("REJECT"), held(), back.words(elements)].concat(),
            Op::OfSchedules(op) => op.words(key, now, elements),
            // With the letters that were listed, it is put together elsewhere.
            Op::Revive(revive) => revive.words(key, elements, &[]),
            Op::OnDueNx(policy) => [verb("ONDUE"), vec![text("NX")], policy_words(policy)].concat(),
            Op::Look(id, full) => [verb("LOOK"), vec![id.clone()], flag("FULL", *full)].concat(),
            Op::Range(group, count) => {
                let words = [
                    verb("RANGE"),
                    vec![text("-"), text("+")],
                    option("COUNT", *count),
                    grouped(group),
                ];
                [words.concat(), vec![text("WITHELEMENTS"), text("WITHTOKENS")]].concat()
            }
            Op::Info => [verb("INFO"), vec![text("FULL")]].concat(),
            Op::InfoGroup(group) => [verb("INFO"), grouped(&Some(group.clone()))].concat(),
            Op::Late => vec![text("DEHYDRATOR.LATE"), text("COUNT"), text("64")],
            Op::Update(id) => [verb("UPDATE"), vec![id.clone(), elements[0].clone()]].concat(),
            Op::Touch { ids, ttl, at, only } => {
                let mut words = verb("TOUCH");
                words.push(number(*ttl));
                words.extend(only.map(|later| text(if later { "GT" } else { "LT" })));
                words.extend(option("AT", at.map(|at| at.moment(now))));
                if ids.len() != 1 {
                    words.extend([text("IDS"), number(ids.len() as u64)]);
                }
                words.extend_from_slice(ids);
                words
            }
            Op::TouchGroup(group, ttl, count) => {
                let words = [verb("TOUCH"), vec![number(*ttl)], grouped(&Some(group.clone()))];
                [words.concat(), option("COUNT", *count)].concat()
            }
            Op::Purge(group, count) => {
                [verb("PURGE"), grouped(&Some(group.clone())), option("COUNT", *count)].concat()
            }
            Op::OnDue(policy) => [verb("ONDUE"), policy_words(policy)].concat(),
            Op::Pause { ms, group } => [verb("PAUSE"), option("FOR", *ms), grouped(group)].concat(),
            Op::Resume(group) => [verb("RESUME"), grouped(group)].concat(),
            Op::Limit(it) => [verb("LIMIT"), numbers(it)].concat(),
            Op::LimitGroup(group, it) => {
                [verb("LIMIT"), grouped(group), flag("EACH", group.is_none()), numbers(it)].concat()
            }
            Op::Ttn => verb("TTN"),
            Op::Pttl(id) => [verb("PTTL"), vec![id.clone()]].concat(),
            Op::Len(group) => [verb("LEN"), grouped(group)].concat(),
            Op::Copy { to, db, replace } => {
                let words =
                    vec![text("COPY"), key.clone(), to.clone(), text("DB"), number(*db as u64)];
                [words, flag("REPLACE", *replace)].concat()
            }
            Op::Rename { to, nx } => {
                vec![text(if *nx { "RENAMENX" } else { "RENAME" }), key.clone(), to.clone()]
            }
            Op::Move(db) => vec![text("MOVE"), key.clone(), number(*db as u64)],
            Op::SwapDb => vec![text("SWAPDB"), text("0"), text("1")],
            Op::Del(unlink) => vec![text(if *unlink { "UNLINK" } else { "DEL" }), key.clone()],
            Op::FlushDb => vec![text("FLUSHDB")],
            Op::Set => vec![text("SET"), key.clone(), text("text")],
        }
    }
}
