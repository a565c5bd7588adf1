//! Settings in the server's configuration, under the module's name.
//!
//! The arguments of `loadmodule`, pairs of `name value`, are registered as defaults. So values from CONFIG REWRITE or MODULE
//! LOADEX take precedence, and CONFIG REWRITE knows which values to write. The server checks ranges and reports errors.

use std::ffi::{CStr, CString, c_char, c_int, c_longlong, c_void};
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicI64, AtomicPtr, Ordering};

use redis_module::raw::{self, RedisModuleCtx, RedisModuleString};

use crate::server::guard::guard;
use crate::server::string::Args;
use crate::server::{Context, OwnedStr, Str};

const OK: c_int = raw::REDISMODULE_OK as c_int;
const ERR: c_int = raw::REDISMODULE_ERR as c_int;

/// A setting. Only the server's main thread reads or changes it.
pub trait Setting: Sync {
    /// Returns the name, without the module's.
    fn name(&self) -> &'static CStr;

    /// Sets the default, which owns no memory: a load of the module that failed may have left another value.
    fn reset(&self);

    /// Returns whether the value is all words up to the next setting's name, rather than one.
    fn is_text(&self) -> bool;

    /// Sets the value from an argument of `loadmodule`.
    ///
    /// # Errors
    ///
    /// The reason for a refusal.
    fn set_argument(&self, word: &[u8]) -> Result<(), String>;

