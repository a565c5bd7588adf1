//! Calls of commands, effects, rights of users.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::rc::Rc;

use redis_module::raw;

use super::super::acl::User;
use super::super::reply::Reply;
use super::super::run::CallFlags;
use super::super::server::{Server, current};
use super::super::text::{self, Raw, Words};
use super::context::{Phase, count, of, slice};
use super::{ERR, OK};

/// The most arguments of a variable number that a call may have: so many are read at the most.
pub const ARGUMENTS: usize = 12;

/// The arguments of a variable number.
pub type Arguments = [usize; ARGUMENTS];

/// Reads the words that a format describes. `None`: the format has a letter that this server does not know.
///
/// # Safety
///
/// The arguments must be what the format says.
pub unsafe fn words(
    server: &Server,
    command: *const c_char,
    format: *const c_char,
    arguments: Arguments,
) -> Option<(Words, CallFlags)> {
    let mut words = Words::default();
    let mut flags = CallFlags::default();
    let mut arguments = arguments.into_iter();
    let mut next = || arguments.next().expect("no more arguments than that");
    // SAFETY: the caller's promise. Strings get a reference of their own.
    unsafe {
        words.push(text::new(CStr::from_ptr(command).to_bytes()));
        for letter in CStr::from_ptr(format).to_bytes() {
            match letter {
                b's' => words.push(text::retain(next() as Raw)),
                b'c' => words.push(text::new(CStr::from_ptr(next() as *const c_char).to_bytes())),
                b'b' => {
                    let start = next() as *const c_char;
                    words.push(text::new(slice(start, next())));
                }
                b'l' => words.push(text::new((next() as i64).to_string().as_bytes())),
                b'v' => {
                    let start = next() as *const Raw;
                    for at in 0..next() {
                        words.push(text::retain(*start.add(at)));
                    }
                }
                b'!' => flags.replicates = true,
                b'A' | b'R' | b'3' | b'0' | b'M' => {}
                b'E' => flags.replies_errors = true,
                b'S' => flags.as_script = true,
                b'W' => flags.no_writes = true,
                b'C' => flags.as_user = true,
                b'D' if server.kind.has_dry_runs() => flags.is_dry = true,
                _ => return None,
            }
        }
    }
    Some((words, flags))
}

fn set_errno(error: c_int) {
    // SAFETY: libc's own.
    unsafe { *libc::__errno_location() = error };
}

// The module calls the functions below. It passes what each signature says, live for the call. Every `SAFETY` relies on that.

#[rustfmt::skip]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn call(
    context: *mut c_void, command: *const c_char, format: *const c_char,
    a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
    g: usize, h: usize, i: usize, j: usize, k: usize, l: usize,
) -> *mut Reply {
    let server = count();
    let arguments = [a, b, c, d, e, f, g, h, i, j, k, l];
    // SAFETY: see above.
    let (context, words) = unsafe { (of(context), words(server, command, format, arguments)) };
    assert!(context.phase.get() != Phase::Gone, "a call without a client");
    let user = context.client().and_then(|client| client.user.borrow().clone());
    let Some((words, flags)) = words else {
        set_errno(libc::EBADF);
        return ptr::null_mut();
    };
    let is_asking = context.client().is_some_and(|client| client.is_asking.get());
    let must_obey = context.client().is_some_and(|client| client.must_be_obeyed());
    match server.call(context.db(), words, flags, user, is_asking, must_obey) {
        Ok(reply) => reply.map_or(ptr::null_mut(), |reply| Box::into_raw(Box::new(reply))),
        Err((error, text)) => {
            set_errno(error);
            match flags.replies_errors {
                true => Box::into_raw(Box::new(Reply::Error(text.into_bytes()))),
                false => ptr::null_mut(),
            }
        }
    }
}

pub unsafe extern "C" fn free_reply(reply: *mut Reply) {
    count();
    // SAFETY: see above; only roots are freed.
    drop(unsafe { Box::from_raw(reply) });
}

pub unsafe extern "C" fn reply_type(reply: *const Reply) -> c_int {
    // SAFETY: see above.
    let kind = match unsafe { &*reply } {
        Reply::Simple(_) | Reply::Bulk(_) => raw::REDISMODULE_REPLY_STRING,
        Reply::Error(_) => raw::REDISMODULE_REPLY_ERROR,
        Reply::Int(_) => raw::REDISMODULE_REPLY_INTEGER,
        Reply::Array(_) | Reply::Push(_) => raw::REDISMODULE_REPLY_ARRAY,
        Reply::Null | Reply::NullArray => raw::REDISMODULE_REPLY_NULL,
        Reply::Map(_) => raw::REDISMODULE_REPLY_MAP,
        Reply::Double(_) => raw::REDISMODULE_REPLY_DOUBLE,
        Reply::Bool(_) => raw::REDISMODULE_REPLY_BOOL,
    };
    kind as c_int
}

pub unsafe extern "C" fn reply_length(reply: *const Reply) -> usize {
    // SAFETY: see above.
    match unsafe { &*reply } {
        Reply::Simple(text) | Reply::Bulk(text) | Reply::Error(text) => text.len(),
        Reply::Array(items) | Reply::Push(items) => items.len(),
        _ => 0,
    }
}

