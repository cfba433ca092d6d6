use std::collections::BTreeSet;

use quick_xml::{Reader, events::Event};

use super::{APP, KILLED, OK, SH, TERMED, report::record, row};
use crate::{
    check::{
        fate::{Connection, Fate},
        find_grace::{Answer, Found, Trial},
        html,
        record::{Cause, Observed, Record, Verdict},
        samples::{drill, settings},
        settings::{Seat, Settings},
    },
    evidence::Disposition::{Caught, Default},
    report::file::hash,
};

/// What is in a page: its elements with their attributes, and its text.
struct Page {
    whole: String,
    elements: Vec<(String, Vec<(String, String)>)>,
    text: String,
}

impl Page {
    /// Every element that begins has to end, where it began.
    fn read(bytes: Vec<u8>) -> Page {
        let whole = String::from_utf8(bytes).unwrap();
        let mut reader = Reader::from_str(&whole);
        let (mut elements, mut text) = (Vec::new(), String::new());
        loop {
            match reader.read_event().unwrap_or_else(|error| panic!("{error} at {}", reader.buffer_position())) {
                Event::Start(element) | Event::Empty(element) => {
                    let attributes = element.attributes().map(|attribute| {
                        let attribute = attribute.unwrap();
                        let value = attribute.value.clone().into_owned();
                        (attribute.key.as_ref().to_owned(), value)
                    });
                    elements.push((element.name().as_ref().to_owned(), attributes.collect()));
                }
                Event::Text(part) => text.push_str(&part),
                Event::GeneralRef(name) => text.push_str(match &*name {
                    "lt" => "<",
                    "gt" => ">",
                    "amp" => "&",
                    "quot" => "\"",
                    "#39" => "'",
                    other => panic!("&{other};"),
                }),
                Event::Eof => break,
                _ => {}
            }
        }
        Page { whole, elements, text }
    }

    fn of(record: &Record) -> Page {
        Page::read(html::of_check(record))
    }

    fn number_of(&self, name: &str, class: &str) -> usize {
        let has = |attributes: &[(String, String)]| {
            class.is_empty()
                || attributes.iter().any(|(key, value)| key == "class" && value.split(' ').any(|word| word == class))
        };
        self.elements.iter().filter(|(element, attributes)| element == name && has(attributes)).count()
    }
}

fn both(pid1: Observed, process: Observed) -> Record {
    record(settings(), vec![(Seat::Pid1, pid1), (Seat::Process, process)])
}

fn typical() -> Record {
    let shell = row(SH, Default, KILLED, Some(10_010));
    let mut pid1 = drill(true, &[shell, row(APP, Caught, KILLED, Some(10_009))]).sigkill(10_000).closed(40).served(20);
    pid1 = pid1.request(-100, 10_010, Fate::Reset, None).request(9_900, 10_010, Fate::Truncated, None);
    pid1 = pid1.request(100, 105, Fate::Completed, Some(200)).request(200, 201, Fate::Refused, None);
    pid1.requests[22].connection = Connection::Reused;
    pid1.output = "up\n".to_owned();
    pid1.output_bytes = 3;
    let process = drill(false, &[row(SH, Default, TERMED, Some(1)), row(APP, Caught, KILLED, None)]).served(20);
    both(pid1, process)
}

#[test]
fn a_page_is_whole_and_loads_nothing() {
    for record in [typical(), both(Observed::default(), drill(true, &[row(APP, Caught, OK, Some(5))]))] {
        let page = Page::of(&record);
        let forbidden =
            ["script", "img", "iframe", "link", "object", "embed", "form", "base", "video", "audio", "foreignObject"];
        for (element, attributes) in &page.elements {
            assert!(!forbidden.contains(&element.as_str()), "{element}");
            for (name, value) in attributes {
                assert!(!name.starts_with("on") && name != "src" && name != "style", "{element} {name}={value}");
                assert!(name != "href" || element == "a" && value.starts_with("https://"), "{element} {name}={value}");
            }
        }
        let style = page.whole.split("<style>").nth(1).unwrap().split("</style>").next().unwrap();
        assert!(!style.contains("@import") && !style.contains("url("));
        assert!(page.whole.contains(&format!("default-src 'none'; style-src {};", hash(style))));
        let values = |wanted: &[&str]| -> Vec<String> {
            let all = page.elements.iter().flat_map(|(_, attributes)| attributes);
            all.filter(|(name, _)| wanted.contains(&name.as_str())).map(|(_, value)| value.clone()).collect()
        };
        let ids = values(&["id"]);
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len(), "{ids:?}");
        for id in values(&["for", "aria-labelledby"]) {
            assert!(ids.contains(&id), "{id}");
        }
    }
}

