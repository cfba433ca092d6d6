//! A page in one file that replays a run: the page of `termdrill serve`, with its answers in it.
//!
//! Nothing is loaded from anywhere. The policy in its head allows the one script and the one style that are in it, by
//! their hashes (Content Security Policy Level 3, section 6.7.2), and no connection at all.

use std::{fmt::Write, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde::Serialize;
use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use super::Kept;
use crate::{
    record::{Record, Verdict},
    report::{Screen, run},
    style,
    svg::escaped,
    validate::{item::Judged, report::Document},
    web,
};

const PAGE: &str = include_str!("../../../assets/index.html");
const ANSWERS: &str = include_str!("answers.js");

/// The modules of the page; each one only imports from those before it.
const MODULES: [(&str, &str); 12] = [
    ("dom", include_str!("../../../assets/dom.js")),
    ("address", include_str!("../../../assets/address.js")),
    ("player", include_str!("../../../assets/player.js")),
    ("evidence", include_str!("../../../assets/evidence.js")),
    ("experiment", include_str!("../../../assets/experiment.js")),
    ("lanes", include_str!("../../../assets/lanes.js")),
    ("growing", include_str!("../../../assets/growing.js")),
    ("panels", include_str!("../../../assets/panels.js")),
    ("runlist", include_str!("../../../assets/runlist.js")),
    ("runs", include_str!("../../../assets/runs.js")),
    ("keys", include_str!("../../../assets/keys.js")),
    ("app", include_str!("../../../assets/app.js")),
];

/// How many drills of a validation are listed one by one; of more, those that matched are only counted.
const LISTED: usize = 500;

/// A run in the report's list of runs, as the server lists stored ones.
#[derive(Debug, Serialize)]
struct Listed {
    run: String,
    state: &'static str,
}

/// The report on one run.
///
/// # Errors
/// None that these types can cause.
pub(super) fn of_run(record: &Record, stored_in: Option<&Path>) -> serde_json::Result<Vec<u8>> {
    let name = stored_in.and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
    let name = name.unwrap_or_else(|| record.scenario.name.clone());
    let screen = Screen { width: 100, ascii: false, verbose: true };
    let text = format!("{}{}", run::heading(screen, &record.scenario), run::closing(screen, record, None));
    page(&record.scenario.title, &[(name, record)], "", &text)
}

/// The report on a validation: all results as a table, and a replay of each drill that was kept.
///
/// # Errors
/// None that these types can cause.
pub(super) fn of_validation(document: &Document, kept: &[Kept]) -> serde_json::Result<Vec<u8>> {
    let name = |kept: &Kept| format!("{}-{}", kept.number + 1, kept.record.scenario.name);
    let runs: Vec<(String, &Record)> = kept.iter().map(|kept| (name(kept), &kept.record)).collect();
    let screen = Screen { width: 100, ascii: false, verbose: true };
    let summary = crate::validate::report::summary(screen, &document.summary);
    let link = |judged: &Judged| kept.iter().find(|kept| kept.number == judged.number).map(name);
    let results = results(document, &plain(&summary), link);
    if runs.is_empty() { Ok(results_alone(&results)) } else { page("Validation", &runs, &results, &summary) }
}

/// The page where no drill was kept whole: there is nothing to replay, and so no script.
fn results_alone(section: &str) -> Vec<u8> {
    let style = style::PAGE;
    let mut html = String::from("<!doctype html>\n<html lang=\"en\">\n<head>\n");
    for line in
        PAGE.lines().skip_while(|line| !line.starts_with("<meta")).take_while(|line| !line.starts_with("<title>"))
    {
        let _ = writeln!(html, "{line}");
        if line.starts_with("<meta charset") {
            let policy = format!(
                "default-src 'none'; style-src {}; img-src data:; base-uri 'none'; form-action 'none'",
                hash(style)
            );
            html.push_str(&head(&policy));
        }
    }
    let _ = write!(
        html,
        "<title>Validation · termdrill</title>\n<style>{style}</style>\n</head>\n<body>\n<header class=\"top\">\n\
         <h1>termdrill</h1>\n<p>A validation</p>\n</header>\n<main class=\"page\">\n<div class=\"watch\">\n{section}\
         <p class=\"muted\">No drill was kept whole, so none can be replayed here.</p>\n</div>\n</main>\n</body>\n</html>\n"
    );
    html.into_bytes()
}

/// What a report says in its head beside what the page does.
fn head(policy: &str) -> String {
    format!(
        "<meta http-equiv=\"Content-Security-Policy\" content=\"{policy}\">\n<meta name=\"generator\" content=\"termdrill \
         {}\">\n",
        env!("CARGO_PKG_VERSION")
    )
}

/// The results of a validation as a section of the page.
fn results(document: &Document, summary: &str, link: impl Fn(&Judged) -> Option<String>) -> String {
    let mut html = String::from(
        "<section class=\"card\" aria-labelledby=\"results-heading\">\n<h2 id=\"results-heading\">Results</h2>\n",
    );
    for line in summary.lines() {
        let _ = writeln!(html, "<p>{}</p>", escaped(line.trim()));
    }
    html.push_str(
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Results of every drill\">\n<table>\n<thead><tr><th \
         scope=\"col\">Drill</th><th scope=\"col\">Scenario</th><th scope=\"col\">Clock</th><th scope=\"col\">Verdict</th>\
         <th scope=\"col\">What differs, or why</th></tr></thead>\n<tbody>\n",
    );
    let all = document.results.len() <= LISTED;
    for judged in document.results.iter().filter(|judged| all || judged.verdict != Verdict::Matched) {
        let name = match link(judged) {
            Some(run) => format!("<a href=\"#run={}\">{}</a>", escaped(&run), escaped(&judged.name)),
            None => escaped(&judged.name),
        };
        let verdict = match judged.verdict {
            Verdict::Matched => "matched",
            Verdict::Diverged => "diverged",
            Verdict::Inconclusive => "inconclusive",
        };
        let what = judged.difference.as_ref().map(|difference| difference.what.clone());
        let what = what.unwrap_or_else(|| judged.reasons.join(" "));
        let _ = writeln!(
            html,
            "<tr><td>{}</td><th scope=\"row\">{name}</th><td>{}</td><td><span class=\"badge small\" \
             data-verdict=\"{verdict}\">{verdict}</span></td><td>{}</td></tr>",
            judged.number + 1,
            judged.clock.name(),
            escaped(&what)
        );
    }
    html.push_str("</tbody>\n</table>\n</div>\n</section>\n");
    html
}

/// The whole page. `section` is markup that stands before everything else of it, and `text` is what is read where no
/// script runs.
fn page(title: &str, runs: &[(String, &Record)], section: &str, text: &str) -> serde_json::Result<Vec<u8>> {
    let mut documents = Map::new();
    let mut listed = Vec::new();
    for (name, record) in runs {
        documents.insert(name.clone(), web::document_of(name, record)?);
        let state = match record.verdict {
            Verdict::Matched => "matched",
            Verdict::Diverged => "diverged",
            Verdict::Inconclusive => "inconclusive",
        };
        listed.push(Listed { run: name.clone(), state });
    }
    let scenarios: Vec<_> = runs.iter().map(|(_, record)| &record.scenario).collect();
    let data = json!({ "fields": web::fields_of(&scenarios)?, "runs": listed, "documents": Value::Object(documents) });
    // Within a script element only its end tag and the beginning of a comment mean anything (WHATWG HTML, 4.12.1.3).
    let data = serde_json::to_string(&data)?.replace('<', "\\u003c");
    let (style, script) = (style::PAGE, bundle());
    let policy = format!(
        "default-src 'none'; script-src {}; style-src {}; img-src data:; base-uri 'none'; form-action 'none'",
        hash(&script),
        hash(style)
    );
    let mut html = String::new();
    for line in PAGE.lines() {
        match line.trim_start() {
            line if line.starts_with("<meta charset") => {
                let _ = write!(html, "{line}\n{}", head(&policy));
            }
            line if line.starts_with("<title>") => {
                let _ = writeln!(html, "<title>{} · termdrill</title>", escaped(title));
            }
            line if line.starts_with("<link rel=\"stylesheet\"") => {
                let _ = writeln!(html, "<style>{style}</style>");
            }
            line if line.starts_with("<link rel=\"modulepreload\"") || line.starts_with("<script") => {}
            line if line.starts_with("<noscript>") => {
                let _ = writeln!(html, "<noscript><pre>{}</pre></noscript>", escaped_lines(&plain(text)));
            }
            line if line.starts_with("<div class=\"watch\">") => {
                let _ = write!(html, "{line}\n{section}");
            }
            line if line.starts_with("</body>") => {
                let _ = writeln!(
                    html,
                    "<script type=\"application/json\" id=\"report\">{data}</script>\n<script>{script}</script>\n</body>"
                );
            }
            _ => {
                let _ = writeln!(html, "{line}");
            }
        }
    }
    Ok(html.into_bytes())
}

fn plain(text: &str) -> String {
    anstream::adapter::strip_str(text).to_string()
}

/// Text over several lines; line ends stay.
fn escaped_lines(text: &str) -> String {
    text.lines().map(escaped).collect::<Vec<_>>().join("\n")
}

/// A source expression that allows exactly this inline text (Content Security Policy Level 3, section 6.7.2).
pub(crate) fn hash(text: &str) -> String {
    format!("'sha256-{}'", STANDARD.encode(Sha256::digest(text.as_bytes())))
}

/// All modules of the page as one script: each in a function of its own, which gives what the module exports. What the
/// page asks its server is answered from the report.
fn bundle() -> String {
    let mut script = format!("'use strict';\n(() => {{\n{ANSWERS}\n");
    for (name, text) in MODULES {
        let _ = writeln!(script, "const module_{name} = {};", wrapped(text));
        if name == "dom" {
            script.push_str("module_dom.ask = answer;\n");
        }
    }
    script.push_str("})();\n");
    script
}

/// A module as a function that is called at once. Imports and exports have to begin a line, imports have to name what they
/// import, and exports have to be of what is defined there.
fn wrapped(module: &str) -> String {
    let mut body = String::new();
    let mut exported = Vec::new();
    let mut lines = module.lines();
    while let Some(line) = lines.next() {
        if line.starts_with("import ") {
            let mut whole = line.to_owned();
            while !whole.contains(" from ") {
                let Some(next) = lines.next() else { break };
                whole.push(' ');
                whole.push_str(next.trim());
            }
            body.push_str(&import(&whole));
        } else if let Some(definition) = line.strip_prefix("export ") {
            exported.extend(defined(definition));
            body.push_str(definition);
        } else {
            body.push_str(line);
        }
        body.push('\n');
    }
    // Only what exports nothing may wait for something before it is done.
    let kind = if exported.is_empty() { "async " } else { "" };
    format!("({kind}() => {{\n{body}return {{ {} }};\n}})()", exported.join(", "))
}

/// `import { a, b as c } from './m.js';` takes the same from the module's object.
fn import(line: &str) -> String {
    let names = line.split_once('{').and_then(|(_, rest)| rest.split_once('}')).map_or("", |(names, _)| names);
    let module = line.rsplit_once("./").and_then(|(_, rest)| rest.split_once(".js")).map_or("", |(module, _)| module);
    format!("const {{{}}} = module_{module};", names.replace(" as ", ": "))
}

/// The name that a definition gives to something.
fn defined(definition: &str) -> Option<&str> {
    let kinds = ["async function ", "function ", "class ", "const ", "let "];
    let rest = kinds.iter().find_map(|kind| definition.strip_prefix(kind))?;
    rest.split(|c: char| !c.is_alphanumeric() && c != '_' && c != '$').next()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    fn text(record: &Record) -> String {
        String::from_utf8(of_run(record, None).unwrap()).unwrap()
    }

    #[test]
    fn a_module_becomes_a_function() {
        let module = "import { a, b as c } from './x.js';\nimport {\n  d,\n} from './y.js';\n/** E */\nexport const e = 1;\n\
                      export async function f() {}\nexport class G {}\nconst h = 2;\n";
        assert_eq!(
            wrapped(module),
            "(() => {\nconst { a, b: c } = module_x;\nconst { d, } = module_y;\n/** E */\nconst e = 1;\nasync function f() \
             {}\nclass G {}\nconst h = 2;\nreturn { e, f, G };\n})()"
        );
        assert!(wrapped("await a();\n").starts_with("(async () => {"));
    }

    #[test]
    fn every_module_is_there_before_it_is_needed() {
        let script = bundle();
        let lines = || script.lines();
        assert!(lines().all(|line| !line.starts_with("import ") && !line.starts_with("export ")));
        for (index, line) in lines().enumerate() {
            if let Some((_, module)) = line.split_once("= module_") {
                let defined = format!("const module_{} = (", module.trim_end_matches(';'));
                assert!(lines().take(index).any(|line| line.starts_with(&defined)), "{line}");
            }
        }
        // It stands within a script element.
        assert!(!script.contains("</script") && !script.contains("<!--"));
    }

    /// A form of import or export that the bundle does not know would only be noticed in a browser.
    #[test]
    fn whatever_is_imported_is_exported() {
        let exports = |name: &str| {
            let (_, text) = MODULES.iter().find(|(module, _)| *module == name).unwrap();
            let function = wrapped(text);
            let list = function.rsplit_once("return { ").and_then(|(_, rest)| rest.split_once(" };")).unwrap().0;
            list.split(", ").map(str::to_owned).collect::<Vec<String>>()
        };
        let script = bundle();
        let imports: Vec<(&str, &str)> = script
            .lines()
            .filter_map(|line| line.strip_prefix("const {")?.split_once("} = module_"))
            .map(|(names, module)| (names, module.trim_end_matches(';')))
            .collect();
        assert!(imports.len() > 10, "{imports:?}");
        for (names, module) in imports {
            for name in names.split(',').map(str::trim).filter(|name| !name.is_empty()) {
                let name = name.split(':').next().unwrap().trim();
                assert!(exports(module).iter().any(|exported| exported == name), "{name} of {module}");
            }
        }
    }

    /// Of a shard that broke off early there may be nothing to replay.
    #[test]
    fn a_validation_of_which_nothing_was_kept_is_its_results_alone() {
        let judged: Vec<Judged> = Vec::new();
        let document = Document {
            format: crate::validate::report::FORMAT.to_owned(),
            version: crate::validate::report::VERSION,
            seed: Some(1),
            planned: 3,
            shard: [1, 1],
            summary: crate::validate::report::Summary::of(&judged),
            results: judged,
        };
        let html = String::from_utf8(of_validation(&document, &[]).unwrap()).unwrap();
        assert!(!html.contains("<script") && !html.contains("Loading"), "{html}");
        assert!(html.contains("<h2 id=\"results-heading\">Results</h2>") && html.ends_with("</html>\n"));
        assert!(html.contains("default-src 'none'; style-src 'sha256-") && !html.contains("script-src"));
    }

    /// No address but those of namespaces, which nobody goes to, and of parts of the page itself.
    #[test]
    fn nothing_is_loaded() {
        let html = text(&samples::matched());
        let markup: String = html.split("<script").next().unwrap().split("</style>").last().unwrap().to_owned();
        for attribute in [" src=", " href=\"/", " href=\"http", "@import", "url(http"] {
            assert!(!markup.contains(attribute), "{attribute}");
        }
        assert!(!style::PAGE.contains("@import") && !style::PAGE.contains("url(http"));
        assert!(html.contains("default-src 'none'; script-src 'sha256-"));
        for (element, end) in [("<style>", "</style>"), ("<script>", "</script>")] {
            let inside = html.split(element).nth(1).unwrap().split(end).next().unwrap();
            assert!(html.contains(&hash(inside)), "the policy allows what is in {element}");
        }
    }

    #[test]
    fn no_text_of_a_run_becomes_markup() {
        let mut record = samples::diverged();
        record.scenario.title = "</script><script>alert(1)</script>".to_owned();
        record.reasons = vec!["<img src=x onerror=alert(2)>".to_owned()];
        let html = text(&record);
        assert!(!html.contains("alert(1)</script>") && !html.contains("<img src=x"));
        assert_eq!(html.matches("<script").count(), 2);
        let data = html.split("id=\"report\">").nth(1).unwrap().split("</script>").next().unwrap();
        let data: Value = serde_json::from_str(data).unwrap();
        let name = data["runs"][0]["run"].as_str().unwrap();
        assert_eq!(data["documents"][name]["verdict"], "diverged");
        assert_eq!(data["documents"][name]["reasons"][0], "<img src=x onerror=alert(2)>");
    }
}
