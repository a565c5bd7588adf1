//! Settings: `dehydrator.*` in the server's configuration.
//!
//! Each can be set in redis.conf, by CONFIG SET, by MODULE LOADEX, or after the module's path in `loadmodule`; CONFIG REWRITE
//! writes it. The server checks the range and reports errors.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int, c_longlong, c_void};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};

use redis_module::raw::{self, RedisModuleString};

use crate::server::guard::guard;
use crate::server::string::Args;
use crate::server::{Context, OwnedStr, Str, api};
use lawn::SmallMax;

/// A numeric setting.
struct Setting {
    /// Without the prefix `dehydrator.`.
    name: &'static CStr,
    value: AtomicI64,
    default: i64,
    min: i64,
    max: i64,
}

impl Setting {
    const fn new(name: &'static CStr, default: i64, min: i64, max: i64) -> Self {
        Self { name, value: AtomicI64::new(default), default, min, max }
    }

    fn get(&self) -> u64 {
        // No setting can be negative.
        self.value.load(Ordering::Relaxed).unsigned_abs()
    }

    /// Returns the value as a limit: 0 means none.
    fn limit(&self) -> Option<u64> {
        let limit = self.get();
        if limit > 0 { Some(limit) } else { None }
    }

    /// Sets the value from an argument of `loadmodule`.
    fn set_argument(&self, word: &str) -> Result<(), String> {
        let Self { min, max, .. } = *self;
        let number = word.parse().ok().filter(|number| (min..=max).contains(number));
        let name = self.name.to_string_lossy();
        let number = number.ok_or_else(|| format!("{name} is not a number from {min} to {max}"))?;
        self.value.store(number, Ordering::Relaxed);
        Ok(())
    }
}

/// The time budget of deliveries per pass: the minimum allows one or two deliveries, the maximum is noticeable to clients.
static TICK_BUDGET_US: Setting = Setting::new(c"tick-budget-us", 1000, 10, 100_000);
static DEFAULT_SLACK: Setting = Setting::new(c"default-slack", 0, 0, i64::MAX);
static MAX_TTL: Setting = Setting::new(c"max-ttl", 0, 0, i64::MAX);
static MAX_ELEMENTS: Setting = Setting::new(c"max-elements", 0, 0, i64::MAX);
static REPLY_MAX: Setting = Setting::new(c"reply-max", 0, 0, i64::MAX);
/// A linear search through the maximum takes 1 to 2 us.
static SMALL_MAX_ELEMENTS: Setting =
    Setting::new(c"small-max-elements", SmallMax::USUAL.elements as i64, 0, 512);
static SMALL_MAX_BYTES: Setting =
    Setting::new(c"small-max-bytes", SmallMax::USUAL.bytes as i64, 0, 65_536);

static SETTINGS: [&Setting; 7] = [
    &TICK_BUDGET_US,
    &DEFAULT_SLACK,
    &MAX_TTL,
    &MAX_ELEMENTS,
    &REPLY_MAX,
    &SMALL_MAX_ELEMENTS,
    &SMALL_MAX_BYTES,
];

/// Yes or no. It is read only when the module loads, because commands cannot be unregistered.
const REDE_COMMANDS: &CStr = c"rede-commands";
static IS_REDE: AtomicBool = AtomicBool::new(false);

/// The policy of keys without an ONDUE. The callback passed to [`register`] parses it.
const DEFAULT_ONDUE: &CStr = c"default-ondue";
/// Parses and sets the default policy; the flag tells whether this is a cluster. The error is the reason for a refusal.
pub type SetDefaultPolicy = fn(&[u8], bool) -> Result<(), String>;

thread_local! {
    // Settings belong to the server's main thread.
    // Nothing here is dropped with the thread: a library with a thread-local destructor is never unmapped, and a server that
    // unloads the module and loads it again would find the old registration.
    static DEFAULT_ONDUE_TEXT: RefCell<ManuallyDrop<Option<OwnedStr>>> =
        const { RefCell::new(ManuallyDrop::new(None)) };
    static SET_DEFAULT_POLICY: Cell<SetDefaultPolicy> = const { Cell::new(|_, _| Ok(())) };
    static IS_CLUSTER: Cell<bool> = const { Cell::new(false) };
}

/// Returns the time budget of deliveries per pass, in microseconds.
pub fn tick_budget_us() -> u64 {
    TICK_BUDGET_US.get()
}

/// Returns the slack of elements pushed without SLACK, in milliseconds.
pub fn default_slack() -> Option<u64> {
    DEFAULT_SLACK.limit()
}

