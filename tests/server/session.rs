//! Sessions in redis-cli, as a user would type them, compared to the letter.
//!
//! The README's are among them. A line that begins with the prompt is typed; the lines after it, up to
//! the next prompt, are what redis-cli must print, but for how long it took. `…` stands for anything within a line. Time passes
//! in one way: a `DEHYDRATOR.TTN` that should reply 0 is asked until it does, as a user would.

use std::fs;

use crate::harness::{Server, until};

const PROMPT: &str = "127.0.0.1:6379> ";

/// Commands with what they should print.
fn exchanges(text: &str) -> Vec<(String, String)> {
    let mut exchanges: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        if let Some(command) = line.strip_prefix(PROMPT) {
            exchanges.push((command.to_owned(), String::new()));
        } else if let Some((_, reply)) = exchanges.last_mut() {
            reply.push_str(line);
            reply.push('\n');
        }
    }
    exchanges
}

/// The blocks of a Markdown file in which there is a prompt.
fn sessions_in(markdown: &str) -> String {
    let blocks = markdown.split("```console\n").skip(1);
    blocks.filter_map(|block| block.split("```").next()).collect()
}

fn matches(printed: &str, expected: &str) -> bool {
    // redis-cli says how long it took, when that was long.
    let is_time = |line: &&str| line.starts_with('(') && line.ends_with("s)") && line.contains('.');
    let lines = |text: &str| {
        let lines = text.trim_end().lines().filter(|line| !is_time(line));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let (printed, expected) = (lines(printed), lines(expected));
    printed.len() == expected.len()
        && printed.iter().zip(&expected).all(|(printed, expected)| match expected.split_once('…')
        {
            Some((start, end)) => printed.starts_with(start) && printed.ends_with(end),
            None => printed == expected,
        })
}

fn play(text: &str) {
    let server = Server::start(&[]);
    let exchanges = exchanges(text);
    assert!(!exchanges.is_empty(), "there is nothing to play");
    for (command, expected) in exchanges {
        let waits = command.starts_with("DEHYDRATOR.TTN") && expected.trim() == "(integer) 0";
        let mut printed = server.cli(&command);
        if waits {
            until("something is due", || {
                printed = server.cli(&command);
                matches(&printed, &expected).then_some(())
            });
        }
        assert!(matches(&printed, &expected), "{command}\nprints\n{printed}\nnot\n{expected}");
    }
}

fn read(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn the_readme_s_session_replies_as_printed() {
    play(&sessions_in(&read("README.md")));
}

#[test]
fn a_session_with_every_verb() {
    play(&read("tests/sessions/verbs.txt"));
}

#[test]
fn a_session_with_binary_ids_and_elements() {
    play(&read("tests/sessions/binary.txt"));
}

#[test]
fn a_session_with_every_option() {
    play(&read("tests/sessions/options.txt"));
}

#[test]
fn a_session_with_leases() {
    play(&read("tests/sessions/leases.txt"));
}

#[test]
fn a_session_of_mistakes() {
    play(&read("tests/sessions/mistakes.txt"));
}

#[test]
fn every_command_is_in_the_readme_as_the_server_knows_it() {
    let readme = read("README.md");
    let server = Server::start(&[]);
    let help: Vec<String> =
        redis::cmd("DEHYDRATOR.HELP").query(&mut server.connect()).expect("an array");
    assert!(help.len() >= 2 * 19, "{help:?}");
    for line in help.iter().step_by(2) {
        let written = line.strip_prefix("DEHYDRATOR.").expect("our prefix").replace('|', "\\|");
        assert!(readme.contains(&format!("\n| `{written}` |")), "README has no row for {written}");
    }
}
