//! What a load registers: commands, the type, settings, events, INFO, filters.

use std::ffi::{CStr, CString, c_char, c_int, c_longlong, c_ulonglong, c_void};
use std::ptr;

use redis_module::raw::{self, RedisModuleCommandInfo, RedisModuleTypeMethods};

use super::super::command::{Command, Find, KeySpec, ModuleCommand, Run};
use super::super::event_loop::EventCallback;
use super::super::info;
use super::super::server::current;
use super::super::settings::{self, Access, ModuleSetting};
use super::super::text::{Raw, Words};
use super::context::count;
use super::{ERR, OK};

// The module calls the functions below. It passes what each signature says, live for the call. Every `SAFETY` relies on that.

pub unsafe extern "C" fn is_module_name_busy(_name: *const c_char) -> c_int {
    0
}

pub unsafe extern "C" fn set_module_attribs(
    _context: *mut c_void,
    _name: *const c_char,
    _version: c_int,
    _api: c_int,
) {
}

pub unsafe extern "C" fn set_module_options(_context: *mut c_void, options: c_int) {
    count().module_options.set(options);
}

pub unsafe extern "C" fn module_options() -> c_int {
    // The last one is support for atomic slot migration.
    0b11_1111
}

pub unsafe extern "C" fn open_key_modes() -> c_int {
    (raw::REDISMODULE_READ | raw::REDISMODULE_WRITE | 0x1f << 16) as c_int
}

pub unsafe extern "C" fn create_command(
    _context: *mut c_void,
    name: *const c_char,
    run: ModuleCommand,
    flags: *const c_char,
    first: c_int,
    last: c_int,
    step: c_int,
) -> c_int {
    // SAFETY: see above.
    let (name, flags) = unsafe { (CStr::from_ptr(name), CStr::from_ptr(flags)) };
    let flags = flags.to_string_lossy();
    let has = |flag: &str| flags.split(' ').any(|it| it == flag);
    let find = Find::Range { last: last - first, step: step.max(1) as usize };
    let key = KeySpec { keyword: None, from: first, find };
    current().add_command(Command {
        name: name.to_bytes().to_ascii_lowercase().into(),
        arity: -1,
        run: Run::Module(run),
        is_write: has("write"),
        denies_oom: has("deny-oom"),
        may_replicate: has("write"),
        has_no_script: has("no-script"),
        keys: if first > 0 { vec![key] } else { Vec::new() },
    });
    OK
}

pub unsafe extern "C" fn get_command(_context: *mut c_void, name: *const c_char) -> *const Command {
    // SAFETY: see above.
    let name = unsafe { CStr::from_ptr(name) };
    current().command(name.to_bytes()).map_or(ptr::null(), ptr::from_ref)
}

pub unsafe extern "C" fn set_command_info(
    command: *const Command,
    info: *const RedisModuleCommandInfo,
) -> c_int {
    // SAFETY: see above. The list of keys ends with an entry of zeroes.
    unsafe {
        let (command, info) = (&*command, &*info);
        let mut keys = Vec::new();
        let mut spec = info.key_specs;
        while !spec.is_null() && (*spec).begin_search_type != 0 {
            keys.push(key_spec(&*spec));
            spec = spec.add(1);
        }
        current().add_command(Command {
            name: command.name.clone(),
            arity: info.arity,
            keys: if keys.is_empty() { command.keys.clone() } else { keys },
            ..*command
        });
    }
    OK
}

/// Reads where a key is.
///
/// # Safety
///
/// The description must be sound.
unsafe fn key_spec(spec: &raw::RedisModuleCommandKeySpec) -> KeySpec {
    let is_word = spec.begin_search_type
        == raw::RedisModuleKeySpecBeginSearchType_REDISMODULE_KSPEC_BS_KEYWORD;
    let is_counted =
        spec.find_keys_type == raw::RedisModuleKeySpecFindKeysType_REDISMODULE_KSPEC_FK_KEYNUM;
    // SAFETY: the types say which part of each union is set.
    unsafe {
        let (keyword, from) = match is_word {
            true => {
                let keyword = CStr::from_ptr(spec.bs.keyword.keyword).to_bytes().to_vec();
                (Some(keyword), spec.bs.keyword.startfrom)
            }
            false => (None, spec.bs.index.pos),
        };
        let find = match is_counted {
            true => Find::Counted,
            false => {
                let range = spec.fk.range;
                Find::Range { last: range.lastkey, step: range.keystep as usize }
            }
        };
        KeySpec { keyword, from, find }
    }
}

pub unsafe extern "C" fn add_acl_category(_context: *mut c_void, _name: *const c_char) -> c_int {
    OK
}

pub unsafe extern "C" fn set_command_categories(
    _command: *const Command,
    _categories: *const c_char,
) -> c_int {
    OK
}

pub unsafe extern "C" fn create_data_type(
    _context: *mut c_void,
    _name: *const c_char,
    version: c_int,
    methods: *mut RedisModuleTypeMethods,
) -> *const c_void {
    let server = count();
    // SAFETY: see above. The methods are copied.
    let methods: &'static _ = Box::leak(Box::new(unsafe { ptr::read(methods) }));
    *server.methods.borrow_mut() = Some(methods);
    server.encoding_version.set(version);
    ptr::from_ref(methods).cast()
}

