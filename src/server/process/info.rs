//! What the server says of itself, by INFO.

use std::ffi::CStr;
use std::ptr;
use std::sync::OnceLock;

use redis_module::raw::RedisModuleServerInfoData;

/// A section of INFO. To have the server make one takes it some ten to twenty microseconds.
pub struct Section(*mut RedisModuleServerInfoData);

impl Section {
    /// Has the server make a section, and looks at it.
    pub fn with<T>(name: &CStr, look: impl FnOnce(&Self) -> T) -> T {
        // SAFETY: the server accepts a null context here; the section is a C string.
        let section =
            Self(unsafe { api!(RedisModule_GetServerInfo(ptr::null_mut(), name.as_ptr())) });
        look(&section)
    }

    /// Returns a field that is a number, if it is there.
    pub fn number(&self, field: &CStr) -> Option<u64> {
        let mut failed = 0;
        // SAFETY: the section lives, and the field is a C string.
        let number = unsafe {
            api!(RedisModule_ServerInfoGetFieldUnsigned(self.0, field.as_ptr(), &mut failed))
        };
        (failed == 0).then_some(number)
    }

    /// Returns a field, if it is there.
    pub fn text(&self, field: &CStr) -> Option<&CStr> {
        // SAFETY: the section lives, and the field is a C string. The server returns null or a C string that lives
        // as long.
        unsafe {
            let text = api!(RedisModule_ServerInfoGetFieldC(self.0, field.as_ptr()));
            (!text.is_null()).then(|| CStr::from_ptr(text))
        }
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        // SAFETY: got in `with`, and freed here alone. The server accepts a null context.
        unsafe { api!(RedisModule_FreeServerInfo(ptr::null_mut(), self.0)) }
    }
}

/// Returns what the server has counted since it was started, or since CONFIG RESETSTAT: connections, commands, bytes read,
/// bytes written. A count that the server does not have is 0. To notice a reset it takes several: each grows at a pace of
/// its own, so that one of them stays below what it was for a while.
pub fn server_counts() -> [u64; 4] {
    const FIELDS: [&CStr; 4] = [
        c"total_connections_received",
        c"total_commands_processed",
        c"total_net_input_bytes",
        c"total_net_output_bytes",
    ];
    Section::with(c"stats", |stats| FIELDS.map(|field| stats.number(field).unwrap_or(0)))
}

/// Returns whether the server is Valkey: it and Redis number some things differently.
pub fn is_valkey() -> bool {
    static IS_VALKEY: OnceLock<bool> = OnceLock::new();
    *IS_VALKEY
        .get_or_init(|| Section::with(c"server", |server| server.text(c"valkey_version").is_some()))
}
