//! Who is asking: the door that a browser must pass, and the sessions of those who have.

use std::collections::HashMap;
use std::error::Error;
use std::fs;
use std::net::{IpAddr, SocketAddr};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use axum::Json;
use axum::extract::rejection::JsonRejection;
use axum::extract::{ConnectInfo, FromRequestParts, State};
use axum::http::request::Parts;
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use redis::ErrorKind;
use serde::Deserialize;
use serde_json::{Value, json};
use subtle::ConstantTimeEq;

use super::account::Account;
use super::bytes::encode;
use super::node::{Seed, connect};
use super::refusal::Refusal;
use super::{Page, blocking};

/// A session that is not used for longer ends.
const IDLE: Duration = Duration::from_secs(12 * 3600);
/// Sessions at the same time; beyond, the one that was idle for the longest ends.
const SESSIONS: usize = 1_000;
/// Failed attempts to log in that an address has within a minute.
const ATTEMPTS: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);

/// How a browser proves that it may use the page.
#[derive(Clone)]
pub enum Door {
    /// It reaches the page: only from this machine.
    Open,
    Token(Vec<u8>),
    /// A proxy names the user in this header.
    Header(HeaderName),
    /// A Redis user and password.
    Login,
}

impl Door {
    /// Reads the token from a file.
    pub fn token(file: &Path) -> Result<Self, Box<dyn Error>> {
        let token = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
        let token = token.trim_ascii().to_vec();
        if token.len() < 16 {
            let advice = "`openssl rand -hex 32` makes one";
            return Err(
                format!("{}: a token has 16 characters or more; {advice}", file.display()).into()
            );
        }
        Ok(Self::Token(token))
    }

    pub fn header(name: &str) -> Result<Self, Box<dyn Error>> {
        Ok(Self::Header(name.parse().map_err(|_| format!("{name:?} is not the name of a header"))?))
    }
}

struct Session {
    who: String,
    account: Arc<Account>,
    used: Instant,
}

#[derive(Default)]
pub struct Sessions {
    all: Mutex<HashMap<String, Session>>,
    accounts: Mutex<Vec<Weak<Account>>>,
    failures: Mutex<HashMap<IpAddr, Vec<Instant>>>,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    fn find(&self, id: &str) -> Option<(String, Arc<Account>)> {
        let mut all = locked(&self.all);
        all.retain(|_, session| session.used.elapsed() < IDLE);
        let session = all.get_mut(id)?;
        session.used = Instant::now();
        Some((session.who.clone(), Arc::clone(&session.account)))
    }

    /// Begins a session and returns its id, which nobody can guess.
    fn begin(&self, who: &str, account: Arc<Account>) -> Result<String, Refusal> {
        let mut bytes = [0; 32];
        getrandom::fill(&mut bytes).map_err(|error| {
            let error = format!("The system has no random numbers: {error}.");
            Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "RANDOM", error)
        })?;
        let id = encode(&bytes);
        let mut all = locked(&self.all);
        if all.len() >= SESSIONS {
            let oldest = all.iter().min_by_key(|(_, session)| session.used);
            let oldest = oldest.map(|(id, _)| id.clone());
            oldest.map(|id| all.remove(&id));
        }
        all.insert(id.clone(), Session { who: who.to_owned(), account, used: Instant::now() });
        Ok(id)
    }

    fn end(&self, id: &str) {
        locked(&self.all).remove(id);
    }

    /// Returns the account of a Redis user, which sessions share.
    fn account(&self, seeds: &[Seed], user: &str, password: &str) -> Result<Arc<Account>, Refusal> {
        let seeds: Result<Vec<_>, _> =
            seeds.iter().map(|seed| seed.for_user(user, password)).collect();
        let mut accounts = locked(&self.accounts);
        accounts.retain(|account| account.strong_count() > 0);
        let known = accounts.iter().filter_map(Weak::upgrade).find(|it| it.is_of(user, password));
        if let Some(account) = known {
            return Ok(account);
        }
        let account = Account::open(seeds?, password);
        accounts.push(Arc::downgrade(&account));
        Ok(account)
    }

    /// Refuses an address that has failed too often.
    fn may_try(&self, address: IpAddr) -> Result<(), Refusal> {
        let mut failures = locked(&self.failures);
        failures.retain(|_, moments| {
            moments.retain(|moment| moment.elapsed() < MINUTE);
            !moments.is_empty()
        });
        if failures.get(&address).is_some_and(|moments| moments.len() >= ATTEMPTS) {
            let error = "Too many attempts to log in have failed. Wait a minute.";
            return Err(Refusal::new(StatusCode::TOO_MANY_REQUESTS, "ATTEMPTS", error));
        }
        Ok(())
    }

    fn failed(&self, address: IpAddr) {
        locked(&self.failures).entry(address).or_default().push(Instant::now());
    }
}

/// Who asks, and as which Redis user.
pub struct Caller {
    /// The name for the log.
    pub who: String,
    pub account: Arc<Account>,
}

