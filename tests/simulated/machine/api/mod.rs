//! The module API: the functions that the server hands to the module, by their names.
//!
//! | module | contents |
//! |---|---|
//! | this file | the table of functions, by which a kind of server lacks some |
//! | `context` | the context of a call; its database and its flags; strings; memory; time |
//! | `reply` | replies |
//! | `register` | commands, the type, settings, events, INFO, filters: what a load registers |
//! | `keys` | open keys, walks over a database |
//! | `call` | calls of commands, effects, events, rights of users |
//! | `blocked` | blocked clients and timers |
//! | `io` | a value's payload, its digest, its defragmentation |
//!
//! A function with a variable number of arguments is declared with many: on x86-64 and arm64 the callee finds those that were
//! passed where it looks for them, and reads of the others only what the format names.

pub mod blocked;
pub mod call;
pub mod context;
pub mod io;
pub mod keys;
pub mod register;
pub mod reply;

use std::collections::HashMap;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::OnceLock;

use super::Kind;
use super::server::current;

pub const OK: c_int = 0;
pub const ERR: c_int = 1;

/// Lists the functions: all, and those that Redis 7.0 lacks.
macro_rules! functions {
    ($($since:ident { $($module:ident { $($name:ident = $function:ident),* $(,)? })* })*) => {
        /// Returns a function of the module API. `None`: this kind of server lacks it, or it is not simulated.
        fn find(name: &[u8], kind: Kind) -> Option<*mut c_void> {
            static ALL: OnceLock<HashMap<&'static [u8], (Since, usize)>> = OnceLock::new();
            let all = ALL.get_or_init(|| HashMap::from([
                $($($((
                    concat!("RedisModule_", stringify!($name)).as_bytes(),
                    (Since::$since, $module::$function as *const () as usize),
                ),)*)*)*
            ]));
            let (since, function) = all.get(name)?;
            (*since <= Since::of(kind)).then_some(*function as *mut c_void)
        }
    };
}

#[derive(PartialEq, Eq, PartialOrd, Ord)]
enum Since {
    Redis70,
    Redis72,
    Redis8,
}

impl Since {
    fn of(kind: Kind) -> Self {
        if kind == Kind::Redis70 { Self::Redis70 } else { Self::Redis8 }
    }
}

