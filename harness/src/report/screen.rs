//! What is known of the terminal that a text is for, and the words and marks that fit it.

use anstyle::{AnsiColor, Color, Style};
use textwrap::core::display_width;

use crate::record::Verdict;

/// The narrowest and the widest screen that texts are laid out for, in columns.
const WIDTHS: std::ops::RangeInclusive<usize> = 40..=200;
/// The width where nothing is known.
const USUAL_WIDTH: usize = 80;

/// The terminal that a text is laid out for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Screen {
    /// Its width in columns, 40..=200.
    pub width: usize,
    /// Whether only ASCII may be used.
    pub ascii: bool,
    /// Whether more is shown.
    pub verbose: bool,
}

impl Screen {
    /// The screen at hand. `variable` looks up the environment: `COLUMNS` counts for more than the terminal's own
    /// width, and the locale (`LC_ALL`, `LC_CTYPE`, `LANG`, the first that is set; locale(7)) tells whether the
    /// terminal takes more than ASCII.
    #[must_use]
    pub fn detect(ascii: bool, verbose: bool, variable: impl Fn(&str) -> Option<String>) -> Screen {
        let columns =
            variable("COLUMNS").and_then(|columns| columns.parse().ok()).filter(|&columns: &usize| columns > 0);
        let terminal = || terminal_size::terminal_size().map(|(width, _)| usize::from(width.0));
        let width = columns.or_else(terminal).unwrap_or(USUAL_WIDTH);
        Screen { width: width.clamp(*WIDTHS.start(), *WIDTHS.end()), ascii: ascii || !takes_unicode(variable), verbose }
    }

    /// The style, mark and word of a verdict.
    #[must_use]
    pub fn verdict_mark(self, verdict: Verdict) -> (Style, char, &'static str) {
        let marks = self.marks();
        match verdict {
            Verdict::Matched => (GOOD, marks.good, "matched"),
            Verdict::Diverged => (BAD, marks.bad, "diverged"),
            Verdict::Inconclusive => (CAUTION, marks.unsure, "inconclusive"),
        }
    }

    /// The marks to use on it.
    #[must_use]
    pub fn marks(self) -> &'static Marks {
        if self.ascii { &ASCII } else { &UNICODE }
    }

    /// `text` broken into lines of the screen's width, with `first` before the first and `next` before the others.
    /// A no-break space keeps words together.
    #[must_use]
    pub fn wrap(self, text: &str, first: &str, next: &str) -> String {
        let options = textwrap::Options::new(self.width)
            .initial_indent(first)
            .subsequent_indent(next)
            .word_splitter(textwrap::WordSplitter::NoHyphenation);
        let mut lines = textwrap::wrap(&printable(text), options).join("\n").replace(NO_BREAK_SPACE, " ");
        lines.push('\n');
        lines
    }

    /// `text` as one line, which ends with an ellipsis where the screen is too narrow for all of it.
    #[must_use]
    pub fn cut(self, text: &str) -> String {
        let line = printable(text).replace('\n', "\\n");
        if display_width(&line) <= self.width {
            return line + "\n";
        }
        let ellipsis = if self.ascii { "..." } else { "…" };
        let mut columns = self.width - ellipsis.chars().count();
        let fits = |c: &char| match columns.checked_sub(display_width(c.encode_utf8(&mut [0; 4]))) {
            Some(left) => {
                columns = left;
                true
            }
            None => false,
        };
        line.chars().take_while(fits).collect::<String>() + ellipsis + "\n"
    }

    /// A line of `label` in a column of its own, and `text` wrapped beside it.
    #[must_use]
    pub fn labelled(self, label: &str, style: Style, text: &str) -> String {
        let indent = " ".repeat(LABEL_WIDTH);
        let painted = paint(style, &format!("{label:<LABEL_WIDTH$}"));
        // The painted label stands in for the indent of the first line: textwrap counts no escape sequences.
        self.wrap(text, &painted, &indent)
    }
}

/// Keeps two words on one line.
pub(crate) const NO_BREAK_SPACE: &str = "\u{a0}";

/// The width of the column of labels in a summary.
const LABEL_WIDTH: usize = 10;

fn takes_unicode(variable: impl Fn(&str) -> Option<String>) -> bool {
    let set = |name: &&str| variable(name).filter(|value| !value.is_empty());
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].iter().find_map(set).unwrap_or_default().to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// `text` with control characters made visible, so that no file can send escape sequences to the terminal, break a
/// line or turn the direction of the text around (Unicode Standard Annex 9, section 2).
pub(crate) fn printable(text: &str) -> String {
    let turns = |c| matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let keep = |c: char| !(c.is_control() || turns(c)) || c == '\n';
    text.chars().flat_map(|c| if keep(c) { vec![c] } else { c.escape_default().collect() }).collect()
}

/// What is as it should be. The three colours stay apart with every common colour blindness, and none stands alone:
/// a mark or a word says the same.
pub const GOOD: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Cyan)));
/// What to look at.
pub const CAUTION: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Yellow)));
/// What is lost or wrong.
pub const BAD: Style = Style::new().fg_color(Some(Color::Ansi(AnsiColor::Red))).bold();
/// What can be passed over.
pub const QUIET: Style = Style::new().dimmed();
/// Names and headings.
pub const STRONG: Style = Style::new().bold();
/// Everything else.
pub const PLAIN: Style = Style::new();

