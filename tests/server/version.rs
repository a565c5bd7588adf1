//! The version and commit that a server reports.

use std::collections::HashMap;
use std::fs;
use std::path::Path;
use std::process::Command;

use redis::Value;
use tempfile::TempDir;

use harness::{Ask, Server, cmd, release_module, until};

#[path = "../../scripts/commit/git.rs"]
mod git;

/// Returns the version of Cargo.toml, as its three numbers.
fn numbers() -> Vec<i64> {
    env!("CARGO_PKG_VERSION").split('.').map(|digits| digits.parse().expect("a number")).collect()
}

#[test]
fn a_server_reports_the_version_and_commit_in_the_module() {
    let (_server, mut client) = Server::with_client(&[]);
    let info: String = cmd("INFO dehydrator").query(&mut client).expect("text");
    let field = |name: &str| {
        let line = info.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        line.unwrap_or_else(|| panic!("no {name} in {info}")).to_owned()
    };
    assert_eq!(field("dehydrator_version"), env!("CARGO_PKG_VERSION"));

    // As scripts/commit.sh finds it.
    let module = fs::read(release_module()).expect("the module");
    let mark = b"dehydrator-commit:";
    let marks: Vec<_> = module
        .windows(mark.len())
        .enumerate()
        .filter(|(_, window)| window == mark)
        .map(|(at, _)| &module[at + mark.len()..])
        .map(|rest| String::from_utf8_lossy(rest.split(|byte| *byte == 0).next().unwrap_or(rest)))
        .collect();
    let marked = marks.iter().find(|it| *it == "unknown" || it.len() >= 40);
    let marked = marked.unwrap_or_else(|| panic!("the module is not marked: {marks:?}"));
    let (hash, dirty) = match marked.split_once('-') {
        Some((hash, rest)) => (hash, rest == "dirty"),
        None => (&marked[..], false),
    };
    assert_eq!(field("dehydrator_git_sha1"), if hash == "unknown" { hash } else { &hash[..8] });
    assert_eq!(field("dehydrator_git_dirty"), u8::from(dirty).to_string());

    let modules: Vec<HashMap<String, Value>> =
        cmd("MODULE LIST").query(&mut client).expect("modules");
    let ours = modules.iter().find(|it| it["name"] == Value::BulkString(b"dehydrator".into()));
    let numbers = numbers();
    let number = 10_000 * numbers[0] + 100 * numbers[1] + numbers[2];
    assert_eq!(ours.map(|it| &it["ver"]), Some(&Value::Int(number)));
}

fn git(folder: &Path, arguments: &str) {
    let mut git = Command::new("git");
    // Set an identity for the commit: this machine may have none.
    git.args(["-c", "user.name=test", "-c", "user.email=test@example.org"]).current_dir(folder);
    let output = git.args(arguments.split(' ')).output().expect("git");
    assert!(output.status.success(), "git {arguments}: {output:?}");
}

#[test]
fn a_build_knows_its_commit_and_whether_its_sources_differ() {
    let folder = TempDir::new().expect("a folder");
    let root = folder.path();
    let write = |name: &str| fs::write(root.join(name), name).expect("a file");
    assert_eq!(git::commit(root), None, "there is no repository");
    git(root, "init --quiet");
    assert_eq!(git::commit(root), None, "there is no commit");

    fs::create_dir_all(root.join("src")).expect("a folder");
    ["src/lib.rs", "Cargo.toml", "README.md"].iter().for_each(|name| write(name));
    git(root, "add .");
    git(root, "commit --quiet --message first");
    let first = git::commit(root).expect("a commit");
    assert!(first.len() == 40 && first.bytes().all(|it| it.is_ascii_hexdigit()), "{first}");

    // A file that is not part of the module.
    fs::write(root.join("README.md"), "other").expect("a file");
    write("notes");
    assert_eq!(git::commit(root).as_ref(), Some(&first));
    let dirty = Some(format!("{first}-dirty"));
    fs::write(root.join("Cargo.toml"), "other").expect("a file");
    assert_eq!(git::commit(root), dirty);
    git(root, "checkout --quiet Cargo.toml");
    assert_eq!(git::commit(root).as_ref(), Some(&first));
    write("src/new.rs");
    assert_eq!(git::commit(root), dirty, "a file that git does not know");
    git(root, "add src");
    git(root, "commit --quiet --message second");
    let second = git::commit(root).expect("a commit");
    assert!(second.len() == 40 && second != first);

    // An archive that was unpacked in another repository has none of its commits.
    let archive = root.join("vendor/dehydrator");
    fs::create_dir_all(archive.join("src")).expect("a folder");
    fs::write(archive.join("src/lib.rs"), "code").expect("a file");
    assert_eq!(git::commit(&archive), None);
}

#[test]
fn the_script_of_the_dashboard_passes_on_only_numbers() {
    let server = Server::start(&[]);
    let script = fs::read_to_string("grafana/dehydrator.lua").expect("a script");
    let mut asked = redis::cmd("EVAL");
    let pairs: HashMap<String, String> =
        asked.arg(script).arg(0).query(&mut server.connect()).expect("names and values");
    assert_eq!(pairs["dehydrator_git_dirty"].len(), 1);
    assert!(pairs.len() > 20 && pairs.values().all(|it| it.parse::<u64>().is_ok()), "{pairs:?}");
    assert!(!pairs.contains_key("dehydrator_git_sha1"), "it is not counted, whatever its digits");

    // And the keys that are overdue the longest, by name.
    let mut client = server.connect();
    client.ask("DEHYDRATOR.PUSH jobs 0 x id");
    let age = until("it is overdue", || {
        let script = fs::read_to_string("grafana/dehydrator.lua").expect("a script");
        let mut asked = redis::cmd("EVAL");
        let pairs: HashMap<String, String> =
            asked.arg(script).arg(0).query(&mut client).expect("names and values");
        pairs.get("late:0:jobs").cloned()
    });
    assert!(age.parse::<u64>().is_ok_and(|age| (1..60).contains(&age)), "{age}");
}
