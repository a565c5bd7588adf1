//! The configuration: the server's own settings as far as they matter, and the module's.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_longlong, c_void};
use std::ptr;

use super::Kind;
use super::notify::class;
use super::server::Server;
use super::text::{self, Raw};

type Reason = *mut Raw;
pub type GetNumber = unsafe extern "C" fn(*const c_char, *mut c_void) -> c_longlong;
pub type SetNumber = unsafe extern "C" fn(*const c_char, c_longlong, *mut c_void, Reason) -> c_int;
pub type GetSwitch = unsafe extern "C" fn(*const c_char, *mut c_void) -> c_int;
pub type SetSwitch = unsafe extern "C" fn(*const c_char, c_int, *mut c_void, Reason) -> c_int;
pub type GetText = unsafe extern "C" fn(*const c_char, *mut c_void) -> Raw;
pub type SetText = unsafe extern "C" fn(*const c_char, Raw, *mut c_void, Reason) -> c_int;

#[derive(Clone)]
pub enum Access {
    Number { get: GetNumber, set: SetNumber, min: i64, max: i64, default: i64 },
    Switch { get: GetSwitch, set: SetSwitch, default: bool },
    Text { get: GetText, set: SetText, default: Vec<u8> },
}

/// A setting of the module.
#[derive(Clone)]
pub struct ModuleSetting {
    /// Without the module's name.
    pub name: CString,
    pub is_immutable: bool,
    pub data: *mut c_void,
    pub access: Access,
}

const PREFIX: &str = "dehydrator.";

/// The server's own settings, with their defaults.
const DEFAULTS: [(&str, &str); 21] = [
    ("appendonly", "no"),
    ("aof-use-rdb-preamble", "yes"),
    ("cluster-enabled", "no"),
    ("databases", "16"),
    ("hz", "10"),
    ("io-threads", "1"),
    ("io-threads-do-reads", "no"),
    ("lazyfree-lazy-expire", "no"),
    ("lazyfree-lazy-server-del", "no"),
    ("lazyfree-lazy-user-del", "no"),
    ("lazyfree-lazy-user-flush", "no"),
    ("list-max-listpack-size", "-2"),
    ("maxmemory", "0"),
    ("min-replicas-max-lag", "10"),
    ("min-replicas-to-write", "0"),
    ("notify-keyspace-events", ""),
    ("repl-backlog-size", "1048576"),
    ("replica-read-only", "yes"),
    ("save", ""),
    ("stop-writes-on-bgsave-error", "yes"),
    ("loadmodule", ""),
];

/// Returns the settings of a server of any kind, with some changed.
pub fn with_defaults(kind: Kind, changed: &[(&str, &str)]) -> BTreeMap<String, String> {
    let all = DEFAULTS.iter().chain(changed);
    let mut all: BTreeMap<_, _> =
        all.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    if kind.is_valkey() {
        for (name, value) in &mut all {
            let is_changed = changed.iter().any(|(it, _)| it == name);
            if name.starts_with("lazyfree-") && !is_changed {
                *value = "yes".to_owned();
            }
        }
    }
    all
}

impl ModuleSetting {
    fn set_default(&self) -> Result<(), String> {
        match &self.access {
            Access::Number { default, .. } => self.set(default.to_string().as_bytes()),
            Access::Switch { default, .. } => self.set(if *default { b"yes" } else { b"no" }),
            Access::Text { default, .. } => self.set(default),
        }
    }

    fn set(&self, value: &[u8]) -> Result<(), String> {
        let mut reason: Raw = ptr::null_mut();
        let text = || String::from_utf8_lossy(value).into_owned();
        let name = self.name.as_ptr();
        // SAFETY: the functions are the module's, with its data; strings live for the call.
        let status = unsafe {
            match &self.access {
                Access::Number { set, min, max, .. } => {
                    let number: i64 = text()
                        .parse()
                        .map_err(|_| "argument couldn't be parsed into an integer".to_owned())?;
                    if !(*min..=*max).contains(&number) {
                        return Err(format!("argument must be between {min} and {max} inclusive"));
                    }
                    set(name, number, self.data, &mut reason)
                }
                Access::Switch { set, .. } => {
                    let is_on = match &text().to_ascii_lowercase()[..] {
                        "yes" => 1,
                        "no" => 0,
                        _ => return Err("argument must be 'yes' or 'no'".to_owned()),
                    };
                    set(name, is_on, self.data, &mut reason)
                }
                Access::Text { set, .. } => {
                    let value = text::new(value);
                    let status = set(name, value, self.data, &mut reason);
                    text::release(value);
                    status
                }
            }
        };
        if status == 0 {
            return Ok(());
        }
        if reason.is_null() {
            return Err(String::new());
        }
        // SAFETY: the module passes a reference with the reason.
        unsafe {
            let text = String::from_utf8_lossy(text::bytes(reason)).into_owned();
            text::release(reason);
            Err(text)
        }
    }

