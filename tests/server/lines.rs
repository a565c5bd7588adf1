//! The commands, as several tests send them and as the server must know them.

/// A command, on a key `k`.
pub struct Command {
    pub line: &'static str,
    /// Its flags in COMMAND INFO, without `module`.
    pub flags: &'static str,
    /// The flags of its key, which is its first argument. Empty: it has none, or not at that place alone.
    pub key: &'static str,
    /// Its tips in COMMAND INFO.
    pub tips: &'static str,
    /// Its replies if it is sent twice, as cells of docs/commands.md. `k` holds `id`, under the token `mine`.
    pub twice: Option<[&'static str; 2]>,
}

/// The tip of a command whose reply depends on the clock or on chance.
const VARIES: &str = "nondeterministic_output";

const fn command(line: &'static str, flags: &'static str, key: &'static str) -> Command {
    Command { line, flags, key, tips: "", twice: None }
}

const fn varying(line: &'static str, flags: &'static str, key: &'static str) -> Command {
    Command { tips: VARIES, ..command(line, flags, key) }
}

/// Every command. `mine` holds the element `id`.
pub const COMMANDS: &[Command] = &[
    command("PUSH k 600000 element id", "write denyoom fast", "RW update"),
    command("MPUSH k 600000 element id", "write denyoom fast", "RW update"),
    command("PULL k id", "write fast", "RW access delete").twice("element", "nil"),
    varying("POLL k", "write blocking", "RW access delete"),
    varying("MPOLL 2 nowhere k", "write blocking movablekeys", ""),
    command("SETTLE k mine id", "write fast", "RW delete").twice("[1]", "[0]"),
    command("RENEW k 600000 mine id", "write fast", "RW update"),
    command("RELEASE k 600000 mine id", "write fast", "RW update"),
    command("REJECT k mine id", "write", "RW delete"),
    command("REVIVE k", "write denyoom", "RW update"),
    varying("LOOK k id", "readonly fast", "RO access"),
    varying("RANGE k - +", "readonly", "RO access"),
    command("UPDATE k id element", "write denyoom fast", "RW access update")
        .twice("element", "element"),
    command("TOUCH k 600000 id", "write", "RW update"),
    command("REM k id", "write fast", "RW delete").twice("1", "0"),
    command("PURGE k GROUP g", "write", "RW delete").twice("0", "0"),
    command("ONDUE k DROP", "write movablekeys", "").twice("OK", "OK"),
    command("PAUSE k", "write fast", "RW update").twice("OK", "OK"),
    command("RESUME k", "write fast", "RW update"),
    command("LIMIT k HELD 5", "write fast", "RW update").twice("OK", "OK"),
    command("EVERY k 600000 element name", "write denyoom fast", "RW update").twice("1", "0"),
    command("SCHEDULES k", "readonly", "RO access"),
    command("UNSCHEDULE k name", "write fast", "RW delete"),
    varying("TTN k", "readonly fast", "RO"),
    varying("PTTL k id", "readonly fast", "RO access"),
    command("LEN k", "readonly fast", "RO"),
    varying("SCAN k 0", "readonly", "RO access"),
    varying("INFO k", "readonly", "RO access"),
    Command {
        tips: "nondeterministic_output request_policy:all_shards response_policy:special",
        ..command("LATE", "readonly", "")
    },
    command("HELP", "loading stale fast", ""),
    varying("GIDPUSH k 600000 element", "write denyoom fast", "RW insert"),
    varying("XPOLL k", "readonly", "RO access"),
    varying("XACK k id", "write fast", "RW access delete").twice("[element]", "[nil]"),
    command("EFFECT k P600000@4102444800000 element id", "write", "RW update"),
];

/// The forms of commands that docs/commands.md lists beside them.
pub const FORMS: [(&str, &str); 7] = [
    ("PUSH NX", "PUSH k 600000 element id NX"),
    ("PUSH REPLACE", "PUSH k 600000 element id REPLACE"),
    ("MPUSH NX", "MPUSH k 600000 element id NX"),
    ("MPUSH REPLACE", "MPUSH k 600000 element id REPLACE"),
    ("LOOK FULL", "LOOK k id FULL"),
    ("TOUCH IDS", "TOUCH k 600000 IDS 1 id"),
    ("POLL BLOCK", "POLL k BLOCK 1"),
];

/// Forms that it does not list.
const MORE: [&str; 12] = [
    "POLL k LEASE 600000",
    "MPOLL 1 k LEASE 600000",
    "RELEASE k 600000 mine id REASON why",
    "ONDUE k STREAM s",
    "ONDUE k LIST l",
    "ONDUE k HOLD DELIVERIES 5 DROP",
    "TOUCH k 5 GROUP g",
    "RESUME k SCHEDULE name",
    "EFFECT k M1@1 name",
    "EFFECT k L1@1@7 id",
    "EFFECT k G5@5",
    "EFFECT k S5 id",
];

impl Command {
    const fn twice(self, first: &'static str, second: &'static str) -> Self {
        Self { twice: Some([first, second]), ..self }
    }

    pub fn verb(&self) -> &'static str {
        verb_of(self.line)
    }
}

pub fn verb_of(line: &str) -> &str {
    line.split(' ').next().expect("a verb")
}

/// Returns the commands that docs/commands.md states the replies of, each with its forms, by their names there.
pub fn of_page() -> impl Iterator<Item = (&'static str, &'static str)> {
    // The first two have no key, and EFFECT is for tools.
    let commands = COMMANDS.iter().filter(|it| !matches!(it.verb(), "LATE" | "HELP" | "EFFECT"));
    commands.map(|it| (it.verb(), it.line)).chain(FORMS)
}

/// Returns the lines of all commands that have a key, in all forms.
pub fn all() -> impl Iterator<Item = &'static str> {
    let lines = COMMANDS.iter().map(|it| it.line).chain(FORMS.map(|(_, line)| line)).chain(MORE);
    lines.filter(|line| line.contains(" k"))
}
