//! Users and what they may do: whole commands, patterns of keys and channels.

use std::rc::Rc;

use super::Kind;
use super::client::Client;
use super::command::Command;
use super::server::Server;
use super::text::Words;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct User {
    pub name: Vec<u8>,
    pub is_on: bool,
    /// Without one of these: every password does.
    pub passwords: Vec<Vec<u8>>,
    pub has_all_commands: bool,
    /// The exceptions, in lower case: forbidden if the user has all commands, otherwise allowed.
    pub commands: Vec<Vec<u8>>,
    pub keys: Vec<Vec<u8>>,
    pub channels: Vec<Vec<u8>>,
}

/// Why a command is refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Refusal {
    Command(Vec<u8>),
    Key,
    Channel,
}

impl Refusal {
    pub fn text(&self, kind: Kind, user: &User) -> String {
        let user = String::from_utf8_lossy(&user.name);
        let old = "NOPERM this user has no permissions to";
        match self {
            Self::Command(name) if kind == Kind::Redis70 => {
                format!("{old} run the '{}' command", String::from_utf8_lossy(name))
            }
            Self::Key if kind == Kind::Redis70 => {
                format!("{old} access one of the keys used as arguments")
            }
            Self::Channel if kind == Kind::Redis70 => {
                format!("{old} access one of the channels used as arguments")
            }
            Self::Command(name) => {
                let name = String::from_utf8_lossy(name);
                format!("NOPERM User {user} has no permissions to run the '{name}' command")
            }
            Self::Key => "NOPERM No permissions to access a key".to_owned(),
            Self::Channel => "NOPERM No permissions to access a channel".to_owned(),
        }
    }
}

impl User {
    pub fn all_powerful() -> Self {
        Self {
            name: b"default".to_vec(),
            is_on: true,
            passwords: Vec::new(),
            has_all_commands: true,
            commands: Vec::new(),
            keys: vec![b"*".to_vec()],
            channels: vec![b"*".to_vec()],
        }
    }

    pub fn new(name: &[u8]) -> Self {
        Self {
            name: name.to_vec(),
            is_on: false,
            has_all_commands: false,
            keys: Vec::new(),
            channels: Vec::new(),
            ..Self::all_powerful()
        }
    }

    /// Applies a rule of ACL SETUSER. Returns whether it is known.
    pub fn apply(&mut self, rule: &[u8]) -> bool {
        match rule {
            b"on" => self.is_on = true,
            b"off" => self.is_on = false,
            b"nopass" | b"resetpass" => self.passwords.clear(),
            b"reset" => *self = Self::new(&self.name.clone()),
            b"allkeys" => self.keys = vec![b"*".to_vec()],
            b"resetkeys" => self.keys.clear(),
            b"allchannels" => self.channels = vec![b"*".to_vec()],
            b"resetchannels" => self.channels.clear(),
            b"allcommands" | b"+@all" => (self.has_all_commands, self.commands) = (true, vec![]),
            b"nocommands" | b"-@all" => (self.has_all_commands, self.commands) = (false, vec![]),
            [b'>', password @ ..] => self.passwords.push(password.to_vec()),
            [b'~', pattern @ ..] => self.keys.push(pattern.to_vec()),
            [b'&', pattern @ ..] => self.channels.push(pattern.to_vec()),
            [sign @ (b'+' | b'-'), name @ ..] if name.first() != Some(&b'@') => {
                let name = name.to_ascii_lowercase();
                self.commands.retain(|it| *it != name);
                if (*sign == b'+') != self.has_all_commands {
                    self.commands.push(name);
                }
            }
            _ => return false,
        }
        true
    }

    pub fn may_run(&self, command: &Command) -> bool {
        self.has_all_commands != self.commands.iter().any(|it| **it == *command.name)
    }

    pub fn may_access(&self, key: &[u8]) -> bool {
        self.keys.iter().any(|pattern| matches(pattern, key))
    }

    pub fn may_publish(&self, channel: &[u8]) -> bool {
        self.channels.iter().any(|pattern| matches(pattern, channel))
    }

    /// Returns why a command is refused.
    pub fn refuses(&self, command: &Command, words: &Words) -> Option<Refusal> {
        if !self.may_run(command) {
            return Some(Refusal::Command(command.name.to_vec()));
        }
        if self.keys.iter().all(|pattern| pattern != b"*") {
            let keys = command.keys(words);
            if keys.into_iter().any(|at| words.get(at).is_some_and(|key| !self.may_access(key))) {
                return Some(Refusal::Key);
            }
        }
        let is_message = matches!(&*command.name, b"publish" | b"subscribe");
        if is_message && words.get(1).is_some_and(|channel| !self.may_publish(channel)) {
            return Some(Refusal::Channel);
        }
        None
    }
}

/// Returns whether a pattern with `*` and `?` matches.
pub fn matches(pattern: &[u8], text: &[u8]) -> bool {
    match (pattern.first(), text.first()) {
        (None, first) => first.is_none(),
        (Some(b'*'), _) => {
            matches(&pattern[1..], text) || !text.is_empty() && matches(pattern, &text[1..])
        }
        (Some(b'?'), Some(_)) => matches(&pattern[1..], &text[1..]),
        (Some(first), Some(it)) => first == it && matches(&pattern[1..], &text[1..]),
        (Some(_), None) => false,
    }
}

impl Server {
    pub fn user(&self, name: &[u8]) -> Option<Rc<User>> {
        self.users.borrow().get(name).cloned()
    }

    /// ACL SETUSER, and what it means for those who are connected.
    pub fn set_user(&self, user: User) {
        let user = Rc::new(user);
        for client in self.clients.borrow().iter() {
            let mut own = client.user.borrow_mut();
            if own.as_ref().is_some_and(|own| own.name == user.name) {
                *own = Some(Rc::clone(&user));
            }
        }
        self.users.borrow_mut().insert(user.name.clone(), user);
    }

    /// ACL DELUSER: also closes the user's connections.
    pub fn delete_user(&self, name: &[u8]) -> bool {
        if self.users.borrow_mut().remove(name).is_none() {
            return false;
        }
        let has_it =
            |client: &Client| client.user.borrow().as_ref().is_some_and(|own| own.name == name);
        let clients: Vec<_> =
            self.clients.borrow().iter().filter(|it| has_it(it)).cloned().collect();
        clients.iter().for_each(|client| self.close(client));
        true
    }
}
