//! Test results in the JUnit format, as CI systems read it: a divergence is a failure, no verdict is an error.

use std::io;

use quick_xml::{
    Writer,
    events::{BytesDecl, BytesText, Event},
};

use crate::{
    record::{Record, Verdict},
    report::{Screen, run},
};

/// All results of one command.
#[derive(Clone, Debug)]
pub struct Suite<'a> {
    /// What it is called.
    pub name: &'a str,
    /// How long it took, in real milliseconds.
    pub wall_ms: u64,
    /// Its results.
    pub cases: Vec<Case>,
}

/// The result of one drill.
#[derive(Clone, Debug)]
pub struct Case {
    /// What made its time pass.
    pub clock: &'static str,
    /// The scenario's name.
    pub name: String,
    /// How long it took, in real milliseconds.
    pub wall_ms: u64,
    /// What it came to.
    pub verdict: Verdict,
    /// Where model and processes differ, in one sentence.
    pub difference: Option<String>,
    /// Why, in whole sentences.
    pub reasons: Vec<String>,
    /// What a person reads who looks closer; may be empty.
    pub output: String,
}

/// The document.
///
/// # Errors
/// None that a string can cause.
pub fn document(suite: &Suite<'_>) -> io::Result<Vec<u8>> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    let seconds = |ms: u64| format!("{:.3}", ms as f64 / 1000.0);
    let count = |verdict| suite.cases.iter().filter(|case| case.verdict == verdict).count().to_string();
    writer
        .create_element("testsuite")
        .with_attributes([
            ("name", suite.name),
            ("tests", suite.cases.len().to_string().as_str()),
            ("failures", count(Verdict::Diverged).as_str()),
            ("errors", count(Verdict::Inconclusive).as_str()),
            ("time", seconds(suite.wall_ms).as_str()),
        ])
        .write_inner_content(|writer| suite.cases.iter().try_for_each(|case| write_case(writer, case)))?;
    let mut text = writer.into_inner();
    text.push(b'\n');
    Ok(text)
}

fn write_case(writer: &mut Writer<Vec<u8>>, case: &Case) -> io::Result<()> {
    let time = format!("{:.3}", case.wall_ms as f64 / 1000.0);
    let (name, output) = (printable(&case.name), printable(&case.output));
    let element = writer.create_element("testcase").with_attributes([
        ("classname", case.clock),
        ("name", name.as_str()),
        ("time", time.as_str()),
    ]);
    if case.verdict == Verdict::Matched && output.is_empty() {
        element.write_empty()?;
        return Ok(());
    }
    element.write_inner_content(|writer| {
        if case.verdict != Verdict::Matched {
            let kind = if case.verdict == Verdict::Diverged { "failure" } else { "error" };
            let reasons = case.reasons.join(" ");
            let message = case.difference.as_deref().unwrap_or(&reasons);
            writer
                .create_element(kind)
                .with_attribute(("message", printable(message).as_str()))
                .write_text_content(BytesText::new(&printable(&reasons)))?;
        }
        if !output.is_empty() {
            writer.create_element("system-out").write_text_content(BytesText::new(&output))?;
        }
        Ok(())
    })?;
    Ok(())
}

/// One run, with the text of the run as what a person reads: lanes, sums, verdict, lateness, explanation.
///
/// # Errors
/// None that a string can cause.
pub fn of_run(record: &Record) -> io::Result<Vec<u8>> {
    let last = record.attempts.last();
    let wall_ms = record.attempts.iter().map(|attempt| attempt.wall_ms).sum();
    let screen = Screen { width: 100, ascii: false, verbose: true };
    let case = Case {
        clock: if last.is_some_and(|last| last.speed.is_none()) { "stepped" } else { "scaled" },
        name: record.scenario.name.clone(),
        wall_ms,
        verdict: record.verdict,
        difference: last.and_then(|last| last.difference.as_ref()).map(|difference| difference.what.clone()),
        reasons: record.reasons.clone(),
        output: anstream::adapter::strip_str(&run::closing(screen, record, None)).to_string(),
    };
    document(&Suite { name: "termdrill run", wall_ms, cases: vec![case] })
}

/// XML has no way to write most control characters.
fn printable(text: &str) -> String {
    let unwritable = |c: char| (c.is_control() && c != '\n') || matches!(c, '\u{fffe}' | '\u{ffff}');
    text.chars().map(|c| if unwritable(c) { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::samples;

    #[test]
    fn a_run_is_one_case() {
        let text = |record: &Record| String::from_utf8(of_run(record).unwrap()).unwrap();
        let matched = text(&samples::matched());
        assert!(matched.contains(r#"tests="1" failures="0" errors="0""#), "{matched}");
        assert!(matched.contains(r#"<testcase classname="scaled" name="ignored-signal" time="6.031">"#), "{matched}");
        assert!(!matched.contains("<failure") && matched.contains("<system-out>"), "{matched}");
        insta::assert_snapshot!("diverged", text(&samples::diverged()));
    }
}
