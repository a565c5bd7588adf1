//! What the module says of itself to the server, once.

use redis_module::raw;

use crate::server::info;

/// Returns the option by which a module says that slots may be moved to another node all at once, keys and all: Valkey
/// 9 and later refuse that while any module has not said so. It is 0 where the server does not know it, as the bit may
/// mean something else there.
pub fn atomic_slot_migration_option() -> u32 {
    const HANDLE_ATOMIC_SLOT_MIGRATION: u32 = 1 << 5;
    // SAFETY: takes no argument and has no precondition. The server has filled in its functions by now, and
    // changes them no more.
    let known = unsafe { raw::RedisModule_GetModuleOptionsAll.map_or(0, |all| all()) };
    if info::is_valkey() { known as u32 & HANDLE_ATOMIC_SLOT_MIGRATION } else { 0 }
}
