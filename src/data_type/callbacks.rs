//! The callbacks by which the server handles a dehydrator as it handles its own types.

use std::ffi::{c_int, c_ulong, c_void};
use std::mem::ManuallyDrop;
use std::ptr::{self, NonNull};
use std::sync::atomic::Ordering;

use redis_module::raw::{
    self, RedisModuleDefragCtx, RedisModuleDigest, RedisModuleIO, RedisModuleKeyOptCtx,
    RedisModuleString, RedisModuleTypeMethods,
};

use super::dehydrator::Dehydrator;
use super::encoding::{self, Corrupt, Sink, Source};
use super::{TYPE, is_scheduled, new_lawn};
use crate::lawn::{Mover, Token};
use crate::pending::schedule;
use crate::policy::Policy;
use crate::replicate;
use crate::server::guard::{Whole, guard, trap};
use crate::server::io::{Digest, Io, LoadedBytes};
use crate::server::key::{Name, Route};
use crate::server::{Context, Str, allocator, api};

/// ReDe's type name, so that its dumps load.
const NAME: &std::ffi::CStr = c"dehy-type";

/// Registers the type. `false` if the server refuses it, as it does when ReDe is loaded.
pub fn register(context: &Context) -> bool {
    let mut methods = RedisModuleTypeMethods {
        // As of Redis 7.0. An earlier server ignores what it does not know.
        version: 4,
        rdb_load: Some(rdb_load),
        rdb_save: Some(rdb_save),
        aof_rewrite: Some(aof_rewrite),
        mem_usage: Some(mem_usage),
        digest: Some(digest),
        free: Some(free),
        aux_load: None,
        aux_save: None,
        aux_save_triggers: 0,
        free_effort: Some(free_effort),
        unlink: None,
        copy: None,
        defrag: Some(defrag),
        mem_usage2: None,
        free_effort2: None,
        unlink2: Some(unlink2),
        copy2: Some(copy2),
        aux_save2: None,
    };
    // SAFETY: the context is live, the name is static, and the server copies the methods.
    let kind = unsafe {
        api!(RedisModule_CreateDataType(
            context.as_ptr(),
            NAME.as_ptr(),
            encoding::VERSION,
            &mut methods
        ))
    };
    TYPE.store(kind, Ordering::Relaxed);
    !kind.is_null()
}

/// # Safety
///
/// `value` must be a dehydrator's, which the server keeps as it is for `'a`.
unsafe fn dehydrator<'a>(value: *const c_void) -> &'a Dehydrator {
    // SAFETY: every value of our type is a leaked `Box<Dehydrator>`.
    unsafe { &*value.cast::<Dehydrator>() }
}

impl Source for Io {
    type Bytes = LoadedBytes;

    fn unsigned(&mut self) -> Result<u64, Corrupt> {
        self.load_unsigned().ok_or(Corrupt("a number is missing"))
    }

    fn bytes(&mut self) -> Result<LoadedBytes, Corrupt> {
        self.load_bytes().ok_or(Corrupt("a string is missing"))
    }
}

impl Sink for Io {
    fn unsigned(&mut self, number: u64) {
        self.save_unsigned(number);
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.save_bytes(bytes);
    }
}

/// Gives a new value to the server, which will put it under this name.
fn leak(dehydrator: Dehydrator, name: Option<Name>) -> *mut c_void {
    if is_scheduled(&dehydrator) {
        let tracking = dehydrator.tracking();
        name.into_iter().for_each(|name| schedule::add(&name, tracking.serial()));
        tracking.track();
    }
    Box::into_raw(Box::new(dehydrator)).cast()
}

// The server calls what follows. It hands each callback what the signature says, live for the call,
// and values of our type alone: that is the promise which every `SAFETY` below leans on.