functions! {
    Redis70 {
        context {
            Alloc = alloc, Free = free, Log = log, _Assert = assert,
            Milliseconds = milliseconds, MonotonicMicroseconds = monotonic_microseconds,
            CreateString = create_string, CreateStringFromLongLong = create_string_from_number,
            FreeString = free_string, RetainString = retain_string, StringPtrLen = string_ptr_len,
            GetSelectedDb = get_selected_db, SelectDb = select_db, GetContextFlags = get_context_flags,
            AvoidReplicaTraffic = avoid_replica_traffic, GetRandomBytes = get_random_bytes,
            GetClientId = get_client_id, GetDetachedThreadSafeContext = get_detached_context,
            IsKeysPositionRequest = is_keys_position_request, KeyAtPosWithFlags = key_at_pos_with_flags,
        }
        reply {
            ReplyWithSimpleString = simple_string, ReplyWithError = error, ReplyWithLongLong = long_long,
            ReplyWithStringBuffer = string_buffer, ReplyWithNull = null,
            ReplyWithNullArray = null_array, ReplyWithArray = array, ReplyWithMap = map,
            ReplySetArrayLength = set_array_length, ReplySetMapLength = set_map_length,
            WrongArity = wrong_arity,
        }
        register {
            IsModuleNameBusy = is_module_name_busy, SetModuleAttribs = set_module_attribs,
            SetModuleOptions = set_module_options, CreateCommand = create_command, GetCommand = get_command,
            SetCommandInfo = set_command_info, CreateDataType = create_data_type,
            RegisterNumericConfig = register_numeric, RegisterBoolConfig = register_bool,
            RegisterStringConfig = register_string, LoadConfigs = load_configs,
            SubscribeToServerEvent = subscribe_to_server_event, RegisterInfoFunc = register_info_func,
            InfoAddSection = info_add_section, InfoAddFieldCString = info_add_text,
            InfoAddFieldULongLong = info_add_number, GetServerInfo = get_server_info,
            FreeServerInfo = free_server_info, ServerInfoGetFieldUnsigned = get_unsigned,
            ServerInfoGetFieldC = get_c_text, RegisterCommandFilter = register_command_filter,
            UnregisterCommandFilter = unregister_command_filter, CommandFilterArgGet = command_filter_arg,
            GetNotifyKeyspaceEvents = get_notify_keyspace_events,
        }
        keys {
            OpenKey = open_key, CloseKey = close_key, KeyType = key_type, DeleteKey = delete_key,
            ModuleTypeGetType = get_type, ModuleTypeGetValue = get_value, ModuleTypeSetValue = set_value,
            GetAbsExpire = get_abs_expire, SetAbsExpire = set_abs_expire, SetExpire = set_expire,
            ScanCursorCreate = cursor_create, ScanCursorDestroy = cursor_destroy, Scan = scan,
            SignalModifiedKey = signal_modified_key, NotifyKeyspaceEvent = notify_keyspace_event,
            GetKeyNameFromOptCtx = name_from, GetToKeyNameFromOptCtx = name_to,
            GetDbIdFromOptCtx = db_from, GetToDbIdFromOptCtx = db_to,
        }
        call {
            Call = call, FreeCallReply = free_reply, CallReplyType = reply_type,
            CallReplyLength = reply_length, CallReplyStringPtr = reply_text,
            CallReplyArrayElement = reply_item, CallReplyInteger = reply_integer,
            Replicate = replicate, ReplicateVerbatim = replicate_verbatim,
            GetCurrentUserName = current_user_name, GetClientUserNameById = user_name_of,
            GetModuleUserFromUserName = find_user, FreeModuleUser = free_user,
            ACLCheckCommandPermissions = check_command, ACLCheckKeyPermissions = check_key,
            ACLCheckChannelPermissions = check_channel,
            ACLAddLogEntry = add_log_entry,
            PublishMessage = publish, PublishMessageShard = publish,
        }
        blocked {
            BlockClient = block_client, UnblockClient = unblock_client,
            SetDisconnectCallback = set_disconnect_callback,
            GetBlockedClientPrivateData = private_data, GetBlockedClientHandle = handle,
            CreateTimer = create_timer, StopTimer = stop_timer, EventLoopAdd = event_loop_add,
            EventLoopAddOneShot = event_loop_add_one_shot,
        }
        io {
            SaveUnsigned = save_unsigned, SaveStringBuffer = save_bytes, LoadUnsigned = load_unsigned,
            LoadStringBuffer = load_bytes, IsIOError = is_io_error, EmitAOF = emit_aof,
            LogIOError = log_io_error, GetKeyNameFromIO = name_of, GetDbIdFromIO = db_of,
            GetContextFromIO = context_of, DigestAddStringBuffer = digest_bytes,
            DigestAddLongLong = digest_number, DigestEndSequence = digest_end,
            DefragAlloc = defrag_alloc, DefragCursorGet = cursor_get, DefragCursorSet = cursor_set,
            DefragShouldStop = defrag_should_stop,
        }
    }

    Redis72 {
        context { Microseconds = microseconds }
        register {
            GetOpenKeyModesAll = open_key_modes, GetModuleOptionsAll = module_options,
            SetCommandACLCategories = set_command_categories,
        }
    }

    Redis8 {
        register { AddACLCategory = add_acl_category,
        }
    }
}

/// Finds a function: the first word of the context of a load.
///
/// # Safety
///
/// For the module: a name, and room for the function.
pub unsafe extern "C" fn get_api(name: *const c_char, function: *mut *mut c_void) -> c_int {
    // SAFETY: the caller's promise.
    unsafe {
        match find(CStr::from_ptr(name).to_bytes(), current().kind) {
            Some(found) => {
                function.write(found);
                OK
            }
            None => ERR,
        }
    }
}
