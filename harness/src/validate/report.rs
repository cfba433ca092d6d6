//! What a validation came to, as text, JSON and JUnit.

use std::io;

use serde::{Deserialize, Serialize};

use super::{
    item::Judged,
    lateness::{self, LateShare},
};
use crate::{
    cli::ClockChoice,
    record::Verdict,
    report::{
        Screen,
        file::junit::{self, Case, Suite},
    },
};

/// What the JSON document says it is.
pub const FORMAT: &str = "termdrill-validation";
/// The version of the document that this program writes and reads.
pub const VERSION: u32 = 1;

/// A whole validation, or one shard of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Document {
    /// [`FORMAT`].
    pub format: String,
    /// [`VERSION`].
    pub version: u32,
    /// What random scenarios were generated from, if there were any.
    pub seed: Option<u64>,
    /// How many drills the whole plan has, on all shards.
    pub planned: usize,
    /// Which part of the plan this is: `[K, N]`.
    pub shard: [usize; 2],
    /// How it went in all.
    pub summary: Summary,
    /// What came of each drill, in the order of the plan.
    pub results: Vec<Judged>,
}

/// How a validation went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Summary {
    /// Drills that matched.
    pub matched: usize,
    /// Drills that diverged.
    pub diverged: usize,
    /// Drills that say nothing.
    pub inconclusive: usize,
    /// Drills on the scaled clock whose first attempt was not in time, and which were repeated at a lower speed.
    pub late_at_first: usize,
    /// Drills on the stepped and on the scaled clock.
    pub stepped: usize,
    /// See `stepped`.
    pub scaled: usize,
    /// How late things were in the first attempts, by part of the tick.
    #[serde(default)]
    pub lateness: Vec<LateShare>,
    /// The lowest and the highest speed at which a scaled drill was decided.
    pub speeds: Option<[f64; 2]>,
    /// How long it took, in real milliseconds; of shards, the sum.
    pub wall_ms: u64,
    /// The CPU time of all processes in milliseconds; of shards, the sum.
    pub cpu_ms: u64,
}

impl Summary {
    /// Sums up results; the times are added by whoever knows them.
    #[must_use]
    pub fn of(results: &[Judged]) -> Summary {
        let mut summary = Summary { lateness: LateShare::of(results), ..Summary::default() };
        for judged in results {
            match judged.verdict {
                Verdict::Matched => summary.matched += 1,
                Verdict::Diverged => summary.diverged += 1,
                Verdict::Inconclusive => summary.inconclusive += 1,
            }
            match judged.clock {
                ClockChoice::Stepped => summary.stepped += 1,
                ClockChoice::Scaled => summary.scaled += 1,
            }
            let late = judged.clock == ClockChoice::Scaled && !judged.in_time_at_first && judged.attempts > 0;
            summary.late_at_first += usize::from(late);
            if let Some(used) = judged.speed_used {
                let [low, high] = summary.speeds.unwrap_or([used, used]);
                summary.speeds = Some([low.min(used), high.max(used)]);
            }
        }
        summary
    }

    /// The worst verdict of all: a divergence is worse than no verdict.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        match (self.diverged, self.inconclusive) {
            (0, 0) => Verdict::Matched,
            (0, _) => Verdict::Inconclusive,
            _ => Verdict::Diverged,
        }
    }
}

impl Document {
    /// How many drills of the plan are in none of the results.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.planned.saturating_sub(self.results.len())
    }

    /// Joins the shards of one validation.
    ///
    /// # Errors
    /// They are not of one validation, or a drill is in several of them.
    pub fn merge(documents: Vec<Document>) -> Result<Document, String> {
        let mut documents = documents.into_iter();
        let mut all = documents.next().ok_or("there is nothing to merge")?;
        for other in documents {
            if (other.seed, other.planned) != (all.seed, all.planned) {
                let told = |document: &Document| match document.seed {
                    Some(seed) => format!("{} with seed {seed}", drills(document.planned)),
                    None => format!("{} without a seed", drills(document.planned)),
                };
                return Err(format!("they are not of one validation: {}, and {}", told(&all), told(&other)));
            }
            all.summary.wall_ms += other.summary.wall_ms;
            all.summary.cpu_ms += other.summary.cpu_ms;
            all.results.extend(other.results);
        }
        all.results.sort_by_key(|judged| judged.number);
        if let Some([first, _]) = all.results.array_windows().find(|[a, b]| a.number == b.number) {
            return Err(format!("drill {} ({}) is in several of them", first.number, first.name));
        }
        let (wall_ms, cpu_ms) = (all.summary.wall_ms, all.summary.cpu_ms);
        all.summary = Summary { wall_ms, cpu_ms, ..Summary::of(&all.results) };
        all.shard = [1, 1];
        Ok(all)
    }
}

