//! Draws the model. Nothing else happens here, so that a test can look at what is drawn.

use ratatui::Frame;
use ratatui::layout::{Constraint, Direction, Layout, Rect};
use ratatui::style::{Modifier, Style, Stylize};
use ratatui::text::{Line, Span};
use ratatui::widgets::{Bar, BarChart, BarGroup, Block, Paragraph, Row, Table, TableState};

use crate::model::{Model, Order};

/// What is not known.
const UNKNOWN: &str = "-";

pub fn draw(frame: &mut Frame<'_>, model: &Model) {
    let [head, list, ttls, foot] = Layout::vertical([
        Constraint::Length(5),
        Constraint::Fill(3),
        Constraint::Fill(2),
        Constraint::Length(1),
    ])
    .areas(frame.area());
    draw_server(frame, head, model);
    draw_list(frame, list, model);
    draw_ttls(frame, ttls, model);
    draw_foot(frame, foot, model);
}

/// The server as a whole.
fn draw_server(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let field = |name: &str| model.fields.get(name).map_or(UNKNOWN.into(), |value| count(*value));
    let time = |name: &str| model.fields.get(name).map_or(UNKNOWN.into(), |us| duration(us / 1e3));
    let rate = |name: &str| model.rate(name).map_or(UNKNOWN.into(), per_second);
    let pairs = |pairs: &[(&str, String)]| {
        let spans = pairs.iter().flat_map(|(name, value)| {
            [Span::raw(format!(" {name} ")).dim(), Span::raw(format!("{value} "))]
        });
        Line::from_iter(spans)
    };
    let lines = vec![
        pairs(&[
            ("elements", field("elements")),
            ("due", field("due")),
            ("leased", field("leased")),
            ("waiters", field("waiters")),
            ("retries", field("retries")),
        ]),
        pairs(&[
            ("in", rate("pushes")),
            ("out", model.out().map_or(UNKNOWN.into(), per_second)),
            ("  pulls", rate("pulls")),
            ("polls", rate("polls")),
            ("deliveries", rate("deliveries")),
            ("redeliveries", rate("redeliveries")),
        ]),
        pairs(&[
            ("late: last", time("lateness_last_us")),
            ("p50", time("lateness_p50_us")),
            ("p99", time("lateness_p99_us")),
            ("max", time("lateness_max_us")),
            ("  tick: last", time("tick_last_us")),
            ("max", time("tick_longest_us")),
        ]),
    ];
    let title = format!(" Dehydrator on {} ", model.server);
    frame.render_widget(Paragraph::new(lines).block(Block::bordered().title(title)), area);
}

/// A line for each dehydrator.
fn draw_list(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let heads = [
        ("key", Some(Order::Key)),
        ("length", Some(Order::Length)),
        ("due", Some(Order::Due)),
        ("leased", Some(Order::Leased)),
        ("net/s", Some(Order::Net)),
        ("ttls", None),
        ("next in", None),
        ("memory", Some(Order::Memory)),
    ];
    let header = heads.map(|(name, order)| {
        let style = if order == Some(model.order) { Modifier::REVERSED } else { Modifier::BOLD };
        Line::from(Span::styled(name, style)).alignment(alignment(name == "key"))
    });
    let rows = model.sorted().into_iter().map(|(key, dehydrator)| {
        let facts = &dehydrator.facts;
        let next = facts.next_deadline.map_or(UNKNOWN.into(), |deadline| {
            duration(deadline.saturating_sub(model.now_ms) as f64)
        });
        let cells = [
            shown(key),
            count(facts.length as f64),
            count(facts.due as f64),
            count(facts.leased as f64),
            dehydrator.net.map_or(UNKNOWN.into(), |net| format!("{net:+.1}")),
            count(facts.ttls as f64),
            next,
            bytes(facts.memory as f64),
        ];
        let cells = cells.into_iter().enumerate();
        Row::new(cells.map(|(at, cell)| Line::from(cell).alignment(alignment(at == 0))))
    });
    let widths =
        [Constraint::Min(12)].into_iter().chain([12, 10, 10, 10, 8, 9, 9].map(Constraint::Length));
    let how_many = match (model.dehydrators.len(), model.walks) {
        (known, 0) => format!(" dehydrators so far: {known} "),
        (known, _) => format!(" dehydrators: {known} "),
    };
    let table = Table::new(rows, widths)
        .header(Row::new(header))
        .row_highlight_style(Style::new().add_modifier(Modifier::REVERSED))
        .block(Block::bordered().title(how_many));
    let mut state = TableState::new().with_selected(model.place());
    frame.render_stateful_widget(table, area, &mut state);
}

fn alignment(is_text: bool) -> ratatui::layout::Alignment {
    if is_text { ratatui::layout::Alignment::Left } else { ratatui::layout::Alignment::Right }
}

/// The TTLs of the dehydrator that is selected, as bars.
fn draw_ttls(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let Some(key) = &model.selected else {
        return frame.render_widget(Block::bordered().title(" TTLs "), area);
    };
    let room = usize::from(area.height.saturating_sub(2));
    // The most frequent ones that there is room for, in the order of the TTLs.
    let mut shown_ttls = model.by_ttl.clone();
    shown_ttls.sort_by_key(|(ttl, count)| (std::cmp::Reverse(*count), *ttl));
    shown_ttls.truncate(room);
    shown_ttls.sort_unstable();
    let left_out = match model.by_ttl.len() - shown_ttls.len() {
        0 => String::new(),
        more => format!("; {more} rarer TTLs are not shown"),
    };
    let policy = model.dehydrators.get(key).and_then(|it| it.facts.policy.as_ref());
    let policy = policy.map(|policy| format!(", on due {}", shown(policy))).unwrap_or_default();
    let title = format!(" TTLs of {}{policy}{left_out} ", shown(key));
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

fn draw_foot(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let line = match &model.error {
        Some(error) => Line::from(format!(" {error} ")).red(),
        None => Line::from(" up, down: select   s: sort by the next column   q: quit ").dim(),
    };
    frame.render_widget(line, area);
}

/// A key, which may be any bytes, as ASCII.
pub fn shown(key: &[u8]) -> String {
    key.escape_ascii().to_string()
}

/// A whole number, with commas.
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

fn per_second(rate: f64) -> String {
    if rate < 10.0 { format!("{rate:.1}/s") } else { format!("{}/s", count(rate)) }
}

/// So many milliseconds, in the unit that fits.
fn duration(ms: f64) -> String {
    let units = [(86_400_000.0, "d"), (3_600_000.0, "h"), (60_000.0, "min"), (1000.0, "s")];
    match units.into_iter().find(|(unit, _)| ms >= *unit) {
        Some((unit, name)) => trimmed(ms / unit, name),
        None if ms > 0.0 && ms < 1.0 => trimmed(ms * 1000.0, "us"),
        None => trimmed(ms, "ms"),
    }
}

/// So many bytes, in the unit that fits.
fn bytes(bytes: f64) -> String {
    let units = [(1e9, "GB"), (1e6, "MB"), (1e3, "kB")];
    match units.into_iter().find(|(unit, _)| bytes >= *unit) {
        Some((unit, name)) => trimmed(bytes / unit, name),
        None => trimmed(bytes, "B"),
    }
}

/// With one decimal, unless that is a zero.
fn trimmed(number: f64, unit: &str) -> String {
    let digits = format!("{number:.1}");
    format!("{} {unit}", digits.strip_suffix(".0").unwrap_or(&digits))
}
