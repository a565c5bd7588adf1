//! The server's INFO.

use std::ffi::CStr;
use std::ptr;
use std::sync::OnceLock;

use redis_module::raw::RedisModuleServerInfoData;

/// A section of INFO. The server takes 10 to 20 us to make one.
pub struct Section(*mut RedisModuleServerInfoData);

impl Section {
    /// Makes the section `name`.
    pub fn new(name: &CStr) -> Self {
        // SAFETY: the server accepts a null context here; the section is a C string.
        Self(unsafe { api!(RedisModule_GetServerInfo(ptr::null_mut(), name.as_ptr())) })
    }

    /// Returns a numeric field, if the section has it.
    pub fn number(&self, field: &CStr) -> Option<u64> {
        let mut failed = 0;
        // SAFETY: the section lives, and the field is a C string.
        let number = unsafe {
            api!(RedisModule_ServerInfoGetFieldUnsigned(self.0, field.as_ptr(), &mut failed))
        };
        (failed == 0).then_some(number)
    }

    /// Returns a field as text, if the section has it.
    pub fn text(&self, field: &CStr) -> Option<&CStr> {
        // SAFETY: the section lives, and the field is a C string. The server returns null or a C string that lives
        // as long.
        unsafe {
            let text = api!(RedisModule_ServerInfoGetFieldC(self.0, field.as_ptr()));
            if text.is_null() { None } else { Some(CStr::from_ptr(text)) }
        }
    }
}

impl Drop for Section {
    fn drop(&mut self) {
        // SAFETY: created in `new`, and freed only here. The server accepts a null context.
        unsafe { api!(RedisModule_FreeServerInfo(ptr::null_mut(), self.0)) }
    }
}

/// Returns the server's counts since its start or the last CONFIG RESETSTAT: connections, commands, bytes read, bytes
/// written. A count that the server lacks is 0. A reset shows as a count that is lower than before. Several counts are
/// needed to notice one, because each grows at its own pace, and one of them stays below its old value for a while.
pub fn server_counts() -> [u64; 4] {
    const FIELDS: [&CStr; 4] = [
        c"total_connections_received",
        c"total_commands_processed",
        c"total_net_input_bytes",
        c"total_net_output_bytes",
    ];
    let stats = Section::new(c"stats");
    FIELDS.map(|field| stats.number(field).unwrap_or(0))
}

/// Returns whether the server is Valkey, which numbers some events and options differently from Redis.
pub fn is_valkey() -> bool {
    static IS_VALKEY: OnceLock<bool> = OnceLock::new();
    *IS_VALKEY.get_or_init(|| Section::new(c"server").text(c"valkey_version").is_some())
}

/// Returns `host:port` of the primary of this replica, where clients of Valkey are redirected to.
pub fn primary_address() -> Option<String> {
    let replication = Section::new(c"replication");
    let host = replication.text(c"master_host")?.to_str().ok()?;
    let port = replication.number(c"master_port")?;
    is_valkey().then(|| format!("{host}:{port}"))
}