unsafe extern "C" fn rdb_load(io: *mut RedisModuleIO, version: c_int) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the server's promise above.
        let mut io = unsafe { Io::from_raw(io) };
        match encoding::load(new_lawn(), &mut io, version) {
            Ok((lawn, rules)) => leak(Dehydrator::new(lawn, rules), io.name()),
            Err(Corrupt::LATER) => {
                let name = io.name().map(|name| name.key.escape_ascii().to_string());
                io.log_warning(&format!(
                    "dehydrator: the dehydrator '{}' was written by a later version of the module than this one, which \
                     cannot read it. What to do: install that version, or start from a copy of the data made before \
                     the upgrade. See 'Upgrade' in docs/operations.md.",
                    name.unwrap_or_default()
                ));
                ptr::null_mut()
            }
            Err(error) => {
                io.log_warning(&format!("dehydrator: a corrupt payload was refused: {}", error.0));
                ptr::null_mut()
            }
        }
    })
}

unsafe extern "C" fn rdb_save(io: *mut RedisModuleIO, value: *mut c_void) {
    guard((), || {
        // SAFETY: the server's promise above.
        let (mut io, value) = unsafe { (Io::from_raw(io), dehydrator(value)) };
        encoding::save(&value.lawn, &value.rules, &mut io);
    });
}

unsafe extern "C" fn aof_rewrite(
    io: *mut RedisModuleIO,
    key: *mut RedisModuleString,
    value: *mut c_void,
) {
    guard((), || {
        // SAFETY: the server's promise above.
        let (io, value) = unsafe { (Io::from_raw(io), dehydrator(value)) };
        let Some(key) = NonNull::new(key) else { return };
        // SAFETY: the server's promise above.
        let key = unsafe { Str::from_raw(key) };
        replicate::rewrite_level(&io);
        for (ttl, element) in value.lawn.iter() {
            replicate::rewrite(&io, key, ttl, element, value.lawn.token(&element));
        }
        if value.rules.policy != Policy::Hold {
            replicate::rewrite_policy(&io, key, &value.rules.policy);
        }
        if let Some(pause) = value.rules.pause {
            replicate::rewrite_pause(&io, key, pause);
        }
    });
}

unsafe extern "C" fn mem_usage(value: *const c_void) -> usize {
    // SAFETY: the server's promise above.
    guard(0, || unsafe { dehydrator(value) }.memory())
}

/// The rules, the order of delivery, ids, payloads, TTLs, deadlines and leases: all that a client could ever see.
unsafe extern "C" fn digest(digest: *mut RedisModuleDigest, value: *mut c_void) {
    guard((), || {
        // SAFETY: the server's promise above.
        let (mut digest, value) = unsafe { (Digest::from_raw(digest), dehydrator(value)) };
        value.rules.policy.words().iter().for_each(|word| digest.bytes(word));
        if let Some(pause) = value.rules.pause {
            digest.bytes(b"PAUSE");
            digest.unsigned(pause.end().unwrap_or(0));
        }
        for (ttl, element) in value.lawn.iter() {
            digest.bytes(element.id);
            digest.bytes(element.payload);
            digest.unsigned(ttl);
            digest.unsigned(element.deadline);
            digest.unsigned(element.deliveries.into());
            digest.unsigned(value.lawn.token(&element).map_or(0, Token::number));
        }
        digest.end_sequence();
    });
}

/// May run on a background thread: a dehydrator shares nothing but a counter.
unsafe extern "C" fn free(value: *mut c_void) {
    // SAFETY: the server's promise above, and that it forgets the value.
    guard((), || drop(unsafe { Box::from_raw(value.cast::<Dehydrator>()) }));
}

unsafe extern "C" fn free_effort(_key: *mut RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: the server's promise above.
    guard(1, || unsafe { dehydrator(value) }.lawn.allocations())
}

unsafe extern "C" fn copy2(route: *mut RedisModuleKeyOptCtx, value: *const c_void) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the server's promise above.
        let (route, value) = unsafe { (Route::from_raw(route), dehydrator(value)) };
        leak(value.clone(), route.and_then(|route| route.to()))
    })
}