/// `text` in `style`.
#[must_use]
pub fn paint(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// Marks of one column each.
#[derive(Debug)]
#[expect(missing_docs, reason = "each is the mark for the thing of its name")]
pub struct Marks {
    pub times: &'static str,
    pub separator: &'static str,
    pub differs: char,
    pub explained: char,
    pub good: char,
    pub unsure: char,
    pub bad: char,
    pub started: char,
    pub ready: char,
    pub failed: char,
    pub sigterm: char,
    pub sigterm_skipped: char,
    pub withdrawn: char,
    pub ignored: char,
    pub sigkill: char,
    pub exited: char,
    pub orphaned: char,
    pub admitted: char,
    pub rejected: char,
    pub stages: [char; 3],
    pub committed: char,
    pub killed: char,
    pub running: char,
    pub booting: char,
    pub serving: char,
    pub draining: char,
    pub orphan: char,
    pub grace: [char; 3],
}

static UNICODE: Marks = Marks {
    times: "×",
    separator: "\u{a0}· ",
    differs: '≠',
    explained: '*',
    good: '✔',
    unsure: '?',
    bad: '✘',
    started: '◦',
    ready: '▲',
    failed: '✘',
    sigterm: '▼',
    sigterm_skipped: '▽',
    withdrawn: '◇',
    ignored: '~',
    sigkill: '✖',
    exited: '■',
    orphaned: '◌',
    admitted: '→',
    rejected: '-',
    stages: ['░', '▒', '▓'],
    committed: '●',
    killed: '╳',
    running: '▶',
    booting: '┄',
    serving: '━',
    draining: '╍',
    orphan: '┈',
    grace: ['├', '─', '┤'],
};

static ASCII: Marks = Marks {
    times: "x",
    separator: ", ",
    differs: '!',
    explained: '*',
    good: '+',
    unsure: '?',
    bad: 'X',
    started: 'o',
    ready: '^',
    failed: 'F',
    sigterm: 'T',
    sigterm_skipped: 't',
    withdrawn: 'v',
    ignored: '~',
    sigkill: 'K',
    exited: '|',
    orphaned: '%',
    admitted: '>',
    rejected: '-',
    stages: ['.', '-', '#'],
    committed: '*',
    killed: 'X',
    running: '>',
    booting: '_',
    serving: '=',
    draining: '~',
    orphan: '%',
    grace: ['[', '-', ']'],
};

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(variables: &[(&str, &str)]) -> Screen {
        Screen::detect(false, false, |name| {
            variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_locale_tells_whether_more_than_ascii_can_be_shown() {
        for (variables, ascii) in [
            (&[("LANG", "en_GB.UTF-8")][..], false),
            (&[("LANG", "C.utf8")], false),
            (&[("LANG", "en_GB.UTF-8"), ("LC_ALL", "C")], true),
            (&[("LANG", "C"), ("LC_CTYPE", "C.UTF-8")], false),
            (&[("LC_ALL", ""), ("LANG", "C.UTF-8")], false),
            (&[], true),
        ] {
            assert_eq!(detect(variables).ascii, ascii, "{variables:?}");
        }
        assert!(Screen::detect(true, false, |_| Some("C.UTF-8".to_owned())).ascii);
    }

    #[test]
    fn the_width_is_kept_sane() {
        for (columns, width) in [("120", 120), ("7", 40), ("100000", 200)] {
            assert_eq!(detect(&[("COLUMNS", columns)]).width, width);
        }
        assert!(WIDTHS.contains(&detect(&[("COLUMNS", "0")]).width));
        assert!(WIDTHS.contains(&detect(&[("COLUMNS", "wide")]).width));
    }

    #[test]
    fn every_mark_is_ascii_where_it_must_be() {
        assert!(format!("{ASCII:?}").is_ascii());
    }

    #[test]
    fn a_file_cannot_send_escape_sequences() {
        let screen = Screen { width: 80, ascii: false, verbose: false };
        assert_eq!(screen.wrap("a\u{1b}[2Jb", "", ""), "a\\u{1b}[2Jb\n");
    }

    #[test]
    fn a_line_is_cut_to_the_screen() {
        let screen = Screen { width: 40, ascii: false, verbose: false };
        assert_eq!(screen.cut("a\nb\u{1b}"), "a\\nb\\u{1b}\n");
        assert_eq!(screen.cut(&"x".repeat(40)), "x".repeat(40) + "\n");
        assert_eq!(screen.cut(&"x".repeat(41)), "x".repeat(39) + "…\n");
        assert_eq!(Screen { ascii: true, ..screen }.cut(&"x".repeat(41)), "x".repeat(37) + "...\n");
        // Letters that take two columns.
        assert_eq!(screen.cut(&"語".repeat(21)), "語".repeat(19) + "…\n");
    }

    #[test]
    fn a_label_takes_no_part_in_the_width() {
        let screen = Screen { width: 40, ascii: false, verbose: false };
        let text = screen.labelled("label", BAD, &"word ".repeat(12));
        let plain = anstream::adapter::strip_str(&text).to_string();
        assert!(plain.lines().all(|line| line.len() <= 40), "{plain}");
        assert_eq!(plain.lines().count(), 2, "{plain}");
    }
}
