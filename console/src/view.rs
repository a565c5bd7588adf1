//! Draws the model, and does nothing else, so that a test can check what is drawn.
//!
//! Nothing is cut off silently: figures flow into as many lines as they need, and long texts end in an ellipsis.
//! `schedules` draws those of the selected dehydrator.

mod schedules;

use ratatui::Frame;
use ratatui::layout::{Constraint, Direction, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span, Text};
use ratatui::widgets::{Bar, BarChart, BarGroup, Block, List, ListItem, ListState, Paragraph};

use crate::dehydrators::Dehydrator;
use crate::facts::Limits;
use crate::model::{Model, Order};
use crate::trouble::Trouble;

/// Stands for an unknown value.
const UNKNOWN: &str = "-";
const ELLIPSIS: char = '…';
const KEYS: &str = " up, down: select   s: sort by the next column   q: quit ";

pub fn draw(frame: &mut Frame<'_>, model: &Model) {
    let width = usize::from(frame.area().width);
    let trouble = trouble(model, width.saturating_sub(4));
    if let (true, Some(trouble)) = (model.figures.fields.is_empty(), &model.trouble) {
        return draw_trouble(frame, trouble);
    }
    let server = server(model, width.saturating_sub(2));
    let [head, list, parts, foot] = Layout::vertical([
        Constraint::Length(server.len() as u16 + 2),
        Constraint::Fill(3),
        Constraint::Fill(2),
        Constraint::Length(trouble.len().max(1) as u16),
    ])
    .areas(frame.area());
    let title =
        fitting(&format!(" Dehydrator on {} ", model.figures.server), width.saturating_sub(2));
    frame.render_widget(Paragraph::new(server).block(Block::bordered().title(title)), head);
    draw_list(frame, list, model);
    draw_parts(frame, parts, model);
    if trouble.is_empty() {
        frame.render_widget(Line::from(fitting(KEYS, width)).dim(), foot);
    } else {
        frame.render_widget(Paragraph::new(trouble).red(), foot);
    }
}

const TRYING_AGAIN: &str = "Trying again.";

/// Returns the problem and the advice, in as few lines as possible.
fn trouble(model: &Model, width: usize) -> Vec<Line<'static>> {
    let Some(trouble) = &model.trouble else { return Vec::new() };
    paragraph(&format!("{} {} {TRYING_AGAIN}", trouble.what, trouble.advice), width)
}

/// Draws a problem on an otherwise empty screen.
fn draw_trouble(frame: &mut Frame<'_>, trouble: &Trouble) {
    let [body, foot] =
        Layout::vertical([Constraint::Fill(1), Constraint::Length(1)]).areas(frame.area());
    let width = usize::from(body.width.saturating_sub(4));
    let mut lines = Vec::new();
    for text in [&trouble.what, trouble.advice, TRYING_AGAIN] {
        let paragraph = paragraph(text, width);
        if !paragraph.is_empty() {
            lines.push(Line::default());
            lines.extend(paragraph);
        }
    }
    let block = Block::bordered().title(" Dehydrator ");
    frame.render_widget(Paragraph::new(lines).block(block), body);
    frame.render_widget(Line::from(" q: quit ").dim(), foot);
}

fn paragraph(text: &str, width: usize) -> Vec<Line<'static>> {
    let words = text.split_whitespace().map(str::to_owned).collect();
    flowing(words, width).into_iter().map(|line| Line::from(format!(" {line}"))).collect()
}

/// Wraps words into lines of at most `width` characters. Longer words end in an ellipsis.
fn flowing(words: Vec<String>, width: usize) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in words {
        let word = fitting(&word, width);
        match lines.last_mut() {
            Some(line) if length(line) + 1 + length(&word) <= width => {
                line.push(' ');
                line.push_str(&word);
            }
            _ => lines.push(word),
        }
    }
    lines
}

