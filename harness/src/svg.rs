//! What every SVG that is written here needs: text that is escaped, and cut where there is no room.

use std::fmt::Write;

/// A line of text: `anchor` is `start`, `middle` or `end`, which then is at that place.
pub(crate) fn label(svg: &mut String, class: &str, (x, y): (f64, f64), anchor: &str, text: &str) {
    let text = escaped(text);
    let _ = writeln!(svg, "<text class=\"{class}\" x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>");
}

/// `text` as XML character data or an attribute's value; control characters, which XML can't hold, are left out.
pub(crate) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c if c.is_control() || matches!(c, '\u{fffe}' | '\u{ffff}') => {}
            c => escaped.push(c),
        }
    }
    escaped
}

/// `text`, or its beginning where it is longer than `most` characters.
pub(crate) fn clipped(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    text.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_becomes_markup() {
        assert_eq!(escaped("<a href='x'>&\"\u{1b}\u{ffff}"), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;");
        let mut svg = String::new();
        label(&mut svg, "quiet", (1.0, 2.25), "start", "a<b");
        assert_eq!(svg, "<text class=\"quiet\" x=\"1.0\" y=\"2.2\" text-anchor=\"start\">a&lt;b</text>\n");
        assert_eq!((clipped("abcd", 4), clipped("abcde", 4)), ("abcd".to_owned(), "abc…".to_owned()));
    }
}