/// Returns the maximum TTL that a client may use, in milliseconds.
pub fn max_ttl() -> Option<u64> {
    MAX_TTL.limit()
}

/// Returns the maximum number of elements that clients may store in one dehydrator.
pub fn max_elements() -> Option<u64> {
    MAX_ELEMENTS.limit()
}

/// Returns the maximum number of elements, or ids, in one reply.
pub fn reply_max() -> usize {
    REPLY_MAX.limit().and_then(|limit| limit.try_into().ok()).unwrap_or(usize::MAX)
}

/// Returns the maximum size of a dehydrator that is stored in one allocation.
pub fn small_max() -> SmallMax {
    SmallMax { elements: SMALL_MAX_ELEMENTS.get() as usize, bytes: SMALL_MAX_BYTES.get() as usize }
}

/// Returns whether commands are also registered under ReDe's names.
pub fn rede_commands() -> bool {
    IS_REDE.load(Ordering::Relaxed)
}

/// Reads the settings in the arguments of `loadmodule`, pairs of `name value`, and registers all settings.
///
/// The arguments are registered as defaults. So values from CONFIG REWRITE or MODULE LOADEX take precedence, and CONFIG REWRITE
/// knows which values to write.
///
/// # Errors
///
/// The reason, for the server's log.
pub fn register(
    context: &Context,
    args: Args<'_>,
    set_default_policy: SetDefaultPolicy,
) -> Result<(), String> {
    SET_DEFAULT_POLICY.set(set_default_policy);
    IS_CLUSTER.set(context.is_cluster());
    set_default_ondue(b"")?;
    let context = context.as_ptr();
    // A failed load may have left values.
    SETTINGS.iter().for_each(|setting| setting.value.store(setting.default, Ordering::Relaxed));
    IS_REDE.store(false, Ordering::Relaxed);
    let words: Vec<_> = args.from(0).map(|word| String::from_utf8_lossy(word.bytes())).collect();
    words.chunks(2).try_for_each(read_argument)?;
    for setting in SETTINGS {
        let Setting { name, min, max, .. } = *setting;
        let default = setting.value.load(Ordering::Relaxed);
        let data = ptr::from_ref(setting).cast_mut().cast::<c_void>();
        let flags = raw::REDISMODULE_CONFIG_DEFAULT;
        let (get, set) = (Some(get as GetNumber), Some(set as SetNumber));
        // SAFETY: the context is live while the module loads; name and data are static.
        let status = unsafe {
            let name = name.as_ptr();
            api!(RedisModule_RegisterNumericConfig(
                context, name, default, flags, min, max, get, set, None, data
            ))
        };
        if status != raw::REDISMODULE_OK as c_int {
            return Err(format!("the server refuses the setting {name:?}"));
        }
    }
    // SAFETY: as above.
    let status = unsafe {
        let (name, flags) = (REDE_COMMANDS.as_ptr(), raw::REDISMODULE_CONFIG_IMMUTABLE);
        let (get, set, data) =
            (Some(get_rede as GetBool), Some(set_rede as SetBool), ptr::null_mut());
        let default = rede_commands().into();
        api!(RedisModule_RegisterBoolConfig(context, name, default, flags, get, set, None, data))
    };
    // SAFETY: as above; the server copies the text.
    let text_status = unsafe {
        let default = DEFAULT_ONDUE_TEXT.with_borrow(|text| {
            let text = text.as_ref().map_or(&b""[..], |text| text.as_str().bytes());
            CString::new(text).unwrap_or_default()
        });
        let (name, flags) = (DEFAULT_ONDUE.as_ptr(), raw::REDISMODULE_CONFIG_DEFAULT);
        let (get, set) = (Some(get_text as GetText), Some(set_text as SetText));
        let default = default.as_ptr();
        api!(RedisModule_RegisterStringConfig(
            context,
            name,
            default,
            flags,
            get,
            set,
            None,
            ptr::null_mut()
        ))
    };
    if text_status != raw::REDISMODULE_OK as c_int {
        return Err("the server refuses the setting default-ondue".to_owned());
    }
    // SAFETY: as above.
    let loaded = unsafe { api!(RedisModule_LoadConfigs(context)) };
    if [status, loaded] != [raw::REDISMODULE_OK as c_int; 2] {
        return Err("the server refuses a setting".to_owned());
    }
    Ok(())
}

