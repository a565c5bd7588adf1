//! A live view of the dehydrators in a server, in the terminal: how many elements each holds, how many
//! are due and given out, how fast it grows, its TTLs as bars, and how late the server is.
//!
//! `model` is what is shown, `watch` asks the server for it, `view` draws it.

mod model;
#[cfg(test)]
mod tests;
mod view;
mod watch;

use std::io;
use std::io::IsTerminal;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

use model::Model;
use watch::Watch;

const USAGE: &str = "\
usage: dehydrator-top [--every seconds] [url]

The url is as in redis://user:password@host:6379/0 or redis+unix:///path/to/socket?db=0;
by default it is redis://127.0.0.1:6379. A password may also be in REDISCLI_AUTH.
--every: how often the view is refreshed (default: 1 second).

One node of a cluster is shown at a time, one database of a server. An ACL user needs
+info +scan +dehydrator.info, and ~*.";

struct Options {
    client: redis::Client,
    every: Duration,
}

fn main() -> ExitCode {
    let options = match options() {
        Ok(Some(options)) => options,
        Ok(None) => {
            println!("{USAGE}");
            return ExitCode::SUCCESS;
        }
        Err(error) => {
            eprintln!("{error}\n\n{USAGE}");
            return ExitCode::from(2);
        }
    };
    if !std::io::stdout().is_terminal() {
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

/// What the command line asks for; `None`: help.
fn options() -> Result<Option<Options>, Box<dyn std::error::Error>> {
    use lexopt::prelude::*;

    let mut url = None;
    let mut every = Duration::from_secs(1);
    let mut arguments = lexopt::Parser::from_env();
    while let Some(argument) = arguments.next()? {
        match argument {
            Long("every") => {
                let seconds = arguments.value()?.parse::<f64>()?;
                let range = 0.1..=3600.0;
                every = Some(seconds)
                    .filter(|seconds| range.contains(seconds))
                    .map(Duration::from_secs_f64)
                    .ok_or("--every is from 0.1 to 3600 seconds")?;
            }
            Short('h') | Long("help") => return Ok(None),
            Value(value) if url.is_none() => url = Some(value.string()?),
            _ => return Err(argument.unexpected().into()),
        }
    }
    let url = url.unwrap_or("redis://127.0.0.1:6379".into());
    let mut info = redis::IntoConnectionInfo::into_connection_info(url)?;
    if let (None, Ok(password)) = (info.redis_settings().password(), std::env::var("REDISCLI_AUTH"))
    {
        let settings = info.redis_settings().clone().set_password(password);
        info = info.set_redis_settings(settings);
    }
    Ok(Some(Options { client: redis::Client::open(info)?, every }))
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
    /// Another dehydrator is selected.
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
