//! Draws profiles.

use crate::judges::Bytes;
use crate::machine::Kind;
use crate::world::random::Random;
use crate::world::step::{Profile, Theme};

/// Words of the module's own syntax, and what looks like numbers: as ids, groups, keys and tokens.
const WORDS: [&str; 24] = [
    "group",
    "GROUP",
    "prefix",
    "IDS",
    "ids",
    "AT",
    "TOKEN",
    "token",
    "UNCOUNTED",
    "UNTIL",
    "NX",
    "REPLACE",
    "GT",
    "LT",
    "0",
    "1",
    "-1",
    "0@0",
    "EACH",
    "HOLD",
    "COUNT",
    "DELIVERED",
    "REMEMBER",
    "LEASE",
];
const PLAIN: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];

impl Profile {
    pub fn draw(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let has_words = random.one_in(3);
        let mut names = |most: u64, other: &[&str]| -> Vec<Bytes> {
            let count = 1 + random.below(most);
            let mut names: Vec<Bytes> = Vec::new();
            for _ in 0..count {
                let name = match random.below(12) {
                    0 if has_words => Vec::new(),
                    1 if has_words => b"\0\r\n\xff".to_vec(),
                    _ if has_words => random.pick(&WORDS).as_bytes().to_vec(),
                    _ => random.pick(other).as_bytes().to_vec(),
                };
                if !names.contains(&name) {
                    names.push(name);
                }
            }
            names
        };
        let mut keys = names(3, &["k", "q", "r"]);
        let ids = names(12, &PLAIN);
        let mut groups = names(4, &["red", "green", "blue"]);
        groups.retain(|group| !group.is_empty());
        let mut tokens = names(4, &["t1", "t2", "t3", "7", "4000000000000000000"]);
        // That one is an option behind tokens.
        tokens.retain(|token| !token.is_empty() && token != b"UNCOUNTED");
        tokens.push(b"t".to_vec());
        if random.one_in(3) {
            groups.clear();
        }
        let kinds = [Kind::Redis70, Kind::Redis8, Kind::Valkey8, Kind::Valkey9];
        let kind = random.pick(&kinds);
        let is_big = random.one_in(200);
        let has_slots = random.one_in(8);
        if has_slots {
            // A transaction, a MPOLL and a RENAME have one slot.
            keys.iter_mut().for_each(|key| key.splice(..0, *b"{k}").for_each(drop));
        }
        let mut profile = Self {
            seed,
            read_ns: if is_big { 20_000 } else { 1000 },
            keys,
            ids,
            groups,
            tokens,
            has_policies: random.one_in(3) && !has_slots,
            has_limits: random.one_in(2),
            has_pauses: random.one_in(3),
            has_ends: random.one_in(3),
            has_sleepers: random.one_in(2),
            has_keyspace: random.one_in(3) && !has_slots,
            has_extremes: random.one_in(3),
            has_replica: random.one_in(2) && !has_slots,
            has_reloads: random.one_in(3),
            has_tool: random.one_in(6) && !has_slots,
            has_clock: random.one_in(8),
            has_operators: random.one_in(3),
            has_accidents: random.one_in(4),
            // Valkey 8 leaves clients in other databases then.
            has_listener: random.one_in(6) && kind != Kind::Valkey8,
            has_slots,
            has_events: random.one_in(6),
            is_big,
            theme: None,
            kind,
            schedules: Vec::new(),
            has_years: false,
            has_letters: false,
        };
        profile.draw_schedules(&mut random);
        let mut random = Random::new(seed ^ 0x7e3e);
        if random.one_in(60) {
            profile.direct(Theme::draw(&mut random));
        }
        profile
    }

    /// Leaves out what would hide a theme.
    fn direct(&mut self, theme: Theme) {
        self.theme = Some(theme);
        (self.is_big, self.read_ns) = (true, 20_000);
        self.schedules.clear();
        let no = [
            &mut self.has_pauses,
            &mut self.has_ends,
            &mut self.has_keyspace,
            &mut self.has_extremes,
            &mut self.has_reloads,
            &mut self.has_tool,
            &mut self.has_clock,
            &mut self.has_accidents,
            &mut self.has_listener,
            &mut self.has_events,
            &mut self.has_years,
            &mut self.has_letters,
        ];
        no.into_iter().for_each(|it| *it = false);
        self.has_slots = theme == Theme::Slots;
        self.has_replica &= theme == Theme::Dead;
        self.has_policies = theme == Theme::Dead;
        self.keys = vec![b"{k}".to_vec()];
    }

    /// Draws whether there are schedules, and of which names, and whether dead letters come back.
    fn draw_schedules(&mut self, random: &mut Random) {
        self.has_letters = self.has_policies && random.one_in(2);
        // A tool's server would store what occurs, too.
        if !random.one_in(4) || self.has_tool {
            return;
        }
        let names =
            [&["s", "t", "job"][..], &["", "GROUP", "s@1900000000000", "SCHEDULE", "\u{0}\r\n"]];
        let names = random.pick(&names);
        self.schedules =
            (0..=random.below(3)).map(|_| random.pick(names).as_bytes().to_vec()).collect();
        self.schedules.sort();
        self.schedules.dedup();
        self.has_clock |= random.one_in(3);
        self.has_years = random.one_in(4);
        // Whose event it is, nobody would know.
        self.has_listener = false;
        self.ids.extend(self.schedules.iter().map(|name| [name, &b"@?"[..]].concat()));
    }
}