/// Reads one setting from the arguments of `loadmodule`.
fn read_argument(pair: &[Cow<'_, str>]) -> Result<(), String> {
    let [name, value] = pair else { return Err(format!("the setting {} has no value", pair[0])) };
    if name.as_bytes() == REDE_COMMANDS.to_bytes() {
        let is_on = match &value.to_lowercase()[..] {
            "yes" => true,
            "no" => false,
            _ => return Err(format!("{name} must be yes or no")),
        };
        IS_REDE.store(is_on, Ordering::Relaxed);
        return Ok(());
    }
    if name.as_bytes() == DEFAULT_ONDUE.to_bytes() {
        return set_default_ondue(value.as_bytes());
    }
    let known = SETTINGS.iter().find(|setting| setting.name.to_bytes() == name.as_bytes());
    known.ok_or_else(|| format!("there is no setting {name}"))?.set_argument(value)
}

fn set_default_ondue(text: &[u8]) -> Result<(), String> {
    SET_DEFAULT_POLICY.get()(text, IS_CLUSTER.get())?;
    let before = DEFAULT_ONDUE_TEXT.replace(ManuallyDrop::new(Some(OwnedStr::new(text))));
    drop(ManuallyDrop::into_inner(before));
    Ok(())
}

type GetText = unsafe extern "C" fn(*const c_char, *mut c_void) -> *mut RedisModuleString;
type SetText = unsafe extern "C" fn(
    *const c_char,
    *mut RedisModuleString,
    *mut c_void,
    *mut *mut RedisModuleString,
) -> c_int;
type GetNumber = unsafe extern "C" fn(*const c_char, *mut c_void) -> c_longlong;
type SetNumber = unsafe extern "C" fn(
    *const c_char,
    c_longlong,
    *mut c_void,
    *mut *mut RedisModuleString,
) -> c_int;
type GetBool = unsafe extern "C" fn(*const c_char, *mut c_void) -> c_int;
type SetBool =
    unsafe extern "C" fn(*const c_char, c_int, *mut c_void, *mut *mut RedisModuleString) -> c_int;

unsafe extern "C" fn get(_name: *const c_char, data: *mut c_void) -> c_longlong {
    // SAFETY: the server passes the data of `register`: a static setting.
    guard(0, || unsafe { &*data.cast::<Setting>() }.value.load(Ordering::Relaxed))
}

unsafe extern "C" fn set(
    _name: *const c_char,
    value: c_longlong,
    data: *mut c_void,
    _error: *mut *mut RedisModuleString,
) -> c_int {
    guard(raw::REDISMODULE_ERR as c_int, || {
        // SAFETY: as in `get`. The server has checked the range.
        unsafe { &*data.cast::<Setting>() }.value.store(value, Ordering::Relaxed);
        raw::REDISMODULE_OK as c_int
    })
}

unsafe extern "C" fn get_rede(_name: *const c_char, _data: *mut c_void) -> c_int {
    rede_commands().into()
}

unsafe extern "C" fn set_rede(
    _name: *const c_char,
    value: c_int,
    _data: *mut c_void,
    _error: *mut *mut RedisModuleString,
) -> c_int {
    IS_REDE.store(value != 0, Ordering::Relaxed);
    raw::REDISMODULE_OK as c_int
}

/// Returns the text, which still belongs to the module.
unsafe extern "C" fn get_text(_name: *const c_char, _data: *mut c_void) -> *mut RedisModuleString {
    guard(ptr::null_mut(), || {
        DEFAULT_ONDUE_TEXT.with_borrow(|text| {
            text.as_ref().map_or(ptr::null_mut(), |text| text.as_str().as_ptr())
        })
    })
}

unsafe extern "C" fn set_text(
    _name: *const c_char,
    value: *mut RedisModuleString,
    _data: *mut c_void,
    error: *mut *mut RedisModuleString,
) -> c_int {
    guard(raw::REDISMODULE_ERR as c_int, || {
        let Some(value) = NonNull::new(value) else { return raw::REDISMODULE_ERR as c_int };
        // SAFETY: the server passes a string that lives until this returns.
        let value = unsafe { Str::from_raw(value) };
        let Err(reason) = set_default_ondue(value.bytes()) else {
            return raw::REDISMODULE_OK as c_int;
        };
        // SAFETY: `error` is null or points to room for the reason, which the server frees.
        unsafe {
            if !error.is_null() {
                *error = OwnedStr::new(reason.as_bytes()).into_raw();
            }
        }
        raw::REDISMODULE_ERR as c_int
    })
}
