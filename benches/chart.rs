//! Charts as SVG, with colours for light and dark pages.
//!
//! Bars are linear and begin at zero. Values that differ by powers of ten are dots or lines on a labelled axis. A
//! colour stands for a [`Family`], the same in all charts. In every chart, lower is better, and the chart says so.

use std::fs;
use std::path::Path;

use plotters::coord::Shift;
use plotters::coord::combinators::BindKeyPoints;
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};

/// A colour on a light page, and its counterpart on a dark one.
type Pair = (RGBColor, RGBColor);

const fn pair(light: u32, dark: u32) -> Pair {
    const fn rgb(hex: u32) -> RGBColor {
        RGBColor((hex >> 16) as u8, (hex >> 8) as u8, hex as u8)
    }
    (rgb(light), rgb(dark))
}

const PAPER: Pair = pair(0xFFFFFF, 0x0D1117);
const INK: Pair = pair(0x1F2328, 0xE6EDF3);
const FAINT: Pair = pair(0xD8DEE4, 0x30363D);

/// A kind of contender. Each has its own colour, with shades for its members.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Family {
    /// Dehydrator, and its Lawn: the only green.
    Ours,
    /// The predecessors: the paper's Lawn, ReDe. Purple.
    Forebear,
    /// Timing wheels: blue.
    Wheel,
    /// Sorted structures: lists, heaps, trees, sorted sets. Orange.
    Sorted,
    /// Redis's own expiry of keys and fields: red.
    Expiry,
    /// Structures without timers, or that scan all of them: grey.
    Plain,
}

impl Family {
    const ALL: [Self; 6] =
        [Self::Ours, Self::Forebear, Self::Wheel, Self::Sorted, Self::Expiry, Self::Plain];

    /// From the strongest on. Two shades that share a line chart also differ in brightness, for readers who see no
    /// hues.
    fn shades(self) -> &'static [Pair] {
        const OURS: &[Pair] =
            &[pair(0x116329, 0x7EE787), pair(0x2DA44E, 0x3FB950), pair(0x5AC878, 0x238636)];
        const WHEEL: &[Pair] = &[
            pair(0x0969DA, 0x58A6FF),
            pair(0x54AEFF, 0x1F6FEB),
            pair(0x0A3069, 0xA5D6FF),
            pair(0x1B7C83, 0x39C5BB),
        ];
        const SORTED: &[Pair] =
            &[pair(0xBC4C00, 0xF0883E), pair(0xFB8F44, 0xBD561D), pair(0x762C00, 0xFFC680)];
        const PLAIN: &[Pair] =
            &[pair(0x656D76, 0x8B949E), pair(0xA8B0B8, 0x57606A), pair(0x32383F, 0xC9D1D9)];
        match self {
            Self::Ours => OURS,
            Self::Forebear => const { &[pair(0x8250DF, 0xBC8CFF)] },
            Self::Wheel => WHEEL,
            Self::Sorted => SORTED,
            Self::Expiry => const { &[pair(0xCF222E, 0xF85149)] },
            Self::Plain => PLAIN,
        }
    }
}

/// The colour of a contender: its family and shade.
#[derive(Clone, Copy)]
pub struct Colour(pub Family, pub usize);

impl From<Family> for Colour {
    fn from(family: Family) -> Self {
        Self(family, 0)
    }
}

impl Colour {
    fn rgb(self) -> RGBColor {
        self.0.shades()[self.1].0
    }
}

const FONT: &str = "sans-serif";
const WIDTH: i32 = 860;
const MARGIN: i32 = 10;

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;

/// A bar with its name.
pub struct Bar {
    pub name: String,
    pub value: f64,
    pub colour: Colour,
}

/// A row of [`dots`]: the median and the 99th percentile.
pub struct Span {
    pub name: String,
    pub median: Reach,
    pub p99: Reach,
    pub colour: Colour,
}

/// A measured number, or a lower bound of it.
#[derive(Clone, Copy, PartialEq)]
pub enum Reach {
    Measured(f64),
    Over(f64),
}

impl Reach {
    fn least(self) -> f64 {
        match self {
            Self::Measured(value) | Self::Over(value) => value,
        }
    }
}

/// A line of a chart, by the first number of each point.
pub struct Line {
    pub name: String,
    pub colour: Colour,
    pub points: Vec<(f64, f64)>,
}

/// A group of bars, one for each entry of the legend.
pub struct Group {
    pub name: String,
    /// An explanation below the name.
    pub meaning: String,
    pub values: Vec<Option<f64>>,
}

