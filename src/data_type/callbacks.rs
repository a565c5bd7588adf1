//! The callbacks by which the server handles a dehydrator as it handles its own types.

use std::alloc::Layout;
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
use super::upkeep::note_found;
use super::{TYPE, new_lawn};
use crate::clock;
use crate::pending::{agenda, timer};
use crate::policy::{Policy, Rules, Trust};
use crate::replicate::{self, Effect, IDS_MAX};
use crate::server::guard::{AbortOnPanic, guard, trap};
use crate::server::io::{Digest, Io, LoadedBytes};
use crate::server::key::{KeyNames, Name};
use crate::server::{Context, OwnedStr, Str, allocator, api};
use lawn::{Aside, GroupLimits, GroupSettings, Mover, Rate, Since, Token};

/// ReDe's type name, so that its dumps load.
const NAME: &std::ffi::CStr = c"dehy-type";

/// Registers the type. Returns `false` if the server refuses it, as it does when ReDe is loaded.
pub fn register(context: &Context) -> bool {
    let mut methods = RedisModuleTypeMethods {
        // Redis 7.0's. An earlier server ignores unknown callbacks.
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

/// Returns the dehydrator behind a value.
///
/// # Safety
///
/// `value` must point to a dehydrator that the server does not change or free during `'a`.
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

/// Hands a new value over to the server, which will store it under `name`. `arrived`: since when elements that are
/// overdue count as such.
fn leak(
    mut dehydrator: Dehydrator,
    name: Option<Name>,
    arrived: impl FnOnce() -> u64,
) -> *mut c_void {
    dehydrator.note_next(arrived);
    if let Some(name) = name {
        note_found(&dehydrator, &name);
    }
    Box::into_raw(Box::new(dehydrator)).cast()
}

// The server calls the functions below. It passes what each signature says, live for the call, and only values of our
// type: every `SAFETY` below relies on that promise.

unsafe extern "C" fn rdb_load(io: *mut RedisModuleIO, version: c_int) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the server's promise above.
        let mut io = unsafe { Io::from_raw(io) };
        match encoding::load(new_lawn(), &mut io, version) {
            Ok((lawn, mut rules, remembered, schedules)) => {
                rules.trust = trust(&io, &rules);
                let is_news = rules.trust == Trust::Unannounced;
                // While the server loads its data, nothing counts as overdue before the end.
                let loads = io.context().is_loading();
                let arrived = || if loads { 0 } else { clock::now() };
                let value = Dehydrator::new(lawn, rules, (remembered, schedules));
                let value = leak(value, io.name(), arrived);
                if is_news {
                    timer::soon(&io.context());
                }
                value
            }
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

/// Returns the trust in a loaded policy. Anybody can bring any policy by RESTORE, also one that ONDUE refuses to that
/// user, so a policy that sends elements elsewhere needs a confirmation. A file and a full sync are the server's own.
///
/// *The append-only file and replicas* get the RESTORE as it was sent. A replica judges by itself, as its primary did.
/// But a server that reads the file cannot tell the RESTORE from a value of its snapshot, and a replica in a cluster
/// serves no slot. So the end of this pass of the event loop replicates the policy as unconfirmed, before the server
/// writes the file and sends to replicas. If a crash falls between the two in the file, which is written in one go, the
/// policy counts as confirmed after the load. A key that is renamed in the same pass is reported only when the walk has
/// found it.
///
/// *A slot that moves* here arrives by RESTORE too, key by key or all at once. Until it is handed over, this node does
/// not serve it, and the server refuses a RESTORE there without ASKING, which is how it is moved.
fn trust(io: &Io, rules: &Rules) -> Trust {
    let may_be_foreign = rules.trust.is_confirmed() && rules.policy.sends_elsewhere();
    let is_restored = || {
        let name = io.name().map(|name| OwnedStr::new(&name.key));
        !io.context().is_loading()
            && name.is_none_or(|name| {
                Context::with_detached(|context| context.serves(name.as_str())).unwrap_or(true)
            })
    };
    if may_be_foreign && is_restored() { Trust::Unannounced } else { rules.trust }
}

unsafe extern "C" fn rdb_save(io: *mut RedisModuleIO, value: *mut c_void) {
    guard((), || {
        // SAFETY: the server's promise above.
        let (mut io, value) = unsafe { (Io::from_raw(io), dehydrator(value)) };
        let parts = (&value.lawn, &value.remembered, value.schedules());
        encoding::save(parts, value.rules(), clock::now(), &mut io);
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
        replicate::rewrite_level(&io, key);
        // First, so that leases are counted as they are added.
        if let Some(limits) = &value.rules().limits {
            Effect::limits(key, limits).for_each(|effect| effect.rewrite(&io));
        }
        if let Some(effect) = Effect::each_group(key, value.lawn.group_rules().each) {
            effect.rewrite(&io);
        }
        for (group, settings) in value.lawn.group_rules().iter() {
            Effect::group(key, group, settings).for_each(|effect| effect.rewrite(&io));
        }
        let groups = value.lawn.groups().into_iter();
        for (group, log) in groups.flat_map(|groups| groups.all_logs(clock::now())) {
            Effect::log(key, &log, Some(group)).for_each(|effect| effect.rewrite(&io));
        }
        for (ttl, element) in value.lawn.iter() {
            let group = element.group.map(|group| value.lawn.group_name(group));
            let held = (value.lawn.token(&element), value.lawn.held_since(&element));
            replicate::rewrite_element(&io, key, ttl, element, held, group);
            if let Some(reason) = value.lawn.reason(element.id) {
                Effect::reason(key, reason, element.id).rewrite(&io);
            }
        }
        if value.rules().policy != Policy::Hold {
            Effect::policy(key, &value.rules().policy, value.rules().trust).rewrite(&io);
        }
        if let Some(pause) = value.rules().pause {
            Effect::paused(key, pause, None).rewrite(&io);
        }
        let mut remembered = value.remembered.iter().peekable();
        while let Some(&(until, _)) = remembered.peek() {
            let alike = std::iter::from_fn(|| remembered.next_if(|(other, _)| *other == until));
            let ids = alike.take(IDS_MAX).map(|(_, id)| id);
            Effect::removed(key, until, ids).rewrite(&io);
        }
        for (name, schedule) in value.all_schedules() {
            Effect::scheduled(key, name, &schedule).rewrite(&io);
        }
    });
}

unsafe extern "C" fn mem_usage(value: *const c_void) -> usize {
    // SAFETY: the server's promise above.
    guard(0, || unsafe { dehydrator(value) }.memory())
}

/// Digests all that a client can see: the rules, the order of delivery, ids, payloads, TTLs, deadlines and leases, reasons. A pause that
/// has ended and an expired id are none: one server may have removed them, and another not.
unsafe extern "C" fn digest(digest: *mut RedisModuleDigest, value: *mut c_void) {
    guard((), || {
        // SAFETY: the server's promise above.
        let (mut digest, value) = unsafe { (Digest::from_raw(digest), dehydrator(value)) };
        value.rules().policy.words(value.rules().trust).iter().for_each(|word| digest.bytes(word));
        let now = clock::now();
        if let Some(pause) = value.rules().pause.filter(|pause| pause.is_on(now)) {
            digest.bytes(b"PAUSE");
            digest.unsigned(pause.end().unwrap_or(0));
        }
        if let Some(limits) = &value.rules().limits {
            limits.words().iter().for_each(|word| digest.bytes(word));
            for (moment, count) in limits.rate.iter().flat_map(Rate::entries) {
                digest.unsigned(moment);
                digest.unsigned(count);
            }
        }
        let GroupLimits { length, held, rate, per } = value.lawn.group_rules().each;
        [length, held, rate, per].into_iter().for_each(|limit| digest.unsigned(limit));
        for (group, settings) in value.lawn.group_rules().iter() {
            let GroupSettings { share, limits, paused_until } = settings;
            let paused_until = if paused_until > now { paused_until } else { 0 };
            if (GroupSettings { paused_until, ..settings }) == GroupSettings::NONE {
                continue;
            }
            let GroupLimits { length, held, rate, per } = limits;
            digest.bytes(group);
            let numbers = [share.into(), length, held, rate, per, paused_until];
            numbers.into_iter().for_each(|number| digest.unsigned(number));
        }
        // Not the logs of groups: after its clock stepped back, this server may have forgotten one, and another not.
        for (ttl, element) in value.lawn.iter() {
            digest.bytes(element.id);
            digest.bytes(element.payload);
            digest.unsigned(ttl);
            digest.unsigned(element.deadline);
            digest.unsigned(element.deliveries.into());
            digest.unsigned(value.lawn.token(&element).map_or(0, Token::number));
            let Since { moment, waited } = value.lawn.held_since(&element).unwrap_or_default();
            digest.unsigned(moment);
            digest.unsigned(waited);
            value.lawn.reason(element.id).into_iter().for_each(|reason| digest.bytes(reason));
            if !element.bounds.is_none() {
                digest.unsigned(element.bounds.deliveries.into());
                digest.unsigned(element.bounds.until);
            }
            element.group.into_iter().for_each(|group| digest.bytes(value.lawn.group_name(group)));
        }
        digest.end_sequence();
        // In any order: each is a sequence of its own.
        for (until, id) in value.remembered.iter().filter(|(until, _)| *until > now) {
            digest.bytes(id);
            digest.unsigned(until);
            digest.end_sequence();
        }
        for (name, record) in value.schedules().into_iter().flat_map(Aside::payloads) {
            digest.bytes(name);
            digest.bytes(record);
            digest.end_sequence();
        }
    });
}

/// Frees a value, perhaps on a background thread: dehydrators share nothing but counters.
unsafe extern "C" fn free(value: *mut c_void) {
    // SAFETY: the server's promise above, and that it forgets the value.
    guard((), || drop(unsafe { Box::from_raw(value.cast::<Dehydrator>()) }));
}

unsafe extern "C" fn free_effort(_key: *mut RedisModuleString, value: *const c_void) -> usize {
    // SAFETY: the server's promise above.
    guard(1, || unsafe { dehydrator(value) }.allocations())
}

unsafe extern "C" fn copy2(
    transfer: *mut RedisModuleKeyOptCtx,
    value: *const c_void,
) -> *mut c_void {
    guard(ptr::null_mut(), || {
        // SAFETY: the server's promise above.
        let (transfer, value) = unsafe { (KeyNames::from_raw(transfer), dehydrator(value)) };
        leak(value.clone(), transfer.and_then(|transfer| transfer.destination()), clock::now)
    })
}

/// Records that a value leaves its name: it is deleted, overwritten, renamed or moved.
unsafe extern "C" fn unlink2(transfer: *mut RedisModuleKeyOptCtx, value: *const c_void) {
    guard((), || {
        // SAFETY: the server's promise above.
        let (transfer, value) = unsafe { (KeyNames::from_raw(transfer), dehydrator(value)) };
        agenda::leave(&value.tracking, || transfer.and_then(|transfer| transfer.source()));
    });
}

/// Moves a dehydrator's allocations where active defragmentation wants them. Returns 1 to be called
/// again.
unsafe extern "C" fn defrag(
    context: *mut RedisModuleDefragCtx,
    // Unused: on some servers this is no key's name.
    _key: *mut RedisModuleString,
    value: *mut *mut c_void,
) -> c_int {
    guard(0, || {
        // A panic in the middle of a move would lose the value.
        let _whole = AbortOnPanic::begin();
        let mut mover = Defrag { context };
        // SAFETY: the server's promise above, and that nothing else refers to the value meanwhile.
        unsafe {
            let moved = mover.moved((*value).cast::<Dehydrator>(), 1);
            *value = moved.cast();
            trap::pass("defrag");
            // Small values have no cursor, and are done in one go.
            let mut cursor = 0;
            api!(RedisModule_DefragCursorGet(context, &mut cursor));
            let go_on = || api!(RedisModule_DefragShouldStop(context)) == 0;
            match (*moved).defrag(cursor as usize, &mut mover, go_on) {
                Some(next) => {
                    api!(RedisModule_DefragCursorSet(context, next as c_ulong));
                    1
                }
                None => 0,
            }
        }
    })
}

/// The server's defragmentation during a callback.
struct Defrag {
    context: *mut RedisModuleDefragCtx,
}

impl Defrag {
    /// Moves an allocation if that helps. Returns its address.
    ///
    /// # Safety
    ///
    /// `start` must be the start of an allocation by the module's global allocator, with the layout of an array of `count`,
    /// and the caller its only owner. After a move the old address is free.
    unsafe fn moved<T>(&self, start: *mut T, count: usize) -> *mut T {
        // The server does not know allocations that our allocator has shifted.
        if !Layout::array::<T>(count).is_ok_and(allocator::is_plain) {
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
        unsafe { Vec::from_raw_parts(self.moved(start, capacity), length, capacity) }
    }

    fn relocate_box<T>(&mut self, item: Box<T>) -> Box<T> {
        if size_of::<T>() == 0 {
            return item;
        }
        let start = Box::into_raw(item);
        // SAFETY: as in `relocate`.
        unsafe { Box::from_raw(self.moved(start, 1)) }
    }
}

// A background thread may free a value, so it may refer to nothing that belongs to another thread.
const _: () = {
    const fn is_send<T: Send>() {}
    is_send::<Dehydrator>();
};

// Compiled against one header, but run by servers of many versions.
const _: () = assert!(raw::REDISMODULE_TYPE_METHOD_VERSION >= 4);
