//! The page: its files, and the answers that it asks for, in JSON.
//!
//! | file | |
//! |---|---|
//! | `guard`, `session` | what each request must pass; who asks |
//! | `account`, `discovery`, `node` | a Redis user, the nodes that it sees, their connections, and what is known of them |
//! | `queue`, `rights`, `counts`, `progress`, `history` | the name of a queue, and what an account keeps: answers about rights, counts of timelines, long changes, samples |
//! | `queues`, `elements`, `dead`, `schedules`, `timeline`, `find`, `held`, `jobs` | what is shown |
//! | `permission`, `act`, `plan`, `log` | what may be changed, changes, those of many elements, and the record of them |
//! | `assets`, `bytes`, `query`, `refusal` | the files of console/web/; byte strings in JSON; the words of a query; errors |
//!
//! Commands to a server run on threads of their own, with the connections that the live view has too.

mod account;
mod act;
mod assets;
mod bytes;
mod counts;
mod dead;
mod discovery;
mod elements;
mod find;
mod guard;
mod held;
mod history;
mod jobs;
mod log;
mod node;
mod permission;
mod plan;
mod progress;
mod query;
mod queue;
mod queues;
mod refusal;
mod rights;
mod schedules;
mod session;
mod timeline;

use std::error::Error;
use std::io;
use std::io::Write;
use std::net::SocketAddr;
use std::sync::Arc;

use axum::extract::DefaultBodyLimit;
use axum::http::StatusCode;
use axum::routing::{get, post};
use axum::{Router, middleware};
use tokio::net::TcpListener;

use account::Account;
use refusal::Refusal;
use session::Sessions;

pub use node::Seed;
pub use session::Door;

/// The greatest body of a request: an edited element of some megabytes.
const BODY: usize = 32 << 20;
/// The greatest body of those who are not logged in.
const BODY_OF_LOGIN: usize = 16 << 10;
/// Requests that ask a server at the same time.
const THREADS: usize = 64;

pub struct Options {
    pub address: SocketAddr,
    pub door: Door,
    /// Names by which browsers reach the page.
    pub hosts: Vec<String>,
    /// The stream that records each change.
    pub log: Option<Vec<u8>>,
    pub seeds: Vec<Seed>,
}

/// What all requests share.
pub struct Page {
    door: Door,
    hosts: Vec<String>,
    log: Option<Vec<u8>>,
    seeds: Vec<Seed>,
    /// The user of the URL, unless everybody logs in.
    shared: Option<Arc<Account>>,
    sessions: Sessions,
    /// The name of the cookie. Browsers do not separate the cookies of ports.
    cookie: String,
}

/// Serves the page until the process is told to end.
pub fn serve(options: Options) -> Result<(), Box<dyn Error>> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .max_blocking_threads(THREADS)
        .enable_all()
        .build()?;
    runtime.block_on(async {
        let listener = TcpListener::bind(options.address)
            .await
            .map_err(|error| format!("cannot listen on {}: {error}", options.address))?;
        let address = listener.local_addr()?;
        // Ignore a closed pipe.
        let _ =
            writeln!(io::stdout(), "The page is at http://{address}/").and(io::stdout().flush());
        let service = router(page(options, address.port()))
            .into_make_service_with_connect_info::<SocketAddr>();
        axum::serve(listener, service).await?;
        Ok(())
    })
}

fn page(options: Options, port: u16) -> Arc<Page> {
    let Options { door, hosts, log, seeds, .. } = options;
    let shared = (!matches!(door, Door::Login)).then(|| Account::open(seeds.clone(), ""));
    let cookie = format!("dehydrator-{port}");
    Arc::new(Page { door, hosts, log, seeds, shared, sessions: Sessions::default(), cookie })
}

fn router(page: Arc<Page>) -> Router {
    Router::new()
        .route("/api/session", get(session::session))
        .route("/api/login", post(session::login).layer(DefaultBodyLimit::max(BODY_OF_LOGIN)))
        .route("/api/logout", post(session::logout))
        .route("/api/overview", get(queues::overview))
        .route("/api/history", get(queues::history))
        .route("/api/queue", get(queues::queue))
        .route("/api/elements", get(elements::elements))
        .route("/api/element", get(elements::element))
        .route("/api/dead", get(dead::dead))
        .route("/api/schedules", get(schedules::schedules))
        .route("/api/find", get(find::find))
        .route("/api/held", get(held::held))
        .route("/api/timeline", get(timeline::timeline))
        .route("/api/act", post(act::act))
        .route("/api/jobs", get(jobs::jobs))
        .route("/api/jobs/{id}", get(jobs::job))
        .route("/api/jobs/{id}/stop", post(jobs::stop))
        .route("/api/log", get(log::log))
        .route("/api/{*rest}", get(nothing).post(nothing))
        .fallback(assets::serve)
        .layer(DefaultBodyLimit::max(BODY))
        .layer(middleware::from_fn_with_state(Arc::clone(&page), guard::check))
        .with_state(page)
}

async fn nothing() -> Refusal {
    Refusal::missing("There is no such question.")
}

/// Runs a function that waits for a server.
async fn blocking<T: Send + 'static>(
    run: impl FnOnce() -> Result<T, Refusal> + Send + 'static,
) -> Result<T, Refusal> {
    tokio::task::spawn_blocking(run).await.unwrap_or_else(|error| {
        let error = format!("An error of the page itself: {error}.");
        Err(Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "BUG", error))
    })
}
