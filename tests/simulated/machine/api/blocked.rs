//! Blocked clients, timers, and other ways to be called later.

use std::ffi::{c_int, c_longlong, c_void};
use std::ptr;
use std::rc::Rc;

use super::super::blocked::{Blocked, Disconnect, Free, Reply};
use super::super::event_loop::{Timer, TimerCallback};
use super::context::{count, of};
use super::{ERR, OK};

// The module calls the functions below. It passes what each signature says, live for the call. Every `SAFETY` relies on that.

pub unsafe extern "C" fn block_client(
    context: *mut c_void,
    reply: Option<Reply>,
    timeout: Option<Reply>,
    free: Option<Free>,
    timeout_ms: c_longlong,
) -> *mut Blocked {
    let server = count();
    assert_eq!(timeout_ms, 0, "the server's own timeouts are not simulated");
    // SAFETY: see above.
    let id = unsafe { of(context) }.client.get();
    let client = server.running.borrow().clone().filter(|it| Rc::as_ptr(it) == id);
    let client = client.expect("a command blocks its client");
    let is_subscriber = client.out.borrow().resp == 3 && !client.channels.borrow().is_empty();
    if server.kind.is_valkey() && is_subscriber {
        return ptr::null_mut();
    }
    server.block(&client, [reply, timeout], free)
}

pub unsafe extern "C" fn unblock_client(blocked: *mut Blocked, private: *mut c_void) -> c_int {
    // SAFETY: see above.
    unsafe { count().unblock(blocked, private) };
    OK
}

pub unsafe extern "C" fn set_disconnect_callback(blocked: *mut Blocked, run: Option<Disconnect>) {
    // SAFETY: see above.
    unsafe { (*blocked).disconnect.set(run) };
}

pub unsafe extern "C" fn private_data(context: *mut c_void) -> *mut c_void {
    // SAFETY: see above.
    unsafe { (*of(context).blocked.get()).private.get() }
}

pub unsafe extern "C" fn handle(context: *mut c_void) -> *mut Blocked {
    // SAFETY: see above.
    unsafe { of(context) }.blocked.get()
}

pub unsafe extern "C" fn create_timer(
    _context: *mut c_void,
    period_ms: c_longlong,
    run: TimerCallback,
    data: *mut c_void,
) -> u64 {
    count().create_timer(period_ms, Timer { run, data })
}

pub unsafe extern "C" fn stop_timer(
    _context: *mut c_void,
    id: u64,
    data: *mut *mut c_void,
) -> c_int {
    match count().stop_timer(id) {
        Some(timer) => {
            // SAFETY: see above; it may be null.
            if let Some(data) = unsafe { data.as_mut() } {
                *data = timer.data;
            }
            OK
        }
        None => ERR,
    }
}

pub unsafe extern "C" fn event_loop_add(
    _descriptor: c_int,
    _mask: c_int,
    _run: *mut c_void,
    _data: *mut c_void,
) -> c_int {
    // So that the module uses the server's timers, whose time is simulated.
    ERR
}

pub unsafe extern "C" fn event_loop_add_one_shot(
    run: Option<unsafe extern "C" fn(*mut c_void)>,
    data: *mut c_void,
) -> c_int {
    let server = count();
    let Some(run) = run else { return ERR };
    server.one_shots.borrow_mut().push((run as usize, data));
    server.is_woken.set(true);
    OK
}
