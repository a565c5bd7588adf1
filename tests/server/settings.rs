//! Settings, by every way in which a server is told of them.

use crate::harness::{Ask, Server, cmd};

fn get(server: &Server, name: &str) -> String {
    let reply: Vec<String> =
        cmd(&format!("CONFIG GET {name}")).query(&mut server.connect()).expect("a setting");
    assert_eq!(reply[0], name);
    reply[1].clone()
}

#[test]
fn a_setting_is_set_shown_and_refused_out_of_its_range() {
    let server = Server::start(&[]);
    let mut client = server.connect();
    assert_eq!(get(&server, "dehydrator.tick-budget-us"), "1000");
    client.ask("CONFIG SET dehydrator.tick-budget-us 250");
    assert_eq!(get(&server, "dehydrator.tick-budget-us"), "250");
    for bad in ["9", "100001", "-1", "many", "1.5"] {
        let refused = client.refused(&format!("CONFIG SET dehydrator.tick-budget-us {bad}"));
        assert!(refused.contains("tick-budget-us"), "{refused}");
    }
    assert_eq!(get(&server, "dehydrator.tick-budget-us"), "250");
}

#[test]
fn settings_behind_loadmodule_are_taken_or_the_server_does_not_start() {
    // The last option of the harness is the module.
    let server = Server::start(&["tick-budget-us", "300"]);
    assert_eq!(get(&server, "dehydrator.tick-budget-us"), "300");
    for (words, why) in [
        (&["nonsense", "5"][..], "there is no setting nonsense"),
        (&["tick-budget-us"], "tick-budget-us has no value"),
        (&["tick-budget-us", "5"], "tick-budget-us is not a number from 10 to 100000"),
        (&["tick-budget-us", "soon"], "tick-budget-us is not a number from 10 to 100000"),
    ] {
        let log = Server::start_in_vain(words, &[]);
        assert!(log.contains(why), "{log}");
    }
}

#[test]
fn settings_are_read_from_the_configuration_and_written_back_to_it() {
    let module = crate::harness::release_module();
    let conf = format!("loadmodule {}\ndehydrator.tick-budget-us 700\n", module.display());
    let mut server = Server::start_with_configuration(&conf);
    assert_eq!(get(&server, "dehydrator.tick-budget-us"), "700");
    let mut client = server.connect();
    client.ask("CONFIG SET dehydrator.tick-budget-us 800");
    client.ask("CONFIG REWRITE");
    server.restart();
    assert_eq!(get(&server, "dehydrator.tick-budget-us"), "800");
}

#[test]
fn module_loadex_takes_settings_and_arguments() {
    let module = crate::harness::release_module();
    let server = Server::start_with_configuration("enable-module-command yes\n");
    let mut client = server.connect();
    let loadex = format!("MODULE LOADEX {}", module.display());
    let refused = client.refused(&format!("{loadex} CONFIG dehydrator.tick-budget-us 5"));
    assert!(refused.starts_with("ERR"), "{refused}");
    client.ask(&format!("{loadex} CONFIG dehydrator.tick-budget-us 900"));
    assert_eq!(get(&server, "dehydrator.tick-budget-us"), "900");
}
