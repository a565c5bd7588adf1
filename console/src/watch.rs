//! Refreshes the model, with a bounded number of commands per refresh.

use std::time::Duration;

use redis::{Client, Connection, RedisResult};

use crate::ask;
use crate::destination::Destination;
use crate::model::Model;
use crate::trouble::{PATIENCE, Trouble};
use crate::walk::Walk;

/// The number of dehydrators shown as overdue the longest.
const WORST: usize = 3;
/// SCANs per refresh; the next refresh continues. A million keys take 40 refreshes.
const SCANS: usize = 50;
/// Dehydrators whose INFO is read per refresh; the next refresh continues with the others.
const ASKED: usize = 500;

pub struct Watch {
    client: Client,
    connection: Option<Connection>,
    walk: Walk,
}

impl Watch {
    pub fn new(client: Client) -> Self {
        Self { client, connection: None, walk: Walk::default() }
    }

    /// Updates the model. Stores an error in it, and retries at the next refresh.
    pub fn refresh(&mut self, model: &mut Model, now: Duration) {
        let result = self.connect().map_err(|error| Trouble::new(&self.client, &error, false));
        let result = result.and_then(|()| {
            let refreshed = self.try_refresh(model, now);
            refreshed.map_err(|error| Trouble::new(&self.client, &error, true))?;
            if model.figures.fields.is_empty() {
                Err(Trouble::no_module(&self.client, &model.figures.server))
            } else {
                Ok(())
            }
        });
        self.conclude(model, result);
    }

    /// Updates only the contents of the selected dehydrator, after a selection.
    pub fn refresh_selected(&mut self, model: &mut Model) {
        if let Some(connection) = &mut self.connection {
            let result = ask_selected(connection, model);
            let result = result.map_err(|error| Trouble::new(&self.client, &error, true));
            self.conclude(model, result);
        }
    }

    fn conclude(&mut self, model: &mut Model, result: Result<(), Trouble>) {
        model.trouble = result.err();
        if model.trouble.is_some() {
            // Late replies would be taken for replies to the next commands.
            self.connection = None;
            self.walk.restart();
        }
    }

    fn connect(&mut self) -> RedisResult<()> {
        if self.connection.is_none() {
            let connection = self.client.get_connection_with_timeout(PATIENCE)?;
            connection.set_read_timeout(Some(PATIENCE))?;
            connection.set_write_timeout(Some(PATIENCE))?;
            self.connection = Some(connection);
        }
        Ok(())
    }

    /// Reads everything; only INFO if the module is not loaded.
    fn try_refresh(&mut self, model: &mut Model, now: Duration) -> RedisResult<()> {
        let connection = self.connection.as_mut().expect("connect() was called");
        model.figures.take(&ask::info(connection, &["server", "dehydrator"])?, now);
        if model.figures.fields.is_empty() {
            return Ok(());
        }
        model.worst = ask::late(connection, WORST)?;
        self.walk.refresh(connection, &mut model.dehydrators, (SCANS, ASKED), now)?;
        // Keep a dehydrator selected, even if the selected one is gone.
        model.select(0);
        ask_selected(connection, model)
    }
}

fn ask_selected(connection: &mut Connection, model: &mut Model) -> RedisResult<()> {
    let Some(key) = &model.selected else { return Ok(()) };
    let Some(dehydrator) = model.dehydrators.all.get(key) else { return Ok(()) };
    model.parts = ask::parts(connection, key, &dehydrator.facts)?.unwrap_or_default();
    if dehydrator.facts.schedules > 0 {
        model.parts.schedules = ask::schedules(connection, key, "-")?.1;
    }
    let destination = Destination::of_dead_letters(&dehydrator.facts.policy);
    let dead = ask::dead(connection, std::iter::once((key, destination)))?;
    model.parts.dead = dead.first().map(|(_, count)| *count);
    Ok(())
}