pub unsafe extern "C" fn reply_text(reply: *const Reply, length: *mut usize) -> *const c_char {
    // SAFETY: see above.
    match unsafe { &*reply } {
        Reply::Simple(text) | Reply::Bulk(text) | Reply::Error(text) => {
            // SAFETY: there is room for the length.
            unsafe { length.write(text.len()) };
            if text.is_empty() { c"".as_ptr() } else { text.as_ptr().cast() }
        }
        _ => ptr::null(),
    }
}

pub unsafe extern "C" fn reply_item(reply: *const Reply, at: usize) -> *const Reply {
    // SAFETY: see above.
    match unsafe { &*reply } {
        Reply::Array(items) | Reply::Push(items) => items.get(at).map_or(ptr::null(), |it| it),
        _ => ptr::null(),
    }
}

pub unsafe extern "C" fn reply_integer(reply: *const Reply) -> i64 {
    // SAFETY: see above.
    match unsafe { &*reply } {
        Reply::Int(number) => *number,
        _ => i64::MIN,
    }
}

#[rustfmt::skip]
#[allow(clippy::too_many_arguments)]
pub unsafe extern "C" fn replicate(
    context: *mut c_void, command: *const c_char, format: *const c_char,
    a: usize, b: usize, c: usize, d: usize, e: usize, f: usize,
    g: usize, h: usize, i: usize, j: usize, k: usize, l: usize,
) -> c_int {
    let server = count();
    let arguments = [a, b, c, d, e, f, g, h, i, j, k, l];
    // SAFETY: see above.
    unsafe {
        let context = of(context);
        assert!(context.phase.get() != Phase::Gone, "an effect without a client");
        assert!(server.command(CStr::from_ptr(command).to_bytes()).is_some(), "no such command");
        let Some((words, _)) = words(server, command, format, arguments) else { return ERR };
        server.note_effect(context.db(), words);
    }
    OK
}

pub unsafe extern "C" fn replicate_verbatim(context: *mut c_void) -> c_int {
    let server = count();
    // SAFETY: see above.
    let context = unsafe { of(context) };
    assert!(context.phase.get() != Phase::Gone, "an effect without a client");
    // Outside of a command the server's own client has no words.
    if server.propagates()
        && let Some(client) = context.client()
    {
        server.note_effect(client.db.get(), client.argv.borrow().clone());
    }
    OK
}

pub unsafe extern "C" fn current_user_name(context: *mut c_void) -> Raw {
    count();
    // SAFETY: see above.
    let client = unsafe { of(context) }.client();
    let user = client.and_then(|client| client.user.borrow().clone());
    user.map_or(ptr::null_mut(), |user| text::new(&user.name))
}

pub unsafe extern "C" fn user_name_of(_context: *mut c_void, id: u64) -> Raw {
    let server = count();
    let clients = server.clients.borrow();
    let client = clients.iter().find(|client| client.id == id);
    let user = client.and_then(|client| client.user.borrow().clone());
    user.map_or(ptr::null_mut(), |user| text::new(&user.name))
}

pub unsafe extern "C" fn find_user(name: Raw) -> *mut Rc<User> {
    // SAFETY: see above.
    let user = count().user(unsafe { text::bytes(name) });
    user.map_or(ptr::null_mut(), |user| Box::into_raw(Box::new(user)))
}

pub unsafe extern "C" fn free_user(user: *mut Rc<User>) -> c_int {
    // SAFETY: see above.
    drop(unsafe { Box::from_raw(user) });
    OK
}

pub unsafe extern "C" fn check_command(user: *mut Rc<User>, argv: *mut Raw, argc: c_int) -> c_int {
    let server = count();
    // SAFETY: see above. The words get references of their own.
    let (user, words) = unsafe {
        let words = (0..argc as usize).map(|at| text::retain(*argv.add(at)));
        (&*user, Words::from_raw(words.collect()))
    };
    let Some(command) = words.get(0).and_then(|name| server.command(name)) else {
        set_errno(libc::ENOENT);
        return ERR;
    };
    match user.refuses(command, &words) {
        None => OK,
        Some(_) => {
            set_errno(libc::EACCES);
            ERR
        }
    }
}

pub unsafe extern "C" fn check_key(user: *mut Rc<User>, key: Raw, _flags: c_int) -> c_int {
    count();
    // SAFETY: see above.
    let may = unsafe { (*user).may_access(text::bytes(key)) };
    if may { OK } else { ERR }
}

pub unsafe extern "C" fn check_channel(user: *mut Rc<User>, channel: Raw, _flags: c_int) -> c_int {
    count();
    // SAFETY: see above.
    let may = unsafe { (*user).may_publish(text::bytes(channel)) };
    if may { OK } else { ERR }
}

pub unsafe extern "C" fn add_log_entry(
    _context: *mut c_void,
    user: *mut Rc<User>,
    object: Raw,
    _reason: c_int,
) -> c_int {
    // SAFETY: see above.
    let (user, object) = unsafe { (&*user, text::bytes(object)) };
    let (name, object) = (user.name.escape_ascii(), object.escape_ascii());
    current().log(format!("ACL LOG: user {name}: {object}"));
    OK
}

/// Of a shard as of all: nobody here subscribes to channels of one.
pub unsafe extern "C" fn publish(_context: *mut c_void, channel: Raw, message: Raw) -> c_int {
    // SAFETY: see above.
    unsafe { count().publish(text::bytes(channel), text::bytes(message)) as c_int }
}
