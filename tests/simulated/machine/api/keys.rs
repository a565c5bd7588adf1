//! Open keys; walks over a database; keyspace events.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_int, c_longlong, c_void};
use std::ptr;

use redis_module::raw;

use super::super::clock;
use super::super::keyspace::{Names, Value};
use super::super::notify::class;
use super::super::server::{Server, current};
use super::super::text::{self, Raw};
use super::context::{count, of};
use super::{ERR, OK};

/// An open key.
pub struct Key {
    db: u32,
    name: Raw,
    is_writable: bool,
    /// The value that was there when the key was opened, or that was set since; 0: none.
    value: Cell<u64>,
    /// The count of changes when `value` was last seen to be there.
    seen: Cell<u64>,
    kind: Cell<c_int>,
    pointer: Cell<*mut c_void>,
}

impl Key {
    fn look(&self, server: &Server) {
        let entry = server.entry(self.db, self.name(), |entry| {
            let (kind, pointer) = match &entry.value {
                Value::String(_) => (raw::REDISMODULE_KEYTYPE_STRING, ptr::null_mut()),
                Value::List(_) => (raw::REDISMODULE_KEYTYPE_LIST, ptr::null_mut()),
                Value::Stream(_) => (raw::REDISMODULE_KEYTYPE_STREAM, ptr::null_mut()),
                Value::Module(value) => (raw::REDISMODULE_KEYTYPE_MODULE, *value),
            };
            (entry.id, kind as c_int, pointer)
        });
        let (id, kind, pointer) = entry.unwrap_or((0, 0, ptr::null_mut()));
        self.value.set(id);
        self.kind.set(kind);
        self.pointer.set(pointer);
        self.seen.set(server.changes.get());
    }

    fn name(&self) -> &[u8] {
        // SAFETY: the key holds a reference.
        unsafe { text::bytes(self.name) }
    }

    /// Checks that the value is still the one that the key shows: a real server would read freed memory.
    fn check(&self, server: &Server) {
        if self.seen.get() != server.changes.get() && self.value.get() != 0 {
            let now = server.entry(self.db, self.name(), |entry| entry.id);
            assert_eq!(now, Some(self.value.get()), "an open key is used whose value was removed");
            self.seen.set(server.changes.get());
        }
    }
}

/// Returns an open key, checked.
///
/// # Safety
///
/// It must be live.
unsafe fn open<'a>(key: *mut Key) -> &'a Key {
    // SAFETY: the caller's promise.
    let key = unsafe { key.as_ref() }.expect("the module passes a key");
    key.check(count());
    key
}

// The module calls the functions below. It passes what each signature says, live for the call. Every `SAFETY` relies on that.

pub unsafe extern "C" fn open_key(context: *mut c_void, name: Raw, mode: c_int) -> *mut Key {
    let server = count();
    let mode = mode as u32;
    // SAFETY: see above.
    let (db, bytes) = unsafe { (of(context).db(), text::bytes(name)) };
    let is_writable = mode & raw::REDISMODULE_WRITE != 0;
    let is_there = server.exists(db, bytes);
    if !is_there && !is_writable {
        if mode & raw::REDISMODULE_OPEN_KEY_NONOTIFY == 0 {
            server.notify(class::KEY_MISS, "keymiss", db, bytes);
        }
        return ptr::null_mut();
    }
    let key = Key {
        db,
        // SAFETY: the name is live.
        name: unsafe { text::retain(name) },
        is_writable,
        value: Cell::new(0),
        seen: Cell::new(0),
        kind: Cell::new(0),
        pointer: Cell::new(ptr::null_mut()),
    };
    if is_there {
        key.look(server);
    }
    Box::into_raw(Box::new(key))
}

pub unsafe extern "C" fn close_key(key: *mut Key) {
    if key.is_null() {
        return;
    }
    // SAFETY: see above; it is closed once.
    unsafe {
        open(key);
        let key = Box::from_raw(key);
        text::release(key.name);
    }
}

pub unsafe extern "C" fn key_type(key: *mut Key) -> c_int {
    if key.is_null() {
        return 0;
    }
    // SAFETY: see above.
    unsafe { open(key) }.kind.get()
}

pub unsafe extern "C" fn get_type(key: *mut Key) -> *const c_void {
    if key.is_null() {
        return ptr::null();
    }
    // SAFETY: see above.
    let key = unsafe { open(key) };
    match key.pointer.get().is_null() {
        true => ptr::null(),
        false => ptr::from_ref(current().methods()).cast(),
    }
}

pub unsafe extern "C" fn get_value(key: *mut Key) -> *mut c_void {
    if key.is_null() {
        return ptr::null_mut();
    }
    // SAFETY: see above.
    unsafe { open(key) }.pointer.get()
}

pub unsafe extern "C" fn delete_key(key: *mut Key) -> c_int {
    // SAFETY: see above.
    let key = unsafe { open(key) };
    if !key.is_writable {
        return ERR;
    }
    if key.value.get() != 0 {
        current().remove(key.db, key.name(), false);
        key.value.set(0);
        key.kind.set(0);
        key.pointer.set(ptr::null_mut());
    }
    OK
}