    fn get(&self) -> Vec<u8> {
        let name = self.name.as_ptr();
        // SAFETY: as in `set`. A text stays the module's.
        unsafe {
            match &self.access {
                Access::Number { get, .. } => get(name, self.data).to_string().into_bytes(),
                Access::Switch { get, .. } if get(name, self.data) != 0 => b"yes".to_vec(),
                Access::Switch { .. } => b"no".to_vec(),
                Access::Text { get, .. } => text::bytes(get(name, self.data)).to_vec(),
            }
        }
    }
}

impl Server {
    /// Returns a setting of the server itself.
    pub fn setting(&self, name: &str) -> Option<String> {
        self.settings.borrow().get(name).cloned()
    }

    pub fn setting_is(&self, name: &str, value: &str) -> bool {
        self.settings.borrow().get(name).is_some_and(|it| it == value)
    }

    /// Applies what is kept elsewhere too.
    pub fn apply_settings(&self) {
        let text = self.setting("notify-keyspace-events").unwrap_or_default();
        let flag = |letter: u8| class::LETTERS.iter().find(|(it, _)| *it == letter);
        let flags = text.bytes().filter_map(flag).fold(0, |all, (_, flag)| all | flag);
        self.notified.set(flags);
        let number = |name| self.setting(name).and_then(|it| it.parse().ok()).unwrap_or(0);
        self.hz.set(number("hz").max(1));
        self.replicas_to_write.set(number("min-replicas-to-write") as usize);
        self.is_read_only.set(self.setting_is("replica-read-only", "yes"));
        let has_threads = !self.setting_is("io-threads", "1");
        let read = self.kind.is_valkey() || self.setting_is("io-threads-do-reads", "yes");
        self.reads_late.set(has_threads && read);
        let is_on = self.setting_is("appendonly", "yes");
        if is_on != self.stream.has_file() {
            self.set_append_only(is_on);
        }
        if self.setting_is("cluster-enabled", "yes") && self.slots.borrow().is_none() {
            *self.slots.borrow_mut() = Some(vec![true; super::cluster::SLOTS]);
        }
    }

    /// Applies the configuration's values to the module's settings, and the defaults to the rest.
    pub fn load_module_settings(&self) -> bool {
        let all = self.module_settings.borrow().clone();
        let is_sound = all.iter().all(|setting| {
            let name = format!("{PREFIX}{}", setting.name.to_string_lossy());
            let set = match self.setting(&name) {
                Some(value) => setting.set(value.as_bytes()),
                None => setting.set_default(),
            };
            set.map_err(|reason| self.log(format!("{name}: {reason}"))).is_ok()
        });
        self.are_loaded.set(true);
        is_sound
    }

    fn module_setting(&self, name: &str) -> Option<ModuleSetting> {
        let name = name.strip_prefix(PREFIX)?;
        let all = self.module_settings.borrow();
        all.iter().find(|it| it.name.to_bytes() == name.as_bytes()).cloned()
    }

    /// CONFIG GET, with `*` as the only pattern.
    pub fn config_get(&self, pattern: &[u8]) -> Vec<(String, Vec<u8>)> {
        let mut found = Vec::new();
        for (name, value) in self.settings.borrow().iter() {
            if super::acl::matches(pattern, name.as_bytes()) && !name.starts_with(PREFIX) {
                found.push((name.clone(), value.clone().into_bytes()));
            }
        }
        for setting in self.module_settings.borrow().iter() {
            let name = format!("{PREFIX}{}", setting.name.to_string_lossy());
            if super::acl::matches(pattern, name.as_bytes()) {
                found.push((name, setting.get()));
            }
        }
        found
    }

    /// CONFIG SET of one setting. The error is without its beginning.
    pub fn config_set(&self, name: &str, value: &[u8]) -> Result<(), String> {
        let failed = |reason: String| {
            format!("CONFIG SET failed (possibly related to argument '{name}') - {reason}")
        };
        if let Some(setting) = self.module_setting(name) {
            if setting.is_immutable {
                return Err(failed("can't set immutable config".to_owned()));
            }
            setting.set(value).map_err(failed)?;
            let text = String::from_utf8_lossy(value).into_owned();
            self.settings.borrow_mut().insert(name.to_owned(), text);
            return Ok(());
        }
        if self.setting(name).is_none() {
            return Err(format!("Unknown option or number of arguments for CONFIG SET - '{name}'"));
        }
        let text = String::from_utf8_lossy(value).into_owned();
        self.settings.borrow_mut().insert(name.to_owned(), text);
        self.apply_settings();
        Ok(())
    }
}

/// Returns the text of a name that the module passes.
///
/// # Safety
///
/// It must be a C string.
pub unsafe fn name_of(name: *const c_char) -> CString {
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(name) }.to_owned()
}