#[test]
fn a_page_tells_all_of_a_check() {
    let record = typical();
    let page = Page::of(&record);
    for seat in &record.seats {
        assert!(page.text.contains(&format!(" as {}", seat.seat.title())));
        assert!(page.text.contains(&seat.judgement.reasons.join(" ")));
        let change = seat.explanation.change.as_ref().unwrap();
        for text in [&seat.explanation.text, change] {
            assert!(page.text.contains(text), "{text}: {}", page.text);
        }
    }
    // In the picture and in the words below it.
    for happened in
        ["SIGTERM at 0", "SIGKILL at +10.000 s", "port closed at +0.040 s", "app gone at +10.009 s", "top gone at"]
    {
        assert!(page.text.matches(happened).count() >= 2, "{happened}");
    }
    assert!(page.text.contains("grace period of 10 s") && page.text.contains("The grace period is from"));
    assert!(page.text.contains("on a connection that was used before"));
    assert!(page.text.contains("50 (median)") && page.text.contains("What it wrote") && page.text.contains("up"));
    let requests: usize = record.seats.iter().map(|seat| seat.observed.requests.len()).sum();
    assert_eq!(
        page.number_of("tr", "before") + page.number_of("tr", "across") + page.number_of("tr", "after"),
        requests
    );
    assert_eq!(page.number_of("tr", "lost"), 2);
    assert_eq!((page.number_of("rect", "lost"), page.number_of("path", "cross")), (2, 2));
    assert_eq!(page.number_of("rect", "served") + page.number_of("rect", "refused") + 2, requests);
    assert_eq!(page.number_of("input", "only-lost"), 2);
}

#[test]
fn a_page_tells_where_the_facts_of_a_platform_are_from_and_no_value_of_a_variable() {
    let mut record = typical();
    record.settings.profile = Some("kubernetes".to_owned());
    record.settings.env = vec![("TOKEN".to_owned(), "hunter2".to_owned())];
    let page = Page::of(&record);
    assert!(page.text.contains("What is documented of kubernetes") && page.text.contains("assumed: "));
    assert!(page.number_of("a", "") > 3);
    assert!(page.text.contains("TOKEN") && !page.whole.contains("hunter2"));
}

#[test]
fn nothing_that_was_given_becomes_markup() {
    let evil = "</code></pre><script>alert(1)</script><img src=x onerror='alert(2)'>\"&amp;\u{202e}\u{1b}[31m\u{0}";
    let mut record = typical();
    let settings: &mut Settings = &mut record.settings;
    settings.command = vec![evil.to_owned()];
    settings.requests[0].path = format!("/{evil}");
    settings.env = vec![(evil.to_owned(), String::new())];
    for seat in &mut record.seats {
        seat.observed.output = format!("{evil}\n{evil}");
        seat.judgement.reasons = vec![evil.to_owned()];
        seat.judgement.remarks = vec![evil.to_owned()];
        seat.explanation.text = evil.to_owned();
        seat.explanation.change = Some(evil.to_owned());
        for node in &mut seat.observed.before.as_mut().unwrap().processes {
            node.process.argv = vec![evil.to_owned()];
        }
    }
    let page = Page::of(&record);
    assert_eq!(page.number_of("script", "") + page.number_of("img", ""), 0);
    assert!(!page.whole.contains(['\u{202e}', '\u{1b}', '\u{0}']));
    assert!(page.whole.contains("&lt;script&gt;alert(1)&lt;/script&gt;"));
}

