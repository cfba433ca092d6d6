//! Tables on every screen, pictures and documents.

use scenarios::{Host, catalogue};
use serde_json::Value;

use super::*;

const HOST: Host = Host { shell: ShellBehaviour::Stays, custom: None };

fn grid(name: &str, specs: &[&str]) -> (Grid, Vec<Cell>) {
    let specs: Vec<String> = specs.iter().map(|&spec| spec.to_owned()).collect();
    let grid = Grid::new(catalogue::get(name).unwrap(), &specs, Shell::usual(ShellBehaviour::Stays)).unwrap();
    let mut cells = Vec::new();
    grid.play(1, |_, cell| {
        cells.push(cell);
        Ok(())
    })
    .unwrap();
    (grid, cells)
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// Snapshots the text on every screen, and sees to it that no line is wider than the screen.
fn check(name: &str, text: impl Fn(Screen) -> String) {
    for (width, ascii) in [(40, true), (40, false), (80, false), (120, false)] {
        let suffix = format!("{width}{}", if ascii { "-ascii" } else { "" });
        let text = plain(&text(Screen { width, ascii, verbose: false }));
        for line in text.lines().filter(|line| !line.starts_with("stored")) {
            assert!(textwrap::core::display_width(line) <= width, "{name} at {suffix}: {line}");
        }
        assert!(!ascii || text.is_ascii(), "{name}: not ASCII");
        insta::assert_snapshot!(format!("{name}-{suffix}"), text);
    }
}

fn table(screen: Screen, (grid, cells): &(Grid, Vec<Cell>)) -> String {
    let mut counts = table::Counts::default();
    cells.iter().for_each(|cell| counts.add(cell));
    table::text(screen, grid.axes(), cells) + &table::summary(screen, &counts)
}

#[test]
fn one_field() {
    let grace = grid("handler-grace-20-allowance-65", &["grace_period_s=16..20"]);
    check("one-field", |screen| table(screen, &grace));
}

#[test]
fn two_fields() {
    let both = grid("handler-grace-20-allowance-65", &["grace_period_s=0..20/2", "invocation_s=1,10,20,30,45"]);
    check("two-fields", |screen| table(screen, &both));
}

#[test]
fn fields_with_long_values() {
    let command = "entrypoint=exec,script_trap,[\"/usr/local/bin/some-init\",\"--quiet\",\"--\",\"{worker}\"]";
    let specs = ["expected_effect=drained", command];
    let scenario = catalogue::get("env-wrapper").unwrap();
    let base = Scenario { expected_effect: None, ..scenario.clone() };
    let specs = specs.map(str::to_owned);
    assert!(Grid::new(&base, &specs, Shell::usual(ShellBehaviour::Stays)).is_err(), "an effect beside a named form");
    let specs = ["on_sigterm=drain,ignore".to_owned(), command.to_owned()];
    let grid = Grid::new(&base, &specs, Shell::usual(ShellBehaviour::Stays)).unwrap();
    let mut cells = Vec::new();
    grid.play(1, |_, cell| {
        cells.push(cell);
        Ok(())
    })
    .unwrap();
    check("long-values", |screen| table(screen, &(grid.clone(), cells.clone())));
    let svg = svg::picture(&base, grid.axes(), &cells);
    assert_well_formed(&svg);
    assert!(svg.contains("&quot;--quiet&quot;"), "{svg}");
}

/// Every colour stands beside a mark or a number that says the same.
#[test]
fn no_colour_stands_alone() {
    let screen = Screen { width: 120, ascii: true, verbose: false };
    for (grid, cells) in [
        grid("handler-grace-20-allowance-65", &["grace_period_s=0..20"]),
        grid("handler-grace-20-allowance-65", &["grace_period_s=0..20", "rejection_allowance_percent=0..100/25"]),
    ] {
        let text = table::text(screen, grid.axes(), &cells);
        for (style, mark) in [(crate::report::screen::GOOD, '+'), (crate::report::screen::BAD, 'X')] {
            let painted: Vec<&str> = text.split(&style.to_string()).skip(1).collect();
            assert!(!painted.is_empty());
            for cell in painted {
                assert!(cell.split('\u{1b}').next().unwrap().contains(mark), "{cell:?}");
            }
        }
    }
}

#[test]
fn answers() {
    let found = |name: &str, settings: &[&str]| {
        let scenario = catalogue::get(name).unwrap().with_settings(settings.iter().copied()).unwrap();
        let answer = find::find(&scenario, &HOST);
        move |screen: Screen| words::answer(screen, &scenario, &answer)
    };
    check("found", found("handler-grace-10", &[]));
    check("found-none", found("ignored-signal", &[]));
    check("found-luck", found("ignored-signal", &["request_interval_s=4", "invocation_s=2"]));
    check("found-nothing-to-lose", found("handler-grace-10", &["signal_at_s=4"]));
}

#[test]
fn confirmations() {
    let one = |verdict, killed: Option<&[u16]>, reasons: &[&str]| Confirmed {
        grace_period_s: scenarios::Span(189),
        verdict,
        killed: killed.map(|killed| killed.iter().copied().map(scenarios::RequestId).collect()),
        running: killed.map(|_| Vec::new()),
        reasons: reasons.iter().map(|&reason| reason.to_owned()).collect(),
        wall_ms: 41,
        run: PathBuf::from("runs/20260102-030405-handler-grace-10"),
    };
    use crate::record::Verdict::{Diverged, Inconclusive, Matched};
    check("confirmed", |screen| {
        [
            one(Matched, Some(&[15]), &[]),
            one(Diverged, Some(&[]), &["request-15 was committed at 49.0 s, where it was to be killed."]),
            one(Inconclusive, None, &["The scenario needs a PID namespace, and none can be made here."]),
        ]
        .iter()
        .map(|confirmed| words::confirmed(screen, confirmed))
        .collect()
    });
}

/// As far as it matters here: one root, every element closed in order, every attribute quoted, no bare `<` or `&`.
fn assert_well_formed(svg: &str) {
    let mut open: Vec<&str> = Vec::new();
    let mut rest = svg;
    let mut roots = 0;
    while let Some(start) = rest.find('<') {
        assert_text(&rest[..start]);
        let end = start + rest[start..].find('>').expect("a tag ends");
        let tag = &rest[start + 1..end];
        rest = &rest[end + 1..];
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
            continue;
        }
        let (tag, empty) = tag.strip_suffix('/').map_or((tag, false), |tag| (tag, true));
        let name = tag.split_whitespace().next().unwrap();
        let attributes: Vec<&str> = tag.split('"').collect();
        assert_eq!(attributes.len() % 2, 1, "{tag}");
        for pair in attributes.chunks_exact(2) {
            assert!(pair[0].ends_with('='), "{tag}");
            assert_text(pair[1]);
        }
        roots += usize::from(open.is_empty());
        if !empty {
            open.push(name);
        }
    }
    assert!(open.is_empty() && rest.trim().is_empty() && roots == 1, "{open:?} {rest:?}");
}