/// Text of this size in pixels. A size in plotters is 1.24 times that of the SVG.
fn ink(pixels: u32) -> TextStyle<'static> {
    TextStyle::from((FONT, f64::from(pixels) * 1.24).into_font()).color(&INK.0)
}

fn area(path: &Path, height: i32) -> Area<'_> {
    let area = SVGBackend::new(path, (WIDTH as u32, height as u32)).into_drawing_area();
    area.fill(&PAPER.0).expect("a drawing");
    area
}

/// Writes the file, with a title for screen readers, and with the colours for dark pages.
fn finish(area: &Area<'_>, path: &Path, words: &str) {
    area.present().expect("a file");
    let svg = fs::read_to_string(path).expect("a file");
    let hex = |RGBColor(red, green, blue): RGBColor| format!("#{red:02X}{green:02X}{blue:02X}");
    let shades = Family::ALL.into_iter().flat_map(Family::shades);
    let mut rules = String::new();
    for (light, dark) in [PAPER, INK, FAINT].iter().chain(shades) {
        for of in ["fill", "stroke"] {
            let drawn = format!("{of}=\"{}\"", hex(*light));
            if svg.contains(&drawn) {
                rules += &format!(" [{drawn}]{{{of}:{}}}", hex(*dark));
            }
        }
    }
    let (head, drawing) = svg.split_once('\n').expect("lines");
    let head = head.replace("<svg ", "<svg role=\"img\" ");
    let style = format!("<style>@media (prefers-color-scheme: dark) {{{rules} }}</style>");
    // Each text is on a line of its own, between those of its tags.
    let is_open = |line: &str| line.starts_with("<text") && line.ends_with("\">\n");
    let drawing = drawing.replace("\n</text>", "</text>");
    let lines = drawing.split_inclusive('\n');
    let drawing: String =
        lines.map(|line| if is_open(line) { line.trim_end() } else { line }).collect();
    fs::write(path, format!("{head}\n<title>{words}</title>\n{style}\n{drawing}")).expect("a file");
}

/// Formats a number on an axis.
fn short(value: f64) -> String {
    match value {
        value if value >= 1e6 => format!("{}M", value / 1e6),
        value if value >= 1e4 && value % 1e3 == 0.0 => format!("{}k", value / 1e3),
        value if value >= 1e3 => format!("{},{:03}", value as u64 / 1000, value as u64 % 1000),
        value => format!("{}", (value * 1000.0).round() / 1000.0),
    }
}

fn value_text(value: f64) -> String {
    match value {
        // Values without a decimal in the table do not get one here.
        value if value >= 100.0 || value.fract() == 0.0 => format!("{}", value.round()),
        value if value >= 1.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    }
}

/// Formats milliseconds in a suitable unit.
fn time_text(ms: f64) -> String {
    match ms {
        ms if ms >= 1e3 => format!("{} s", short(ms / 1e3)),
        ms if ms >= 10.0 => format!("{ms:.0} ms"),
        ms => format!("{} ms", (ms * 10.0).round() / 10.0),
    }
}

fn rectangle(area: &Area<'_>, from: (i32, i32), to: (i32, i32), colour: RGBColor) {
    area.draw(&Rectangle::new([from, to], colour.filled())).expect("a drawing");
}

fn line(area: &Area<'_>, from: (i32, i32), to: (i32, i32), style: impl Into<ShapeStyle>) {
    area.draw(&PathElement::new([from, to], style)).expect("a drawing");
}

fn text(area: &Area<'_>, at: (i32, i32), size: u32, words: &str) {
    area.draw(&Text::new(words.to_owned(), at, ink(size))).expect("a drawing");
}

/// Draws text anchored at the middle of one of its sides.
fn anchored(area: &Area<'_>, at: (i32, i32), anchor: HPos, size: u32, words: &str) {
    let style = ink(size).pos(Pos::new(anchor, VPos::Center));
    area.draw(&Text::new(words.to_owned(), at, style)).expect("a drawing");
}

/// Draws the title, and below it which direction is better. Charts begin at [`BELOW_TITLE`].
fn title(area: &Area<'_>, words: &str) {
    text(area, (MARGIN, 10), 16, words);
    text(area, (MARGIN, 32), 12, "lower is better");
}

const BELOW_TITLE: i32 = 56;

