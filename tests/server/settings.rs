//! Settings, in every way in which a server gets them.

use redis::Value;

use harness::{Ask, Server, cmd, text, texts, until};

fn get(server: &Server, name: &str) -> String {
    let reply: Vec<String> =
        cmd(&format!("CONFIG GET {name}")).query(&mut server.connect()).expect("a setting");
    assert_eq!(reply[0], name);
    reply[1].clone()
}

#[test]
fn a_setting_is_set_shown_and_refused_outside_of_its_range() {
    let (server, mut client) = Server::with_client(&[]);
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
fn the_packaged_configuration_lists_every_setting_with_its_default() {
    let settings: Vec<String> =
        cmd("CONFIG GET dehydrator.*").query(&mut Server::start(&[]).connect()).expect("pairs");
    let shown = |value: &str| if value.is_empty() { "\"\"".into() } else { value.to_owned() };
    let mut expected: Vec<_> =
        settings.chunks(2).map(|pair| format!("# {} {}", pair[0], shown(&pair[1]))).collect();
    let file = std::fs::read_to_string("dist/dehydrator.conf").expect("a file");
    let mut listed: Vec<_> =
        file.lines().filter(|line| line.starts_with("# dehydrator.")).collect();
    expected.sort();
    listed.sort_unstable();
    assert_eq!(listed, expected);
}

#[test]
fn settings_after_loadmodule_are_accepted_or_the_server_does_not_start() {
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
    let module = harness::release_module();
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
fn config_rewrite_takes_precedence_over_loadmodule_arguments() {
    let module = harness::release_module();
    let arguments = "tick-budget-us 2000 max-ttl 5 rede-commands yes";
    let conf = format!("loadmodule {} {arguments}\n", module.display());
    let mut server = Server::start_with_configuration(&conf);
    assert_eq!(get(&server, "dehydrator.tick-budget-us"), "2000");
    // Another value, the default, and again the one after the path.
    for value in ["3000", "1000", "2000"] {
        let mut client = server.connect();
        client.ask(&format!("CONFIG SET dehydrator.tick-budget-us {value}"));
        client.ask("CONFIG REWRITE");
        server.restart();
        assert_eq!(get(&server, "dehydrator.tick-budget-us"), value);
        assert_eq!(get(&server, "dehydrator.max-ttl"), "5");
        assert_eq!(get(&server, "dehydrator.rede-commands"), "yes");
    }
}

#[test]
fn module_loadex_accepts_settings_and_arguments() {
    let module = harness::release_module();
    let server = Server::start_with_configuration("enable-module-command yes\n");
    let mut client = server.connect();
    let loadex = format!("MODULE LOADEX {}", module.display());
    let refused = client.refused(&format!("{loadex} CONFIG dehydrator.tick-budget-us 5"));
    assert!(refused.starts_with("ERR"), "{refused}");
    client.ask(&format!("{loadex} CONFIG dehydrator.tick-budget-us 900"));
    assert_eq!(get(&server, "dehydrator.tick-budget-us"), "900");
}

/// The server, and a Sentinel at each failover, write the arguments of a module without quotes.
#[test]
fn a_text_among_the_arguments_survives_config_rewrite() {
    const RULES: &str = "jobs:* HOLD DELIVERIES 5 STREAM *:dead ; mail:* STREAM mail";
    let module = harness::release_module();
    let path = module.display();
    let arguments = format!("max-ttl 5 default-ondue \"{RULES}\" tick-budget-us 2000");
    let by_line = Server::start_with_configuration(&format!("loadmodule {path} {arguments}\n"));
    let by_command = Server::start_with_configuration("enable-module-command yes\n");
    let mut load = cmd(&format!("MODULE LOADEX {path} ARGS max-ttl 5 default-ondue"));
    load.arg(RULES).arg("tick-budget-us").arg(2000);
    load.exec(&mut by_command.connect()).expect("OK");
    for mut server in [by_line, by_command] {
        for _ in 0..2 {
            assert_eq!(get(&server, "dehydrator.default-ondue"), RULES);
            assert_eq!(get(&server, "dehydrator.max-ttl"), "5");
            assert_eq!(get(&server, "dehydrator.tick-budget-us"), "2000");
            server.connect().ask("CONFIG REWRITE");
            server.restart();
        }
    }
    // No words are the empty text.
    let server = Server::start(&["default-ondue", "", "max-ttl", "5"]);
    assert_eq!(get(&server, "dehydrator.default-ondue"), "");
    // What could not be written back is refused before anything is stored.
    for rules in ["it's:* DROP", "jobs:* PUBLISH max-ttl"] {
        let log = Server::start_in_vain(&["default-ondue", rules], &[]);
        assert!(log.contains("set dehydrator.default-ondue on a line of its own"), "{log}");
    }
}

/// So that a server that a tool fills delivers nothing that its source delivers too.
#[test]
fn a_server_that_may_not_deliver_does_nothing_by_itself_until_it_may() {
    let (server, mut client) = Server::with_client(&["deliver", "no"]);
    does_nothing(&mut client);
    assert_eq!(get(&server, "dehydrator.deliver"), "no");
    client.ask("CONFIG SET dehydrator.deliver yes");
    does_all(&mut client);
}

#[test]
fn a_server_in_import_mode_does_nothing_by_itself() {
    let (server, mut client) = Server::with_client(&[]);
    if !(server.version().is_valkey && server.version() >= (8, 1)) {
        println!("skipped: this server has no import-mode");
        return;
    }
    client.ask("CONFIG SET import-mode yes");
    does_nothing(&mut client);
    client.ask("CONFIG SET import-mode no");
    does_all(&mut client);
}

/// Pushes what is due, too late, and paused until now, and asserts that all of it stays.
fn does_nothing(client: &mut redis::Connection) {
    client.ask("DEHYDRATOR.ONDUE sent LIST l");
    client.ask("DEHYDRATOR.MPUSH sent 0 a a 1 b b");
    client.ask("DEHYDRATOR.PUSH late 0 x x WITHIN 1");
    client.ask("DEHYDRATOR.ONDUE dead HOLD DELIVERIES 1 STREAM s");
    client.ask("DEHYDRATOR.EFFECT dead P0@1,delivered=1 x x");
    client.ask("DEHYDRATOR.PAUSE paused FOR 1");
    let digests =
        |client: &mut redis::Connection| ["sent", "late", "dead"].map(|key| client.digest(key));
    let before = digests(client);
    // Some ticks of the server's cron.
    let ticks = |client: &mut redis::Connection| {
        let info: String = cmd("INFO dehydrator").query(client).expect("INFO");
        let line = info.lines().find_map(|line| line.strip_prefix("dehydrator_ticks:"));
        line.and_then(|it| it.trim().parse::<u64>().ok()).expect("a number")
    };
    let first = ticks(client);
    until("the cron has run", || (ticks(client) > first + 3).then_some(()));
    assert_eq!(digests(client), before);
    assert!(!client.exists("l") && !client.exists("s") && client.exists("paused"));
    // Who asks is served.
    client.ask("DEHYDRATOR.PUSH asked 0 x x");
    assert_eq!(client.ask("DEHYDRATOR.POLL asked BLOCK 0"), texts(&["x"]));
}

fn does_all(client: &mut redis::Connection) {
    until("all is done", || {
        let is_sent =
            client.ask("LLEN l") == Value::Int(2) && client.ask("XLEN s") == Value::Int(1);
        let is_gone = !client.exists("late") && !client.exists("paused");
        (is_sent && is_gone).then_some(())
    });
}

/// As a tool does that follows a server for a while: each element arrives once.
#[test]
fn what_the_source_delivers_is_not_delivered_by_the_copy_too() {
    let options = ["--appendonly", "yes", "--appendfsync", "always"];
    let (source, copy) = (Server::start(&options), Server::start(&["deliver", "no"]));
    let (mut client, mut tool) = (source.connect(), copy.connect());
    client.ask("DEHYDRATOR.ONDUE k LIST l");
    client.ask("DEHYDRATOR.MPUSH k 0 a a 0 b b 1 c c 1 d d 2 e e");
    until("all are delivered", || (client.ask("LLEN l") == Value::Int(5)).then_some(()));
    let file = source.file("appendonlydir").join("appendonly.aof.1.incr.aof");
    tool.send_packed_command(&std::fs::read(file).expect("a file")).expect("they are sent");
    tool.send_packed_command(&cmd("ECHO end").get_packed_command()).expect("it is sent");
    while tool.recv_response().expect("a reply") != text("end") {}
    assert_eq!(tool.ask("LLEN l"), Value::Int(5));
    assert_eq!(tool.digest("k"), client.digest("k"));
}

#[test]
fn clients_are_limited_and_existing_data_is_not() {
    let primary = Server::start_with_port(&[]);
    let replica = Server::start_with_port(&["max-ttl", "5", "max-elements", "1", "reply-max", "1"]);
    replica.follow(&primary);
    let mut client = primary.connect();
    client.ask("CONFIG SET dehydrator.max-ttl 1000 dehydrator.max-elements 3");
    let too_long = "LIMIT ttl '1001' is greater than dehydrator.max-ttl (1000 ms) allows";
    let too_late =
        "LIMIT AT '9000000000000' is further ahead than dehydrator.max-ttl (1000 ms) allows";
    for line in [
        "PUSH k 1001 element id",
        "PUSH k 1001 element id SLACK 5",
        "GIDPUSH k 1001 element",
        "MPUSH k 5 element id 1001 element id2",
    ] {
        assert_eq!(client.refused(&format!("DEHYDRATOR.{line}")), too_long, "{line}");
        assert!(!client.exists("k"));
    }
    let push = "DEHYDRATOR.PUSH k 5 element id AT 9000000000000";
    assert_eq!(client.refused(push), too_late);
    assert!(!client.exists("k"));
    client.ask("DEHYDRATOR.PUSH k 1000 element id SLACK 900");
    assert_eq!(client.refused("DEHYDRATOR.TOUCH k 1001 id"), too_long);
    let lease = "LIMIT LEASE '1001' is greater than dehydrator.max-ttl (1000 ms) allows";
    assert_eq!(client.refused("DEHYDRATOR.POLL k LEASE 1001"), lease);

    client.ask("DEHYDRATOR.PUSH k 1000 element id2");
    let full = "FULL the dehydrator holds 3 elements already, which is dehydrator.max-elements";
    let digest = client.digest("k");
    for options in ["", " NX", " REPLACE", " REPLACE AT 5"] {
        // Existing elements come first, and duplicates count once.
        let line = format!("DEHYDRATOR.MPUSH k 5 new id 5 element id3 5 element id4{options}");
        let code = if options.is_empty() { "EXISTS id 'id' is there already" } else { full };
        assert_eq!(client.refused(&line), code, "{options}");
        let line = format!("DEHYDRATOR.MPUSH k 5 element id3 5 element id4{options}");
        assert_eq!(client.refused(&line), full, "{options}");
        assert_eq!(client.digest("k"), digest, "{options}");
    }
    client.ask("DEHYDRATOR.MPUSH k 5 element id 5 element id3 NX");
    let each = Value::Array(vec![Value::Int(1); 3]);
    let replace = "DEHYDRATOR.MPUSH k 5 element id3 500 another id2 5 again id3 REPLACE";
    assert_eq!(client.ask(replace), each);
    for line in ["PUSH k 5 element id4", "GIDPUSH k 5 element", "PUSH k 5 element id4 REPLACE"] {
        assert_eq!(client.refused(&format!("DEHYDRATOR.{line}")), full, "{line}");
    }
    client.ask("DEHYDRATOR.PUSH k 500 another id3 REPLACE");
    assert_eq!(client.ask("DEHYDRATOR.PUSH k 500 another id3 NX"), Value::Nil);
    assert_eq!(client.ask("DEHYDRATOR.LEN k"), Value::Int(3));
    // A replica accepts what its primary accepted.
    client.ask("WAIT 1 0");
    assert_eq!(replica.connect().digest("k"), client.digest("k"));
}

#[test]
fn a_long_reply_is_shortened_and_the_next_call_has_the_rest() {
    // A small dehydrator is shown in one call, whatever its size.
    let (_server, mut client) =
        Server::with_client(&["reply-max", "10", "small-max-elements", "0"]);
    for id in 0..25 {
        client.ask(&format!("DEHYDRATOR.PUSH k 0 element {id}"));
    }
    until("all are due", || (client.ask("DEHYDRATOR.TTN k") == Value::Int(0)).then_some(()));
    let length = |reply: Value| redis::from_redis_value::<Vec<Value>>(reply).expect("it").len();
    assert_eq!(length(client.ask("DEHYDRATOR.XPOLL k COUNT 20")), 10);
    let Value::Array(scan) = client.ask("DEHYDRATOR.SCAN k 0 COUNT 1000") else { panic!("it") };
    // Like COUNT, it asks for about that many.
    assert!((1..=20).contains(&length(scan[1].clone())), "{scan:?}");
    for (line, expected) in
        [("k", 10), ("k COUNT 3", 3), ("k LEASE 60000 COUNT 50", 10), ("k BLOCK 0", 2)]
    {
        assert_eq!(length(client.ask(&format!("DEHYDRATOR.POLL {line}"))), expected, "{line}");
    }
}

#[test]
fn a_default_slack_lets_pushes_without_one_share_queues() {
    let (server, mut client) = Server::with_client(&["default-slack", "100"]);
    client.ask("DEHYDRATOR.PUSH k 1000 element a");
    client.ask("DEHYDRATOR.GIDPUSH k 1010 element");
    client.ask("DEHYDRATOR.MPUSH k 1020 element b 1024 element c");
    client.ask("DEHYDRATOR.PUSH k 1000 element d SLACK 0");
    assert_eq!(server.info("dehydrator", "dehydrator_ttls"), 2);
    let Value::Array(info) = client.ask("DEHYDRATOR.INFO k FULL") else { panic!("a map") };
    let by_ttl = Value::Array(vec![text("1000"), Value::Int(1), text("1024"), Value::Int(4)]);
    assert_eq!(info.last(), Some(&by_ttl));
}

#[test]
fn rede_names_work_if_enabled_and_replicate_as_ours() {
    let server = Server::start(&["rede-commands", "yes"]);
    let replica = Server::start_with_port(&[]);
    let primary = Server::start_with_port(&["rede-commands", "YES"]);
    replica.follow(&primary);
    let mut client = primary.connect();
    assert_eq!(get(&server, "dehydrator.rede-commands"), "yes");
    client.ask("REDE.PUSH k 600000 element id");
    client.ask("REDE.PUSH k 600000 element id2 AT 5");
    client.ask("REDE.PUSH k 600000 element id3");
    client.ask("REDE.GIDPUSH k 600000 element");
    assert_eq!(client.ask("REDE.UPDATE k id other"), text("element"));
    assert_eq!(client.ask("REDE.LOOK k id"), text("other"));
    assert_eq!(client.ask("REDE.TTN k"), Value::Int(0));
    assert_eq!(client.ask("REDE.XPOLL k"), texts(&["id2"]));
    assert_eq!(client.ask("REDE.XACK k id2"), texts(&["element"]));
    assert_eq!(client.ask("REDE.POLL k"), texts(&[]));
    assert_eq!(client.ask("REDE.PULL k id3"), text("element"));
    client.ask("WAIT 1 0");
    assert_eq!(replica.connect().digest("k"), client.digest("k"));
    // ReDe had no other commands, and without the setting its names do not exist.
    for (client, line) in [(&mut client, "REDE.LEN k"), (&mut replica.connect(), "REDE.TTN k")] {
        assert!(client.refused(line).contains("unknown command"), "{line}");
    }
    let refused = client.refused("CONFIG SET dehydrator.rede-commands no");
    assert!(refused.contains("immutable"), "{refused}");
    let log = Server::start_in_vain(&["rede-commands", "perhaps"], &[]);
    assert!(log.contains("rede-commands must be yes or no"), "{log}");
}
