//! Which key asks for what: mostly the same as on the page of `termdrill serve`. There `Home` and `r` go to the start and
//! stand still, and `d` leads to the field that searches the decisions.

use crossterm::event::{KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// What a person asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Ask {
    /// Play or pause.
    Toggle,
    /// Go on by one model second.
    StepSecond,
    /// Go on by one tick.
    StepTick,
    /// Go back by one model second.
    StepBack,
    /// Go back by one tick.
    TickBack,
    /// Go to the start and play from there.
    Restart,
    /// Go to the end, or to what happens now.
    End,
    /// Play faster.
    Faster,
    /// Play slower.
    Slower,
    /// Choose the next worker.
    NextWorker,
    /// Choose the worker before.
    PreviousWorker,
    /// Scroll the lanes down.
    ScrollDown,
    /// Scroll the lanes up.
    ScrollUp,
    /// Scroll what stands below the lanes down.
    ReadOn,
    /// Scroll it up.
    ReadBack,
    /// Show what was expected, what was observed, or both.
    Overlay,
    /// List other decisions.
    Filter,
    /// Show another pane where there is no room for all.
    Pane,
    /// Show the keys.
    Help,
    /// Leave.
    Quit,
}

/// The keys as the help shows them, with what they do.
pub const KEYS: [(&str, &str); 14] = [
    ("space", "play, pause; during a drill: back to now"),
    ("→ ←", "one second on, back"),
    (". ,", "one tick (0.1 s) on, back"),
    ("Home r", "from the start"),
    ("End", "to the end, or to now"),
    ("+ -", "play faster, slower"),
    ("↑ ↓ Tab", "choose a worker"),
    ("PgUp PgDn", "scroll its lanes"),
    ("f b", "scroll the text below them"),
    ("e", "expected, observed, both"),
    ("d", "which decisions are listed"),
    ("v", "another pane on a small screen"),
    ("?", "this help"),
    ("q Esc ^C", "quit; a drill that goes on is stopped"),
];

/// What a key asks for; `None` for a key that means nothing.
#[must_use]
pub fn ask(key: &KeyEvent) -> Option<Ask> {
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    Some(match key.code {
        KeyCode::Char('c' | 'd') if control => Ask::Quit,
        _ if control || key.modifiers.contains(KeyModifiers::ALT) => return None,
        KeyCode::Char(' ') => Ask::Toggle,
        KeyCode::Right | KeyCode::Char('l') => Ask::StepSecond,
        KeyCode::Char('.') => Ask::StepTick,
        KeyCode::Char(',') => Ask::TickBack,
        KeyCode::Left | KeyCode::Char('h') => Ask::StepBack,
        KeyCode::Home | KeyCode::Char('r') => Ask::Restart,
        KeyCode::End => Ask::End,
        KeyCode::Char('+' | '=') => Ask::Faster,
        KeyCode::Char('-') => Ask::Slower,
        KeyCode::Down | KeyCode::Tab | KeyCode::Char('j') => Ask::NextWorker,
        KeyCode::Up | KeyCode::BackTab | KeyCode::Char('k') => Ask::PreviousWorker,
        KeyCode::PageDown => Ask::ScrollDown,
        KeyCode::PageUp => Ask::ScrollUp,
        KeyCode::Char('f') => Ask::ReadOn,
        KeyCode::Char('b') => Ask::ReadBack,
        KeyCode::Char('e') => Ask::Overlay,
        KeyCode::Char('d') => Ask::Filter,
        KeyCode::Char('v') => Ask::Pane,
        KeyCode::Char('?') => Ask::Help,
        KeyCode::Char('q') | KeyCode::Esc => Ask::Quit,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_mean_what_the_help_says() {
        let plain = |code| ask(&KeyEvent::new(code, KeyModifiers::NONE));
        let rows = [
            (KeyCode::Char(' '), Ask::Toggle),
            (KeyCode::Right, Ask::StepSecond),
            (KeyCode::Char('.'), Ask::StepTick),
            (KeyCode::Char(','), Ask::TickBack),
            (KeyCode::Left, Ask::StepBack),
            (KeyCode::Home, Ask::Restart),
            (KeyCode::Char('r'), Ask::Restart),
            (KeyCode::Tab, Ask::NextWorker),
            (KeyCode::Up, Ask::PreviousWorker),
            (KeyCode::Char('q'), Ask::Quit),
            (KeyCode::Esc, Ask::Quit),
        ];
        for (code, asked) in rows {
            assert_eq!(plain(code), Some(asked), "{code:?}");
        }
        assert_eq!(plain(KeyCode::Char('x')), None);
        assert_eq!(ask(&KeyEvent::new(KeyCode::Char('c'), KeyModifiers::CONTROL)), Some(Ask::Quit));
        assert_eq!(ask(&KeyEvent::new(KeyCode::Char('e'), KeyModifiers::CONTROL)), None);
        let released = KeyEvent::new_with_kind(KeyCode::Char('q'), KeyModifiers::NONE, KeyEventKind::Release);
        assert_eq!(ask(&released), None);
    }
}