/// Draws a label on a background of paper, because it may lie on a line.
fn label(area: &Area<'_>, at: (i32, i32), anchor: HPos, size: u32, words: &str) {
    let width = room_for(std::iter::once(words), size);
    let left = match anchor {
        HPos::Left => at.0 - 2,
        HPos::Center => at.0 - width / 2,
        HPos::Right => at.0 - width + 2,
    };
    let half = size as i32 / 2 + 2;
    rectangle(area, (left, at.1 - half), (left + width, at.1 + half), PAPER.0);
    anchored(area, at, anchor, size, words);
}

/// Returns the width of names in the widest of the fonts that a reader may have.
fn room_for<'a>(names: impl Iterator<Item = &'a str>, size: u32) -> i32 {
    let longest = names.map(|name| name.chars().count()).max().unwrap_or(0);
    (longest as f64 * f64::from(size) * 0.6) as i32
}

/// Returns multiples of one, two or five times a power of ten, from zero on, at most seven.
fn linear_ticks(most: f64) -> Vec<f64> {
    let power = 10_f64.powf((most / 6.0).log10().floor());
    let steps = [1.0, 2.0, 5.0, 10.0].map(|step| step * power);
    let step = steps.into_iter().find(|step| most / step <= 6.0).unwrap_or(power * 10.0);
    (0..=6).map(|number| f64::from(number) * step).take_while(|tick| *tick <= most).collect()
}

/// Returns powers of ten; if there are few, also twice and five times as much.
fn logarithmic_ticks(least: f64, most: f64) -> Vec<f64> {
    let steps: &[f64] = if most / least > 500.0 { &[1.0] } else { &[1.0, 2.0, 5.0] };
    let powers = least.log10().floor() as i32..=most.log10().ceil() as i32;
    powers
        .flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)))
        .filter(|tick| (least..=most).contains(tick))
        .collect()
}

/// Draws horizontal bars from zero on, each with its name and value.
pub fn bars(path: &Path, words: &str, bars: &[Bar]) {
    const ROW: i32 = 26;
    const TOP: i32 = BELOW_TITLE;
    if bars.is_empty() {
        return;
    }
    let left = MARGIN + room_for(bars.iter().map(|bar| bar.name.as_str()), 13) + 10;
    let bottom = TOP + ROW * bars.len() as i32;
    let area = area(path, bottom + 30);
    title(&area, words);
    let most = bars.iter().map(|bar| bar.value).fold(0.0, f64::max);
    let room = f64::from(WIDTH - left - 70);
    let at = |value: f64| left + (room * value / most) as i32;
    // No lines across the chart: they would cross the values.
    line(&area, (left, bottom), (at(most), bottom), FAINT.0);
    for tick in linear_ticks(most) {
        line(&area, (at(tick), bottom), (at(tick), bottom + 4), INK.0);
        anchored(&area, (at(tick), bottom + 13), HPos::Center, 12, &short(tick));
    }
    for (row, bar) in bars.iter().enumerate() {
        let top = TOP + row as i32 * ROW;
        let middle = top + (ROW - 8) / 2;
        anchored(&area, (left - 10, middle), HPos::Right, 13, &bar.name);
        let colour = bar.colour.rgb();
        rectangle(&area, (left, top), (at(bar.value), top + ROW - 8), colour);
        anchored(&area, (at(bar.value) + 6, middle), HPos::Left, 13, &value_text(bar.value));
    }
    finish(&area, path, words);
}