/// One line on one drill, in columns where they fit.
#[must_use]
pub fn line(screen: Screen, judged: &Judged) -> String {
    let (style, mark, word) = screen.verdict_mark(judged.verdict);
    let pace = match judged.speed_used {
        Some(speed) => format!("{:.0}{}", speed, screen.marks().times),
        None if judged.attempts > 0 => "stepped".to_owned(),
        None => String::new(),
    };
    let again = if judged.attempts > 1 { format!(", {} attempts", judged.attempts) } else { String::new() };
    let what = judged.difference.as_ref().map(|difference| difference.what.as_str());
    let why = what.filter(|_| judged.verdict == Verdict::Diverged).or(judged.reasons.first().map(String::as_str));
    let head = format!("{mark} {word:<12}");
    let columns = format!(" {:<34} {:>7} {:>6} ms{again}", judged.name, pace, judged.wall_ms);
    let mut text = if head.chars().count() + columns.chars().count() <= screen.width {
        format!("{style}{head}{style:#}{columns}\n")
    } else {
        // The verdict stands in for an indent: escape sequences are not counted.
        let told = format!("{} {pace} {}\u{a0}ms{again}", judged.name, judged.wall_ms);
        let told = screen.wrap(&told, &" ".repeat(word.len() + 3), "    ");
        format!("{style}{mark} {word}{style:#}{}", &told[word.len() + 2..])
    };
    if let (Some(why), true) = (why, judged.verdict != Verdict::Matched) {
        text.push_str(&screen.wrap(why, "    ", "    "));
    }
    text
}

/// The summary of all.
#[must_use]
pub fn summary(screen: Screen, summary: &Summary) -> String {
    let total = summary.matched + summary.diverged + summary.inconclusive;
    let (style, mark, word) = screen.verdict_mark(summary.verdict());
    let mut text = format!(
        "{style}{mark} {word}{style:#}: {}, {} matched, {} diverged, {} inconclusive\n",
        drills(total),
        summary.matched,
        summary.diverged,
        summary.inconclusive
    );
    let seconds = summary.wall_ms as f64 / 1000.0;
    let mut times = format!("in {seconds:.1} s, {:.1} drills a second", total as f64 / seconds.max(0.001));
    if total > 0 && summary.cpu_ms > 0 {
        times.push_str(&format!(", {:.1} ms of CPU time each", summary.cpu_ms as f64 / total as f64));
    }
    text.push_str(&screen.wrap(&times, "  ", "  "));
    if summary.stepped > 0 {
        text.push_str(&format!("  {} on the stepped clock\n", summary.stepped));
    }
    if let (true, Some([low, high])) = (summary.scaled > 0, summary.speeds) {
        let (low, high) = (format!("{low:.0}"), format!("{high:.0}"));
        let speeds = if low == high { high } else { format!("{low} to {high}") };
        let mut line = format!("{} on the scaled clock at {speeds} times real time", summary.scaled);
        if summary.late_at_first > 0 {
            let percent = 100.0 * summary.late_at_first as f64 / summary.scaled as f64;
            line.push_str(&format!("; late at first and repeated: {} ({percent:.0} %)", summary.late_at_first));
        }
        text.push_str(&screen.wrap(&line, "  ", "  "));
        text.push_str(&lateness::table(screen, &summary.lateness));
    }
    text
}