/// Returns the figures of the whole server, in lines of `width` characters.
fn server(model: &Model, width: usize) -> Vec<Line<'static>> {
    let field =
        |name: &str| model.figures.fields.get(name).map_or(UNKNOWN.into(), |value| count(*value));
    let time =
        |name: &str| model.figures.fields.get(name).map_or(UNKNOWN.into(), |us| duration(us / 1e3));
    let seconds =
        |name: &str| model.figures.fields.get(name).map_or(UNKNOWN.into(), |s| duration(s * 1e3));
    let rate = |name: &str| model.figures.rate(name).map_or(UNKNOWN.into(), per_second);
    let mut there = vec![
        ("elements", field("elements")),
        ("given out", field("given_out")),
        ("leased", field("leased")),
        ("given back", field("given_back")),
        ("blocked", field("blocked_clients")),
        ("retries", field("retries")),
        ("dead letters", field("dead_letters")),
    ];
    let failing = model.figures.fields.get("failing").filter(|failing| **failing > 0.0);
    there.extend(failing.map(|failing| (FAILING, count(*failing))));
    let paused = model.figures.fields.get("paused").filter(|paused| **paused > 0.0);
    there.extend(paused.map(|paused| (PAUSED, count(*paused))));
    there.push(("tick: last", time("tick_last_us")));
    there.push(("longest", time("tick_longest_us")));
    let groups = [
        there,
        vec![
            ("in", rate("pushes")),
            ("out", model.figures.out().map_or(UNKNOWN.into(), per_second)),
            ("pulls", rate("pulls")),
            ("polls", rate("polls")),
            ("deliveries", rate("deliveries")),
            ("redeliveries", rate("redeliveries")),
        ],
        vec![
            ("oldest due", seconds("oldest_due_s")),
            ("late: last", time("lateness_last_us")),
            ("p50", time("lateness_p50_us")),
            ("p99", time("lateness_p99_us")),
            ("max", time("lateness_max_us")),
        ],
    ];
    let worst = worst(model).map(|worst| Line::from(fitting(&worst, width)).red());
    groups.into_iter().flat_map(|group| pairs(group, width)).chain(worst).collect()
}

/// Returns the keys that are overdue the longest, or `None` if there are none.
fn worst(model: &Model) -> Option<String> {
    let one = |(key, db, age): &(Vec<u8>, u64, u64)| {
        format!("{} (db {db}) {}", shown(key), duration(*age as f64))
    };
    let all: Vec<_> = model.worst.iter().map(one).collect();
    (!all.is_empty()).then(|| format!(" overdue: {}", all.join(", ")))
}

