//! A client that a command has blocked, and its reply.
//!
//! The server must be told exactly once to unblock a client, even if the client has disconnected. So a [`BlockedClient`]
//! cannot be copied, and unblocking consumes it.

use std::any::TypeId;
use std::ffi::{c_int, c_void};
use std::ptr::{self, NonNull};
use std::rc::Rc;

use redis_module::raw::{self, RedisModuleBlockedClient, RedisModuleCtx, RedisModuleString};

pub use crate::server::context::ClientId;
use crate::server::{CommandContext, Context, OwnedStr, guard::guard};

/// The reply to an unblocked client, and the callbacks for clients that stop waiting by themselves.
pub trait UnblockReply: Sized + 'static {
    /// Replies to the client.
    fn reply(&self, context: &Context);

    /// Returns ownership of the reply after [`BlockedClient::unblock`]: the client got it, or has disconnected. The keyspace
    /// must not be written to.
    fn done(self: Rc<Self>, context: &Context);

    /// Unblocks a client for CLIENT UNBLOCK, and replies to it.
    fn on_unblock(context: &Context, client: ClientHandle);

    /// Unblocks a client that disconnected, was killed or unblocked, or was dismissed because this server became a replica.
    /// No reply can reach the client any more.
    fn on_disconnect(client: ClientHandle);
}

/// The server's handle of a blocked client. After the client is unblocked, the server may reuse the handle.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct ClientHandle(NonNull<RedisModuleBlockedClient>);

/// A blocked client.
pub struct BlockedClient {
    pub handle: ClientHandle,
    /// The client's connection.
    pub id: ClientId,
    /// The name of its user, see [`Context::user_of`]. A blocked client cannot become another user.
    pub user: Option<OwnedStr>,
    /// The [`UnblockReply`] whose functions the server calls.
    reply_type: TypeId,
}

impl BlockedClient {
    /// Blocks the client of the running command, which must not reply then. The server sets no timeout. Returns `None` if the
    /// server refuses: Valkey refuses for some clients, for example RESP3 subscribers.
    pub fn block<T: UnblockReply>(context: &CommandContext) -> Option<Self> {
        const NO_TIMEOUT: i64 = 0;
        // SAFETY: the context is a command's. The callbacks live as long as the module.
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
        let (handle, user) = (ClientHandle(client), context.user_of(id));
        Some(Self { handle, id, user, reply_type: TypeId::of::<T>() })
    }

    /// Unblocks the client: the server calls `reply.reply` soon, then `reply.done`.
    ///
    /// # Panics
    ///
    /// If the client was blocked with another type.
    pub fn unblock<T: UnblockReply>(self, reply: Rc<T>) {
        assert_eq!(self.reply_type, TypeId::of::<T>(), "the server calls functions of that type");
        let data = Rc::into_raw(reply).cast::<c_void>().cast_mut();
        // SAFETY: the client is blocked, and unblocked once, because this consumes `self`.
        unsafe { api!(RedisModule_UnblockClient(self.handle.0.as_ptr(), data)) };
    }

    /// Frees the server's state of a client that needs no reply.
    pub fn forget(self) {
        // SAFETY: the client is blocked, and unblocked once, because this consumes `self`.
        unsafe { api!(RedisModule_UnblockClient(self.handle.0.as_ptr(), ptr::null_mut())) };
    }

    /// Creates a client that no server knows.
    #[cfg(test)]
    pub fn fake(number: usize) -> Self {
        let raw = NonNull::new(ptr::without_provenance_mut(number + 1)).expect("not null");
        let (handle, reply_type) = (ClientHandle(raw), TypeId::of::<()>());
        Self { handle, id: ClientId(0), user: None, reply_type }
    }
}

// The server calls the functions below. It passes each the arguments of its signature, live for the call. The private data
// is null, or the `T` that `unblock` passed, because the client was blocked with the callbacks of that type. Every `SAFETY`
// below relies on this promise.

unsafe extern "C" fn on_reply<T: UnblockReply>(
    context: *mut RedisModuleCtx,
    _argv: *mut *mut RedisModuleString,
    _argc: c_int,
) -> c_int {
    guard((), || {
        // SAFETY: the server's promise. It returns the data in `on_free`, not before.
        let (context, reply) = unsafe {
            let data = api!(RedisModule_GetBlockedClientPrivateData(context));
            (Context::from_raw(context), data.cast::<T>().as_ref())
        };
        match reply {
            Some(reply) => reply.reply(&context),
            None => context.reply_null_array(),
        }
    });
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn on_free<T: UnblockReply>(context: *mut RedisModuleCtx, data: *mut c_void) {
    guard((), || {
        let Some(data) = NonNull::new(data.cast::<T>()) else { return };
        // SAFETY: the server's promise. It returns the data once.
        let (context, reply) = unsafe { (Context::from_raw(context), Rc::from_raw(data.as_ptr())) };
        reply.done(&context);
    });
}

unsafe extern "C" fn on_unblock<T: UnblockReply>(
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
            Some(client) => T::on_unblock(&context, ClientHandle(client)),
            None => context.reply_null_array(),
        }
    });
    raw::REDISMODULE_OK as c_int
}

unsafe extern "C" fn on_disconnect<T: UnblockReply>(
    _context: *mut RedisModuleCtx,
    client: *mut RedisModuleBlockedClient,
) {
    guard((), || {
        if let Some(client) = NonNull::new(client) {
            T::on_disconnect(ClientHandle(client));
        }
    });
}