fn assert_text(text: &str) {
    for entity in text.split('&').skip(1) {
        let name = entity.split(';').next().unwrap();
        assert!(["amp", "lt", "gt", "quot", "#39"].contains(&name), "{text}");
    }
    assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
}

#[test]
fn a_picture_is_well_formed_whatever_stands_in_it() {
    let hostile = Scenario { title: "</title><script>alert('a & b')</script>\"".to_owned(), ..Scenario::new("a", "A") };
    for specs in [
        &["grace_period_s=0..20"][..],
        &["grace_period_s=0..20", "invocation_s=1..30"],
        &["grace_period_s=0..20/0.1", "invocation_s=0.1..30/0.1"],
        &["on_sigterm=drain", "pid_namespace=true"],
    ] {
        let (grid, cells) = grid("handler-grace-10", specs);
        let svg = svg::picture(&hostile, grid.axes(), &cells);
        assert_well_formed(&svg);
        assert!(svg.contains("&lt;script&gt;") && !svg.contains("<script"), "escaped");
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{specs:?}");
    }
    // The checker can fail.
    for bad in ["<svg><a></svg>", "<svg>&nbsp;</svg>", "<svg a=b\"/>", "<svg/><svg/>", "<svg><a>"] {
        assert!(std::panic::catch_unwind(|| assert_well_formed(bad)).is_err(), "{bad}");
    }
}