/// Lays out names and values, in as many lines as they need.
fn pairs(pairs: Vec<(&'static str, String)>, width: usize) -> Vec<Line<'static>> {
    let mut lines: Vec<Line<'static>> = Vec::new();
    for (name, value) in pairs {
        let [name_text, value_text] = [format!(" {name} "), format!("{value} ")];
        let room = length(&name_text) + length(&value_text);
        let spans = if [FAILING, PAUSED].contains(&name) {
            [Span::raw(name_text).red().bold(), Span::raw(value_text).red().bold()]
        } else {
            [Span::raw(name_text).dim(), Span::raw(value_text)]
        };
        match lines.last_mut() {
            Some(line) if line.width() + room <= width => line.extend(spans),
            _ => lines.push(Line::from_iter(spans)),
        }
    }
    lines
}

/// The field with the number of dehydrators whose deliveries fail.
const FAILING: &str = "failing";
/// The field with the number of paused dehydrators.
const PAUSED: &str = "paused";

/// The columns: title, sort order, and minimum width.
const COLUMNS: [(&str, Option<Order>, usize); 9] = [
    ("key", Some(Order::Key), 8),
    ("length", Some(Order::Length), 9),
    ("due", Some(Order::Due), 7),
    ("given out", Some(Order::GivenOut), 9),
    ("net/s", Some(Order::Net), 7),
    ("ttls", None, 5),
    ("groups", None, 6),
    ("next in", None, 8),
    ("memory", Some(Order::Memory), 8),
];
/// The column of the groups, which is left out where it is empty, or has no room.
const GROUPS: usize = 6;

/// Draws a line for each dehydrator, and further lines for those that are paused, overdue or failing.
fn draw_list(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let room = usize::from(area.width.saturating_sub(2));
    let sorted = model.sorted();
    let rows: Vec<_> =
        sorted.iter().map(|(key, it)| cells(key, it, model.figures.now_ms)).collect();
    // The key gets the width that the others leave.
    let mut widths = COLUMNS.map(|(_, _, least)| least);
    for (at, width) in widths.iter_mut().enumerate().skip(1) {
        *width = rows.iter().map(|row| length(&row[at])).fold(*width, usize::max);
    }
    let others = |widths: &[usize; 9]| {
        let shown = widths[1..].iter().filter(|width| **width > 0);
        shown.map(|width| width + 1).sum::<usize>()
    };
    let has_groups = sorted.iter().any(|(_, dehydrator)| dehydrator.facts.groups > 0);
    if !has_groups || others(&widths) + COLUMNS[0].2 > room {
        widths[GROUPS] = 0;
    }
    widths[0] = room.saturating_sub(others(&widths)).max(COLUMNS[0].2);

    let how_many = match (model.dehydrators.all.len(), model.dehydrators.walks) {
        (known, 0) => format!(" dehydrators so far: {known} "),
        (known, _) => format!(" dehydrators: {known} "),
    };
    let block = Block::bordered().title(fitting(&how_many, room));
    let inner = block.inner(area);
    frame.render_widget(block, area);
    let [head, body] = Layout::vertical([Constraint::Length(1), Constraint::Fill(1)]).areas(inner);
    frame.render_widget(heads(&widths, model.order), head);
    let items = sorted.iter().zip(&rows).map(|((_, dehydrator), row)| {
        let mut text = Text::from(aligned(row, &widths));
        if let Some(pause) = pause(dehydrator, model.figures.now_ms) {
            text.push_line(Line::from(fitting(&pause, room)).red());
        }
        if let Some(overdue) = overdue(dehydrator) {
            text.push_line(Line::from(fitting(&overdue, room)).red());
        }
        if let Some(failure) = failure(dehydrator, model.figures.now_ms) {
            text.push_line(Line::from(fitting(&failure, room)).red());
        }
        ListItem::new(text)
    });
    let list = List::new(items).highlight_style(Style::new().add_modifier(Modifier::REVERSED));
    let mut state = ListState::default().with_selected(model.place());
    frame.render_stateful_widget(list, body, &mut state);
}

/// Returns the titles of the columns; the one of the sort order is reversed.
fn heads(widths: &[usize; 9], order: Order) -> Line<'static> {
    let shown = COLUMNS.iter().zip(widths).enumerate().filter(|(_, (_, width))| **width > 0);
    let spans = shown.flat_map(|(at, ((title, by, _), width))| {
        let style = if *by == Some(order) { Modifier::REVERSED } else { Modifier::BOLD };
        let (title, padding) = (*title, " ".repeat(width.saturating_sub(title.len())));
        let title = Span::styled(title, style);
        if at == 0 {
            [title, Span::raw(padding)]
        } else {
            [Span::raw(format!(" {padding}")), title]
        }
    });
    Line::from_iter(spans)
}

fn cells(key: &[u8], dehydrator: &Dehydrator, now_ms: u64) -> [String; 9] {
    let facts = &dehydrator.facts;
    let next = facts
        .next_deadline
        .map_or(UNKNOWN.into(), |deadline| duration(deadline.saturating_sub(now_ms) as f64));
    [
        shown(key),
        short_count(facts.length as f64),
        short_count(facts.due as f64),
        short_count(facts.given_out as f64),
        dehydrator.net.map_or(UNKNOWN.into(), net),
        short_count(facts.ttls as f64),
        short_count(facts.groups as f64),
        next,
        bytes(facts.memory as f64),
    ]
}

/// Joins cells into a line: the first aligned left, the others right.
fn aligned(cells: &[String], widths: &[usize]) -> String {
    let mut line = String::new();
    let shown = cells.iter().zip(widths).enumerate().filter(|(_, (_, width))| **width > 0);
    for (at, (cell, width)) in shown {
        let cell = fitting(cell, *width);
        let padding = " ".repeat(width.saturating_sub(length(&cell)));
        let parts: [&str; 2] = if at == 0 { [&cell, &padding] } else { [&padding, &cell] };
        line.push_str(if at == 0 { "" } else { " " });
        parts.into_iter().for_each(|part| line.push_str(part));
    }
    line
}

/// Returns the remaining time of a pause, or `None` if it is not paused or the module does not report it.
fn pause(dehydrator: &Dehydrator, now_ms: u64) -> Option<String> {
    let facts = &dehydrator.facts;
    let left = facts.paused_until.map(|end| duration(end.saturating_sub(now_ms) as f64));
    let left = left.map_or("until it is resumed".to_owned(), |left| format!("for {left} more"));
    facts.paused.then(|| format!("  paused {left}"))
}

/// Returns how many elements are overdue, and the age of the oldest; `None` if none are, or the module does not report it.
fn overdue(dehydrator: &Dehydrator) -> Option<String> {
    let facts = &dehydrator.facts;
    let oldest = duration(facts.oldest_due_ms? as f64);
    (facts.overdue > 0).then(|| format!("  {} overdue, by {oldest}", count(facts.overdue as f64)))
}

/// Returns since when deliveries fail, how often, and why; `None` if they do not, or the module does not report it.
fn failure(dehydrator: &Dehydrator, now_ms: u64) -> Option<String> {
    let facts = &dehydrator.facts;
    let since = duration(now_ms.saturating_sub(facts.failing_since?) as f64);
    let reason =
        facts.last_failure.as_ref().map(|it| format!(": {}", shown(it))).unwrap_or_default();
    let times = count(facts.failures as f64);
    Some(format!("  not delivered for {since}, {times} failures{reason}"))
}

fn length(text: &str) -> usize {
    text.chars().count()
}

/// Returns the text, shortened with an ellipsis if it does not fit.
fn fitting(text: &str, width: usize) -> String {
    if length(text) <= width {
        return text.to_owned();
    }
    let kept = text.chars().take(width.saturating_sub(1));
    kept.chain((width > 0).then_some(ELLIPSIS)).collect()
}

/// Draws what there is to say of the selected dehydrator; then its schedules, or else its TTLs and, if it has any, its greatest
/// groups.
fn draw_parts(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let state = flowing(state(model), usize::from(area.width.saturating_sub(2)));
    let lines = state.into_iter().map(|line| Line::from(format!(" {line}"))).collect::<Vec<_>>();
    let [head, area] =
        Layout::vertical([Constraint::Length(lines.len() as u16), Constraint::Fill(1)]).areas(area);
    frame.render_widget(Paragraph::new(lines), head);
    if !model.parts.schedules.is_empty() {
        return schedules::draw(frame, area, model);
    }
    if model.parts.groups.is_empty() {
        return draw_ttls(frame, area, model);
    }
    let halves = Layout::horizontal([Constraint::Fill(3), Constraint::Fill(2)]);
    let [ttls, groups] = halves.areas(area);
    draw_ttls(frame, ttls, model);
    draw_groups(frame, groups, model);
}

/// Returns the state of the selected dehydrator, its dead letters, and its limits with how much of them is used: words that are
/// separated by commas.
fn state(model: &Model) -> Vec<String> {
    let selected = model.selected.as_ref().and_then(|key| model.dehydrators.all.get(key));
    let Some(facts) = selected.map(|it| &it.facts) else { return Vec::new() };
    let number = |number: u64| count(number as f64);
    let limited = |name: &str, used: Option<u64>, limit: u64| {
        let used = used.map(|used| format!("{} of ", number(used))).unwrap_or_default();
        (limit > 0).then(|| format!("{name} {used}{}", number(limit)))
    };
    let of = |each: &str, limits: &Limits, used: [Option<u64>; 3]| {
        let rate = limited(&format!("{each}rate"), used[2], limits.rate);
        [
            limited(&format!("{each}length"), used[0], limits.length),
            limited(&format!("{each}held"), used[1], limits.held),
            rate.map(|rate| format!("{rate} in {}", duration(limits.per as f64))),
        ]
    };
    let state = [
        (facts.failing_since.is_some(), "failing"),
        (facts.paused, "paused"),
        (facts.overdue > 0 && !facts.paused, "late"),
    ];
    let states = state.iter().filter(|(is_so, _)| *is_so).map(|(_, name)| (*name).to_owned());
    let dead = model.parts.dead.map(|dead| format!("dead letters {}", number(dead)));
    let used = facts.limits.rate.saturating_sub(facts.rate_room.unwrap_or(facts.limits.rate));
    let used = [Some(facts.length), facts.running, Some(used)];
    let remember = facts.limits.remember;
    let remember = (remember > 0).then(|| format!("remember {}", duration(remember as f64)));
    let limits = of("", &facts.limits, used).into_iter().chain(of("each ", &facts.each, [None; 3]));
    let all: Vec<_> = states.chain(dead).chain(limits.flatten()).chain(remember).collect();
    all.join(", ").split(' ').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Draws the greatest groups of the selected dehydrator: their names, and their numbers of elements.
fn draw_groups(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let [width, room] = [area.width, area.height].map(|all| usize::from(all.saturating_sub(2)));
    let shown_groups = &model.parts.groups[..model.parts.groups.len().min(room)];
    let selected = model.selected.as_ref().and_then(|key| model.dehydrators.all.get(key));
    let all = selected.map_or(0, |dehydrator| dehydrator.facts.groups);
    let title = match all.saturating_sub(shown_groups.len() as u64) {
        0 => format!(" groups: {} ", count(all as f64)),
        _ => format!(" groups: {}, the greatest: ", count(all as f64)),
    };
    let lines = shown_groups.iter().map(|(name, elements)| {
        let elements = count(*elements as f64);
        let name = fitting(&shown(name), width.saturating_sub(length(&elements) + 1));
        let padding = " ".repeat(width.saturating_sub(length(&name) + length(&elements)));
        Line::from(format!("{name}{padding}{elements}"))
    });
    let block = Block::bordered().title(fitting(&title, width));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).block(block), area);
}