/// `1 drill`, `2 drills`.
#[must_use]
pub fn drills(count: usize) -> String {
    format!("{count} {}", if count == 1 { "drill" } else { "drills" })
}

/// The results in the JUnit format that CI systems read: a divergence is a failure, no verdict is an error.
///
/// # Errors
/// None that a string can cause.
pub fn junit(document: &Document) -> io::Result<Vec<u8>> {
    let case = |judged: &Judged| Case {
        clock: judged.clock.name(),
        name: judged.name.clone(),
        wall_ms: judged.wall_ms,
        verdict: judged.verdict,
        difference: judged.difference.as_ref().map(|difference| difference.what.clone()),
        reasons: judged.reasons.clone(),
        output: String::new(),
    };
    let cases = document.results.iter().map(case).collect();
    junit::document(&Suite { name: "termdrill validate", wall_ms: document.summary.wall_ms, cases })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn judged(number: usize, verdict: Verdict) -> Judged {
        Judged {
            number,
            name: format!("drill-{number}"),
            clock: ClockChoice::Stepped,
            verdict,
            reasons: vec!["Because <of> \"this\" & that\u{1b}.".to_owned()],
            difference: None,
            attempts: 1,
            speed_asked: None,
            speed_used: None,
            in_time_at_first: true,
            wall_ms: 12,
            events: 3,
            lateness: Vec::new(),
            reactions: Default::default(),
            cpu: None,
        }
    }

    fn document(shard: [usize; 2], results: Vec<Judged>) -> Document {
        let summary = Summary { wall_ms: 10, cpu_ms: 20, ..Summary::of(&results) };
        Document { format: FORMAT.to_owned(), version: VERSION, seed: Some(1), planned: 3, shard, summary, results }
    }

    #[test]
    fn shards_become_one_and_strangers_do_not() {
        let first = document([1, 2], vec![judged(0, Verdict::Matched), judged(2, Verdict::Inconclusive)]);
        let second = document([2, 2], vec![judged(1, Verdict::Diverged)]);
        let all = Document::merge(vec![second.clone(), first.clone()]).unwrap();
        assert_eq!(all.results.iter().map(|judged| judged.number).collect::<Vec<_>>(), [0, 1, 2]);
        assert_eq!((all.summary.matched, all.summary.diverged, all.summary.inconclusive), (1, 1, 1));
        assert_eq!((all.missing(), first.missing()), (0, 1));
        assert_eq!((all.summary.wall_ms, all.summary.cpu_ms, all.summary.verdict()), (20, 40, Verdict::Diverged));
        assert!(Document::merge(vec![first.clone(), first.clone()]).unwrap_err().contains("several"));
        let stranger = Document { seed: Some(2), ..second };
        assert!(
            Document::merge(vec![first, stranger])
                .unwrap_err()
                .ends_with("3 drills with seed 1, and 3 drills with seed 2")
        );
        assert!(Document::merge(Vec::new()).is_err());
    }

    #[test]
    fn a_drill_is_told_of_on_every_width() {
        let mut one = judged(0, Verdict::Inconclusive);
        one.name = "a-name-that-is-rather-long".to_owned();
        (one.attempts, one.speed_used) = (3, Some(7.0));
        for width in [40, 66, 80] {
            let screen = Screen { width, ascii: false, verbose: false };
            for judged in [&one, &judged(1, Verdict::Matched)] {
                let text = anstream::adapter::strip_str(&line(screen, judged)).to_string();
                let widest = text.lines().map(|line| line.chars().count()).max();
                assert!(widest <= Some(width), "{width}:\n{text}");
                assert!(text.contains(&judged.name) && text.contains(" ms"), "{text}");
            }
        }
    }

    #[test]
    fn junit_is_escaped_and_counts_what_failed() {
        let document = document([1, 1], vec![judged(0, Verdict::Diverged), judged(1, Verdict::Matched)]);
        let text = String::from_utf8(junit(&document).unwrap()).unwrap();
        assert!(text.contains(r#"tests="2" failures="1" errors="0""#), "{text}");
        assert!(text.contains("Because &lt;of&gt; "), "{text}");
        assert!(!text.contains('\u{1b}'));
    }
}
