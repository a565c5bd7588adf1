//! A client that a command has put to sleep, and what it is told when it wakes.
//!
//! The server must be told once, and only once, that such a client is to be unblocked, also if it has gone by itself. So
//! a [`BlockedClient`] cannot be copied, and is used up by that.

use std::any::TypeId;
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::rc::Rc;

use redis_module::raw::{self, RedisModuleBlockedClient, RedisModuleCtx, RedisModuleString};

use crate::server::{CommandContext, Context, guard::guard, user::ClientId};

/// What a blocked client is told when it is unblocked, and what is done when it goes by itself.
pub trait Waking: Sized + 'static {
    /// Replies to the client.
    fn reply(&self, context: &Context);

    /// Takes back what [`BlockedClient::unblock`] was given: the client was replied to, or has gone. Nothing may be
    /// written to the keyspace.
    fn done(self: Rc<Self>, context: &Context);

    /// Unblocks a client of which CLIENT UNBLOCK says that it waits no more, and replies to it.
    fn on_unblock(context: &Context, client: Handle);

    /// Unblocks a client that has hung up, that was killed or unblocked, or that this server has sent away because it has
    /// become a replica. Nobody can reply to it any more.
    fn on_disconnect(client: Handle);
}

/// What the server calls a blocked client, until that is unblocked. Another one may be called the same afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Handle(NonNull<RedisModuleBlockedClient>);

/// A client that is blocked.
pub struct BlockedClient {
    handle: Handle,
    id: ClientId,
    /// The [`Waking`] of which the server calls the functions.
    waking: TypeId,
}

impl BlockedClient {
    /// Blocks the client of the command that is running, which replies nothing then. The server has no timeout for it.
    /// `None`: the server refuses that. Valkey refuses it to some clients, such as one that has subscribed by RESP3.
    pub fn block<T: Waking>(context: &CommandContext) -> Option<Self> {
        const NO_TIMEOUT: i64 = 0;
        // SAFETY: the context is that of a command. The callbacks live as long as the module.
        let (client, id) = unsafe {
            let id = api!(RedisModule_GetClientId(context.as_ptr()));
            let client = NonNull::new(api!(RedisModule_BlockClient(
                context.as_ptr(),
                Some(on_reply::<T>),
                Some(on_unblock::<T>),
                Some(on_free::<T>),
                NO_TIMEOUT
            )))?;
            api!(RedisModule_SetDisconnectCallback(client.as_ptr(), Some(on_disconnect::<T>)));
            (client, ClientId(id))
        };
        Some(Self { handle: Handle(client), id, waking: TypeId::of::<T>() })
    }

    /// Returns what the server calls it.
    pub fn handle(&self) -> Handle {
        self.handle
    }

    /// Returns the number of its connection.
    pub fn id(&self) -> ClientId {
        self.id
    }

    /// Has the server reply to it what `waking` says, in a moment, and give that back afterwards.
    ///
    /// # Panics
    ///
    /// If it was blocked with another type.
    pub fn unblock<T: Waking>(self, waking: Rc<T>) {
        assert_eq!(self.waking, TypeId::of::<T>(), "the server calls functions of that type");
        let data = Rc::into_raw(waking).cast::<c_void>().cast_mut();
        // SAFETY: the client is blocked, and unblocked once: this is used up.
        unsafe { api!(RedisModule_UnblockClient(self.handle.0.as_ptr(), data)) };
    }

    /// Has the server free what it knows of a client that needs no reply.
    pub fn forget(self) {
        // SAFETY: the client is blocked, and unblocked once: this is used up.
        unsafe { api!(RedisModule_UnblockClient(self.handle.0.as_ptr(), ptr::null_mut())) };
    }

    /// Makes one that no server knows.
    #[cfg(test)]
    pub fn fake(number: usize) -> Self {
        let raw = NonNull::new(ptr::without_provenance_mut(number + 1)).expect("not null");
        Self { handle: Handle(raw), id: ClientId(0), waking: TypeId::of::<()>() }
    }
}

// The server calls what follows. It hands each callback what the signature says, live for the call; the private data is
// null, or what `unblock` handed over, which is a `T`, for the client was blocked with the callbacks of that type. That is
// the promise which every `SAFETY` below leans on.

unsafe extern "C" fn on_reply<T: Waking>(
    context: *mut RedisModuleCtx,
    _argv: *mut *mut RedisModuleString,
    _argc: c_int,
) -> c_int {
    guard((), || {
        // SAFETY: the server's promise. It gives the data back in `on_free`, not before.
        let (context, waking) = unsafe {
            let data = api!(RedisModule_GetBlockedClientPrivateData(context));
            (Context::from_raw(context), data.cast::<T>().as_ref())
        };
        match waking {
            Some(waking) => waking.reply(&context),
            None => context.reply_null_array(),
        }
    });
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn on_free<T: Waking>(context: *mut RedisModuleCtx, data: *mut c_void) {
    guard((), || {
        let Some(data) = NonNull::new(data.cast::<T>()) else { return };
        // SAFETY: the server's promise. It gives the data back once.
        let (context, waking) =
            unsafe { (Context::from_raw(context), Rc::from_raw(data.as_ptr())) };
        waking.done(&context);
    });
}

unsafe extern "C" fn on_unblock<T: Waking>(
    context: *mut RedisModuleCtx,
    _argv: *mut *mut RedisModuleString,
    _argc: c_int,
) -> c_int {
    guard((), || {
        // SAFETY: the server's promise.
        let (context, client) = unsafe {
            let client = api!(RedisModule_GetBlockedClientHandle(context));
            (Context::from_raw(context), client)
        };
        match NonNull::new(client) {
            Some(client) => T::on_unblock(&context, Handle(client)),
            None => context.reply_null_array(),
        }
    });
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn on_disconnect<T: Waking>(
    _context: *mut RedisModuleCtx,
    client: *mut RedisModuleBlockedClient,
) {
    guard((), || {
        if let Some(client) = NonNull::new(client) {
            T::on_disconnect(Handle(client));
        }
    });
}
