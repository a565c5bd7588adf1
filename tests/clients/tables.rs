//! Each library behaves as its line on the page states.

use std::collections::HashSet;
use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use crate::facts;
use crate::page::{self, code};
use crate::probe::{CLUSTERS, DROPPING, Library, SINGLES};

/// A line of one of the two tables.
#[derive(Clone, Debug)]
pub struct Line {
    pub name: String,
    pub versions: Vec<String>,
    /// The cell with the variant of the library.
    pub way: String,
    waits: String,
    at_the_timeout: String,
    again: String,
    not_with: String,
}

impl Line {
    fn is_of(&self, version: &str) -> bool {
        self.versions.iter().any(|it| format!("{version}.").starts_with(&format!("{it}.")))
    }

    /// Returns the line of a library in a version.
    pub fn of(lines: &[Line], library: &Library, version: &str) -> Result<Line, String> {
        let is_it = |line: &&Line| {
            line.name == library.name
                && code(&line.way).contains(&library.way)
                && (version.is_empty() || line.is_of(version))
        };
        let mut found = lines.iter().filter(is_it);
        let line = found.next().ok_or(format!("{library:?} {version} has no line"))?;
        assert!(found.next().is_none(), "{library:?} {version} has two lines");
        Ok(line.clone())
    }
}

pub fn singles() -> Vec<Line> {
    lines("## Read timeouts", |row| {
        let [_, waits, way, at_the_timeout, again, not_with] = row.try_into().expect("6");
        (waits, way, [at_the_timeout, again, not_with])
    })
}

/// Returns the lines about cluster clients. For waits, the page has one sentence for all: see [`waits_in_cluster`].
pub fn clusters() -> Vec<Line> {
    lines("## Cluster", |row| {
        let [_, way, at_the_timeout, again, not_with] = row.try_into().expect("5");
        (String::new(), way, [at_the_timeout, again, not_with])
    })
}

/// Returns the lines below a heading, one for each library that a row names.
fn lines(heading: &str, cells: fn(Vec<String>) -> (String, String, [String; 3])) -> Vec<Line> {
    let rows = page::table(heading).into_iter();
    let lines = rows.flat_map(|row| {
        let libraries: Vec<_> = row[0].split("; ").map(named).collect();
        let (waits, way, [at_the_timeout, again, not_with]) = cells(row);
        let line = Line {
            name: String::new(),
            versions: Vec::new(),
            way,
            waits,
            at_the_timeout,
            again,
            not_with,
        };
        libraries.into_iter().map(move |(name, versions)| Line { name, versions, ..line.clone() })
    });
    lines.collect()
}

/// Splits a library's name from its versions, which begin with a digit.
fn named(cell: &str) -> (String, Vec<String>) {
    let words: Vec<_> = cell.split(' ').collect();
    let (versions, name): (Vec<&str>, Vec<&str>) =
        words.iter().partition(|it| it.starts_with(|letter: char| letter.is_ascii_digit()));
    let versions = versions.iter().map(|it| it.trim_end_matches(',').to_owned()).collect();
    (name.join(" "), versions)
}

/// How often a library is asked until it behaves as the page states. A busy machine makes a client miss a reply now and
/// then, or connect again.
const TRIES: usize = 5;

/// Asks all libraries at once, and reports every difference.
pub fn all(
    libraries: &'static [Library],
    lines: Vec<Line>,
    ask: impl Fn(&Library, &dyn Fn(&str) -> Line) -> Result<(), String> + Copy + Send + Sync + 'static,
) {
    let asked: Vec<_> = libraries
        .iter()
        .map(|library| {
            let lines = lines.clone();
            thread::spawn(move || {
                let line = |version: &str| Line::of(&lines, library, version).expect("a line");
                let try_once = || catch_unwind(AssertUnwindSafe(|| ask(library, &line)));
                let mut said = try_once();
                for _ in 1..TRIES {
                    if matches!(said, Ok(Ok(()))) {
                        break;
                    }
                    said = try_once();
                }
                said.unwrap_or_else(|panic| resume_unwind(panic))
                    .map_err(|it| format!("{library:?}: {it}"))
            })
        })
        .collect();
    let said = asked.into_iter().map(|it| match it.join() {
        Ok(said) => said,
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            Err(text.unwrap_or_else(|| "it failed, see above".into()))
        }
    });
    let wrong: Vec<_> = said.filter_map(Result::err).collect();
    assert!(wrong.is_empty(), "docs/clients.md is not so:\n{}", wrong.join("\n"));
}

fn same(what: &str, page: &str, found: &str) -> Result<(), String> {
    if page == found {
        return Ok(());
    }
    Err(format!("{what}: the page says {page:?}, it is {found:?}"))
}

fn waits(library: &Library, line: &dyn Fn(&str) -> Line) -> Result<(), String> {
    waits_as(library, |version| line(version).waits)
}

/// Checks that a cluster client waits as long as the library's other client, unless the page states that it waits
/// forever.
fn waits_in_cluster(library: &Library, line: &dyn Fn(&str) -> Line) -> Result<(), String> {
    let section = page::section("## Cluster").split_whitespace().collect::<Vec<_>>().join(" ");
    let lines = singles();
    let asyncio = format!("{}, asyncio", library.name);
    let is_asyncio =
        library.way.starts_with("asyncio.") && lines.iter().any(|it| it.name == asyncio);
    let name = if is_asyncio { &asyncio } else { library.name };
    waits_as(library, |version| {
        line(version);
        if section.contains(&format!("{}'s `{}` waits for ever", library.name, library.way)) {
            return "for ever".into();
        }
        let mut found = lines.iter().filter(|it| it.name == name && it.is_of(version));
        let waits = found.next().expect("a line").waits.clone();
        assert!(found.all(|it| it.waits == waits), "{library:?} has two lines");
        waits
    })
}