    /// Registers the setting with its present value as the default. Returns the server's status.
    fn register(&'static self, context: *mut RedisModuleCtx) -> c_int;
}

/// Reads the arguments of `loadmodule`, and registers these settings, which are all that the module has.
///
/// # Errors
///
/// The reason, for the server's log.
pub fn register(
    context: &Context,
    args: Args<'_>,
    settings: &[&'static dyn Setting],
) -> Result<(), String> {
    settings.iter().for_each(|setting| setting.reset());
    let words: Vec<_> = args.from(0).map(Str::bytes).collect();
    let named = |word: &[u8]| settings.iter().find(|setting| setting.name().to_bytes() == word);
    let mut rest = &words[..];
    while let [name, behind @ ..] = rest {
        let shown = String::from_utf8_lossy(name);
        let setting = named(name).ok_or_else(|| format!("there is no setting {shown}"))?;
        let count = match setting.is_text() {
            true => behind.iter().take_while(|word| named(word).is_none()).count(),
            false => 1,
        };
        let value =
            behind.get(..count).ok_or_else(|| format!("the setting {shown} has no value"))?;
        let value = value.join(&b' ');
        if setting.is_text() && !can_be_rewritten(&value, |word| named(word).is_some()) {
            return Err(format!(
                "{shown} cannot be an argument with this value, because CONFIG REWRITE and Sentinel write arguments \
                 without quotes: set dehydrator.{shown} on a line of its own"
            ));
        }
        setting.set_argument(&value)?;
        rest = &behind[count..];
    }
    for setting in settings {
        if setting.register(context.as_ptr()) != OK {
            return Err(format!("the server refuses the setting {:?}", setting.name()));
        }
    }
    // SAFETY: the context is live.
    let loaded = unsafe { api!(RedisModule_LoadConfigs(context.as_ptr())) };
    if loaded == OK { Ok(()) } else { Err("the server refuses a setting".to_owned()) }
}

/// Returns whether a text is read as the same words after the server has written it without quotes, as it writes the arguments
/// of a module.
fn can_be_rewritten(text: &[u8], is_name: impl Fn(&[u8]) -> bool) -> bool {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !b"\"'\\".contains(byte);
    let mut words = text.split(u8::is_ascii_whitespace);
    words.all(|word| word.iter().all(is_plain) && !is_name(word))
}

/// A numeric setting, which is never negative. Or a switch: yes or no.
pub struct Number {
    name: &'static CStr,
    value: AtomicI64,
    default: i64,
    min: i64,
    max: i64,
    is_switch: bool,
    /// Set if the value cannot change once the module is loaded.
    is_fixed: bool,
}

impl Number {
    pub const fn new(name: &'static CStr, default: i64, min: i64, max: i64) -> Self {
        let value = AtomicI64::new(default);
        Self { name, value, default, min, max, is_switch: false, is_fixed: false }
    }

    /// Creates a switch.
    pub const fn switch(name: &'static CStr, is_on: bool) -> Self {
        Self { is_switch: true, ..Self::new(name, is_on as i64, 0, 1) }
    }

    /// Creates a switch that is no by default, and cannot change once the module is loaded.
    pub const fn fixed_switch(name: &'static CStr) -> Self {
        Self { is_fixed: true, ..Self::switch(name, false) }
    }

    pub fn get(&self) -> u64 {
        self.value.load(Ordering::Relaxed).unsigned_abs()
    }

    /// Returns the value as a limit: 0 means none.
    pub fn limit(&self) -> Option<u64> {
        let limit = self.get();
        if limit > 0 { Some(limit) } else { None }
    }
}

impl Setting for Number {
    fn name(&self) -> &'static CStr {
        self.name
    }

    fn reset(&self) {
        self.value.store(self.default, Ordering::Relaxed);
    }

    fn is_text(&self) -> bool {
        false
    }

    fn set_argument(&self, word: &[u8]) -> Result<(), String> {
        let Self { min, max, .. } = *self;
        let number = match &word.to_ascii_lowercase()[..] {
            b"yes" if self.is_switch => Some(1),
            b"no" if self.is_switch => Some(0),
            _ if self.is_switch => None,
            word => std::str::from_utf8(word).ok().and_then(|word| word.parse().ok()),
        };
        let number = number.filter(|number| (min..=max).contains(number));
        let number = number.ok_or_else(|| match (self.name.to_string_lossy(), self.is_switch) {
            (name, true) => format!("{name} must be yes or no"),
            (name, false) => format!("{name} is not a number from {min} to {max}"),
        })?;
        self.value.store(number, Ordering::Relaxed);
        Ok(())
    }

    fn register(&'static self, context: *mut RedisModuleCtx) -> c_int {
        let (name, default, data) =
            (self.name.as_ptr(), self.value.load(Ordering::Relaxed), data(self));
        let (flags, min, max) = (raw::REDISMODULE_CONFIG_DEFAULT, self.min, self.max);
        let (get, set) = (Some(get_number as GetNumber), Some(set_number as SetNumber));
        let (is_on, set_on) = (Some(get_switch as GetSwitch), Some(set_switch as SetSwitch));
        // SAFETY: the context is live while the module loads; name and data are static.
        unsafe {
            if self.is_switch {
                let default = default as c_int;
                let flags = if self.is_fixed { raw::REDISMODULE_CONFIG_IMMUTABLE } else { flags };
                return api!(RedisModule_RegisterBoolConfig(
                    context, name, default, flags, is_on, set_on, None, data
                ));
            }
            api!(RedisModule_RegisterNumericConfig(
                context, name, default, flags, min, max, get, set, None, data
            ))
        }
    }
}

/// A setting that is a text, empty by default.
pub struct Text {
    name: &'static CStr,
    /// Reads and applies a text, or returns the reason for a refusal.
    apply: fn(&[u8]) -> Result<(), String>,
    /// Null stands for the empty text. A plain pointer, because nothing here may be dropped with the thread: a library with a
    /// thread-local destructor is never unmapped, and a server that unloads the module and loads it again would find the old
    /// registration.
    text: AtomicPtr<RedisModuleString>,
}

impl Text {
    /// Creates a setting whose texts `apply` reads and applies. `apply` returns the reason for a refusal.
    pub const fn new(name: &'static CStr, apply: fn(&[u8]) -> Result<(), String>) -> Self {
        Self { name, apply, text: AtomicPtr::new(ptr::null_mut()) }
    }

    fn set(&self, text: &[u8]) -> Result<(), String> {
        (self.apply)(text)?;
        self.replace(if text.is_empty() { None } else { Some(OwnedStr::new(text)) });
        Ok(())
    }

    fn replace(&self, text: Option<OwnedStr>) {
        let text = text.map_or(ptr::null_mut(), OwnedStr::into_raw);
        let before = self.text.swap(text, Ordering::Relaxed);
        // SAFETY: the pointer is null or came from `into_raw`, and is used no more.
        drop(NonNull::new(before).map(|before| unsafe { OwnedStr::from_raw(before) }));
    }
}

impl Setting for Text {
    fn name(&self) -> &'static CStr {
        self.name
    }

    fn reset(&self) {
        self.set(b"").expect("every setting can be empty");
    }

    fn is_text(&self) -> bool {
        true
    }

    fn set_argument(&self, word: &[u8]) -> Result<(), String> {
        self.set(word)
    }

