//! Commands that a server without memory refuses although it does not refuse all of them.

use super::follow::Call;
use super::limits::Settings;
use super::model::Model;
use crate::machine::Reply;
use crate::world::op::Op;

impl Model {
    /// Returns whether a command was refused because it would have needed memory: for a key, or for the name of a group.
    pub(super) fn is_refused(&self, call: &Call, reply: &Reply) -> bool {
        if !self.is_full || !matches!(reply, Reply::Error(error) if error.starts_with(b"OOM")) {
            return false;
        }
        let Some(it) = self.get(call.db, &call.key) else {
            return matches!(call.op, Op::Limit(_) | Op::LimitGroup(..) | Op::Pause { .. });
        };
        match &call.op {
            Op::LimitGroup(None, _) => it.each == Settings::default(),
            Op::LimitGroup(Some(group), _) | Op::Pause { group: Some(group), .. } => {
                it.settings(group) == Settings::default()
            }
            _ => false,
        }
    }
}
