//! What a server fails at without any signal. Pure.

use std::collections::BTreeMap;

use crate::check::{
    fate::{Fate, Phase},
    record::Request,
};

/// How often requests of one template were answered, and how often with 5xx.
#[derive(Clone, Copy, Debug, Default)]
struct Answers {
    all: u64,
    failed: u64,
}

/// How requests of one template were answered before the signal, and from then on.
#[derive(Clone, Copy, Debug, Default)]
struct Template {
    before: Answers,
    since: Answers,
}

impl Template {
    /// Whether it failed no more often since the signal than before it, but for chance: twice as often, and once more.
    fn is_usual(self) -> bool {
        let Template { before, since } = self;
        before.failed > 0 && since.failed.saturating_sub(1) * before.all < 2 * before.failed * since.all
    }
}

/// The templates whose requests were answered with 5xx since the signal as they were before it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usual(Vec<usize>);

impl Usual {
    /// Of these requests, which are in the order in which they were sent.
    #[must_use]
    pub fn of(requests: &[Request]) -> Usual {
        let mut templates: BTreeMap<usize, Template> = BTreeMap::new();
        for request in requests {
            let failed = match request.fate {
                Fate::Completed => false,
                Fate::Completed5xx => true,
                _ => continue,
            };
            let answers = templates.entry(request.template).or_default();
            match request.phase {
                Phase::Before => {
                    // What fails while a server warms up is nothing that it goes on with.
                    if !failed && answers.before.failed == answers.before.all {
                        answers.before = Answers::default();
                    }
                    answers.before.note(failed);
                }
                // Turned away, which is counted by itself.
                Phase::After if request.status == Some(503) => {}
                Phase::Across | Phase::After => answers.since.note(failed),
            }
        }
        let usual = templates.into_iter().filter(|(_, template)| template.is_usual());
        Usual(usual.map(|(template, _)| template).collect())
    }

    /// Whether an answer with 5xx to a request of this template is nothing new.
    #[must_use]
    pub fn fails(&self, template: usize) -> bool {
        self.0.contains(&template)
    }
}

impl Answers {
    fn note(&mut self, failed: bool) {
        self.all += 1;
        self.failed += u64::from(failed);
    }
}