    fn register(&'static self, context: *mut RedisModuleCtx) -> c_int {
        let text = NonNull::new(self.text.load(Ordering::Relaxed));
        // SAFETY: the setting owns the string.
        let text = text.map_or(&b""[..], |text| unsafe { Str::from_raw(text) }.bytes());
        let default = CString::new(text).unwrap_or_default();
        let (name, default, data) = (self.name.as_ptr(), default.as_ptr(), data(self));
        let flags = raw::REDISMODULE_CONFIG_DEFAULT;
        let (get, set) = (Some(get_text as GetText), Some(set_text as SetText));
        // SAFETY: the context is live while the module loads; name and data are static, and the server copies the text.
        unsafe {
            api!(RedisModule_RegisterStringConfig(
                context, name, default, flags, get, set, None, data
            ))
        }
    }
}

/// Returns what the server passes to the functions below.
fn data<T>(setting: &'static T) -> *mut c_void {
    ptr::from_ref(setting).cast_mut().cast()
}

type Name = *const c_char;
type Reason = *mut *mut RedisModuleString;
type GetNumber = unsafe extern "C" fn(Name, *mut c_void) -> c_longlong;
type SetNumber = unsafe extern "C" fn(Name, c_longlong, *mut c_void, Reason) -> c_int;
type GetSwitch = unsafe extern "C" fn(Name, *mut c_void) -> c_int;
type SetSwitch = unsafe extern "C" fn(Name, c_int, *mut c_void, Reason) -> c_int;
type GetText = unsafe extern "C" fn(Name, *mut c_void) -> *mut RedisModuleString;
type SetText = unsafe extern "C" fn(Name, *mut RedisModuleString, *mut c_void, Reason) -> c_int;

// The server passes each of these functions the data of its `register`: a static setting of that type. Every `SAFETY` below
// relies on that promise.

unsafe extern "C" fn get_number(_name: Name, data: *mut c_void) -> c_longlong {
    // SAFETY: the server's promise above.
    guard(0, || unsafe { &*data.cast::<Number>() }.value.load(Ordering::Relaxed))
}

unsafe extern "C" fn set_number(_: Name, value: c_longlong, data: *mut c_void, _: Reason) -> c_int {
    guard(ERR, || {
        // SAFETY: the server's promise above. It has checked the range.
        unsafe { &*data.cast::<Number>() }.value.store(value, Ordering::Relaxed);
        OK
    })
}

unsafe extern "C" fn get_switch(name: Name, data: *mut c_void) -> c_int {
    // SAFETY: the caller's promise is the same.
    unsafe { get_number(name, data) as c_int }
}

unsafe extern "C" fn set_switch(name: Name, on: c_int, data: *mut c_void, error: Reason) -> c_int {
    // SAFETY: the caller's promise is the same.
    unsafe { set_number(name, on.into(), data, error) }
}

/// Returns the text, which still belongs to the module.
unsafe extern "C" fn get_text(_name: Name, data: *mut c_void) -> *mut RedisModuleString {
    // SAFETY: the server's promise above.
    let setting = unsafe { &*data.cast::<Text>() };
    guard(ptr::null_mut(), || {
        if setting.text.load(Ordering::Relaxed).is_null() {
            // The server asks for a text, not for null.
            setting.replace(Some(OwnedStr::new(b"")));
        }
        setting.text.load(Ordering::Relaxed)
    })
}

unsafe extern "C" fn set_text(
    _name: Name,
    value: *mut RedisModuleString,
    data: *mut c_void,
    error: Reason,
) -> c_int {
    guard(ERR, || {
        let Some(value) = NonNull::new(value) else { return ERR };
        // SAFETY: the server's promise above, and the value lives until this returns.
        let (setting, value) = unsafe { (&*data.cast::<Text>(), Str::from_raw(value)) };
        let Err(reason) = setting.set(value.bytes()) else { return OK };
        // SAFETY: `error` is null or points to room for the reason, which the server frees.
        unsafe {
            if !error.is_null() {
                *error = OwnedStr::new(reason.as_bytes()).into_raw();
            }
        }
        ERR
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_an_argument_only_if_it_can_be_read_again_without_quotes() {
        let can = |text: &str| can_be_rewritten(text.as_bytes(), |word| word == b"name");
        for text in
            ["", "jobs:* HOLD DELIVERIES 5 STREAM *:dead ; mail:* DROP", "a names", "name:x"]
        {
            assert!(can(text), "{text}");
        }
        for text in ["it's", "a\"b", "a\\b", "a\0b", "a name", "name", "\u{e4}"] {
            assert!(!can(text), "{text}");
        }
    }
}