#[test]
fn ten_thousand_requests_are_no_page_that_nobody_can_open() {
    let mut observed = drill(true, &[row(APP, Caught, OK, Some(700))]).closed(10);
    for number in 0..10_000 {
        let fate = if [7, 5_000, 9_999].contains(&number) { Fate::Reset } else { Fate::Completed };
        observed = observed.request(number / 2 - 4_000, number / 2 - 3_990, fate, None);
    }
    let page = Page::of(&record(settings(), vec![(Seat::Pid1, observed)]));
    assert!(page.whole.len() < 400_000, "{} bytes", page.whole.len());
    assert_eq!((page.number_of("tr", "lost"), page.number_of("tr", "served")), (3, 300));
    assert!(page.text.contains("Lost: all 3. Others: 300 of 9997, taken evenly."));
    assert_eq!((page.number_of("rect", "lost"), page.number_of("rect", "served")), (3, 400));
    assert!(page.text.contains("Bars are requests, 403 of 10000"));
    // All of them are in the sums.
    let sum: usize = page
        .whole
        .split("<th scope=\"row\">completed</th>")
        .nth(1)
        .unwrap()
        .split("</tr>")
        .next()
        .unwrap()
        .split("<td>")
        .skip(1)
        .map(|cell| cell.split('<').next().unwrap().parse::<usize>().unwrap())
        .sum();
    assert_eq!(sum, 9_997);
}

#[test]
fn a_page_on_a_search_lists_each_try() {
    let trial = |grace_ms, verdict| Trial {
        waited_for_idle: false,
        grace_ms,
        verdict,
        lost: u64::from(verdict == Verdict::Fail),
        sigkill: verdict == Verdict::Fail,
        gone_ms: Some(650),
        cause: Cause::TooSlow,
    };
    let trials = vec![trial(10_000, Verdict::Pass), trial(600, Verdict::Fail), trial(700, Verdict::Pass)];
    let found = |seat| Found {
        seat,
        given_ms: 10_000,
        trials: trials.clone(),
        answer: Answer::Shortest { grace_ms: 700, step_ms: 100 },
        verdict: Verdict::Pass,
        text: "700 ms is enough.".to_owned(),
        change: None,
    };
    let all = [found(Seat::Pid1), found(Seat::Process)];
    let page = Page::read(html::of_find_grace(&settings(), Verdict::Pass, &all));
    assert_eq!(page.number_of("tr", ""), 2 * (1 + trials.len()));
    assert_eq!(page.text.matches("700 ms is enough.").count(), 2);
    for text in ["PASS", "FAIL", "by SIGKILL", "after 650 ms", "600 ms", "as PID 1", "as an ordinary process"] {
        assert!(page.text.contains(text), "{text}: {}", page.text);
    }
}

#[test]
fn every_label_of_the_picture_is_within_it() {
    for gone_ms in [1, 5, 90, 1_000, 10_000, 100_000, 3_600_000] {
        let observed = drill(true, &[row(APP, Caught, OK, Some(gone_ms))]).closed(gone_ms / 2).served(20);
        let page = Page::of(&record(settings(), vec![(Seat::Pid1, observed)]));
        let labels: Vec<&str> =
            page.whole.split("<text ").skip(1).map(|rest| rest.split("</text>").next().unwrap()).collect();
        assert!(labels.len() > 5);
        for label in labels {
            let value = |name: &str| label.split(&format!(" {name}=\"")).nth(1).unwrap().split('"').next().unwrap();
            // Letters of 12 units are hardly wider than 7.
            let width = 7.0 * label.split('>').nth(1).unwrap().chars().count() as f64;
            let x: f64 = value("x").parse().unwrap();
            let (from, to) = match value("text-anchor") {
                "start" => (x, x + width),
                "end" => (x - width, x),
                _ => (x - width / 2.0, x + width / 2.0),
            };
            assert!(from >= 0.0 && to <= 1_000.0, "{gone_ms}: {label}");
        }
    }
}
