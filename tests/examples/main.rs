//! The recipes in `examples/`, run as a reader would run them: `make test-examples`.
//!
//! Each states in its head comment what it prints, and prints exactly that, on a server of its own. The recipes
//! themselves check what is not visible from outside, for example that nothing is early.

mod workers;

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use redis::Value;

use harness::{Ask, Server, cmd, refusal, until};

/// As `scripts/examples.sh` creates it.
const PYTHON: &str = "target/examples/venv/bin/python";

#[test]
fn a_frequently_changed_document_is_saved_once() {
    run_on_a_server("debounce.js", 1100);
}

#[test]
fn a_constantly_changed_document_is_saved_regularly_by_one_saver_at_a_time() {
    run_on_a_server("debounce_leases.js", 3000);
}

#[test]
fn a_silent_session_is_logged_out() {
    run_on_a_server("session_timeouts.rs", 1400);
}

#[test]
fn calls_that_come_too_fast_are_delayed() {
    run_on_a_server("rate_limit.py", 600);
}

#[test]
fn a_small_tenant_does_not_wait_for_a_large_one() {
    run_on_a_server("fair_queue.py", 200);
}

#[test]
fn each_customers_jobs_are_done_in_order() {
    run_on_a_server("fifo_per_customer.py", 0);
}

#[test]
fn a_duplicate_is_done_once_even_after_the_work() {
    // A second in which the id is remembered.
    run_on_a_server("exactly_one.py", 1000);
}

#[test]
fn two_streams_are_joined_within_a_window() {
    run_on_a_server("stream_join.js", 1000);
}

#[test]
fn a_consumer_group_gets_due_messages_and_retries() {
    run_on_a_server("delayed_stream.py", 800);
}

#[test]
fn urgent_jobs_come_first() {
    run_on_a_server("priorities.py", 200);
}

#[test]
fn an_order_is_either_cancelled_or_paid() {
    run_on_a_server("cancelled_order.py", 200);
}

#[test]
fn an_own_server_works_beside_one_without_modules() {
    let managed = Server::start_with_configuration("");
    assert!(refusal(&cmd("DEHYDRATOR.LEN k"), &mut managed.connect()).is_ok(), "it has the module");
    let url = format!("unix://{}", managed.file("redis.sock").display());
    run_on_a_server_with("outbox.py", 600, &[("MANAGED_URL", &url)]);
    assert_eq!(managed.connect().ask("DBSIZE"), Value::Int(0));
}

#[test]
fn a_sorted_set_is_migrated_to_a_dehydrator_under_load() {
    run_on_a_server("migrate_sorted_set.py", 1000);
}

#[test]
fn a_dump_of_rede_is_migrated() {
    let address = "redis://there-is-none.invalid";
    assert_eq!(run("migrate_rede.sh", address, &[]), promised("migrate_rede.sh"));
}

/// Runs a recipe, which takes at least this many milliseconds, because it waits.
fn run_on_a_server(recipe: &str, at_least: u64) {
    run_on_a_server_with(recipe, at_least, &[]);
}

/// Like [`run_on_a_server`], with additional environment variables. Checks that the recipe leaves no keys.
fn run_on_a_server_with(recipe: &str, at_least: u64, more: &[(&str, &str)]) {
    let once = || {
        let server = Server::start_with_port(&[]);
        let started = Instant::now();
        let address = format!("redis://127.0.0.1:{}", server.port());
        let printed = run(recipe, &address, more);
        (server, started.elapsed(), printed)
    };
    let (mut server, mut took, mut printed) = once();
    // On a busy machine, events that are a tenth of a second apart change places now and then.
    for _ in 0..4 {
        if printed == promised(recipe) {
            break;
        }
        (server, took, printed) = once();
    }
    assert_eq!(printed, promised(recipe));
    assert!(took >= Duration::from_millis(at_least), "{recipe} took only {took:?}");

    let mut client = server.connect();
    until("the recipe has left nothing behind", || {
        (client.ask("KEYS *") == Value::Array(vec![])).then_some(())
    });
}

/// Returns the output of a recipe.
fn run(recipe: &str, address: &str, more: &[(&str, &str)]) -> String {
    let path = format!("examples/{recipe}");
    let (program, arguments) = match recipe.rsplit_once('.').expect("an extension") {
        (_, "py") => (PathBuf::from(PYTHON), vec![path]),
        (_, "js") => (PathBuf::from("node"), vec![path]),
        (name, "rs") => (built_example(name), vec![]),
        _ => (PathBuf::from(path), vec![]),
    };
    // A recipe that waits in vain is a failure, not a test that never ends.
    let output = Command::new("timeout")
        .arg("300")
        .arg(&program)
        .args(arguments)
        .env("REDIS_URL", address)
        .envs(more.iter().copied())
        .output()
        .expect("timeout, of coreutils");
    let said = String::from_utf8_lossy(&output.stderr);
    let help = "run it by `make test-examples`, which fetches what it needs";
    assert!(output.status.success(), "{recipe}: {}: {help}\n{said}", output.status);
    assert_eq!(said, "", "{recipe}");
    String::from_utf8(output.stdout).expect("text")
}

/// Cargo places examples next to the tests' folder.
fn built_example(name: &str) -> PathBuf {
    let this = env::current_exe().expect("a path");
    let folder = this.ancestors().nth(2).expect("a target folder");
    folder.join("examples").join(name)
}

/// Returns the output that a recipe's head comment states: the indented lines after "Prints:".
fn promised(recipe: &str) -> String {
    let source = fs::read_to_string(format!("examples/{recipe}")).expect("a recipe");
    let mut lines = source.lines();
    // The comment marker of the language precedes "Prints:" and each line that follows.
    let marker = lines.by_ref().find_map(|line| line.strip_suffix("Prints:"));
    let marker = marker.unwrap_or_else(|| panic!("{recipe} does not say what it prints"));
    let promised = lines.skip(1).map_while(|line| line.strip_prefix(marker)?.strip_prefix("    "));
    promised.map(|line| format!("{line}\n")).collect()
}