fn register(name: CString, flags: u32, data: *mut c_void, access: Access) -> c_int {
    let is_immutable = flags & raw::REDISMODULE_CONFIG_IMMUTABLE != 0;
    let setting = ModuleSetting { name, is_immutable, data, access };
    current().module_settings.borrow_mut().push(setting);
    OK
}

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn register_numeric(
    _context: *mut c_void,
    name: *const c_char,
    default: c_longlong,
    flags: u32,
    min: c_longlong,
    max: c_longlong,
    get: settings::GetNumber,
    set: settings::SetNumber,
    _apply: *mut c_void,
    data: *mut c_void,
) -> c_int {
    // SAFETY: see above.
    let name = unsafe { settings::name_of(name) };
    register(name, flags, data, Access::Number { get, set, min, max, default })
}

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn register_bool(
    _context: *mut c_void,
    name: *const c_char,
    default: c_int,
    flags: u32,
    get: settings::GetSwitch,
    set: settings::SetSwitch,
    _apply: *mut c_void,
    data: *mut c_void,
) -> c_int {
    // SAFETY: see above.
    let name = unsafe { settings::name_of(name) };
    register(name, flags, data, Access::Switch { get, set, default: default != 0 })
}

#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn register_string(
    _context: *mut c_void,
    name: *const c_char,
    default: *const c_char,
    flags: u32,
    get: settings::GetText,
    set: settings::SetText,
    _apply: *mut c_void,
    data: *mut c_void,
) -> c_int {
    // SAFETY: see above.
    let (name, default) = unsafe { (settings::name_of(name), CStr::from_ptr(default)) };
    let default = default.to_bytes().to_vec();
    register(name, flags, data, Access::Text { get, set, default })
}

pub unsafe extern "C" fn load_configs(_context: *mut c_void) -> c_int {
    if count().load_module_settings() { OK } else { ERR }
}

pub unsafe extern "C" fn subscribe_to_server_event(
    _context: *mut c_void,
    event: raw::RedisModuleEvent,
    run: Option<EventCallback>,
) -> c_int {
    let server = count();
    // The events of each kind as far as the module asks for them.
    if event.id > server.kind.last_event() {
        return ERR;
    }
    server.hooks.subscribe(event.id, run);
    OK
}

pub unsafe extern "C" fn register_info_func(
    _context: *mut c_void,
    run: unsafe extern "C" fn(*mut c_void, c_int),
) -> c_int {
    count().hooks.info.set(Some(run));
    OK
}

pub unsafe extern "C" fn info_add_section(section: *mut String, name: *const c_char) -> c_int {
    // SAFETY: see above.
    unsafe {
        let name = CStr::from_ptr(name).to_string_lossy();
        let line = if name.is_empty() { String::new() } else { format!("_{name}") };
        (*section).push_str(&format!("# dehydrator{line}\r\n"));
    }
    OK
}

pub unsafe extern "C" fn info_add_text(
    section: *mut String,
    field: *const c_char,
    value: *const c_char,
) -> c_int {
    // SAFETY: see above.
    unsafe {
        let (field, value) = (CStr::from_ptr(field), CStr::from_ptr(value));
        let line =
            format!("dehydrator_{}:{}\r\n", field.to_string_lossy(), value.to_string_lossy());
        (*section).push_str(&line);
    }
    OK
}

pub unsafe extern "C" fn info_add_number(
    section: *mut String,
    field: *const c_char,
    value: c_ulonglong,
) -> c_int {
    // SAFETY: see above.
    unsafe {
        let line = format!("dehydrator_{}:{value}\r\n", CStr::from_ptr(field).to_string_lossy());
        (*section).push_str(&line);
    }
    OK
}

pub unsafe extern "C" fn get_server_info(
    _context: *mut c_void,
    section: *const c_char,
) -> *mut info::Fields {
    // SAFETY: see above.
    let section = unsafe { CStr::from_ptr(section) }.to_string_lossy();
    Box::into_raw(Box::new(count().info_fields(&section)))
}

pub unsafe extern "C" fn free_server_info(_context: *mut c_void, fields: *mut info::Fields) {
    // SAFETY: see above.
    drop(unsafe { Box::from_raw(fields) });
}

pub unsafe extern "C" fn get_unsigned(
    fields: *mut info::Fields,
    field: *const c_char,
    failed: *mut c_int,
) -> c_ulonglong {
    // SAFETY: see above.
    unsafe {
        let field = CStr::from_ptr(field).to_string_lossy();
        let number = (*fields).get(&*field).and_then(|text| text.to_str().ok()?.parse().ok());
        failed.write(number.is_none().into());
        number.unwrap_or(0)
    }
}

pub unsafe extern "C" fn get_c_text(
    fields: *mut info::Fields,
    field: *const c_char,
) -> *const c_char {
    // SAFETY: see above.
    unsafe {
        let field = CStr::from_ptr(field).to_string_lossy();
        (*fields).get(&*field).map_or(ptr::null(), |text| text.as_ptr())
    }
}

type Filter = unsafe extern "C" fn(*mut c_void);

pub unsafe extern "C" fn register_command_filter(
    _context: *mut c_void,
    run: Filter,
    _flags: c_int,
) -> *mut c_void {
    let server = count();
    assert!(server.hooks.filter.get().is_none(), "one filter at a time");
    server.hooks.filter.set(Some(run));
    run as *mut c_void
}

pub unsafe extern "C" fn unregister_command_filter(
    _context: *mut c_void,
    filter: *mut c_void,
) -> c_int {
    let server = count();
    assert_eq!(server.hooks.filter.get().map(|it| it as *mut c_void), Some(filter));
    server.hooks.filter.set(None);
    OK
}

pub unsafe extern "C" fn command_filter_arg(command: *mut Words, at: c_int) -> Raw {
    // SAFETY: see above.
    unsafe { (*command).at(at as usize) }
}

pub unsafe extern "C" fn get_notify_keyspace_events() -> c_int {
    count().notified.get()
}