/// Draws the TTLs of the selected dehydrator as bars.
fn draw_ttls(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let Some(key) = &model.selected else {
        return frame.render_widget(Block::bordered().title(" TTLs "), area);
    };
    let room = usize::from(area.height.saturating_sub(2));
    // The most frequent ones that fit, sorted by TTL.
    let mut shown_ttls = model.parts.by_ttl.clone();
    shown_ttls.sort_by_key(|(ttl, count)| (std::cmp::Reverse(*count), *ttl));
    shown_ttls.truncate(room);
    shown_ttls.sort_unstable();
    let left_out = match model.parts.by_ttl.len() - shown_ttls.len() {
        0 => String::new(),
        more => format!("; {more} rarer TTLs are not shown"),
    };
    let policy = model.dehydrators.all.get(key).map(|it| &it.facts.policy);
    let policy = policy.map(|it| format!(", on due {}", shown(&it.line()))).unwrap_or_default();
    let width = usize::from(area.width.saturating_sub(2));
    let rest = format!("{policy}{left_out} ");
    // The key is shortened first, to no less than a few characters.
    let room = width.saturating_sub(length(" TTLs of ") + length(&rest)).max(8);
    let title = fitting(&format!(" TTLs of {}{rest}", fitting(&shown(key), room)), width);
    let bars = shown_ttls.iter().map(|(ttl, elements)| {
        Bar::default()
            .label(format!("{:>9} {:>12}", duration(*ttl as f64), count(*elements as f64)))
            .value(*elements)
            .text_value("")
    });
    let chart = BarChart::default()
        .direction(Direction::Horizontal)
        .bar_gap(0)
        .data(BarGroup::default().bars(&bars.collect::<Vec<_>>()))
        .block(Block::bordered().title(title));
    frame.render_widget(chart, area);
}

