//! Draws the charts in docs/charts/ from the tables of docs/figures/, with names that need no knowledge of
//! the papers.

use crate::builds::OURS;
use crate::plan::{ANY_LENGTH, BEST, GROWTH};
use crate::stores::{ALL, label};
use benches::chart::{self, Bar, Colour, Family, Group, Line};
use benches::page::{self, Table};

/// The operations, and their meaning for users.
const OPERATIONS: [(&str, &str); 5] = [
    ("start", "store"),
    ("restart", "change the TTL"),
    ("touch", "same TTL again"),
    ("stop", "take by id"),
    ("expire", "take due elements"),
];

/// Returns the name of a store in charts.
fn name(store: &str) -> String {
    let name = match store {
        OURS => "Dehydrator's Lawn",
        "paper" => "Lawn as in its paper",
        "unordered-list" => "unsorted list",
        "ordered-list" => "sorted list",
        "heap" => "binary heap (BinaryHeap)",
        "btree" => "B-tree (BTreeMap)",
        "simple-wheel" => "timing wheel, 65 s",
        "overflow-wheel" => "timing wheel, 65 s, with overflow list",
        "hashed-sorted" => "hashed timing wheel, sorted slots",
        "hashed-unsorted" => "hashed timing wheel, unsorted slots",
        "hierarchy" => "hierarchical timing wheel, fixed sizes",
        ANY_LENGTH => "hierarchical timing wheel, any sizes",
        "quad-wheel" => "crate hierarchical_hash_wheel_timer",
        "delay-queue" => "DelayQueue of tokio-util",
        "floor-boxes" => "no timers: hash table of boxes",
        "floor-arena" => "no timers: hash table and arena",
        other => panic!("{other} has no name for charts"),
    };
    name.to_owned()
}

/// Returns a store's colour, the same in all charts.
fn colour(store: &str) -> Colour {
    match store {
        OURS => Family::Ours.into(),
        "paper" => Family::Forebear.into(),
        "heap" => Family::Sorted.into(),
        "btree" => Colour(Family::Sorted, 1),
        "ordered-list" => Colour(Family::Sorted, 2),
        "floor-arena" => Family::Plain.into(),
        "floor-boxes" => Colour(Family::Plain, 1),
        "unordered-list" => Colour(Family::Plain, 2),
        ANY_LENGTH => Family::Wheel.into(),
        "hierarchy" => Colour(Family::Wheel, 1),
        "quad-wheel" => Colour(Family::Wheel, 2),
        "delay-queue" => Colour(Family::Wheel, 3),
        // Only in charts of bars, which are labelled.
        _ => Family::Wheel.into(),
    }
}

/// Returns the first table of a section.
fn table(section: &str) -> Table {
    let mut tables = page::tables(&format!("core:{section}"));
    assert!(!tables.is_empty(), "core:{section} has no table");
    tables.swap_remove(0)
}

/// Returns a column of a table as bars, the shortest first.
fn bars(table: &Table, column: &str, stores: &[&str]) -> Vec<Bar> {
    let bar = |store: &&str| {
        let value = table.number(label(store), column)?;
        Some(Bar { name: name(store), value, colour: colour(store) })
    };
    let mut bars: Vec<_> = stores.iter().filter_map(bar).collect();
    bars.sort_by(|a, b| a.value.total_cmp(&b.value));
    bars
}

/// Returns the fastest of the other stores that keep time.
fn best_peer(table: &Table, operation: &str) -> &'static str {
    let peers = ALL.into_iter().filter(|store| *store != OURS && !store.starts_with("floor"));
    let known = peers.filter_map(|it| Some((it, table.number(label(it), operation)?)));
    known.min_by(|a, b| a.1.total_cmp(&b.1)).expect("there are peers").0
}

/// Draws every operation: ours, the best peer of each, and the obvious choices.
fn operations(table: &Table) {
    let mut stores = vec![OURS];
    let best = OPERATIONS.map(|(operation, _)| best_peer(table, operation));
    let usual = [ANY_LENGTH, "hierarchy", "delay-queue", "heap", "floor-arena"];
    for store in best.into_iter().chain(usual) {
        if !stores.contains(&store) {
            stores.push(store);
        }
    }
    let groups = OPERATIONS.map(|(operation, meaning)| Group {
        name: operation.into(),
        meaning: meaning.into(),
        values: stores.iter().map(|it| table.number(label(it), operation)).collect(),
    });
    let names: Vec<_> = stores.iter().map(|store| (name(store), colour(store))).collect();
    let title = "A million timers of 8 TTLs: nanoseconds per operation";
    chart::grouped(&page::charts().join("core-operations.svg"), title, &names, &groups);
}

/// Draws lines through the columns of a table whose titles are numbers.
fn ttls() {
    let table = table("steady");
    let line = |store: &&str| {
        let point =
            |column: &str| Some((page::number(column)?, table.number(label(store), column)?));
        Line {
            name: name(store),
            colour: colour(store),
            points: table.columns().filter_map(point).collect(),
        }
    };
    let lines: Vec<_> = BEST.iter().map(line).collect();
    let title = "A million timers: the cost of a timer that fires and starts again";
    let path = page::charts().join("core-ttls.svg");
    chart::lines(&path, title, "different TTLs", "nanoseconds", &lines);
}

fn units() {
    let table = table("units");
    let columns = [
        ("**our Lawn**, by id", "Dehydrator's Lawn, by id", Family::Ours.into()),
        ("wheel and table of ids", "timing wheel and a table of ids", Colour(Family::Wheel, 1)),
        ("wheel, by handle", "timing wheel, timers held by the program", Colour(Family::Wheel, 2)),
    ];
    let lines = columns.map(|(column, name, colour)| {
        let point = |row: &str| Some((page::number(row)?, table.number(row, column)?));
        Line { name: name.into(), colour, points: table.rows().filter_map(point).collect() }
    });
    let title = "Connections with ten timers each: the cost of a start";
    let path = page::charts().join("core-units.svg");
    chart::lines(&path, title, "connections", "nanoseconds", &lines);
}

/// Draws all charts of the core, and rewrites the tables of the short page.
pub fn draw() {
    page::shorten();
    let folder = page::charts();
    operations(&table("million"));
    let column = "reused memory: slowest start, ms";
    let title = "The slowest of ten million starts, in reused memory: milliseconds";
    chart::bars(&folder.join("core-growth.svg"), title, &bars(&table("growth"), column, &GROWTH));
    ttls();
    units();
}
