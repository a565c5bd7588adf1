//! Charts as SVG, without a background, in colours that read on white and on black.

use std::path::Path;

use plotters::coord::Shift;
use plotters::prelude::*;

const INK: RGBColor = RGBColor(128, 134, 142);
const FAINT: RGBAColor = RGBAColor(128, 134, 142, 0.25);
/// Ours comes first and is the only green.
const COLOURS: [RGBColor; 7] = [
    RGBColor(34, 160, 80),
    RGBColor(56, 132, 230),
    RGBColor(226, 120, 40),
    RGBColor(160, 100, 220),
    RGBColor(215, 75, 100),
    RGBColor(35, 165, 170),
    RGBColor(150, 150, 150),
];
const FONT: &str = "sans-serif";
const WIDTH: u32 = 860;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A line of a chart, by the first number of each point.
pub struct Line {
    pub name: String,
    pub points: Vec<(f64, f64)>,
}

fn ink(size: u32) -> TextStyle<'static> {
    TextStyle::from((FONT, size).into_font()).color(&INK)
}

fn area(path: &Path, height: u32) -> Area<'_> {
    SVGBackend::new(path, (WIDTH, height)).into_drawing_area()
}

fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e4 => format!("{}k", value / 1e3),
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{}", (value * 10.0).round() / 10.0),
        value => format!("{}", (value * 1000.0).round() / 1000.0),
    }
}

fn value_text(value: f64) -> String {
    match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 1.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

fn rectangle(area: &Area<'_>, from: (i32, i32), to: (i32, i32), colour: RGBColor) {
    area.draw(&Rectangle::new([from, to], colour.filled())).expect("a drawing");
}

fn text(area: &Area<'_>, at: (i32, i32), size: u32, words: &str) {
    area.draw(&Text::new(words.to_owned(), at, ink(size))).expect("a drawing");
}

/// Horizontal bars, each with its name and value; the scale is logarithmic where they differ much.
pub fn bars(path: &Path, title: &str, bars: &[(String, f64)], logarithmic: bool) {
    const ROW: i32 = 26;
    const LEFT: i32 = 330;
    let area = area(path, 48 + ROW as u32 * bars.len() as u32);
    let most = bars.iter().map(|bar| bar.1).fold(0.0, f64::max);
    let least = bars.iter().map(|bar| bar.1).fold(f64::MAX, f64::min);
    let room = f64::from(WIDTH as i32 - LEFT - 80);
    let length = |value: f64| {
        if logarithmic {
            // The shortest bar is a tenth of a decade.
            room * ((value / least).log10() + 0.1) / ((most / least).log10() + 0.1)
        } else {
            room * value / most
        }
    };
    let scale = if logarithmic { " (logarithmic)" } else { "" };
    text(&area, (10, 10), 17, &format!("{title}{scale}"));
    for (row, (name, value)) in bars.iter().enumerate() {
        let top = 40 + row as i32 * ROW;
        let is_ours = name.starts_with("our ");
        text(&area, (10, top + 3), 13, name);
        let colour = if is_ours { COLOURS[0] } else { COLOURS[1] };
        let end = LEFT + length(*value) as i32;
        rectangle(&area, (LEFT, top), (end, top + ROW - 8), colour);
        text(&area, (end + 6, top + 3), 13, &value_text(*value));
    }
    area.present().expect("a file");
}

/// Groups of vertical bars with a legend.
pub fn grouped(path: &Path, title: &str, names: &[String], groups: &[(String, Vec<Option<f64>>)]) {
    const HEIGHT: i32 = 420;
    const BOTTOM: i32 = 320;
    let area = area(path, HEIGHT as u32);
    text(&area, (10, 10), 17, title);
    let most = groups.iter().flat_map(|group| &group.1).flatten().copied().fold(0.0, f64::max);
    let step = [50.0, 100.0, 200.0, 250.0, 500.0, 1000.0].into_iter().find(|it| most / it <= 6.0);
    let step = step.unwrap_or(2000.0);
    let height = |value: f64| (value / most * f64::from(BOTTOM - 60)) as i32;
    for line in (0..).map(|line| f64::from(line) * step).take_while(|value| *value <= most) {
        let y = BOTTOM - height(line);
        area.draw(&PathElement::new([(50, y), (WIDTH as i32 - 10, y)], FAINT)).expect("a drawing");
        text(&area, (10, y - 7), 12, &short(line));
    }
    let group_width = (WIDTH as i32 - 60) / groups.len() as i32;
    let bar_width = (group_width - 16) / names.len() as i32;
    for (group, (name, values)) in groups.iter().enumerate() {
        let left = 56 + group as i32 * group_width;
        for (bar, value) in values.iter().enumerate() {
            let Some(value) = value else { continue };
            let x = left + bar as i32 * bar_width;
            let top = BOTTOM - height(*value);
            rectangle(&area, (x, top), (x + bar_width - 2, BOTTOM), COLOURS[bar % COLOURS.len()]);
        }
        text(&area, (left, BOTTOM + 8), 14, name);
    }
    for (entry, name) in names.iter().enumerate() {
        let x = 56 + (entry as i32 % 2) * 400;
        let y = BOTTOM + 34 + entry as i32 / 2 * 16;
        rectangle(&area, (x, y + 2), (x + 10, y + 12), COLOURS[entry % COLOURS.len()]);
        text(&area, (x + 16, y), 12, name);
    }
    area.present().expect("a file");
}

/// Lines over two logarithmic axes, with a legend.
pub fn lines(path: &Path, title: &str, below: &str, lines: &[Line]) {
    let all = || lines.iter().flat_map(|line| &line.points);
    if all().next().is_none() {
        return;
    }
    let range = |number: fn(&(f64, f64)) -> f64| {
        let least = all().map(number).fold(f64::MAX, f64::min);
        let most = all().map(number).fold(0.0, f64::max);
        (least, most)
    };
    let (left, right) = range(|point| point.0);
    let (lowest, highest) = range(|point| point.1);
    let area = area(path, 420);
    let (chart, legend) = area.split_vertically(360);
    let mut context = ChartBuilder::on(&chart)
        .caption(title, ink(17))
        .margin(10)
        .margin_right(30)
        .x_label_area_size(40)
        .y_label_area_size(60)
        .build_cartesian_2d(
            (left..right * 1.02).log_scale(),
            (lowest / 1.4..highest * 1.4).log_scale(),
        )
        .expect("axes");
    context
        .configure_mesh()
        .x_desc(below)
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .label_style(ink(13))
        .axis_desc_style(ink(13))
        .axis_style(INK)
        .bold_line_style(FAINT)
        .light_line_style(TRANSPARENT)
        .draw()
        .expect("a drawing");
    for (line, colour) in lines.iter().zip(COLOURS) {
        let points = || line.points.iter().copied();
        let path = PathElement::new(points().collect::<Vec<_>>(), colour.stroke_width(3));
        context.draw_series([path]).expect("a drawing");
        let dot = |point| Circle::new(point, 4, colour.filled());
        context.draw_series(points().map(dot)).expect("a drawing");
    }
    for (entry, (line, colour)) in lines.iter().zip(COLOURS).enumerate() {
        let x = 70 + (entry as i32 % 2) * 400;
        let y = 4 + entry as i32 / 2 * 17;
        rectangle(&legend, (x, y + 2), (x + 10, y + 12), colour);
        text(&legend, (x + 16, y), 12, &line.name);
    }
    area.present().expect("a file");
}
