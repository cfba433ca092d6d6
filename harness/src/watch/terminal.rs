//! The terminal: taken over for as long as the screen is shown, and given back whatever happens.

use std::{
    io::{self, Stdout, stdout},
    panic, thread,
};

use crossterm::{
    cursor::Show,
    event::{self, Event},
    execute,
    terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode},
};
use ratatui::{Terminal, backend::CrosstermBackend};
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

/// A terminal that is taken over. Dropping it gives the terminal back.
pub(super) struct Taken {
    terminal: Terminal<CrosstermBackend<Stdout>>,
}

impl Taken {
    /// Takes the terminal over: raw mode, alternate screen. A panic gives it back before it tells of itself.
    pub(super) fn take() -> io::Result<Taken> {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |panic| {
            give_back();
            before(panic);
        }));
        enable_raw_mode()?;
        let taken = execute!(stdout(), EnterAlternateScreen)
            .and_then(|()| Terminal::new(CrosstermBackend::new(stdout())))
            .map(|terminal| Taken { terminal });
        if taken.is_err() {
            give_back();
        }
        taken
    }

    /// Draws a screen; only what is different from the last one is written.
    pub(super) fn draw(&mut self, draw: impl FnOnce(&mut ratatui::Frame<'_>)) -> io::Result<()> {
        self.terminal.draw(draw)?;
        Ok(())
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        give_back();
    }
}

/// The terminal as it was. That it can't be reached any more is no error: then there is nothing to give back.
fn give_back() {
    let _ = disable_raw_mode();
    let _ = execute!(stdout(), LeaveAlternateScreen, Show);
}

/// What a person does at the terminal, from now on. The channel closes when the terminal is gone.
pub(super) fn listen() -> io::Result<UnboundedReceiver<Event>> {
    let (tell, events) = unbounded_channel();
    // It ends with the process: nothing interrupts it while it waits for a key.
    thread::Builder::new().name("keys".to_owned()).spawn(move || {
        while let Ok(event) = event::read() {
            if tell.send(event).is_err() {
                break;
            }
        }
    })?;
    Ok(events)
}
