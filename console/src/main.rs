//! A live view of the dehydrators of a server, in the terminal: the number of elements of each, how many
//! are due and given out, how fast it grows, its TTLs as bars, and how late the server is. With `--web`, a page in a
//! browser, which also shows elements and changes them.
//!
//! `options` parses the command line. Both views `ask` a server for `figures` and for the `facts` of its `dehydrators`, by a
//! `walk` over its keys; `schedule`, `policy` and `destination` are parts of the facts, which `fields` reads from replies. `trouble`
//! translates errors. In the terminal, `model` holds the data,
//! `watch` refreshes it, `view` draws it. `web` is the page.

mod ask;
mod dehydrators;
mod destination;
mod facts;
mod fields;
mod figures;
mod model;
mod options;
mod policy;
mod schedule;
#[cfg(test)]
mod tests;
mod trouble;
mod view;
mod walk;
mod watch;
mod web;

use std::io;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;
use std::time::Instant;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use model::Model;
use options::{Asked, Options, USAGE};
use watch::Watch;

fn main() -> ExitCode {
    let options = match Options::parse(lexopt::Parser::from_env()) {
        Ok(Asked::View(options)) => *options,
        // Ignore a closed pipe, as from `| head`.
        Ok(Asked::Help) => {
            let _ = writeln!(io::stdout(), "{USAGE}");
            return ExitCode::SUCCESS;
        }
        Ok(Asked::Version) => {
            let _ = writeln!(io::stdout(), "dehydrator-top {}", env!("DEHYDRATOR_VERSION"));
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if let Some(web) = options.web {
        return match web::serve(web) {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => {
                eprintln!("dehydrator-top: {error}");
                ExitCode::FAILURE
            }
        };
    }
    if !io::stdout().is_terminal() {
        eprintln!("dehydrator-top: this is not a terminal");
        return ExitCode::FAILURE;
    }
    match ratatui::run(|terminal| run(terminal, options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("dehydrator-top: {error}");
            ExitCode::FAILURE
        }
    }
}

fn run(terminal: &mut DefaultTerminal, options: Options) -> io::Result<()> {
    let started = Instant::now();
    let mut watch = Watch::new(options.client);
    let mut model = Model::default();
    loop {
        let refreshed = Instant::now();
        watch.refresh(&mut model, started.elapsed());
        loop {
            terminal.draw(|frame| view::draw(frame, &model))?;
            let left = options.every.saturating_sub(refreshed.elapsed());
            if left.is_zero() || !event::poll(left)? {
                break;
            }
            let Event::Key(key) = event::read()? else { continue };
            match pressed(key, &mut model) {
                Pressed::Quit => return Ok(()),
                Pressed::Other => watch.refresh_selected(&mut model),
                Pressed::Nothing => (),
            }
        }
    }
}

enum Pressed {
    Quit,
    /// Another dehydrator was selected.
    Other,
    Nothing,
}

fn pressed(key: KeyEvent, model: &mut Model) -> Pressed {
    if key.kind == KeyEventKind::Release {
        return Pressed::Nothing;
    }
    let before = model.selected.clone();
    match key.code {
        KeyCode::Char('q') | KeyCode::Esc => return Pressed::Quit,
        KeyCode::Char('c') if key.modifiers.contains(KeyModifiers::CONTROL) => {
            return Pressed::Quit;
        }
        KeyCode::Up | KeyCode::Char('k') => model.select(-1),
        KeyCode::Down | KeyCode::Char('j') => model.select(1),
        KeyCode::PageUp => model.select(-10),
        KeyCode::PageDown => model.select(10),
        KeyCode::Char('s') => model.order = model.order.next(),
        _ => (),
    }
    if model.selected == before { Pressed::Nothing } else { Pressed::Other }
}