/// Returns a key, which can be any bytes, as escaped ASCII.
pub fn shown(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}

/// Formats a whole number, with commas.
fn count(number: f64) -> String {
    let digits = format!("{number:.0}");
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |rest| ("-", rest));
    let mut grouped = sign.to_owned();
    for (at, digit) in digits.char_indices() {
        if at > 0 && (digits.len() - at) % 3 == 0 {
            grouped.push(',');
        }
        grouped.push(digit);
    }
    grouped
}

/// Formats a count that fits into a column: from ten million on, in millions.
fn short_count(number: f64) -> String {
    if number < 1e7 { count(number) } else { trimmed(number / 1e6, "M") }
}

/// Formats growth per second, with its sign.
fn net(more: f64) -> String {
    match more.abs() {
        below if below < 1e4 => format!("{more:+.1}"),
        below if below < 1e6 => format!("{:+.1}k", more / 1e3),
        _ => format!("{:+.1}M", more / 1e6),
    }
}

fn per_second(rate: f64) -> String {
    if rate < 10.0 { format!("{rate:.1}/s") } else { format!("{}/s", count(rate)) }
}

/// Formats milliseconds in a suitable unit.
fn duration(ms: f64) -> String {
    let units = [(86_400_000.0, "d"), (3_600_000.0, "h"), (60_000.0, "min"), (1000.0, "s")];
    match units.into_iter().find(|(unit, _)| ms >= *unit) {
        Some((unit, name)) => trimmed(ms / unit, name),
        None if ms > 0.0 && ms < 1.0 => trimmed(ms * 1000.0, "us"),
        None => trimmed(ms, "ms"),
    }
}

/// Formats bytes in a suitable unit.
fn bytes(bytes: f64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => trimmed(bytes / unit, name),
        None => trimmed(bytes, "B"),
    }
}

/// Formats with one decimal, unless that is zero.
fn trimmed(number: f64, unit: &str) -> String {
    let digits = format!("{number:.1}");
    format!("{} {unit}", digits.strip_suffix(".0").unwrap_or(&digits))
}