/// Draws medians and 99th percentiles of milliseconds, as dots on a logarithmic axis. A lower bound is an arrow that
/// begins there.
pub fn dots(path: &Path, words: &str, spans: &[Span]) {
    const ROW: i32 = 36;
    const TOP: i32 = BELOW_TITLE + 36;
    const RIGHT: i32 = WIDTH - 90;
    if spans.is_empty() {
        return;
    }
    let left = MARGIN + room_for(spans.iter().map(|span| span.name.as_str()), 13) + 50;
    let bottom = TOP + ROW * spans.len() as i32;
    let area = area(path, bottom + 50);
    title(&area, words);
    let all = || spans.iter().flat_map(|span| [span.median.least(), span.p99.least()]);
    // From a power of ten to a power of ten.
    let first = all().fold(f64::MAX, f64::min).log10().floor();
    let last = all().fold(0.0, f64::max).log10().ceil();
    let decade = f64::from(RIGHT - left) / (last - first);
    let at = |value: f64| left + (decade * (value.log10() - first)) as i32;
    for tick in logarithmic_ticks(10_f64.powf(first), 10_f64.powf(last) * 1.001) {
        // Only powers of ten: there is no room between them.
        if tick.log10().fract().abs() < 1e-9 {
            line(&area, (at(tick), TOP - 10), (at(tick), bottom - 8), FAINT.0);
            anchored(&area, (at(tick), bottom + 6), HPos::Center, 12, &time_text(tick));
        }
    }
    let axis = "logarithmic axis: each line is ten times the previous one";
    anchored(&area, ((left + RIGHT) / 2, bottom + 28), HPos::Center, 12, axis);

    let filled = |colour: RGBColor| colour.filled();
    let hollow = |colour: RGBColor| colour.stroke_width(2);
    let dot = |x: i32, y: i32, style: ShapeStyle| {
        area.draw(&Circle::new((x, y), 6, style)).expect("a drawing");
    };
    let arrow = |x: i32, y: i32, colour: RGBColor| {
        line(&area, (x, y - 6), (x, y + 6), colour.stroke_width(3));
        line(&area, (x, y), (x + 24, y), colour.stroke_width(3));
        let head = Polygon::new([(x + 22, y - 6), (x + 22, y + 6), (x + 34, y)], filled(colour));
        area.draw(&head).expect("a drawing");
    };
    let legend = BELOW_TITLE + 6;
    dot(left, legend, filled(INK.0));
    anchored(&area, (left + 12, legend), HPos::Left, 12, "median");
    dot(left + 90, legend, hollow(INK.0));
    anchored(&area, (left + 102, legend), HPos::Left, 12, "99th percentile");
    arrow(left + 230, legend, INK.0);
    anchored(
        &area,
        (left + 272, legend),
        HPos::Left,
        12,
        "at least that; the exact value is unknown",
    );

    for (row, span) in spans.iter().enumerate() {
        let y = TOP + row as i32 * ROW + ROW / 2 - 8;
        anchored(&area, (left - 50, y), HPos::Right, 13, &span.name);
        let colour = span.colour.rgb();
        let (from, to) = (at(span.median.least()), at(span.p99.least()));
        match (span.median, span.p99) {
            (Reach::Measured(median), Reach::Measured(p99)) => {
                if to - from > 14 {
                    line(&area, (from + 6, y), (to - 6, y), colour.stroke_width(2));
                }
                label(&area, (from - 10, y), HPos::Right, 12, &time_text(median));
                dot(from, y, filled(colour));
                dot(to, y, hollow(colour));
                label(&area, (to + 10, y), HPos::Left, 12, &time_text(p99));
            }
            (Reach::Measured(median), Reach::Over(least)) => {
                line(&area, (from + 6, y), (to, y), colour.stroke_width(2));
                label(&area, (from - 10, y), HPos::Right, 12, &time_text(median));
                dot(from, y, filled(colour));
                arrow(to, y, colour);
                let words = format!("over {}", time_text(least));
                label(&area, (to + 40, y), HPos::Left, 12, &words);
            }
            (Reach::Over(least), _) => {
                let words = format!("both over {}", time_text(least));
                label(&area, (from - 6, y), HPos::Right, 12, &words);
                arrow(from, y, colour);
            }
        }
    }
    finish(&area, path, words);
}

/// Draws a name for each colour, in two columns from `top` on.
fn legend<'a>(
    area: &Area<'_>,
    top: i32,
    names: impl Iterator<Item = &'a str>,
    colours: &[RGBColor],
) {
    for (entry, (name, colour)) in names.zip(colours).enumerate() {
        let x = 56 + (entry as i32 % 2) * 400;
        let y = top + entry as i32 / 2 * 18;
        rectangle(area, (x, y + 2), (x + 10, y + 12), *colour);
        anchored(area, (x + 16, y + 7), HPos::Left, 12, name);
    }
}

/// Draws a row for each name, a column for each group, and a bar from zero on in each cell.
pub fn grouped(path: &Path, words: &str, names: &[(String, Colour)], groups: &[Group]) {
    const ROW: i32 = 24;
    const TOP: i32 = BELOW_TITLE + 46;
    let left = MARGIN + room_for(names.iter().map(|name| name.0.as_str()), 12);
    let column = (WIDTH - MARGIN - left) / groups.len() as i32;
    let area = area(path, TOP + ROW * names.len() as i32 + 8);
    title(&area, words);
    for (row, (name, _)) in names.iter().enumerate() {
        anchored(&area, (left - 10, TOP + row as i32 * ROW + 8), HPos::Right, 12, name);
    }
    let most = groups.iter().flat_map(|group| &group.values).flatten().copied().fold(0.0, f64::max);
    for (group, Group { name, meaning, values }) in groups.iter().enumerate() {
        let x = left + group as i32 * column;
        anchored(&area, (x, TOP - 34), HPos::Left, 14, name);
        anchored(&area, (x, TOP - 16), HPos::Left, 12, meaning);
        for (row, (value, (_, colour))) in values.iter().zip(names).enumerate() {
            let Some(value) = value else { continue };
            let top = TOP + row as i32 * ROW;
            let end = x + (value / most * f64::from(column - 44)) as i32;
            rectangle(&area, (x, top), (end, top + ROW - 8), colour.rgb());
            anchored(&area, (end + 6, top + 8), HPos::Left, 12, &value_text(*value));
        }
    }
    finish(&area, path, words);
}

