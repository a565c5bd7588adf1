//! Commands and replies, in short forms for tests.

use redis::{Cmd, Connection, Value};

use super::until;

/// Returns a command of text arguments, split at the spaces.
pub fn cmd(line: &str) -> Cmd {
    let mut words = line.split(' ');
    let mut cmd = redis::cmd(words.next().expect("a command"));
    for word in words {
        cmd.arg(word);
    }
    cmd
}

/// Returns a field in the text of INFO.
pub fn field_of(text: &str, field: &str) -> u64 {
    let line = text.lines().find_map(|line| line.strip_prefix(field)?.strip_prefix(':'));
    line.unwrap_or_else(|| panic!("no {field} in {text}")).trim().parse().expect("a number")
}

/// Short forms of common commands.
pub trait Ask {
    /// Returns the reply to a command of text arguments.
    fn ask(&mut self, line: &str) -> Value;

    /// Returns the error of a command of text arguments.
    fn refused(&mut self, line: &str) -> String;

    /// Returns the commands that HELP lists, without the prefix, in its order. The hooks for tests are left out.
    fn verbs(&mut self) -> Vec<String> {
        let help: Vec<String> =
            redis::from_redis_value(self.ask("DEHYDRATOR.HELP")).expect("an array of text");
        let verb = |line: &String| line.split([' ', '.']).nth(1).map(str::to_owned);
        let verbs = help.iter().step_by(2).filter_map(verb);
        verbs.filter(|verb| verb != "DEBUG").collect()
    }

    /// Returns whether a key exists.
    fn exists(&mut self, key: &str) -> bool {
        self.ask(&format!("EXISTS {key}")) == Value::Int(1)
    }

    /// Returns a field of INFO.
    fn info(&mut self, section: &str, field: &str) -> u64 {
        let Value::BulkString(text) = self.ask(&format!("INFO {section}")) else { panic!("text") };
        field_of(&String::from_utf8_lossy(&text), field)
    }

    /// Returns the digest of a key's value, which includes the order of its elements.
    fn digest(&mut self, key: &str) -> Value {
        self.ask(&format!("DEBUG DIGEST-VALUE {key}"))
    }

    /// Rewrites the append-only file, and waits until it is done.
    fn rewrite_aof(&mut self) {
        self.ask("BGREWRITEAOF");
        self.wait_for_rewrite();
    }

    /// Waits until no append-only file is being rewritten, or scheduled to be.
    fn wait_for_rewrite(&mut self) {
        until("the append-only file is rewritten", || {
            let Value::BulkString(text) = self.ask("INFO persistence") else { panic!("text") };
            let text = String::from_utf8_lossy(&text);
            let running = ["aof_rewrite_in_progress", "aof_rewrite_scheduled"]
                .map(|field| field_of(&text, field));
            (running == [0, 0]).then_some(())
        });
    }
}

impl Ask for Connection {
    fn ask(&mut self, line: &str) -> Value {
        cmd(line).query(self).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn refused(&mut self, line: &str) -> String {
        refusal(&cmd(line), self).unwrap_or_else(|reply| panic!("{line}: {reply:?}"))
    }
}

/// Returns the error of a command, as the server sends it; or its reply.
pub fn refusal(cmd: &Cmd, connection: &mut Connection) -> Result<String, Value> {
    match cmd.query::<Value>(connection) {
        Ok(reply) => Err(reply),
        Err(error) => {
            let code = error.code().unwrap_or_default();
            Ok(format!("{code} {}", error.detail().unwrap_or_default()))
        }
    }
}

pub fn text(text: &str) -> Value {
    Value::BulkString(text.into())
}

pub fn texts(texts: &[&str]) -> Value {
    Value::Array(texts.iter().map(|it| text(it)).collect())
}
