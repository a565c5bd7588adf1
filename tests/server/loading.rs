//! A failing MODULE LOAD leaves the server unchanged; MODULE UNLOAD is refused.

use redis::Value;

use crate::sleeper::waiters;
use harness::{Ask, Server, listener_module, release_module, text, texts, until};

/// Returns a server that loads nothing except, optionally, the listening module with these arguments.
fn start_without_it(listener: &str) -> Server {
    let listener = match listener {
        "" => String::new(),
        arguments => format!("loadmodule {} {arguments}\n", listener_module().display()),
    };
    let server =
        Server::start_with_configuration(&format!("enable-module-command yes\n{listener}"));
    server.connect().ask("SET kept value");
    server
}

/// Fails to load the module. The server logs why, and continues without it.
fn load_in_vain(server: &Server, arguments: &str, why: &str) {
    let mut client = server.connect();
    let seen = server.log().len();
    let refused = client.refused(&format!("MODULE {}", load(arguments)));
    assert!(refused.starts_with("ERR Error loading the extension"), "{arguments}: {refused}");
    assert!(server.log()[seen..].contains(why), "{arguments}: {}", server.log());
    assert_eq!(client.ask("GET kept"), text("value"));
    let unknown = client.refused("DEHYDRATOR.PUSH k 0 element id");
    assert!(unknown.contains("unknown command"), "{arguments}: {unknown}");
    assert_eq!(client.ask("CONFIG GET dehydrator.*"), Value::Array(vec![]), "{arguments}");
}

fn load(arguments: &str) -> String {
    let path = release_module().display().to_string();
    match arguments {
        "" => format!("LOAD {path}"),
        word if word.starts_with("CONFIG") => format!("LOADEX {path} {arguments}"),
        _ => format!("LOAD {path} {arguments}"),
    }
}

/// Loads the module, and uses everything that the failed loads had begun to set up.
fn load_and_use(server: &Server, arguments: &str) {
    let mut client = server.connect();
    client.ask(&format!("MODULE {}", load(arguments)));
    client.ask("DEHYDRATOR.ONDUE later STREAM stream");
    client.ask("DEHYDRATOR.PUSH later 20 element id");
    client.ask("DEHYDRATOR.PUSH k 600000 element id");
    until("it is delivered", || (client.ask("XLEN stream") == Value::Int(1)).then_some(()));
    client.ask("DEBUG RELOAD");
    assert_eq!(client.ask("DEHYDRATOR.PULL k id"), text("element"));
    assert_eq!(client.info("dehydrator", "dehydrator_deliveries"), 1);
    assert_eq!(client.ask("GET kept"), text("value"));
}

#[test]
fn a_load_with_bad_arguments_is_refused_and_a_good_one_works_afterwards() {
    let server = start_without_it("");
    for (arguments, why) in [
        ("nonsense 1", "there is no setting nonsense"),
        ("tick-budget-us", "tick-budget-us has no value"),
        ("tick-budget-us 5", "tick-budget-us is not a number from 10 to 100000"),
        (
            "max-elements 5 rede-commands yes tick-budget-us soon",
            "tick-budget-us is not a number from 10 to 100000",
        ),
        ("CONFIG dehydrator.max-ttl soon", "the server refuses a setting"),
    ] {
        load_in_vain(&server, arguments, why);
    }
    load_and_use(&server, "CONFIG dehydrator.max-ttl 700000");
    let setting = server.connect().ask("CONFIG GET dehydrator.max-ttl");
    assert_eq!(setting, texts(&["dehydrator.max-ttl", "700000"]));
    // Nothing is left of the load that failed halfway.
    for (name, value) in [("dehydrator.max-elements", "0"), ("dehydrator.rede-commands", "no")] {
        assert_eq!(server.connect().ask(&format!("CONFIG GET {name}")), texts(&[name, value]));
    }
    // It is loaded: a second load is refused, and does no harm.
    let refused = server.connect().refused(&format!("MODULE {}", load("")));
    assert!(refused.starts_with("ERR"), "{refused}");
    assert_eq!(server.connect().ask("CONFIG GET dehydrator.max-ttl"), setting);
}

#[test]
fn a_load_with_an_unknown_setting_is_undone_and_a_good_one_works_afterwards() {
    let server = start_without_it("");
    let version = server.version();
    // Redis 7.0 keeps the module, although it replies an error. Redis 7.2 and 7.4 and Valkey crash: see
    // docs/compatibility.md.
    if version.is_valkey || version < (8, 0) {
        println!("skipped: this server does not take a module with a data type back");
        return;
    }
    load_in_vain(&server, "CONFIG dehydrator.nonsense 1", "configurations were not applied");
    load_and_use(&server, "");
}

#[test]
fn a_load_is_refused_if_the_type_is_taken() {
    let server = start_without_it("TYPE dehy-type");
    for _ in 0..2 {
        load_in_vain(&server, "", "the server refuses the type dehy-type; is ReDe loaded too?");
    }
    assert_eq!(server.connect().ask("LISTENER.RAN"), Value::Array(vec![]));
}

#[test]
fn a_load_is_refused_if_a_command_is_taken_and_works_without_it() {
    let server = start_without_it("COMMAND rede.update");
    for _ in 0..2 {
        let why = "the server refuses the commands of ReDe; is it loaded too?";
        load_in_vain(&server, "rede-commands yes", why);
    }
    load_and_use(&server, "");
}

#[test]
fn a_load_in_vain_leaves_no_memory_behind() {
    const LOADS: u64 = 300;
    let server = start_without_it("");
    let mut client = server.connect();
    let mut used_after = |arguments: &str| {
        for _ in 0..LOADS {
            client.refused(&format!("MODULE {}", load(arguments)));
        }
        client.info("memory", "used_memory")
    };
    for arguments in ["nonsense 1", "default-ondue \"a HOLD\" nonsense 1"] {
        // Now and then a table of the server doubles.
        let used: Vec<_> = (0..3).map(|_| used_after(arguments)).collect();
        let grows = used.windows(2).all(|two| two[1] > two[0] + 4 * LOADS);
        assert!(!grows, "{used:?} bytes after each {LOADS} loads: {arguments}");
    }
}

#[test]
fn unloading_is_refused_without_side_effects() {
    let (server, mut client) = Server::with_client(&["--enable-module-command", "yes"]);
    client.ask("DEHYDRATOR.PUSH k 600000 element id");
    client.ask("DEHYDRATOR.PUSH leased 0 element id");
    client.ask("DEHYDRATOR.POLL leased LEASE 600000 TOKEN token");
    let before = ["k", "leased"].map(|key| client.digest(key));
    let mut sleeper = server.connect();
    let woken = std::thread::spawn(move || sleeper.ask("DEHYDRATOR.POLL sleepers BLOCK 0"));
    until("a client sleeps", || (waiters(&server) == 1).then_some(()));

    let refused = client.refused("MODULE UNLOAD dehydrator");
    assert!(refused.contains("data types, can't unload"), "{refused}");

    assert_eq!(waiters(&server), 1);
    assert_eq!(["k", "leased"].map(|key| client.digest(key)), before);
    client.ask("DEHYDRATOR.PUSH sleepers 5 element id");
    assert_eq!(woken.join().expect("it is woken"), texts(&["element"]));
    client.ask("DEHYDRATOR.SETTLE leased token id");
    assert!(!client.exists("leased"));
}
