//! A check in the JUnit format that CI systems read: a suite for each seat, a case for each thing that has to hold.

use std::io;

use quick_xml::{
    Writer,
    events::{BytesDecl, BytesText, Event},
};

use super::{
    record::{Record, SeatRecord, Verdict},
    text, verdict,
};

/// One thing that has to hold.
struct Case {
    name: &'static str,
    /// Why it does not.
    failure: Option<String>,
}

/// The whole file.
///
/// # Errors
/// None that a string can cause.
pub fn junit(record: &Record) -> io::Result<Vec<u8>> {
    let mut writer = Writer::new_with_indent(Vec::new(), b' ', 2);
    writer.write_event(Event::Decl(BytesDecl::new("1.0", Some("UTF-8"), None)))?;
    writer.create_element("testsuites").write_inner_content(|writer| {
        for seat in &record.seats {
            suite(writer, record, seat)?;
        }
        Ok(())
    })?;
    let mut text = writer.into_inner();
    text.push(b'\n');
    Ok(text)
}

fn suite(writer: &mut Writer<Vec<u8>>, record: &Record, seat: &SeatRecord) -> io::Result<()> {
    let inconclusive = seat.judgement.verdict == Verdict::Inconclusive;
    let cases = cases(seat);
    let failed = cases.iter().filter(|case| case.failure.is_some()).count();
    let (failures, errors) = if inconclusive { (0, failed) } else { (failed, 0) };
    let seconds = format!("{:.3}", (seat.observed.end_us - seat.observed.started_us).max(0) as f64 / 1e6);
    writer
        .create_element("testsuite")
        .with_attributes([
            ("name", printable(&format!("{} as {}", text::line(&record.settings.command), seat.seat.title())).as_str()),
            ("tests", cases.len().to_string().as_str()),
            ("failures", failures.to_string().as_str()),
            ("errors", errors.to_string().as_str()),
            ("time", seconds.as_str()),
        ])
        .write_inner_content(|writer| {
            for case in &cases {
                let element = writer
                    .create_element("testcase")
                    .with_attributes([("classname", seat.seat.name()), ("name", case.name)]);
                match &case.failure {
                    None => element.write_empty()?,
                    Some(why) => element.write_inner_content(|writer| {
                        let change = seat.explanation.change.as_deref().unwrap_or_default();
                        writer
                            .create_element(if inconclusive { "error" } else { "failure" })
                            .with_attribute(("message", printable(why).as_str()))
                            .write_text_content(BytesText::new(&printable(&format!(
                                "{}\n{change}",
                                seat.explanation.text
                            ))))?;
                        Ok(())
                    })?,
                };
            }
            Ok(())
        })?;
    Ok(())
}

fn cases(seat: &SeatRecord) -> Vec<Case> {
    let judgement = &seat.judgement;
    if judgement.verdict == Verdict::Inconclusive {
        return vec![Case { name: "the drill is made", failure: Some(judgement.reasons.join(" ")) }];
    }
    // Each reason belongs to the first case that it speaks of; what is left over to the last.
    let mut reasons: Vec<&String> = judgement.reasons.iter().collect();
    let mut take = |belongs: &dyn Fn(&str) -> bool| {
        let (own, others): (Vec<&String>, Vec<&String>) = reasons.drain(..).partition(|reason| belongs(reason));
        reasons = others;
        (!own.is_empty()).then(|| own.into_iter().cloned().collect::<Vec<_>>().join(" "))
    };
    let lost = take(&|reason| reason.contains("lost"));
    let refused = take(&|reason| reason.contains("refused"));
    let left = take(&|reason| verdict::left_behind(&seat.observed) > 0 && reason.contains("lived on"));
    let ends = take(&|_| true);
    vec![
        Case { name: "no request is lost", failure: lost },
        Case { name: "no more requests are refused than may be", failure: refused },
        Case { name: "nothing is left behind", failure: left },
        Case { name: "it ends by itself within the grace period", failure: ends },
    ]
}

/// XML has no way to write most control characters.
fn printable(text: &str) -> String {
    text.chars().map(|c| if c.is_control() && c != '\n' { ' ' } else { c }).collect()
}
