//! The schedules of the selected dehydrator, those with the next occurrence first.

use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Stylize;
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph};

use super::{UNKNOWN, aligned, count, duration, fitting, length, shown};
use crate::model::Model;
use crate::schedule::Schedule;

/// The columns after the name and the times at which it occurs.
const COLUMNS: [&str; 4] = ["next in", "last", "late", "missed"];

/// Draws as many as fit, each in a line.
pub fn draw(frame: &mut Frame<'_>, area: Rect, model: &Model) {
    let [room, height] = [area.width, area.height].map(|all| usize::from(all.saturating_sub(2)));
    let schedules = &model.parts.schedules;
    let listed = &schedules[..schedules.len().min(height.saturating_sub(1))];
    let names: Vec<_> = listed.iter().map(|it| [shown(&it.name), times(it)]).collect();
    let mut rows = vec![COLUMNS.map(str::to_owned)];
    rows.extend(listed.iter().map(|schedule| cells(schedule, model.figures.now_ms)));

    // The names and times share the width that the others leave.
    let longest = |texts: &mut dyn Iterator<Item = &String>| texts.map(|it| length(it)).max();
    let mut widths = [0; 1 + COLUMNS.len()];
    for at in 0..COLUMNS.len() {
        widths[at + 1] = longest(&mut rows.iter().map(|row| &row[at])).unwrap_or(0);
    }
    widths[0] = room.saturating_sub(widths.iter().map(|width| width + 1).sum::<usize>() - 1);
    let [name, when] = [0, 1].map(|at| longest(&mut names.iter().map(|row| &row[at])).unwrap_or(0));
    let name = name.min((widths[0] / 2).max(widths[0].saturating_sub(when + 1)));
    let first = |[one, when]: &[String; 2]| format!("{:<name$} {when}", fitting(one, name));

    let heads = ["schedule".to_owned(), "occurs".to_owned()];
    let lines = std::iter::once(&heads).chain(&names).zip(&rows).enumerate();
    let lines = lines.map(|(at, (names, row))| {
        let cells: Vec<_> = std::iter::once(first(names)).chain(row.iter().cloned()).collect();
        let line = Line::from(aligned(&cells, &widths));
        if at == 0 { line.bold() } else { line }
    });
    let block = Block::bordered().title(title(model, listed.len(), room));
    frame.render_widget(Paragraph::new(lines.collect::<Vec<_>>()).block(block), area);
}

/// Returns the plan and its zone.
fn times(schedule: &Schedule) -> String {
    let zone = schedule.zone.as_ref().map(|zone| format!(" {}", shown(zone)));
    shown(schedule.when().as_bytes()) + &zone.unwrap_or_default()
}

/// Returns the key, the number of its schedules, and how many of them are listed.
fn title(model: &Model, listed: usize, room: usize) -> String {
    let key = model.selected.as_deref().map(shown).unwrap_or_default();
    let facts = model.selected.as_ref().and_then(|key| model.dehydrators.all.get(key));
    let all = facts.map_or(listed, |it| listed.max(it.facts.schedules as usize));
    let mut rest = format!(": {}", count(all as f64));
    if all > listed {
        rest += &format!(", the next {listed}");
    }
    // The key is shortened first, as in the title of the TTLs.
    let left = room.saturating_sub(length(" schedules of  ") + length(&rest)).max(8);
    fitting(&format!(" schedules of {}{rest} ", fitting(&key, left)), room)
}

fn cells(schedule: &Schedule, now_ms: u64) -> [String; COLUMNS.len()] {
    let next = match schedule.next {
        _ if schedule.is_paused => "paused".into(),
        None => "ended".into(),
        Some(next) => duration(next.saturating_sub(now_ms) as f64),
    };
    let ago = |last: u64| format!("{} ago", duration(now_ms.saturating_sub(last) as f64));
    [
        next,
        schedule.last.map_or(UNKNOWN.into(), ago),
        schedule.late.map_or(UNKNOWN.into(), |late| duration(late as f64)),
        count(schedule.missed as f64),
    ]
}
