//! The requests as a table: every one that was lost, and of many others a part.

use std::{collections::BTreeSet, fmt::Write as _};

use super::escaped;
use crate::check::{
    fate::{Connection, Phase},
    record::Request,
    settings::{self, Settings},
    verdict::Counts,
};

/// How many requests are listed that were lost, and how many others.
const LOST: usize = 1_000;
const OTHERS: usize = 300;

/// The class of what a request counts as, in markup.
pub(super) fn class(counts: Counts) -> &'static str {
    match counts {
        Counts::Served => "served",
        Counts::AsBefore => "as-before",
        Counts::TurnedAway => "refused",
        Counts::NotTakenIn => "not-taken",
        Counts::Lost => "lost",
    }
}

/// Those that are shown of many: the first `lost` that were lost, and of the others `others` evenly over all, in order.
pub(super) fn chosen<'a>(requests: &[(Counts, &'a Request)], lost: usize, others: usize) -> Vec<(Counts, &'a Request)> {
    let is_lost = |(counts, _): &&(Counts, &Request)| *counts == Counts::Lost;
    let all = requests.iter().filter(|request| !is_lost(request)).count();
    let places: BTreeSet<usize> =
        if all <= others { (0..all).collect() } else { (0..others).map(|number| number * all / others).collect() };
    let (mut lost_before, mut others_before) = (0, 0);
    let keep = |request: &&(Counts, &Request)| {
        let before = if is_lost(request) { &mut lost_before } else { &mut others_before };
        let place = *before;
        *before += 1;
        if is_lost(request) { place < lost } else { places.contains(&place) }
    };
    requests.iter().filter(keep).copied().collect()
}

/// `all 3`, or `300 of 10000`.
pub(super) fn number_of(shown: usize, all: usize) -> String {
    match all {
        0 => "none".to_owned(),
        all if all == shown => format!("all {all}"),
        all => format!("{shown} of {all}"),
    }
}

/// The table, with what chooses among its rows.
pub(super) fn table(html: &mut String, settings: &Settings, requests: &[(Counts, &Request)], seat: &str) {
    let shown = chosen(requests, LOST, OTHERS);
    let lost = |requests: &[(Counts, &Request)]| requests.iter().filter(|(counts, _)| *counts == Counts::Lost).count();
    let (lost_shown, lost_all) = (lost(&shown), lost(requests));
    let (others_shown, others_all) = (shown.len() - lost_shown, requests.len() - lost_all);
    html.push_str("<h3>Each request</h3>\n<div class=\"filter\">\n");
    for (index, (name, title)) in [
        ("all", "all"),
        ("lost", "lost"),
        ("refused", "refused"),
        ("in-flight", "in flight"),
        ("after", "after the signal"),
    ]
    .into_iter()
    .enumerate()
    {
        let checked = if index == 0 { " checked=\"checked\"" } else { "" };
        let _ = writeln!(
            html,
            "<input type=\"radio\" name=\"{seat}-filter\" id=\"{seat}-{name}\" class=\"only-{name}\"{checked}/><label \
             for=\"{seat}-{name}\">{title}</label>"
        );
    }
    let _ = writeln!(
        html,
        "<table class=\"ledger\">\n<caption>Lost: {}. Others: {}{}. Times count from the signal.</caption>\n\
         <thead><tr><th scope=\"col\">#</th><th scope=\"col\">What became of it</th><th scope=\"col\">Status</th><th \
         scope=\"col\">Sent</th><th scope=\"col\">Took</th><th scope=\"col\">When</th><th scope=\"col\">Connection</th><th \
         scope=\"col\">Request</th></tr></thead>\n<tbody>",
        number_of(lost_shown, lost_all),
        number_of(others_shown, others_all),
        if others_shown < others_all { ", taken evenly" } else { "" }
    );
    for (counts, request) in &shown {
        row(html, settings, *counts, request);
    }
    html.push_str("</tbody>\n</table>\n</div>\n");
}

fn row(html: &mut String, settings: &Settings, counts: Counts, request: &Request) {
    let _ = writeln!(
        html,
        "<tr class=\"{} {}\"><th scope=\"row\">{}</th><td class=\"fate\">{}</td><td class=\"status\">{}</td><td \
         class=\"sent\">{}</td><td class=\"took\">{}</td><td>{}</td><td>{}</td><td><code>{}</code></td></tr>",
        class(counts),
        request.phase.name(),
        request.number,
        outcome(counts, request),
        request.status.map_or(String::new(), |status| status.to_string()),
        relative(request.sent_us),
        settings::time(request.took_us),
        match request.phase {
            Phase::Before => "before",
            Phase::Across => "in flight",
            Phase::After => "after",
        },
        connection(request.connection),
        escaped(&asked(settings, request)),
    );
}

/// What became of a request, in words.
pub(super) fn outcome(counts: Counts, request: &Request) -> String {
    let fate = request.fate.title();
    match counts {
        Counts::Lost => format!("lost: {fate}"),
        Counts::AsBefore => format!("{fate}, as before the signal"),
        Counts::NotTakenIn => "not taken in: the queue was full".to_owned(),
        Counts::Served | Counts::TurnedAway => fate.to_owned(),
    }
}

/// `new` or `reused`.
pub(super) fn connection(connection: Connection) -> &'static str {
    match connection {
        Connection::New => "new",
        Connection::Reused => "reused",
    }
}

/// What was asked: `GET /`.
pub(super) fn asked(settings: &Settings, request: &Request) -> String {
    let template = settings.requests.iter().chain(&settings.slow_requests).nth(request.template);
    template.map_or(String::new(), |template| format!("{} {}", template.method, template.path))
}

/// A moment with its sign: `+1.234 s`.
pub(super) fn relative(at_us: i64) -> String {
    format!("{:+.3} s", at_us as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::check::{fate::Fate, record::Observed};

    proptest! {
        #[test]
        fn what_is_chosen_is_bounded_and_in_order(all in prop::collection::vec(prop::bool::ANY, 0..80), lost in 0usize..20, others in 0usize..20) {
            let observed = all.iter().fold(Observed::default(), |observed, _| observed.request(0, 1, Fate::Completed, None));
            let requests: Vec<(Counts, &Request)> = all
                .iter()
                .zip(&observed.requests)
                .map(|(&is_lost, request)| (if is_lost { Counts::Lost } else { Counts::Served }, request))
                .collect();
            let number = |requests: &[(Counts, &Request)], wanted: Counts| requests.iter().filter(|(counts, _)| *counts == wanted).count();
            let shown = chosen(&requests, lost, others);
            prop_assert_eq!(number(&shown, Counts::Lost), number(&requests, Counts::Lost).min(lost));
            prop_assert_eq!(number(&shown, Counts::Served), number(&requests, Counts::Served).min(others));
            prop_assert!(shown.windows(2).all(|two| two[0].1.number < two[1].1.number));
        }
    }
}
