//! A check as a page in one file, to be attached to a ticket: no script, nothing that is loaded, and every picture in
//! words beside it.
//!
//! The policy in its head allows the one style that is in it, by its hash, and nothing else.

mod grace;
mod ledger;
mod seat;
mod sources;
mod timeline;

use std::fmt::Write as _;

use super::{
    find_grace::Found,
    record::{Record, Verdict},
    settings::Settings,
    text,
};
use crate::{
    report::{file::hash, screen::printable},
    style, svg,
};

/// The page on a check.
#[must_use]
pub fn of_check(record: &Record) -> Vec<u8> {
    let mut body = String::new();
    for (index, seat) in record.seats.iter().enumerate() {
        seat::section(&mut body, record, seat, index);
    }
    let note = record.difference.as_deref();
    page(record.verdict, "check", &record.settings, note, &body)
}

/// The page on a search for the shortest grace period, which came to this in each seat.
#[must_use]
pub fn of_find_grace(settings: &Settings, verdict: Verdict, found: &[Found]) -> Vec<u8> {
    let mut body = String::new();
    found.iter().for_each(|found| grace::section(&mut body, found));
    page(verdict, "shortest grace period", settings, None, &body)
}

fn page(verdict: Verdict, what: &str, settings: &Settings, note: Option<&str>, body: &str) -> Vec<u8> {
    let command = escaped(&text::line(&settings.command));
    let mut html = format!(
        "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\"/>\n<meta \
         http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src {}; base-uri 'none'; form-action \
         'none'\"/>\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<meta name=\"generator\" \
         content=\"termdrill {}\"/>\n<title>{}: {what} of {command} · termdrill</title>\n<style>{}</style>\n</head>\n\
         <body>\n<main>\n<h1>{} {what} of <code>{command}</code></h1>\n",
        hash(style::CHECK),
        env!("CARGO_PKG_VERSION"),
        verdict.word(),
        style::CHECK,
        badge(verdict),
    );
    if let Some(note) = note {
        let _ = writeln!(html, "<p>{}</p>", escaped(note));
    }
    html.push_str(body);
    sources::section(&mut html, settings);
    html.push_str("</main>\n</body>\n</html>\n");
    html.into_bytes()
}

fn badge(verdict: Verdict) -> String {
    let word = verdict.word();
    format!("<span class=\"badge {}\">{word}</span>", word.to_ascii_lowercase())
}

/// Text as it stands in markup: nothing in it becomes an element, and control characters and those that turn the
/// direction of the text around are made visible.
fn escaped(text: &str) -> String {
    svg::escaped(&printable(text))
}
