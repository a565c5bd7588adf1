//! The recipes in `examples/`, run as a reader would run them: `make test-examples`.
//!
//! Each states in its head what it prints, and prints that, neither more nor less, on a server of its
//! own. What cannot be seen from outside, as that nothing comes early, the recipes check themselves.

mod machines;
mod workers;

use std::env;
use std::fs;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use redis::Value;

use harness::{Ask, Server, cmd, refusal, until};

/// As `scripts/examples.sh` makes it.
const PYTHON: &str = "target/examples/venv/bin/python";

#[test]
fn a_job_whose_worker_dies_is_done_by_another() {
    // Its lease of 500 ms begins when it is due, after 400 ms.
    run_on_a_server("delayed_jobs.py", 900);
}

#[test]
fn who_loses_replies_loses_no_job_and_does_none_twice() {
    run_on_a_server("lost_connection.py", 0);
}

#[test]
fn an_operator_sees_what_is_late_what_is_held_and_what_comes_next() {
    run_on_a_server("next_jobs.py", 0);
}

#[test]
fn what_changes_often_is_saved_once() {
    run_on_a_server("debounce.js", 1100);
}

#[test]
fn what_changes_all_the_time_is_saved_now_and_then_and_by_one_at_a_time() {
    run_on_a_server("debounce_leases.js", 3000);
}

#[test]
fn who_is_not_heard_of_is_logged_out() {
    run_on_a_server("session_timeouts.rs", 1400);
}

#[test]
fn calls_that_come_too_fast_are_put_off() {
    run_on_a_server("rate_limit.py", 600);
}

#[test]
fn a_service_is_called_no_more_often_than_it_bears() {
    // Twelve calls, four in any 300 ms; and then each caller waits in vain for half a second.
    run_on_a_server("polite_client.py", 1100);
}

#[test]
fn no_more_than_ten_import_at_once() {
    run_on_a_server("few_at_once.py", 700);
}

#[test]
fn what_comes_twice_is_done_once_also_when_it_is_done() {
    // A second in which the id is remembered.
    run_on_a_server("exactly_one.py", 1000);
}

#[test]
fn two_streams_are_joined_within_a_window() {
    run_on_a_server("stream_join.js", 1000);
}

#[test]
fn a_consumer_group_gets_what_is_due_and_retries() {
    run_on_a_server("delayed_stream.py", 800);
}

#[test]
fn what_is_urgent_comes_first() {
    run_on_a_server("priorities.py", 200);
}

#[test]
fn an_order_is_cancelled_or_paid() {
    run_on_a_server("cancelled_order.py", 200);
}

#[test]
fn an_operator_pauses_and_resumes() {
    run_on_a_server("pause.py", 500);
}

#[test]
fn a_server_of_one_s_own_stands_beside_one_that_loads_no_modules() {
    let managed = Server::start_with_configuration("");
    assert!(refusal(&cmd("DEHYDRATOR.LEN k"), &mut managed.connect()).is_ok(), "it has the module");
    let url = format!("unix://{}", managed.file("redis.sock").display());
    run_on_a_server_with("outbox.py", 600, &[("MANAGED_URL", &url)]);
    assert_eq!(managed.connect().ask("DBSIZE"), Value::Int(0));
}

#[test]
fn a_sorted_set_becomes_a_dehydrator_under_load() {
    run_on_a_server("migrate_sorted_set.py", 1000);
}

#[test]
fn rq_s_own_worker_is_given_delayed_jobs_by_a_list() {
    run_beside_a_framework("rq_later.py", 1600, &[]);
}

/// The version that Debian bookworm has.
#[test]
fn sidekiq_s_own_process_is_given_delayed_jobs_by_a_list() {
    if workers::is_left_out("sidekiq") {
        return;
    }
    run_beside_a_framework("sidekiq_later.rb", 1600, &[("RUBYLIB", "target/examples/sidekiq/lib")]);
}

#[test]
fn a_dump_of_rede_is_taken_over() {
    let address = "redis://there-is-none.invalid";
    assert_eq!(run("migrate_rede.sh", address, &[]), promised("migrate_rede.sh"));
}

/// Runs a recipe, which takes so many milliseconds at least: what it waits for.
fn run_on_a_server(recipe: &str, at_least: u64) {
    run_on_a_server_with(recipe, at_least, &[]);
}

/// As [`run_on_a_server`], with more in its environment.
fn run_on_a_server_with(recipe: &str, at_least: u64, more: &[(&str, &str)]) {
    run_and_look(recipe, at_least, more, "KEYS *");
}

/// As [`run_on_a_server_with`], beside a framework that keeps statistics of its own for all its queues.
fn run_beside_a_framework(recipe: &str, at_least: u64, more: &[(&str, &str)]) {
    run_and_look(recipe, at_least, more, "KEYS *demo:*");
}

/// Runs a recipe, and then looks for what it should not have left.
fn run_and_look(recipe: &str, at_least: u64, more: &[(&str, &str)], look: &str) {
    let server = Server::start_with_port(&[]);
    let started = Instant::now();
    let address = format!("redis://127.0.0.1:{}", server.port());
    assert_eq!(run(recipe, &address, more), promised(recipe));
    let took = started.elapsed();
    assert!(took >= Duration::from_millis(at_least), "{recipe} took only {took:?}");

    let mut client = server.connect();
    until("the recipe has left nothing behind", || {
        (client.ask(look) == Value::Array(vec![])).then_some(())
    });
}

/// What a recipe prints.
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
        .arg("60")
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

/// Cargo puts examples beside the folder that tests are in.
fn built_example(name: &str) -> PathBuf {
    let this = env::current_exe().expect("a path");
    let folder = this.ancestors().nth(2).expect("a target folder");
    folder.join("examples").join(name)
}

/// What the comment at the head of a recipe says that it prints: the indented lines after "Prints:".
fn promised(recipe: &str) -> String {
    let source = fs::read_to_string(format!("examples/{recipe}")).expect("a recipe");
    let mut lines = source.lines();
    // What marks a comment in the language stands before "Prints:" as before each line that follows.
    let marker = lines.by_ref().find_map(|line| line.strip_suffix("Prints:"));
    let marker = marker.unwrap_or_else(|| panic!("{recipe} does not say what it prints"));
    let promised = lines.skip(1).map_while(|line| line.strip_prefix(marker)?.strip_prefix("    "));
    promised.map(|line| format!("{line}\n")).collect()
}
