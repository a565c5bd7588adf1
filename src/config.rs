//! Settings: `dehydrator.*` in the server's own configuration.
//!
//! Each is set in redis.conf, by CONFIG SET, by MODULE LOADEX, or behind the module's path in
//! `loadmodule`, and rewritten by CONFIG REWRITE. The server checks the range and says what is wrong.

use std::ffi::{CStr, c_char, c_int, c_longlong, c_void};
use std::sync::atomic::{AtomicI64, Ordering};

use redis_module::raw::{self, RedisModuleString};

use crate::server::guard::guard;
use crate::server::string::Args;
use crate::server::{Context, api};

/// A setting that is a number.
struct Setting {
    /// Behind `dehydrator.`.
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
        // No setting may be negative.
        self.value.load(Ordering::Relaxed).unsigned_abs()
    }
}

/// What delivering may take of one go, before clients have their turn: at the lower end a delivery or
/// two, at the upper end what a client would notice.
static TICK_BUDGET_US: Setting = Setting::new(c"tick-budget-us", 1000, 10, 100_000);

static SETTINGS: [&Setting; 1] = [&TICK_BUDGET_US];

/// What delivering may take of one go, in microseconds.
pub fn tick_budget_us() -> u64 {
    TICK_BUDGET_US.get()
}

/// Tells the server of all settings, and takes what `loadmodule` said of them: `name value`, by turns.
///
/// # Errors
///
/// What is wrong, for the server's log.
pub fn register(context: &Context, args: Args<'_>) -> Result<(), String> {
    for setting in SETTINGS {
        let data = std::ptr::from_ref(setting).cast_mut().cast::<c_void>();
        // SAFETY: the context is live while the module loads; name and data are static.
        let status = unsafe {
            api!(RedisModule_RegisterNumericConfig(
                context.as_ptr(),
                setting.name.as_ptr(),
                setting.default,
                raw::REDISMODULE_CONFIG_DEFAULT,
                setting.min,
                setting.max,
                Some(get),
                Some(set),
                None,
                data
            ))
        };
        if status != raw::REDISMODULE_OK as c_int {
            return Err(format!("the server refuses the setting {:?}", setting.name));
        }
    }
    // SAFETY: the context is live while the module loads.
    if unsafe { api!(RedisModule_LoadConfigs(context.as_ptr())) } != raw::REDISMODULE_OK as c_int {
        return Err("a setting is wrong".to_owned());
    }
    let words: Vec<_> = args.from(0).map(|word| String::from_utf8_lossy(word.bytes())).collect();
    for pair in words.chunks(2) {
        let [name, value] = pair else {
            return Err(format!("the setting {} has no value", pair[0]));
        };
        let name_is = |setting: &&&Setting| setting.name.to_bytes() == name.as_bytes();
        let known = SETTINGS.iter().find(name_is);
        let setting = known.ok_or_else(|| format!("there is no setting {name}"))?;
        let (min, max) = (setting.min, setting.max);
        let number = value.parse().ok().filter(|number| (min..=max).contains(number));
        let number = number.ok_or_else(|| format!("{name} is not a number from {min} to {max}"))?;
        setting.value.store(number, Ordering::Relaxed);
    }
    Ok(())
}

unsafe extern "C" fn get(_name: *const c_char, data: *mut c_void) -> c_longlong {
    // SAFETY: the server hands back what `register` gave it: a static setting.
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