impl FromRequestParts<Arc<Page>> for Caller {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, page: &Arc<Page>) -> Result<Self, Refusal> {
        caller(page, &parts.headers)
            .ok_or_else(|| Refusal::new(StatusCode::UNAUTHORIZED, "LOGIN", "Log in first."))
    }
}

fn caller(page: &Page, headers: &HeaderMap) -> Option<Caller> {
    let shared = |who: &str| {
        Some(Caller { who: who.to_owned(), account: Arc::clone(page.shared.as_ref()?) })
    };
    let caller = match &page.door {
        Door::Open => shared("local"),
        Door::Header(name) => {
            let who = headers.get(name)?.to_str().ok()?.trim();
            (!who.is_empty()).then(|| shared(who))?
        }
        Door::Token(_) | Door::Login => {
            let (who, account) = page.sessions.find(cookie(page, headers)?)?;
            Some(Caller { who, account })
        }
    }?;
    caller.account.touch();
    Some(caller)
}

fn cookie<'a>(page: &Page, headers: &'a HeaderMap) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|value| value.to_str().ok());
    let mut pairs =
        all.flat_map(|value| value.split(';')).filter_map(|it| it.trim().split_once('='));
    pairs.find(|(name, _)| *name == page.cookie).map(|(_, value)| value)
}

pub async fn session(State(page): State<Arc<Page>>, headers: HeaderMap) -> Json<Value> {
    let caller = caller(&page, &headers);
    let server = caller.as_ref().map(|caller| {
        let nodes = caller.account.nodes();
        let mut servers: Vec<_> =
            nodes.iter().map(|it| it.state().figures.server.clone()).collect();
        servers.retain(|server| !server.is_empty());
        servers.dedup();
        servers.join(", ")
    });
    Json(json!({
        "user": caller.as_ref().map(|caller| &caller.account.user),
        "who": caller.as_ref().map(|caller| &caller.who),
        "logged_in": caller.is_some(),
        "login": matches!(page.door, Door::Login),
        "token": matches!(page.door, Door::Token(_)),
        "server": server,
        "version": env!("DEHYDRATOR_VERSION"),
        "log": page.log.as_deref().map(String::from_utf8_lossy),
    }))
}

#[derive(Deserialize)]
pub struct Login {
    #[serde(default)]
    user: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    token: String,
}

pub async fn login(
    State(page): State<Arc<Page>>,
    ConnectInfo(peer): ConnectInfo<SocketAddr>,
    headers: HeaderMap,
    login: Result<Json<Login>, JsonRejection>,
) -> Result<Response, Refusal> {
    let Json(login) = login?;
    page.sessions.may_try(peer.ip())?;
    let wrong = || {
        page.sessions.failed(peer.ip());
        Refusal::new(StatusCode::UNAUTHORIZED, "WRONGPASS", "That is not right.")
    };
    let id = match &page.door {
        Door::Open | Door::Header(_) => {
            return Err(Refusal::bad("The page has no form to log in."));
        }
        Door::Token(token) => {
            if !bool::from(token.as_slice().ct_eq(login.token.as_bytes())) {
                return Err(wrong());
            }
            let shared = page.shared.clone().ok_or_else(wrong)?;
            page.sessions.begin("token", shared)?
        }
        Door::Login => {
            if login.user.is_empty() {
                return Err(wrong());
            }
            let (user, password) = (login.user.clone(), login.password);
            let opener = Arc::clone(&page);
            let opened = blocking(move || open(&opener, &user, &password)).await?;
            let account = opened.ok_or_else(wrong)?;
            page.sessions.begin(&login.user, account)?
        }
    };
    // Without a path, the cookie is for the folder of this request: it is sent to api/ alone, also behind a proxy's prefix.
    let origin = headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok());
    let secure = if origin.is_some_and(|it| it.starts_with("https:")) { "; Secure" } else { "" };
    Ok(set_cookie(&format!("{}={id}; HttpOnly; SameSite=Strict{secure}", page.cookie)))
}

/// Logs in at the server. Returns `None` for a wrong user or password.
fn open(page: &Page, user: &str, password: &str) -> Result<Option<Arc<Account>>, Refusal> {
    let account = page.sessions.account(&page.seeds, user, password)?;
    let mut last = None;
    for node in account.nodes() {
        match connect(&node.client) {
            Ok(_) => return Ok(Some(account)),
            Err(error) if error.kind() == ErrorKind::AuthenticationFailed => return Ok(None),
            Err(error) => last = Some(error),
        }
    }
    Err(last.map_or_else(|| Refusal::missing("There is no node."), Refusal::from))
}

pub async fn logout(State(page): State<Arc<Page>>, headers: HeaderMap) -> Response {
    if let Some(id) = cookie(&page, &headers) {
        page.sessions.end(id);
    }
    set_cookie(&format!("{}=; HttpOnly; SameSite=Strict; Max-Age=0", page.cookie))
}

fn set_cookie(cookie: &str) -> Response {
    let cookie = HeaderValue::from_str(cookie).unwrap_or(HeaderValue::from_static(""));
    (StatusCode::NO_CONTENT, [(header::SET_COOKIE, cookie)]).into_response()
}
