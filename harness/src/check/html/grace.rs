//! One seat of a search for the shortest grace period.

use std::fmt::Write as _;

use super::{badge, escaped};
use crate::check::{find_grace::Found, settings};

/// What was found, and each drill that was made for it.
pub(super) fn section(html: &mut String, found: &Found) {
    let seat = found.seat;
    let _ = writeln!(
        html,
        "<section aria-labelledby=\"{name}\">\n<h2 id=\"{name}\">{} as {}</h2>\n<p>{}</p>",
        badge(found.verdict),
        seat.title(),
        escaped(&found.text),
        name = seat.name(),
    );
    if let Some(change) = &found.change {
        let _ = writeln!(html, "<p class=\"change\"><strong>What to change:</strong> {}</p>", escaped(change));
    }
    html.push_str(
        "<h3>What was tried</h3>\n<table class=\"numbers\">\n<thead><tr><th scope=\"col\">Grace period</th><th \
         scope=\"col\">Lost</th><th scope=\"col\">Ended</th><th scope=\"col\">Verdict</th></tr></thead>\n<tbody>\n",
    );
    for trial in &found.trials {
        let ended = match (trial.sigkill, trial.gone_ms) {
            (true, _) => "by SIGKILL".to_owned(),
            (false, Some(gone_ms)) => format!("after {}", settings::time(gone_ms * 1000)),
            (false, None) => "no drill".to_owned(),
        };
        let _ = writeln!(
            html,
            "<tr><th scope=\"row\">{}</th><td>{}</td><td>{ended}</td><td>{}</td></tr>",
            settings::time(trial.grace_ms * 1000),
            trial.lost,
            badge(trial.verdict)
        );
    }
    html.push_str("</tbody>\n</table>\n</section>\n");
}
