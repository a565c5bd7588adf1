//! What every request must pass: names of hosts, against DNS rebinding; origins, against requests of foreign pages; and the
//! headers that bind the browser.

use std::net::IpAddr;
use std::sync::Arc;

use axum::extract::{Request, State};
use axum::http::{HeaderMap, HeaderValue, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::Page;
use super::refusal::Refusal;

const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; \
    base-uri 'none'; form-action 'self'; frame-ancestors 'none'";

pub async fn check(State(page): State<Arc<Page>>, request: Request, next: Next) -> Response {
    let is_api = request.uri().path().starts_with("/api/");
    let mut response = match refuse(&page.hosts, &request, is_api) {
        Some(refusal) => refusal.into_response(),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    let mut set = |name, value| headers.insert(name, HeaderValue::from_static(value));
    set(header::CONTENT_SECURITY_POLICY, CSP);
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::REFERRER_POLICY, "no-referrer");
    set(header::X_FRAME_OPTIONS, "DENY");
    if is_api {
        set(header::CACHE_CONTROL, "no-store");
    }
    response
}

fn refuse(hosts: &[String], request: &Request, is_api: bool) -> Option<Refusal> {
    let headers = request.headers();
    let host = text(headers, header::HOST.as_str())
        .or_else(|| request.uri().authority().map(|it| it.as_str()));
    let host = host.unwrap_or_default().to_ascii_lowercase();
    if !is_ours(hosts, &host) {
        let error = format!(
            "The page is not reached by the name {host:?}: start it with --host for a name of its own."
        );
        return Some(Refusal::forbidden("HOST", error));
    }
    if !is_api {
        return (request.method() != Method::GET && request.method() != Method::HEAD)
            .then(|| Refusal::bad("Only api/ takes this method."));
    }
    if let Some(site) = text(headers, "sec-fetch-site")
        && !matches!(site, "same-origin" | "none")
    {
        return Some(foreign());
    }
    if let Some(origin) = text(headers, header::ORIGIN.as_str()) {
        let origin = origin.to_ascii_lowercase();
        let authority = origin.split_once("://").map_or("null", |(_, authority)| authority);
        let is_named = hosts.iter().any(|name| name == name_of(authority));
        if authority != host && !is_named {
            return Some(foreign());
        }
    }
    if request.method() == Method::POST {
        let kind = text(headers, header::CONTENT_TYPE.as_str()).unwrap_or_default();
        let is_json = kind.split(';').next().is_some_and(|kind| kind.trim() == "application/json");
        if text(headers, "x-dehydrator") != Some("1") || !is_json {
            let error = "A change needs the header `x-dehydrator: 1` and the content type application/json.";
            return Some(Refusal::forbidden("CSRF", error));
        }
    }
    None
}

fn foreign() -> Refusal {
    Refusal::forbidden("ORIGIN", "The request comes from a page of another origin.")
}

fn text<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    headers.get(name)?.to_str().ok()
}

/// Returns the name in `name:port`.
fn name_of(authority: &str) -> &str {
    match authority.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => authority,
    }
}

/// Returns whether a browser may reach the page by this name. A rebound name is never an IP address.
fn is_ours(hosts: &[String], host: &str) -> bool {
    let name = name_of(host);
    let bare = name.strip_prefix('[').and_then(|name| name.strip_suffix(']')).unwrap_or(name);
    name == "localhost" || bare.parse::<IpAddr>().is_ok() || hosts.iter().any(|it| it == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_others_are_refused() {
        let hosts = ["jobs.example.org".to_owned()];
        for ours in [
            "localhost",
            "localhost:8380",
            "127.0.0.1:8380",
            "[::1]:8380",
            "10.0.0.7",
            "jobs.example.org:443",
        ] {
            assert!(is_ours(&hosts, ours), "{ours}");
        }
        for foreign in
            ["", "evil.example", "localhost.evil.example:8380", "example.org", "127.0.0.1.nip.io"]
        {
            assert!(!is_ours(&hosts, foreign), "{foreign}");
        }
    }
}