pub unsafe extern "C" fn set_value(
    key: *mut Key,
    _kind: *const c_void,
    value: *mut c_void,
) -> c_int {
    let server = current();
    // SAFETY: see above.
    unsafe {
        if delete_key(key) == ERR {
            return ERR;
        }
        let key = &*key;
        // Another module may fill a key that has expired, while it is opened.
        server.remove(key.db, key.name(), false);
        // The key shows what it set, even if another module replaces it at the event.
        let id = server.next_value.get();
        key.pointer.set(value);
        key.kind.set(raw::REDISMODULE_KEYTYPE_MODULE as c_int);
        server.insert(key.db, key.name(), Value::Module(value));
        key.value.set(id);
        key.seen.set(0);
    }
    OK
}

pub unsafe extern "C" fn get_abs_expire(key: *mut Key) -> c_longlong {
    // SAFETY: see above.
    let key = unsafe { open(key) };
    let at = current().entry(key.db, key.name(), |entry| entry.expires).flatten();
    at.unwrap_or(raw::REDISMODULE_NO_EXPIRE.into())
}

pub unsafe extern "C" fn set_abs_expire(key: *mut Key, at: c_longlong) -> c_int {
    // SAFETY: see above.
    let key = unsafe { open(key) };
    let is_sound = at >= 0 || at == raw::REDISMODULE_NO_EXPIRE.into();
    if !key.is_writable || key.value.get() == 0 || !is_sound {
        return ERR;
    }
    current().set_expiry(key.db, key.name(), (at >= 0).then_some(at));
    OK
}

pub unsafe extern "C" fn set_expire(key: *mut Key, in_ms: c_longlong) -> c_int {
    let at = if in_ms < 0 { in_ms } else { clock::wall_ms() + in_ms };
    // SAFETY: see above.
    unsafe { set_abs_expire(key, at) }
}

/// A walk over the keys of a database.
#[derive(Default)]
pub struct Cursor {
    after: Option<Box<[u8]>>,
    is_done: bool,
}

pub unsafe extern "C" fn cursor_create() -> *mut Cursor {
    count();
    Box::into_raw(Box::default())
}

pub unsafe extern "C" fn cursor_destroy(cursor: *mut Cursor) {
    // SAFETY: see above.
    drop(unsafe { Box::from_raw(cursor) });
}

type Visit = unsafe extern "C" fn(*mut c_void, Raw, *mut Key, *mut c_void);

pub unsafe extern "C" fn scan(
    context: *mut c_void,
    cursor: *mut Cursor,
    visit: Visit,
    data: *mut c_void,
) -> c_int {
    /// A real server visits the keys of a bucket of its table, and of another one while the table grows.
    const MOST: u64 = 3;
    let server = count();
    // SAFETY: see above.
    let (cursor, db) = unsafe { (&mut *cursor, of(context).db()) };
    if cursor.is_done {
        return 0;
    }
    let most = (server.random() % (MOST + 1)) as usize;
    let names = server.names_after(db, cursor.after.as_deref(), most);
    for name in &names {
        let name = text::new(name);
        let key = Key {
            db,
            name,
            is_writable: false,
            value: Cell::new(0),
            seen: Cell::new(0),
            kind: Cell::new(0),
            pointer: Cell::new(ptr::null_mut()),
        };
        key.look(server);
        if key.value.get() != 0 {
            // SAFETY: name and key live for the call.
            unsafe { visit(context, name, ptr::from_ref(&key).cast_mut(), data) };
        }
        // SAFETY: the reference is ours.
        unsafe { text::release(name) };
    }
    if let Some(last) = names.into_iter().next_back() {
        cursor.after = Some(last);
    }
    cursor.is_done = server.names_after(db, cursor.after.as_deref(), 1).is_empty();
    (!cursor.is_done).into()
}

pub unsafe extern "C" fn signal_modified_key(context: *mut c_void, name: Raw) -> c_int {
    // SAFETY: see above.
    unsafe { count().touch(of(context).db(), text::bytes(name)) };
    OK
}

pub unsafe extern "C" fn notify_keyspace_event(
    context: *mut c_void,
    class: c_int,
    event: *const c_char,
    name: Raw,
) -> c_int {
    // SAFETY: see above.
    unsafe {
        let event = CStr::from_ptr(event).to_str().expect("an event's name is text");
        count().notify(class, event, of(context).db(), text::bytes(name));
    }
    OK
}

pub unsafe extern "C" fn name_from(names: *mut Names) -> Raw {
    // SAFETY: see above.
    unsafe { (*names).from.1 }
}

pub unsafe extern "C" fn db_from(names: *mut Names) -> c_int {
    // SAFETY: see above.
    unsafe { (*names).from.0 as c_int }
}

pub unsafe extern "C" fn name_to(names: *mut Names) -> Raw {
    // SAFETY: see above.
    unsafe { (*names).to.map_or(ptr::null_mut(), |(_, name)| name) }
}

pub unsafe extern "C" fn db_to(names: *mut Names) -> c_int {
    // SAFETY: see above.
    unsafe { (*names).to.map_or(-1, |(db, _)| db as c_int) }
}