#[test]
fn a_picture_shows_every_count_and_a_fine_one_stays_small() {
    let (grid_, cells) = grid("handler-grace-10", &["grace_period_s=17..19", "invocation_s=10,20"]);
    let svg = svg::picture(grid_.base(), grid_.axes(), &cells);
    assert_eq!(svg.matches("<title>grace_period_s").count(), 2 * 6);
    assert!(svg.contains("<title>grace_period_s 18, invocation_s 20: 1 killed, 0 still running, gate fail</title>"));
    assert!(svg.contains("<title>grace_period_s 19, invocation_s 20: 13 rejected, gate fail</title>"));
    assert!(svg.contains("prefers-color-scheme:dark") && svg.contains("role=\"img\""));
    let (fine, cells) = grid("handler-grace-10", &["grace_period_s=0..20/0.1", "invocation_s=0.1..30/0.1"]);
    let svg = svg::picture(fine.base(), fine.axes(), &cells);
    assert!(cells.len() == 60_300 && svg.len() < 1 << 20, "{} bytes", svg.len());
}

fn written(write: impl FnOnce(Sink)) -> String {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("file");
    write(Sink::open(&path).unwrap());
    std::fs::read_to_string(path).unwrap()
}

#[test]
fn rows_for_programs() {
    let (grid, cells) = grid("handler-grace-10", &["grace_period_s=18,19", "entrypoint=exec,[\"env\",\"{worker}\"]"]);
    let base = Scenario { expected_effect: None, ..grid.base().clone() };
    assert_eq!(base, *grid.base());
    let csv = written(|sink| {
        let mut csv = Csv::begin(sink, &grid).unwrap();
        for (index, cell) in cells.iter().enumerate() {
            csv.row(grid.axes(), &grid.place(index), *cell).unwrap();
        }
        csv.end().unwrap();
    });
    assert_eq!(
        csv,
        "grace_period_s,entrypoint,arrivals,admitted,rejected,rejected_percent,completed,killed,running,gate\n\
         18,exec,20,7,13,65.0,6,1,0,fail\n\
         18,\"[\"\"env\"\",\"\"{worker}\"\"]\",20,7,13,65.0,6,1,0,fail\n\
         19,exec,20,7,13,65.0,7,0,0,fail\n\
         19,\"[\"\"env\"\",\"\"{worker}\"\"]\",20,7,13,65.0,7,0,0,fail\n"
    );
    let answer = find::find(grid.base(), &HOST);
    let json = written(|sink| {
        let mut json = Json::begin(sink, &grid).unwrap();
        for (index, cell) in cells.iter().enumerate() {
            json.row(&grid, &grid.place(index), *cell).unwrap();
        }
        json.end(Some((&answer, &[]))).unwrap();
    });
    assert!(json.ends_with('\n') && json.lines().count() == 1);
    let document: Value = serde_json::from_str(&json).unwrap();
    let keys: Vec<&str> = document.as_object().unwrap().keys().map(String::as_str).collect();
    assert_eq!(keys, ["axes", "find", "points", "scenario"]);
    assert_eq!(
        document["axes"][0],
        serde_json::json!({"field": "grace_period_s", "unit": "s", "values": [18.0, 19.0]})
    );
    assert_eq!(document["points"].as_array().unwrap().len(), 4);
    assert_eq!(
        document["points"][1],
        serde_json::json!({"grace_period_s": 18.0, "entrypoint": ["env", "{worker}"], "arrivals": 20, "admitted": 7,
            "rejected": 13, "rejected_percent": 65.0, "completed": 6, "killed": 1, "running": 0, "gate": "fail"})
    );
    assert_eq!(document["find"]["grace_period_s"], 19.0);
    assert_eq!(document["find"]["otherwise"]["killed"], serde_json::json!(["request-15"]));
    assert_eq!(document["find"]["confirmed"], serde_json::json!([]));
}
