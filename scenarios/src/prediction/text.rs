//! Shell text, read as far as it matters for a signal: which command is the worker, and what comes before and after.

/// What separates a command from the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Separator {
    /// `;`, a line's end or the text's end.
    Next,
    /// `&&`
    And,
    /// `||`
    Or,
    /// `|`
    Pipe,
    /// `&`
    Background,
}

/// A simple command and what follows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Command {
    pub(super) words: Vec<String>,
    pub(super) then: Separator,
}

/// Splits a text into its simple commands. Keywords of compound commands come out as words, which is as much of them
/// as is needed.
pub(super) fn commands(text: &str) -> Vec<Command> {
    let mut commands = Vec::new();
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = text.chars().peekable();
    while let Some(character) = characters.next() {
        let mut end = None;
        match character {
            '\'' | '"' => {
                let open = word.get_or_insert_default();
                while let Some(quoted) = characters.next().filter(|&quoted| quoted != character) {
                    let escaped = if quoted == '\\' && character == '"' { characters.next() } else { None };
                    open.push(escaped.unwrap_or(quoted));
                }
            }
            '\\' => word.get_or_insert_default().extend(characters.next()),
            '#' if word.is_none() => while characters.next_if(|&other| other != '\n').is_some() {},
            // Of a redirection, as in 2>&1.
            '&' if word.as_ref().is_some_and(|word| word.ends_with(['>', '<'])) => {
                word.get_or_insert_default().push('&');
            }
            ';' | '\n' => end = Some(Separator::Next),
            '&' if characters.next_if_eq(&'&').is_some() => end = Some(Separator::And),
            '&' => end = Some(Separator::Background),
            '|' if characters.next_if_eq(&'|').is_some() => end = Some(Separator::Or),
            '|' => end = Some(Separator::Pipe),
            blank if blank.is_whitespace() => words.extend(word.take()),
            other => word.get_or_insert_default().push(other),
        }
        if let Some(then) = end {
            words.extend(word.take());
            // An empty line is no command.
            if !words.is_empty() {
                commands.push(Command { words: std::mem::take(&mut words), then });
            }
        }
    }
    words.extend(word);
    if !words.is_empty() {
        commands.push(Command { words, then: Separator::Next });
    }
    commands
}

/// Whether these are simple commands alone, none of a compound command, and none that changes what follows in the shell.
pub(super) fn is_simple(commands: &[Command]) -> bool {
    const OTHERS: [&str; 20] = [
        "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac", "function",
        "select", "time", "trap", "set", "{", "}", "!",
    ];
    commands.iter().all(|command| {
        command.then != Separator::Background
            && !OTHERS.contains(&command.words[0].as_str())
            && !command.words.iter().any(|word| word.contains(['(', ')', '`']) || word.contains("<<"))
    })
}

#[cfg(test)]
mod tests {
    use super::{Separator::*, *};

    /// Words joined by a bar, each command with what follows it.
    fn split(text: &str) -> Vec<(String, Separator)> {
        commands(text).into_iter().map(|command| (command.words.join("|"), command.then)).collect()
    }

    #[test]
    fn a_text_is_split_where_a_shell_would_split_it() {
        let rows: [(&str, &[(&str, Separator)]); 7] = [
            ("{worker} ", &[("{worker}", Next)]),
            ("a && b c", &[("a", And), ("b|c", Next)]),
            ("a | b & wait", &[("a", Pipe), ("b", Background), ("wait", Next)]),
            ("trap 'kill -TERM \"$w\"; x' TERM\n\na", &[("trap|kill -TERM \"$w\"; x|TERM", Next), ("a", Next)]),
            ("a 2>&1 >x # & b\nc", &[("a|2>&1|>x", Next), ("c", Next)]),
            (r#"a "b \" c" d\;e ''"#, &[("a|b \" c|d;e|", Next)]),
            ("a || b", &[("a", Or), ("b", Next)]),
        ];
        for (text, expected) in rows {
            let expected: Vec<(String, Separator)> =
                expected.iter().map(|(w, then)| ((*w).to_owned(), *then)).collect();
            assert_eq!(split(text), expected, "{text:?}");
        }
    }
}