/// Draws lines over two logarithmic axes, with a legend.
pub fn lines(path: &Path, words: &str, below: &str, beside: &str, lines: &[Line]) {
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
    let (lowest, highest) = (lowest / 1.4, highest * 1.4);
    // Labels are where the points are.
    let mut measured: Vec<_> = all().map(|point| point.0).collect();
    measured.sort_by(f64::total_cmp);
    measured.dedup();
    let area = area(path, 402 + (lines.len() as i32 + 1) / 2 * 18);
    title(&area, words);
    let (chart, below_chart) = area.split_vertically(388);
    let mut context = ChartBuilder::on(&chart)
        .margin(10)
        .margin_top(BELOW_TITLE)
        .margin_right(30)
        .x_label_area_size(44)
        .y_label_area_size(66)
        .build_cartesian_2d(
            (left..right * 1.02).log_scale().with_key_points(measured),
            (lowest..highest).log_scale().with_key_points(logarithmic_ticks(lowest, highest)),
        )
        .expect("axes");
    context
        .configure_mesh()
        .x_desc(format!("{below} (logarithmic)"))
        .y_desc(format!("{beside} (logarithmic)"))
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .label_style(ink(13))
        .axis_desc_style(ink(13))
        .axis_style(INK.0)
        .bold_line_style(FAINT.0)
        .light_line_style(TRANSPARENT)
        .draw()
        .expect("a drawing");
    let colours: Vec<_> = lines.iter().map(|line| line.colour.rgb()).collect();
    for (line, colour) in lines.iter().zip(&colours) {
        let points = || line.points.iter().copied();
        let path = PathElement::new(points().collect::<Vec<_>>(), colour.stroke_width(3));
        context.draw_series([path]).expect("a drawing");
        let dot = |point| Circle::new(point, 4, colour.filled());
        context.draw_series(points().map(dot)).expect("a drawing");
    }
    legend(&below_chart, 4, lines.iter().map(|line| line.name.as_str()), &colours);
    finish(&area, path, words);
}

/// Draws lines over two linear axes from zero on, with a legend.
pub fn curves(path: &Path, words: &str, below: &str, beside: &str, lines: &[Line]) {
    let all = || lines.iter().flat_map(|line| &line.points);
    let right = all().map(|point| point.0).fold(0.0, f64::max);
    let highest = all().map(|point| point.1).fold(0.0, f64::max) * 1.05;
    let area = area(path, 402 + (lines.len() as i32 + 1) / 2 * 18);
    title(&area, words);
    let (chart, below_chart) = area.split_vertically(388);
    let mut context = ChartBuilder::on(&chart)
        .margin(10)
        .margin_top(BELOW_TITLE)
        .margin_right(30)
        .x_label_area_size(44)
        .y_label_area_size(66)
        .build_cartesian_2d(0.0..right, 0.0..highest)
        .expect("axes");
    context
        .configure_mesh()
        .x_desc(below)
        .y_desc(beside)
        .x_label_formatter(&|value| short(*value))
        .y_label_formatter(&|value| short(*value))
        .label_style(ink(13))
        .axis_desc_style(ink(13))
        .axis_style(INK.0)
        .bold_line_style(FAINT.0)
        .light_line_style(TRANSPARENT)
        .disable_x_mesh()
        .draw()
        .expect("a drawing");
    let colours: Vec<_> = lines.iter().map(|line| line.colour.rgb()).collect();
    for (line, colour) in lines.iter().zip(&colours) {
        let path = PathElement::new(line.points.clone(), colour.stroke_width(2));
        context.draw_series([path]).expect("a drawing");
    }
    legend(&below_chart, 4, lines.iter().map(|line| line.name.as_str()), &colours);
    finish(&area, path, words);
}
