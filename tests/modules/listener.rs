//! A module that listens to keyspace events, and runs configured commands at them: tests load it beside ours.
//!
//! ```text
//!   LISTENER.ON <times> <event> <command> [arg ...]   runs the command at the next events of this name, this many times;
//!                                                     the word %key is replaced by the event's key
//!   LISTENER.OFF                                      stops listening, and forgets what it saw
//!   LISTENER.SEEN                                     the events, as "event key"
//!   LISTENER.RAN                                      the replies of the commands: "ok", or the error
//! ```
//!
//! Loaded with `TYPE name`, it also has a data type of that name, with `COMMAND name` a command, so that these names
//! are taken.
//!
//! Its commands are replicated. It records the events of its own commands, but runs nothing at them.

use std::cell::{Cell, RefCell};
use std::ffi::{CStr, CString, c_char, c_int, c_long};
use std::{mem, ptr, slice};

use redis_module::raw::{self, RedisModuleCtx, RedisModuleString, RedisModuleTypeMethods};

/// REDISMODULE_NOTIFY_NEW: a key was created. It is in no other class.
const NOTIFY_NEW: i32 = 1 << 14;

/// Calls a function of the module API.
macro_rules! api {
    ($name:ident($($argument:expr),* $(,)?)) => {
        (raw::$name.expect(stringify!($name)))($($argument),*)
    };
}

struct Rule {
    times: u64,
    event: Vec<u8>,
    /// A command and its arguments.
    words: Vec<Vec<u8>>,
}

thread_local! {
    // Commands and events come only on the server's main thread.
    static RULES: RefCell<Vec<Rule>> = const { RefCell::new(Vec::new()) };
    static SEEN: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static RAN: RefCell<Vec<Vec<u8>>> = const { RefCell::new(Vec::new()) };
    static IS_RUNNING: Cell<bool> = const { Cell::new(false) };
}

/// # Safety
///
/// Only for the server.
#[unsafe(no_mangle)]
#[allow(non_snake_case)]
pub unsafe extern "C" fn RedisModule_OnLoad(
    context: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    const COMMANDS: [(&CStr, raw::RedisModuleCmdFunc); 4] = [
        (c"listener.on", Some(on)),
        (c"listener.off", Some(off)),
        (c"listener.seen", Some(seen)),
        (c"listener.ran", Some(ran)),
    ];
    // SAFETY: the server passes its context, and all strings are C strings.
    unsafe {
        let version = raw::REDISMODULE_APIVER_1 as c_int;
        let name = c"listener".as_ptr();
        let mut status = raw::Export_RedisModule_Init(context, name, 1, version);
        for (name, function) in COMMANDS {
            if status == raw::REDISMODULE_OK as c_int {
                let (name, flags) = (name.as_ptr(), c"".as_ptr());
                status = api!(RedisModule_CreateCommand(context, name, function, flags, 0, 0, 0));
            }
        }
        let all = raw::REDISMODULE_NOTIFY_ALL | NOTIFY_NEW;
        if status == raw::REDISMODULE_OK as c_int {
            status = api!(RedisModule_SubscribeToKeyspaceEvents(context, all, Some(notice)));
        }
        if status == raw::REDISMODULE_OK as c_int && argc == 2 {
            status = take(context, &words(argv, argc));
        }
        status
    }
}

/// Takes a name: of an empty type, or of a command that does nothing.
///
/// # Safety
///
/// The context must be that of the load.
unsafe fn take(context: *mut RedisModuleCtx, words: &[Vec<u8>]) -> c_int {
    let name = CString::new(words[1].clone()).expect("a name without NUL");
    if words[0] == b"COMMAND" {
        let (name, flags) = (name.as_ptr(), c"".as_ptr());
        // SAFETY: the caller's promise; the server copies the strings.
        return unsafe {
            api!(RedisModule_CreateCommand(context, name, Some(off), flags, 0, 0, 0))
        };
    }
    // SAFETY: a number, and functions, each of which may be absent.
    let mut methods: RedisModuleTypeMethods = unsafe { mem::zeroed() };
    methods.version = u64::from(raw::REDISMODULE_TYPE_METHOD_VERSION);
    // SAFETY: the same; the server copies the methods, and calls none without a value.
    let made = unsafe { api!(RedisModule_CreateDataType(context, name.as_ptr(), 0, &mut methods)) };
    if made.is_null() { raw::REDISMODULE_ERR as c_int } else { raw::REDISMODULE_OK as c_int }
}

/// # Safety
///
/// The arguments must be those that the server passes to a command.
unsafe fn words(argv: *mut *mut RedisModuleString, argc: c_int) -> Vec<Vec<u8>> {
    // SAFETY: the caller's promise.
    let strings = unsafe { slice::from_raw_parts(argv, argc as usize) };
    // SAFETY: the same; they live during the command.
    strings.iter().map(|string| unsafe { bytes(*string) }).collect()
}

/// # Safety
///
/// It must be a live string of the server.
unsafe fn bytes(string: *mut RedisModuleString) -> Vec<u8> {
    let mut length = 0;
    // SAFETY: the caller's promise; the server returns a pointer to this many bytes.
    unsafe {
        let start = api!(RedisModule_StringPtrLen(string, &mut length));
        slice::from_raw_parts(start.cast::<u8>(), length).to_vec()
    }
}