/// The value leaves its name: it is deleted, overwritten, renamed or moved.
unsafe extern "C" fn unlink2(route: *mut RedisModuleKeyOptCtx, value: *const c_void) {
    guard((), || {
        // SAFETY: the server's promise above.
        let (route, value) = unsafe { (Route::from_raw(route), dehydrator(value)) };
        if value.tracking().unlink()
            && let Some(name) = route.and_then(|route| route.from())
        {
            schedule::remove(&name, value.tracking().serial());
        }
    });
}

/// Moves a dehydrator's allocations where active defragmentation wants them. Returns 1 to be called
/// again.
unsafe extern "C" fn defrag(
    context: *mut RedisModuleDefragCtx,
    // On some servers this is no key's name at all: it is not looked at.
    _key: *mut RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    guard(0, || {
        // What is being moved is nowhere for a moment.
        let _whole = Whole::begin();
        let mut mover = Defrag { context };
        // SAFETY: the server's promise above, and that nothing else refers to the value meanwhile.
        unsafe {
            let moved = mover.moved((*value).cast::<Dehydrator>());
            *value = moved.cast();
            trap::pass("defrag");
            let lawn = &mut (*moved).lawn;
            // Small ones have no cursor, and are done in one go.
            let mut cursor = 0;
            api!(RedisModule_DefragCursorGet(context, &mut cursor));
            let go_on = || api!(RedisModule_DefragShouldStop(context)) == 0;
            match lawn.defrag(cursor as usize, &mut mover, go_on) {
                Some(next) => {
                    api!(RedisModule_DefragCursorSet(context, next as c_ulong));
                    1
                }
                None => 0,
            }
        }
    })
}

/// The server's defragmentation while a callback of it runs.
struct Defrag {
    context: *mut RedisModuleDefragCtx,
}

impl Defrag {
    /// Moves the allocation of some `T`, if that helps. Returns where it is now.
    ///
    /// # Safety
    ///
    /// `start` must be where an allocation of the module's global allocator begins, with the alignment of `T`, and the
    /// caller the only one who refers to it. If it was moved, the old address is free.
    unsafe fn moved<T>(&self, start: *mut T) -> *mut T {
        // The server does not know what our allocator has shifted.
        if !allocator::is_plain(align_of::<T>()) {
            return start;
        }
        // SAFETY: the caller vouches for the allocation, which is the server's own as it was not shifted; `Defrag` exists
        // within the callback alone. Where it moves, it has the same size and content, and by its size class the same
        // alignment.
        let moved = unsafe { api!(RedisModule_DefragAlloc(self.context, start.cast())) };
        if moved.is_null() { start } else { moved.cast() }
    }
}

impl Mover for Defrag {
    fn relocate<T>(&mut self, items: Vec<T>) -> Vec<T> {
        let (length, capacity) = (items.len(), items.capacity());
        if capacity == 0 || size_of::<T>() == 0 {
            return items;
        }
        let start = ManuallyDrop::new(items).as_mut_ptr();
        // SAFETY: the vector's memory comes from the module's global allocator, and nobody refers to it: the vector was
        // handed in.
        unsafe { Vec::from_raw_parts(self.moved(start), length, capacity) }
    }

    fn relocate_box<T>(&mut self, item: Box<T>) -> Box<T> {
        if size_of::<T>() == 0 {
            return item;
        }
        let start = Box::into_raw(item);
        // SAFETY: as in `relocate`.
        unsafe { Box::from_raw(self.moved(start)) }
    }
}

// A value is freed on a background thread, so it may refer to nothing that belongs to another.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Dehydrator>();
};

// Compiled against one header, run by servers of many versions.
const _: () = assert!(raw::REDISMODULE_TYPE_METHOD_VERSION >= 4);
