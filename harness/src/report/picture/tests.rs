//! Whatever is drawn is within the picture, and no text stands on another.

use proptest::prelude::*;
use scenarios::{Host, ShellBehaviour, catalogue, expect, random};

use super::{drawing::MARK, layout::width_of, *};
use crate::report::samples;

const HOST: Host = Host { shell: ShellBehaviour::Stays, custom: None };

/// Left, top, right, bottom.
type Area = (f64, f64, f64, f64);

/// Where a text is, generously.
fn area(label: &Label) -> Area {
    let bold = if matches!(label.class, "title" | "strong") { 1.1 } else { 1.0 };
    let width = width_of(&label.text) * bold * if label.class == "title" { 1.3 } else { 1.0 };
    let (x, y) = label.at;
    let left = match label.anchor {
        Anchor::Start => x,
        Anchor::Middle => x - width / 2.0,
        Anchor::End => x - width,
    };
    (left, y - 9.0, left + width, y + 2.0)
}

fn check(name: &str, drawing: &Drawing) {
    let (width, height) = drawing.size;
    let inside = |(left, top, right, bottom): Area| left >= 0.0 && top >= 0.0 && right <= width && bottom <= height;
    for shape in &drawing.shapes {
        let area = match shape.form {
            Form::Bar(x, y, width, height) => {
                assert!(width >= 0.0 && height >= 0.0, "{name}: {shape:?}");
                (x, y, x + width, y + height)
            }
            Form::Mark(x, y) => (x - MARK, y - MARK, x + MARK, y + MARK),
        };
        assert!(inside(area), "{name}: {shape:?} is not within {:?}", drawing.size);
    }
    let areas: Vec<(Area, &Label)> =
        drawing.labels.iter().filter(|label| !label.text.is_empty()).map(|label| (area(label), label)).collect();
    for (index, (one, label)) in areas.iter().enumerate() {
        assert!(inside(*one), "{name}: {label:?} is not within {:?}", drawing.size);
        for (other, beside) in &areas[index + 1..] {
            let apart = one.2 <= other.0 || other.2 <= one.0 || one.3 <= other.1 || other.3 <= one.1;
            assert!(apart, "{name}: {label:?} stands on {beside:?}");
        }
    }
}

fn drawn(scenario: &Scenario) -> Drawing {
    let expected = expect(scenario, &HOST);
    let view = View::new(scenario, &expected.events);
    let facts = [("gate", scenario.why.clone().unwrap_or_default()), ("verdict", "word ".repeat(120))];
    let words = Words { facts: facts.map(|(name, text)| (name.to_owned(), text)).into() };
    let panel = |heading| Panel { heading, view: &view, different: &expected.events };
    layout(scenario, &[panel("expected"), panel("observed")], &words)
}

#[test]
fn every_scenario_of_the_catalogue_fits_its_picture() {
    for scenario in catalogue::all() {
        check(&scenario.name, &drawn(scenario));
    }
}

/// The check above can fail.
#[test]
fn what_does_not_fit_is_noticed() {
    let fits = drawn(catalogue::get("ignored-signal").unwrap());
    let broken: [fn(&mut Drawing); 3] = [
        |drawing| drawing.size.1 -= 20.0,
        |drawing| drawing.labels.push(drawing.labels[3].clone()),
        |drawing| drawing.shapes[9].form = Form::Bar(900.0, 10.0, 100.0, 1.0),
    ];
    for change in broken {
        let mut drawing = fits.clone();
        change(&mut drawing);
        assert!(std::panic::catch_unwind(|| check("broken", &drawing)).is_err());
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn generated_scenarios_fit_their_pictures(seed in any::<u64>()) {
        let scenario = random::scenario(seed, 0);
        check(&scenario.name, &drawn(&scenario));
    }
}

#[test]
fn pictures_of_runs() {
    for (name, record) in [("matched", samples::matched()), ("diverged", samples::diverged())] {
        let svg = of_run(&record);
        insta::assert_snapshot!(format!("run-{name}"), svg);
        assert!(!svg.contains("at_us") && svg.len() < 60_000, "{}", svg.len());
    }
}

#[test]
fn a_picture_is_well_formed_whatever_the_texts_hold() {
    let mut record = samples::matched();
    record.scenario.title = "<script>alert(\"1\")</script> & \u{1b}[31m ' ".to_owned();
    record.reasons.push("]]> <!-- &amp; \u{0}".to_owned());
    let svg = of_run(&record);
    assert!(!svg.contains("<script") && !svg.contains('\u{1b}'));
    let mut reader = quick_xml::Reader::from_str(&svg);
    let mut texts = String::new();
    loop {
        match reader.read_event().unwrap() {
            quick_xml::events::Event::Eof => break,
            quick_xml::events::Event::Text(text) => texts.push_str(&format!("{text:?}")),
            _ => {}
        }
    }
    assert!(texts.contains("script"), "the text is there");
}

#[test]
fn a_run_that_was_never_made_has_a_picture_too() {
    let record = Record { attempts: Vec::new(), verdict: Verdict::Inconclusive, ..samples::matched() };
    assert!(of_run(&record).contains("INCONCLUSIVE"));
}

/// Of very many results the sums are left out, and nothing of them stays.
#[test]
fn very_many_sums_are_no_words() {
    let mut scenario = catalogue::get("ignored-signal").unwrap().clone();
    scenario.request_interval_s = scenarios::Span(1);
    scenario.invocation_s = scenarios::Span::seconds(1);
    scenario.slots_per_worker = 64;
    let expected = expect(&scenario, &HOST);
    assert!(expected.outcome.sums.0.len() > 200, "{}", expected.outcome.sums.0.len());
    let outcome = expected.outcome.clone();
    let record = Record { scenario, expected, ..samples::matched() };
    let words = words(&record, Some(&outcome));
    let names: Vec<&str> = words.facts.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["requests", "killed", "workers", "gate", "verdict"]);
}
