//! INFO: the fields that the module reads, and the module's own section.

use std::collections::BTreeMap;
use std::ffi::{CString, c_void};

use super::Kind;
use super::server::{Server, c_text};

/// Fields by name.
pub type Fields = BTreeMap<String, CString>;

impl Server {
    pub fn info_fields(&self, section: &str) -> Fields {
        let mut fields = Fields::new();
        let mut put =
            |name: &str, value: String| _ = fields.insert(name.to_owned(), c_text(&value));
        let number = |is: bool| u8::from(is).to_string();
        match section {
            "server" => match self.kind {
                Kind::Redis70 => put("redis_version", "7.0.15".to_owned()),
                Kind::Redis8 => put("redis_version", "8.0.2".to_owned()),
                Kind::Valkey8 => put("valkey_version", "8.1.1".to_owned()),
                Kind::Valkey9 => put("valkey_version", "9.1.2".to_owned()),
            },
            "stats" => {
                let names = [
                    "total_connections_received",
                    "total_commands_processed",
                    "total_net_input_bytes",
                    "total_net_output_bytes",
                ];
                for (name, count) in names.iter().zip(self.counts.get()) {
                    put(name, count.to_string());
                }
            }
            "replication" => {
                let role = if self.is_replica() { "slave" } else { "master" };
                put("role", role.to_owned());
                put("connected_slaves", self.replicas.borrow().len().to_string());
                put("repl_backlog_active", number(self.stream.backlog.borrow().is_some()));
                if self.replicas_to_write.get() > 0 {
                    put("min_slaves_good_slaves", self.good_replicas().to_string());
                }
            }
            "persistence" => {
                put("loading", number(self.is_loading.get()));
                put("aof_enabled", number(self.stream.has_file()));
                put("aof_rewrite_in_progress", number(self.is_forked.get()));
                put("rdb_bgsave_in_progress", number(self.is_forked.get()));
                put("rdb_last_bgsave_status", "ok".to_owned());
                put("aof_last_write_status", "ok".to_owned());
            }
            "cluster" => put("cluster_enabled", number(self.slots.borrow().is_some())),
            _ => {}
        }
        fields
    }

    /// Returns the text of a section: `dehydrator` is the module's.
    pub fn info_text(&self, section: &str) -> String {
        if section != "dehydrator" {
            let fields = self.info_fields(section);
            let lines =
                fields.iter().map(|(name, it)| format!("{name}:{}\r\n", it.to_string_lossy()));
            return lines.collect();
        }
        let mut text = String::new();
        if let Some(run) = self.hooks.info.get() {
            // SAFETY: the text lives for the call.
            unsafe { run((&raw mut text).cast::<c_void>(), 0) };
        }
        text
    }
}
