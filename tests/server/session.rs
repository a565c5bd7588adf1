//! Sessions in redis-cli, as a user would type them, compared to the letter.
//!
//! Those of the README and of the pages in docs are included. A line that begins with the prompt is typed; the lines
//! after it, up to the next prompt, are the expected output of redis-cli, except for how long it took. `…` stands for
//! anything within a line, and on a line of its own for any number of lines. Time passes in one way: a `DEHYDRATOR.TTN`
//! that should reply 0 is repeated until it does, as a user would.

use std::fs;

use harness::{Ask, Server, cmd, until};

const PROMPT: &str = "127.0.0.1:6379> ";

/// Commands and their expected output.
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

/// Returns the blocks of a Markdown file that contain a prompt.
fn sessions_in(markdown: &str) -> String {
    let blocks = markdown.split("```console\n").skip(1);
    blocks.filter_map(|block| block.split("```").next()).collect()
}

fn matches(printed: &str, expected: &str) -> bool {
    // redis-cli prints how long a command took, if that was long.
    let is_time = |line: &&str| line.starts_with('(') && line.ends_with("s)") && line.contains('.');
    let lines = |text: &str| {
        let lines = text.trim_end().lines().filter(|line| !is_time(line));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    lines_match(&lines(printed), &lines(expected))
}

/// Compares line by line; a lone `…` stands for any number of lines, including none.
fn lines_match(printed: &[String], expected: &[String]) -> bool {
    match expected {
        [] => printed.is_empty(),
        [lone, rest @ ..] if lone == "…" => {
            (0..=printed.len()).any(|skipped| lines_match(&printed[skipped..], rest))
        }
        [line, rest @ ..] => match printed {
            [] => false,
            [first, printed @ ..] => line_matches(first, line) && lines_match(printed, rest),
        },
    }
}

fn line_matches(printed: &str, expected: &str) -> bool {
    match expected.split_once('…') {
        Some((start, end)) => {
            printed.len() >= start.len() + end.len()
                && printed.starts_with(start)
                && printed.ends_with(end)
        }
        None => printed == expected,
    }
}

#[test]
fn a_lone_ellipsis_matches_any_lines_and_nothing_else() {
    assert!(matches("a\nb\nc\n", "a\n…\nc\n"));
    assert!(matches("a\nc\n", "a\n…\nc\n"));
    assert!(!matches("a\nb\n", "a\n…\nc\n"));
    assert!(matches("x 17 y", "x … y"));
    assert!(!matches("x y", "x 17 y"));
    assert!(!matches("a\nb\n", "a\n"));
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
fn the_readmes_session_replies_as_printed() {
    play(&sessions_in(&read("README.md")));
}

#[test]
fn a_session_with_every_command() {
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
fn every_command_is_in_the_first_table_with_a_link_to_its_entry() {
    let page = reference();
    let server = Server::start(&[]);
    let verbs = server.connect().verbs();
    assert!(verbs.len() >= 19, "{verbs:?}");
    for verb in verbs {
        let link = format!("[{verb}](#dehydrator{})", verb.to_lowercase());
        let rows = page.lines().filter(|line| line.starts_with("| "));
        assert!(rows.take(14).any(|row| row.contains(&link)), "there is no link for {verb}");
    }
}

/// The other pages with sessions.
const PAGES: [&str; 3] = ["docs/operations.md", "docs/clients.md", "docs/worker.md"];

#[test]
fn the_sessions_of_the_other_pages_reply_as_printed() {
    for page in PAGES {
        let text = read(page);
        let mut played = 0;
        for (heading, section) in sections_of(&text) {
            let sessions = sessions_in(section);
            if sessions.contains(PROMPT) {
                println!("{page}: {heading}");
                play(&sessions);
                played += 1;
            }
        }
        assert!(played > 0, "{page} has no session");
    }
}

/// Returns the entries of all commands: those for applications, and those for authors of tools, with the links between them as if
/// they were one page.
fn reference() -> String {
    let pages = ["docs/commands.md", "docs/tools.md"].map(read).join("\n");
    pages.replace("](tools.md#", "](#").replace("](commands.md#", "](#")
}

/// Returns the sections of a Markdown file below headings of the second level, with the headings.
fn sections_of(markdown: &str) -> impl Iterator<Item = (&str, &str)> {
    let sections = markdown.split("\n## ").skip(1);
    sections.map(|section| section.split_once('\n').unwrap_or((section, "")))
}

#[test]
fn each_entry_of_the_commands_page_replies_as_printed() {
    let page = reference();
    let mut played = 0;
    for (heading, section) in sections_of(&page) {
        let sessions = sessions_in(section);
        if sessions.contains(PROMPT) {
            println!("{heading}");
            play(&sessions);
            played += 1;
        }
    }
    assert!(played >= 19, "{played} entries have examples");
}

#[test]
fn every_command_has_its_entry_as_the_server_knows_it() {
    let page = reference();
    let (_server, mut client) = Server::with_client(&[]);
    let help: Vec<String> = cmd("DEHYDRATOR.HELP").query(&mut client).expect("an array");
    // Debug builds have hooks.
    let verbs = || help.iter().step_by(2).filter(|line| !line.starts_with("DEHYDRATOR.DEBUG "));
    let name_of = |line: &str| line.split(' ').next().unwrap_or_default().to_owned();
    let entries = sections_of(&page).map(|(heading, _)| heading);
    let entries: Vec<_> = entries.filter(|heading| heading.starts_with("DEHYDRATOR.")).collect();
    let names: Vec<_> = verbs().map(|line| name_of(line)).collect();
    assert_eq!(entries, names, "the entries of the page, in the order of HELP");
    let mut sections = sections_of(&page);
    let (_, costs) = sections.find(|(heading, _)| *heading == "Costs").expect("costs");
    let priced: Vec<_> = costs.lines().filter(|line| line.starts_with('|')).collect();

    for line in verbs() {
        let name = name_of(line);
        let mut sections = sections_of(&page);
        let (_, entry) = sections.find(|(heading, _)| *heading == name).expect("an entry");
        let expected = format!("\n```text\n{line}\n```\n");
        assert!(entry.contains(&expected), "{name} has no {expected}");
        let verb = name.split('.').nth(1).expect("a verb");
        let link = format!("](#{})", name.to_lowercase().replace('.', ""));
        assert!(page.contains(&link), "the table has no link to {name}");
        let is_priced =
            |row: &&str| row.split(|it: char| !it.is_ascii_uppercase()).any(|word| word == verb);
        let docs = format!("{:?}", client.ask(&format!("COMMAND DOCS {name}")));
        let is_constant = docs.contains("'\"O(1)\"'");
        assert!(is_constant || priced.iter().any(is_priced), "{verb} is not in \"Costs\"");
    }
}
