//! Running commands: of clients, with all checks that a server makes, and from within.

use std::ffi::{c_int, c_void};
use std::ptr;
use std::rc::Rc;

use super::Kind;
use super::acl::User;
use super::api::context::Context;
use super::client::{Client, Multi, Origin};
use super::clock;
use super::command::{Command, Run};
use super::reply::Reply;
use super::server::Server;
use super::text::Words;

/// How a command is called from within.
#[derive(Clone, Copy, Default, Debug)]
pub struct CallFlags {
    pub replicates: bool,
    pub replies_errors: bool,
    pub as_script: bool,
    pub no_writes: bool,
    pub as_user: bool,
    /// All checks, and nothing else.
    pub is_dry: bool,
}

const OOM: &str = "OOM command not allowed when used memory > 'maxmemory'.";
const READ_ONLY: &str = "READONLY You can't write against a read only replica.";
const NO_REPLICAS: &str = "NOREPLICAS Not enough good replicas to write.";

impl Server {
    pub fn add_command(&self, command: Command) {
        let command: &'static Command = Box::leak(Box::new(command));
        self.commands.borrow_mut().insert(command.name.clone(), command);
    }

    pub fn command(&self, name: &[u8]) -> Option<&'static Command> {
        let mut lower = [0; 64];
        let lower = lower.get_mut(..name.len())?;
        lower.copy_from_slice(name);
        lower.make_ascii_lowercase();
        self.commands.borrow().get(&*lower).copied()
    }

    /// Runs the commands that a client has sent, until one blocks it.
    pub fn process_input(&self, client: &Rc<Client>) -> usize {
        let mut count = 0;
        while !client.is_blocked() && !client.is_closing.get() {
            let Some(words) = client.input.borrow_mut().pop_front() else { break };
            self.process(client, words);
            count += 1;
        }
        count
    }

    /// Runs a command of a client, or says why not.
    pub fn process(&self, client: &Rc<Client>, words: Words) {
        if let Some(filter) = self.hooks.filter.get() {
            // SAFETY: the words live for the call.
            unsafe { filter(ptr::from_ref(&words).cast_mut().cast::<c_void>()) };
        }
        let command = match self.find(&words) {
            Ok(command) => command,
            Err(refusal) => return self.refuse(client, &words, &refusal),
        };
        *client.argv.borrow_mut() = words;
        let refusal = self.refusal(client, command);
        if let Some(refusal) = refusal {
            let words = client.argv.borrow().clone();
            return self.refuse(client, &words, &refusal);
        }
        if client.origin == Origin::Client && self.postpones(client, command) {
            let words = client.argv.take();
            client.input.borrow_mut().push_front(words);
            client.is_postponed.set(true);
            self.postponed.borrow_mut().push(Rc::clone(client));
            return;
        }
        let is_queued = client.multi.borrow().is_some()
            && !matches!(&*command.name, b"exec" | b"discard" | b"multi" | b"watch" | b"quit");
        if is_queued {
            let mut multi = client.multi.borrow_mut();
            let multi = multi.as_mut().expect("it is there");
            multi.commands.push(client.argv.borrow().clone());
            multi.has_writes |= command.may_replicate;
            client.out.borrow_mut().simple(b"QUEUED");
            return;
        }
        let before = self.outer.replace(Some(Rc::clone(client)));
        client.ran_ms.set(clock::wall_ms());
        client.ran_at.set(self.happens());
        self.execute(client, command);
        client.done_at.set(self.happens());
        *self.outer.borrow_mut() = before;
        if client.is_asking.get() && &*command.name != b"asking" {
            client.is_asking.set(false);
        }
    }

    /// Finds the command of some words.
    fn find(&self, words: &Words) -> Result<&'static Command, String> {
        let name = words.get(0).unwrap_or_default();
        let shown = |word: &[u8]| String::from_utf8_lossy(word).into_owned();
        let Some(command) = self.command(name) else {
            let arguments = words.iter().skip(1).map(|word| format!("'{}' ", shown(word)));
            let arguments: String = arguments.collect();
            return Err(format!(
                "ERR unknown command '{}', with args beginning with: {arguments}",
                shown(name)
            ));
        };
        if !command.accepts(words.len()) {
            return Err(format!(
                "ERR wrong number of arguments for '{}' command",
                shown(&command.name)
            ));
        }
        Ok(command)
    }

    fn refuse(&self, client: &Client, words: &Words, refusal: &str) {
        if let Some(multi) = client.multi.borrow_mut().as_mut() {
            multi.is_aborted = true;
        }
        if client.must_be_obeyed() {
            self.note_disobeyed(words, refusal);
        }
        client.error(refusal);
    }

    /// Returns why a client may not run a command now.
    fn refusal(&self, client: &Client, command: &Command) -> Option<String> {
        let words = client.argv.borrow();
        if let Some(user) = &*client.user.borrow()
            && let Some(refusal) = user.refuses(command, &words)
        {
            return Some(refusal.text(self.kind, user));
        }
        let is_write = command.is_write
            || &*command.name == b"exec"
                && client.multi.borrow().as_ref().is_some_and(|multi| multi.has_writes);
        let is_obeyed = client.must_be_obeyed();
        if let Some(refusal) = self.slot_refusal(command, &words, client.is_asking.get(), is_obeyed)
        {
            return Some(refusal);
        }
        if self.is_full.get() && command.denies_oom && !is_obeyed {
            return Some(OOM.to_owned());
        }
        if is_write && !is_obeyed {
            return self.write_refusal();
        }
        None
    }

    /// Returns why no client may write now.
    fn write_refusal(&self) -> Option<String> {
        if !self.is_replica() && self.good_replicas() < self.replicas_to_write.get() {
            return Some(NO_REPLICAS.to_owned());
        }
        if self.is_replica() && self.is_read_only.get() {
            return Some(READ_ONLY.to_owned());
        }
        None
    }

    pub fn good_replicas(&self) -> usize {
        self.replicas.borrow().len()
    }

    /// Returns whether a command must wait for the end of CLIENT PAUSE.
    fn postpones(&self, client: &Client, command: &Command) -> bool {
        if !self.is_paused() || &*command.name == b"client" && self.pauses_all.get() {
            return false;
        }
        let has_writes = command.may_replicate
            || &*command.name == b"exec"
                && client.multi.borrow().as_ref().is_some_and(|multi| multi.has_writes);
        self.pauses_all.get() || has_writes
    }

    /// Runs the command in a client's `argv`. Its effects go out at the end of the outermost command.
    pub fn execute(&self, client: &Rc<Client>, command: &'static Command) {
        let before = self.running.replace(Some(Rc::clone(client)));
        let replied = client.out.borrow().len();
        self.enter_unit();
        match command.run {
            Run::Own(run) => {
                let words = client.argv.borrow().clone();
                run(self, client, &words);
            }
            Run::Module(run) => {
                let context = Context::of_command(self, client);
                let (argv, argc) = {
                    let argv = client.argv.borrow();
                    (argv.raw().as_ptr().cast_mut(), argv.len() as c_int)
                };
                // SAFETY: the context lives for the call; so do the words, since a client runs one command at a time.
                unsafe { run(ptr::from_ref(&context).cast_mut().cast(), argv, argc) };
            }
        }
        self.exit_unit();
        *self.running.borrow_mut() = before;
        self.count(1, 1);
        let mut out = client.out.borrow_mut();
        assert!(out.open() == 0, "a reply of unknown length has no end");
        if client.must_be_obeyed() {
            // Within EXEC the reply is not whole yet.
            if !self.in_exec.get() {
                for reply in out.take() {
                    self.note_errors(&client.argv.borrow(), &reply);
                }
            }
        } else if client.blocked.get().is_null() {
            assert!(out.len() > replied, "no reply to {:?}", shown(&client.argv.borrow()));
        }
    }

    fn note_errors(&self, words: &Words, reply: &Reply) {
        match reply {
            Reply::Error(text) => self.note_disobeyed(words, &String::from_utf8_lossy(text)),
            Reply::Array(items) => items.iter().for_each(|item| self.note_errors(words, item)),
            _ => {}
        }
    }

    fn note_disobeyed(&self, words: &Words, text: &str) {
        self.disobeyed.borrow_mut().push(format!("{}: {text}", shown(words)));
    }

    /// Calls a command as the module does. `None`: a dry run. The error has what `errno` gets, and the text.
    pub fn call(
        &self,
        db: u32,
        words: Words,
        flags: CallFlags,
        user: Option<Rc<User>>,
        is_asking: bool,
        must_obey: bool,
    ) -> Result<Option<Reply>, (c_int, String)> {
        if flags.as_user && user.is_none() {
            let text =
                "ERR cannot run as user, no user directly attached to context or context's client";
            return Err((libc::ENOTSUP, text.to_owned()));
        }
        let command = self.find(&words).map_err(|text| {
            let is_known = words.get(0).and_then(|name| self.command(name)).is_some();
            (if is_known { libc::EINVAL } else { libc::ENOENT }, text)
        })?;
        if flags.as_script {
            if command.has_no_script {
                return Err((libc::ESPIPE, "ERR command is not allowed on script mode".to_owned()));
            }
            if command.is_write
                && !self.obeys()
                && let Some(text) = self.write_refusal()
            {
                return Err((libc::ESPIPE, text));
            }
        }
        if flags.no_writes && command.is_write {
            return Err((libc::ENOSPC, "ERR a write where none is allowed".to_owned()));
        }
        if flags.as_user
            && let Some(user) = &user
            && let Some(refusal) = user.refuses(command, &words)
        {
            return Err((libc::EACCES, refusal.text(self.kind, user)));
        }
        if !must_obey && self.slot_refusal(command, &words, is_asking, false).is_some() {
            let text = "ERR Attempted to access a non local key in a cluster node";
            return Err((libc::EPERM, text.to_owned()));
        }
        if flags.is_dry {
            return Ok(None);
        }
        let caller = self.caller(db);
        caller.denies_blocking.set(true);
        *caller.argv.borrow_mut() = words;
        let allowed = self.replication_allowed.get();
        self.replication_allowed.set(flags.replicates && allowed);
        self.execute(&caller, command);
        self.replication_allowed.set(allowed);
        let reply = caller.out.borrow_mut().take().into_iter().next();
        self.release_caller(caller);
        Ok(Some(reply.expect("a command replies")))
    }

    /// Calls a command from within, and returns its reply or the error.
    pub fn call_inside(&self, db: u32, words: Words, replicates: bool) -> Reply {
        let flags = CallFlags { replicates, replies_errors: true, ..CallFlags::default() };
        match self.call(db, words, flags, None, false, true) {
            Ok(reply) => reply.expect("no dry run"),
            Err((_, text)) => Reply::Error(text.into_bytes()),
        }
    }

    /// Runs what MULTI has gathered.
    pub fn exec(&self, client: &Rc<Client>) {
        let Some(multi) = client.multi.take() else {
            return client.error("ERR EXEC without MULTI");
        };
        let is_dirty = client.is_dirty.get();
        self.unwatch(client);
        if multi.is_aborted {
            return client.error("EXECABORT Transaction discarded because of previous errors.");
        }
        if is_dirty {
            return client.out.borrow_mut().null_array();
        }
        let denied = client.denies_blocking.replace(true);
        self.in_exec.set(true);
        client.out.borrow_mut().array(multi.commands.len() as i64);
        for words in multi.commands {
            let command = self.command(words.get(0).unwrap_or_default()).expect("it was queued");
            let refusal = {
                let user = client.user.borrow();
                user.as_ref()
                    .and_then(|user| Some(user.refuses(command, &words)?.text(self.kind, user)))
            };
            *client.argv.borrow_mut() = words;
            match refusal {
                Some(refusal) => client.error(&refusal),
                None => self.execute(client, command),
            }
        }
        self.in_exec.set(false);
        client.denies_blocking.set(denied);
    }

    pub fn begin_multi(&self, client: &Client) {
        if client.multi.borrow().is_some() {
            return client.error(match self.kind {
                Kind::Valkey8 => "ERR Command not allowed inside a transaction",
                Kind::Valkey9 => "ERR Command 'multi' not allowed inside a transaction",
                _ => "ERR MULTI calls can not be nested",
            });
        }
        *client.multi.borrow_mut() = Some(Multi::default());
        client.ok();
    }

    /// Ends a client's watches.
    pub fn unwatch(&self, client: &Client) {
        let count = client.watched.take().len();
        self.watchers.set(self.watchers.get() - count);
        client.is_dirty.set(false);
    }

    /// Runs some lines as a script does: none of them may block, the first error ends it.
    pub fn run_script(&self, client: &Client, lines: &[Words]) -> Reply {
        self.in_script.set(true);
        let mut replies = Vec::new();
        let flags = CallFlags { replicates: true, as_script: true, ..CallFlags::default() };
        for words in lines {
            let must_obey = client.must_be_obeyed();
            match self.call(client.db.get(), words.clone(), flags, None, false, must_obey) {
                Ok(Some(Reply::Error(text))) => {
                    self.in_script.set(false);
                    return Reply::Error(text);
                }
                Err((_, text)) => {
                    self.in_script.set(false);
                    return Reply::Error(text.into_bytes());
                }
                Ok(reply) => replies.extend(reply),
            }
        }
        self.in_script.set(false);
        Reply::Array(replies)
    }
}

fn shown(words: &Words) -> String {
    let words: Vec<_> = words.iter().map(|word| word.escape_ascii().to_string()).collect();
    let mut line = words.join(" ");
    line.truncate(400);
    line
}