// The server calls the following functions. It passes each callback the arguments of its signature, live for the call:
// every `SAFETY` below relies on this promise.

unsafe extern "C" fn on(
    context: *mut RedisModuleCtx,
    argv: *mut *mut RedisModuleString,
    argc: c_int,
) -> c_int {
    // SAFETY: the server's promise.
    let words = unsafe { words(argv, argc) };
    let times = words.get(1).and_then(|times| String::from_utf8_lossy(times).parse().ok());
    let (Some(times), true) = (times, words.len() > 3) else {
        // SAFETY: the server's promise.
        return unsafe { api!(RedisModule_WrongArity(context)) };
    };
    let rule = Rule { times, event: words[2].clone(), words: words[3..].to_vec() };
    RULES.with_borrow_mut(|rules| rules.push(rule));
    // SAFETY: the server's promise.
    unsafe { api!(RedisModule_ReplyWithSimpleString(context, c"OK".as_ptr())) }
}

unsafe extern "C" fn off(
    context: *mut RedisModuleCtx,
    _argv: *mut *mut RedisModuleString,
    _argc: c_int,
) -> c_int {
    RULES.take();
    SEEN.take();
    RAN.take();
    // SAFETY: the server's promise.
    unsafe { api!(RedisModule_ReplyWithSimpleString(context, c"OK".as_ptr())) }
}

unsafe extern "C" fn seen(
    context: *mut RedisModuleCtx,
    _argv: *mut *mut RedisModuleString,
    _argc: c_int,
) -> c_int {
    // SAFETY: the server's promise.
    unsafe { reply(context, &SEEN.with_borrow(Clone::clone)) }
}

unsafe extern "C" fn ran(
    context: *mut RedisModuleCtx,
    _argv: *mut *mut RedisModuleString,
    _argc: c_int,
) -> c_int {
    // SAFETY: the server's promise.
    unsafe { reply(context, &RAN.with_borrow(Clone::clone)) }
}

/// # Safety
///
/// The context must be that of a command.
unsafe fn reply(context: *mut RedisModuleCtx, lines: &[Vec<u8>]) -> c_int {
    // SAFETY: the caller's promise; the server copies the values.
    unsafe {
        api!(RedisModule_ReplyWithArray(context, lines.len() as c_long));
        for line in lines {
            let start = line.as_ptr().cast::<c_char>();
            api!(RedisModule_ReplyWithStringBuffer(context, start, line.len()));
        }
    }
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn notice(
    context: *mut RedisModuleCtx,
    _class: c_int,
    event: *const c_char,
    key: *mut RedisModuleString,
) -> c_int {
    // SAFETY: the server's promise.
    let (event, key) = unsafe { (CStr::from_ptr(event).to_bytes(), bytes(key)) };
    SEEN.with_borrow_mut(|seen| seen.push([event, b" ", &key].concat()));
    if !IS_RUNNING.get() {
        let rules = RULES.with_borrow_mut(|rules| {
            let due = rules.iter_mut().filter(|rule| rule.event == event && rule.times > 0);
            due.map(|rule| {
                rule.times -= 1;
                rule.words.clone()
            })
            .collect::<Vec<_>>()
        });
        IS_RUNNING.set(true);
        for words in rules {
            // SAFETY: the server's promise.
            let replied = unsafe { run(context, &words, &key) };
            RAN.with_borrow_mut(|ran| ran.push(replied));
        }
        IS_RUNNING.set(false);
    }
    raw::REDISMODULE_OK as c_int
}

/// Runs a command and replicates its effects. Returns "ok", or the error.
///
/// # Safety
///
/// The context must be live.
unsafe fn run(context: *mut RedisModuleCtx, words: &[Vec<u8>], key: &[u8]) -> Vec<u8> {
    let mut name = words[0].clone();
    name.push(0);
    // SAFETY: the caller's promise; the server copies the words, and the format describes the arguments. The text of an
    // error lives as long as the reply.
    unsafe {
        let string = |word: &[u8]| {
            let (start, length) = (word.as_ptr().cast::<c_char>(), word.len());
            api!(RedisModule_CreateString(ptr::null_mut(), start, length))
        };
        let arguments = words[1..].iter().map(|word| if word == b"%key" { key } else { word });
        let arguments: Vec<_> = arguments.map(string).collect();
        let reply = api!(RedisModule_Call(
            context,
            name.as_ptr().cast::<c_char>(),
            c"!Ev".as_ptr(),
            arguments.as_ptr(),
            arguments.len()
        ));
        for argument in arguments {
            api!(RedisModule_FreeString(ptr::null_mut(), argument));
        }
        if reply.is_null() {
            return b"no reply".to_vec();
        }
        let mut said = b"ok".to_vec();
        if api!(RedisModule_CallReplyType(reply)) == raw::REDISMODULE_REPLY_ERROR as c_int {
            let mut length = 0;
            let start = api!(RedisModule_CallReplyStringPtr(reply, &mut length));
            said = slice::from_raw_parts(start.cast::<u8>(), length).to_vec();
        }
        api!(RedisModule_FreeCallReply(reply));
        said
    }
}
