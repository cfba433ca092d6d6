//! What was asked for, and where the facts about the platform are from.

use std::fmt::Write as _;

use super::escaped;
use crate::check::{
    profiles::{Basis, Profile},
    settings::{self, Ready, Settings, SignalAt},
    template::Template,
};

/// The section at the end of the page. Of variables only the names are told: their values may be secrets.
pub(super) fn section(html: &mut String, settings: &Settings) {
    html.push_str("<section aria-labelledby=\"asked\">\n<h2 id=\"asked\">What was asked for</h2>\n<dl>\n");
    let mut row = |what: &str, value: &str| {
        let _ = writeln!(html, "<dt>{what}</dt><dd>{}</dd>", escaped(value));
    };
    let ms = |ms: u64| settings::time(ms * 1000);
    let when = match settings.signal_at {
        SignalAt::AfterReady(after_ms) => format!("{} after it is ready", ms(after_ms)),
        SignalAt::AfterStart(after_ms) => format!("{} after its start", ms(after_ms)),
    };
    row("Signal", &format!("{} to {}, {when}", settings.signal, settings.to.name()));
    if settings.pre_stop_ms > 0 {
        row("preStop hook", &ms(settings.pre_stop_ms));
    }
    if let Some(second) = settings.second_signal {
        row("Second signal", &format!("{}, {} after the first", second.signal, ms(second.after_ms)));
    }
    row("Grace period", &format!("{}, then SIGKILL to {}", ms(settings.grace_ms), settings.kill_to.name()));
    row("Routing lag", &ms(settings.routing_lag_ms));
    row(
        "Ready when",
        &match &settings.ready {
            Ready::Tcp => "its port takes connections".to_owned(),
            Ready::Http(path) => format!("GET {path} is answered with 200 to 399"),
            Ready::Notify => "it says READY=1".to_owned(),
        },
    );
    let list = |templates: &[Template]| {
        let names: Vec<String> =
            templates.iter().map(|template| format!("{} {}", template.method, template.path)).collect();
        names.join(", ")
    };
    row("Requests", &format!("{}, one every {}", list(&settings.requests), settings::time(settings.every_us)));
    if !settings.slow_requests.is_empty() {
        row("Slow requests", &list(&settings.slow_requests));
    }
    if !settings.env.is_empty() {
        let names: Vec<&str> = settings.env.iter().map(|(name, _)| name.as_str()).collect();
        row("Variables set", &names.join(", "));
    }
    let policy = settings.policy;
    row("Lost at most", &policy.max_lost.to_string());
    row("Refused at most", &policy.allow_refused.map_or("not judged".to_owned(), |allowed| allowed.to_string()));
    html.push_str("</dl>\n");
    if let Some(profile) = settings.profile.as_deref().and_then(Profile::from_name) {
        facts(html, profile);
    }
    html.push_str("</section>\n");
}

fn facts(html: &mut String, profile: &Profile) {
    let _ = writeln!(
        html,
        "<h3>What is documented of {}</h3>\n<p class=\"quiet\">{}. Options count for more than these.</p>\n<dl>",
        escaped(profile.name),
        escaped(profile.title)
    );
    for (option, value, basis) in profile.facts() {
        let from = match basis {
            Basis::Documented { title, section, url } => {
                format!("<a href=\"{}\" rel=\"noreferrer\">{}</a>, {}", escaped(url), escaped(title), escaped(section))
            }
            Basis::Assumed { why } => format!("assumed: {}", escaped(why)),
        };
        let _ = writeln!(html, "<dt>{}</dt><dd>{}<small>{from}</small></dd>", escaped(option), escaped(&value));
    }
    html.push_str("</dl>\n");
}