fn waits_as(library: &Library, page: impl Fn(&str) -> String) -> Result<(), String> {
    let (version, seconds) = facts::reads_for(library);
    let page = page(&version);
    let says = page.strip_suffix(" s").map(|it| it.parse().expect("a number of seconds"));
    // PHP's own default, a minute, is shortened for the probes.
    let says = says.map(|it| if it == 60.0 { facts::PHP_TIMEOUT } else { it });
    let is_so = match (says, seconds) {
        (Some(says), Some(seconds)) => (says - 0.1..says + 0.2).contains(&seconds),
        (None, None) => page == "for ever",
        _ => false,
    };
    if is_so { Ok(()) } else { same("waits", &page, &format!("{seconds:?}")) }
}

fn at_the_timeout(library: &Library, line: &dyn Fn(&str) -> Line) -> Result<(), String> {
    let (version, found) = facts::at_the_timeout(library);
    let line = line(&version);
    // The next cell has the number: the same as after a cut.
    let (page, found) = match found.split_once(' ') {
        Some(("resends", times)) if line.at_the_timeout == "resends" => (&line.again, times),
        _ => (&line.at_the_timeout, found.as_str()),
    };
    same("at the timeout", page, found)
}

fn in_cluster_at_the_timeout(library: &Library, line: &dyn Fn(&str) -> Line) -> Result<(), String> {
    let (version, found) = facts::in_cluster_at_the_timeout(library);
    same("at the timeout", &line(&version).at_the_timeout, &found)
}

fn sends_again(library: &Library, line: &dyn Fn(&str) -> Line) -> Result<(), String> {
    let (version, found) = facts::sends_again(library, &[]);
    let line = line(&version);
    same("sends again", &line.again, &found)?;
    if found == "no" {
        return same("switched off by", &line.not_with, "");
    }
    // The result of the setting, if unexpected, stands after it.
    let (_, page) = line.not_with.split_once("`: ").unwrap_or(("", "no"));
    let (_, found) = facts::sends_again(library, &["resend=off"]);
    same("with what switches that off, sends again", page, &found)
}

#[test]
fn a_library_waits_for_a_reply_as_long_as_the_page_states() {
    all(SINGLES, singles(), waits);
}

#[test]
fn a_library_behaves_at_its_timeout_as_the_page_states() {
    all(SINGLES, singles(), at_the_timeout);
}

#[test]
fn a_library_resends_a_command_as_often_as_the_page_states() {
    all(SINGLES, singles(), sends_again);
}

fn waits_for_all_of_a_block(library: &Library, line: &dyn Fn(&str) -> Line) -> Result<(), String> {
    line(&facts::waits_for_all_of_a_block(library));
    Ok(())
}

#[test]
fn with_the_recommended_settings_nothing_is_lost() {
    all(SINGLES, singles(), waits_for_all_of_a_block);
}

#[test]
fn with_the_recommended_settings_a_cluster_client_loses_nothing() {
    all(CLUSTERS, clusters(), waits_for_all_of_a_block);
}

#[test]
fn a_cluster_client_waits_for_a_reply_as_long_as_the_page_states() {
    all(CLUSTERS, clusters(), waits_in_cluster);
}

#[test]
fn a_cluster_client_behaves_at_its_timeout_as_the_page_states() {
    all(CLUSTERS, clusters(), in_cluster_at_the_timeout);
}

#[test]
fn a_cluster_client_resends_a_command_as_often_as_the_page_states() {
    all(CLUSTERS, clusters(), sends_again);
}

#[test]
fn a_redis_rs_connection_that_is_dropped_loses_nothing() {
    assert_eq!(facts::at_the_timeout(&DROPPING).1, "closes");
}

#[test]
fn each_line_of_the_tables_is_tested() {
    let tables = [(SINGLES, singles()), (CLUSTERS, clusters())];
    for (libraries, lines) in tables {
        for line in lines {
            let tried = libraries
                .iter()
                .filter(|it| line.name == it.name && code(&line.way).contains(&it.way))
                .count();
            assert!(tried >= line.versions.len(), "{line:?} is tried {tried} times");
        }
    }
}

/// The recommended settings are those that the probes use.
#[test]
fn each_setting_on_the_page_is_used_by_a_probe() {
    let folders = ["tests/clients/probes", "tests/clients/rust/src"];
    let files = folders.iter().flat_map(|folder| fs::read_dir(folder).expect("probes"));
    let files = files.map(|it| it.expect("a file").path()).filter(|it| it.is_file());
    let sources: String = files.map(|it| fs::read_to_string(it).expect("text")).collect();
    let cells = singles().into_iter().chain(clusters());
    let cells: Vec<_> = cells.flat_map(|line| [line.way, line.not_with]).collect();
    let settings: HashSet<_> = cells.iter().flat_map(|cell| code(cell)).collect();
    for setting in settings {
        // Values that probes write differently are not searched, names are.
        let name = setting.split([':', '=', ' ', '(']).next().expect("a name");
        let is_argument = SINGLES.iter().any(|it| it.way == setting && it.names_its_way());
        assert!(sources.contains(name) || is_argument, "no probe sets {setting}");
    }
}
