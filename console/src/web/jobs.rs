//! The answers about changes of many elements.

use axum::Json;
use axum::extract::Path;
use serde_json::Value;

use super::refusal::Refusal;
use super::session::Caller;

pub async fn jobs(caller: Caller) -> Json<Value> {
    Json(caller.account.jobs.all().iter().map(|job| job.json()).collect())
}

pub async fn job(caller: Caller, Path(id): Path<String>) -> Result<Json<Value>, Refusal> {
    Ok(Json(caller.account.jobs.find(&id)?.json()))
}

pub async fn stop(caller: Caller, Path(id): Path<String>) -> Result<Json<Value>, Refusal> {
    let job = caller.account.jobs.find(&id)?;
    job.stop();
    Ok(Json(job.json()))
}
