//! A node: its connections, which requests share, and what is known of it.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use redis::{Client, Connection, ConnectionAddr, ConnectionInfo, RedisResult};

use crate::dehydrators::Dehydrators;
use crate::figures::Figures;
use crate::trouble::{PATIENCE, Trouble};
use crate::walk::Walk;

/// Connections that are kept for later requests.
const KEPT: usize = 8;
/// A connection that was idle for longer is asked whether it still lives.
const FRESH: Duration = Duration::from_secs(2);

/// Where to begin: a node, which may be of a cluster, or Sentinels, which know the primary and the replicas of a service.
#[derive(Clone)]
pub enum Seed {
    Node(Client),
    /// `template` has the user, the password and the settings of TLS for the nodes.
    Sentinel {
        sentinels: Vec<Client>,
        service: String,
        template: Client,
    },
}

impl Seed {
    /// Returns the same place for another user.
    pub fn for_user(&self, user: &str, password: &str) -> RedisResult<Self> {
        let client = |client: &Client| {
            let info = client.get_connection_info().clone();
            let settings = info.redis_settings().clone().set_username(user).set_password(password);
            Client::open(info.set_redis_settings(settings))
        };
        Ok(match self {
            Self::Node(node) => Self::Node(client(node)?),
            Self::Sentinel { sentinels, service, template } => Self::Sentinel {
                sentinels: sentinels.clone(),
                service: service.clone(),
                template: client(template)?,
            },
        })
    }

    pub fn template(&self) -> &Client {
        match self {
            Self::Node(client) | Self::Sentinel { template: client, .. } => client,
        }
    }

    /// Returns the Redis user.
    pub fn user(&self) -> &str {
        self.template().get_connection_info().redis_settings().username().unwrap_or("default")
    }
}

/// Returns a client for another address, with the same user and the same settings of TLS.
pub fn client_at(template: &Client, host: &str, port: u16) -> RedisResult<Client> {
    let info: ConnectionInfo = template.get_connection_info().clone();
    let host = host.to_owned();
    let address = match info.addr().clone() {
        ConnectionAddr::TcpTls { insecure, tls_params, .. } => {
            ConnectionAddr::TcpTls { host, port, insecure, tls_params }
        }
        _ => ConnectionAddr::Tcp(host, port),
    };
    Client::open(info.set_addr(address))
}

pub fn address_of(client: &Client) -> String {
    client.get_connection_info().addr().to_string()
}

/// Opens a connection that does not wait for ever.
pub fn connect(client: &Client) -> RedisResult<Connection> {
    let connection = client.get_connection_with_timeout(PATIENCE)?;
    connection.set_read_timeout(Some(PATIENCE))?;
    connection.set_write_timeout(Some(PATIENCE))?;
    Ok(connection)
}

#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Role {
    /// It has not been asked yet.
    #[default]
    Unknown,
    Master,
    Replica,
}

/// What is known of the dehydrators of one database.
#[derive(Default)]
pub struct Database {
    pub dehydrators: Dehydrators,
    pub walk: Walk,
    /// The number of dead letters of each key whose policy names a stream or a list.
    pub dead: HashMap<Vec<u8>, u64>,
}

/// What is known of a node.
#[derive(Default)]
pub struct State {
    pub figures: Figures,
    pub role: Role,
    /// Whether the link of a replica to its primary is up.
    pub link: Option<String>,
    /// The history that a primary and its replicas share.
    pub replication: String,
    pub memory: u64,
    pub clients: u64,
    pub trouble: Option<Trouble>,
    pub databases: BTreeMap<u64, Database>,
    /// Whether it has been asked at all.
    pub is_known: bool,
}

struct Idle {
    connection: Connection,
    db: i64,
    since: Instant,
}

pub struct Node {
    /// The address, or for the primary of Sentinels the name of their service: links stay valid after a failover.
    pub name: String,
    pub client: Client,
    pub is_of_cluster: bool,
    state: Arc<Mutex<State>>,
    idle: Mutex<Vec<Idle>>,
}

impl Node {
    pub fn new(name: String, client: Client, is_of_cluster: bool) -> Self {
        Self { name, client, is_of_cluster, state: Arc::default(), idle: Mutex::default() }
    }

    /// Returns the same node at another address, with what is known of it.
    pub fn moved_to(&self, client: Client, is_of_cluster: bool) -> Self {
        Self {
            state: Arc::clone(&self.state),
            ..Self::new(self.name.clone(), client, is_of_cluster)
        }
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Runs a function with a connection to a database.
    pub fn with<T>(
        &self,
        db: u64,
        run: impl FnOnce(&mut Connection) -> RedisResult<T>,
    ) -> RedisResult<T> {
        let db = i64::try_from(db).unwrap_or(i64::MAX);
        let mut idle = match self.take(db) {
            Some(idle) => idle,
            None => {
                let own = self.client.get_connection_info().redis_settings().db();
                Idle { connection: connect(&self.client)?, db: own, since: Instant::now() }
            }
        };
        if idle.db != db {
            redis::cmd("SELECT").arg(db).exec(&mut idle.connection)?;
            idle.db = db;
        }
        let result = run(&mut idle.connection);
        // After an error of the connection, late replies would be taken for replies to the next commands.
        if result.as_ref().err().is_none_or(|error| error.code().is_some()) {
            idle.since = Instant::now();
            let mut kept = self.kept();
            if kept.len() < KEPT {
                kept.push(idle);
            }
        }
        result
    }

    fn kept(&self) -> MutexGuard<'_, Vec<Idle>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, db: i64) -> Option<Idle> {
        loop {
            let mut idle = {
                let mut kept = self.kept();
                let at = kept.iter().rposition(|idle| idle.db == db);
                let at = at.or_else(|| kept.len().checked_sub(1))?;
                kept.swap_remove(at)
            };
            let lives = idle.since.elapsed() < FRESH
                || redis::cmd("PING").exec(&mut idle.connection).is_ok();
            if lives {
                return Some(idle);
            }
        }
    }
}
