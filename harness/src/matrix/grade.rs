//! What was predicted beside what was seen, and how often that was the same.

use scenarios::{
    OnSigterm,
    prediction::{self, Reaction, WorkerFate},
};
use serde::Serialize;

use super::{
    cell::{Cell, Seen},
    forms::{Kind, Row},
    pool::Outcome,
    shells::Shells,
    witness::{Agreement, Testimony},
};

/// How a prediction did.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// What was seen is what was predicted.
    Right,
    /// It is not.
    Wrong,
    /// The cell says nothing.
    Inconclusive,
    /// The command runs no worker here.
    Unusable,
}

/// A cell of the matrix, played and graded.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Graded {
    /// The form's name.
    pub form: String,
    /// How it is written.
    pub title: String,
    /// What kind of program it is about.
    pub kind: Kind,
    /// The program and its options.
    pub program: String,
    /// The command line, with placeholders.
    pub command: Vec<String>,
    /// What the worker does about SIGTERM.
    pub posture: OnSigterm,
    /// Whether the top is PID 1 of a PID namespace.
    pub pid1: bool,
    /// What was predicted, where the rules speak of all of the command.
    pub predicted: Option<Reaction>,
    /// What was seen.
    pub seen: Seen,
    /// How the prediction did.
    pub grade: Grade,
    /// What the kernel recorded, if it was asked and a signal was sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Testimony>,
}

/// A program that is not installed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Missing {
    /// The row's program and options.
    pub program: String,
    /// What has to be installed for it.
    pub needs: String,
}

/// The matrix of this machine.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Matrix {
    /// The file that `/bin/sh` is.
    pub sh: String,
    /// Every cell.
    pub cells: Vec<Graded>,
    /// What was not played, since it is not installed.
    pub not_found: Vec<Missing>,
    /// How many predictions were right.
    pub right: usize,
    /// How many were wrong.
    pub wrong: usize,
    /// How many cells say nothing.
    pub inconclusive: usize,
    /// What came of asking the kernel, if it was asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Witness>,
}

/// What came of asking the kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Witness {
    /// It could not be asked.
    Unavailable {
        /// Why not, in words that follow "since".
        why: String,
    },
    /// In how many cells its record and the masks of the processes were held against each other, by what came of it.
    Compared {
        /// They say the same.
        agree: usize,
        /// They do not, and what explains that is known.
        explained: usize,
        /// They do not, and nothing explains that.
        unexplained: usize,
        /// Something that happened is not in the record.
        missing: usize,
        /// The cells in which no signal was sent.
        not_signalled: usize,
    },
}

impl Matrix {
    /// Grades what was seen of `cells`.
    #[must_use]
    pub(super) fn new(
        cells: &[Cell],
        outcomes: Vec<Outcome>,
        missing: &[Row],
        shells: &Shells,
        unavailable: Option<String>,
    ) -> Matrix {
        let asked = cells.iter().any(|cell| cell.traced);
        let graded = cells.iter().zip(outcomes).map(|(cell, outcome)| graded(cell, outcome, shells));
        let cells: Vec<Graded> = graded.collect();
        let count = |grade| cells.iter().filter(|cell| cell.grade == grade).count();
        let mut not_found: Vec<Missing> = Vec::new();
        for row in missing {
            let one = Missing { program: row.program.clone(), needs: row.missing().unwrap_or_default().to_owned() };
            if !not_found.contains(&one) {
                not_found.push(one);
            }
        }
        Matrix {
            sh: shells.get(&["/bin/sh"]).map(|shell| shell.name).unwrap_or_default(),
            right: count(Grade::Right),
            wrong: count(Grade::Wrong),
            inconclusive: count(Grade::Inconclusive),
            kernel: match unavailable {
                Some(why) => Some(Witness::Unavailable { why }),
                None => asked.then(|| Witness::of(&cells)),
            },
            cells,
            not_found,
        }
    }

    /// The exit status: 1 where a prediction was wrong or the kernel contradicts what was seen, 3 where a cell says
    /// nothing, else 0.
    #[must_use]
    pub fn exit_code(&self) -> u8 {
        let contradicted = match self.kernel {
            Some(Witness::Compared { unexplained, missing, .. }) => unexplained + missing,
            _ => 0,
        };
        match (self.wrong + contradicted, self.inconclusive) {
            (0, 0) => 0,
            (0, _) => 3,
            _ => 1,
        }
    }
}

impl Witness {
    fn of(cells: &[Graded]) -> Witness {
        let count = |wanted: Option<Agreement>| {
            cells.iter().filter(|cell| cell.kernel.as_ref().map(|kernel| kernel.agreement) == wanted).count()
        };
        Witness::Compared {
            agree: count(Some(Agreement::Agrees)),
            explained: count(Some(Agreement::Explained)),
            unexplained: count(Some(Agreement::Unexplained)),
            missing: count(Some(Agreement::Missing)),
            not_signalled: count(None),
        }
    }
}

fn graded(cell: &Cell, Outcome { seen, kernel }: Outcome, shells: &Shells) -> Graded {
    let row = &cell.row;
    let chain = prediction::chain(&row.command, row.script.as_deref(), &|words| shells.get(words));
    let predicted = chain.ok().map(|chain| chain.predict(cell.pid1, cell.posture));
    let grade = match (&seen, predicted) {
        (Seen::Unusable(_), _) => Grade::Unusable,
        (Seen::Inconclusive(_), _) => Grade::Inconclusive,
        (Seen::Observed(seen), Some(predicted)) if agrees(predicted, seen.reaction) => Grade::Right,
        (Seen::Observed(_), _) => Grade::Wrong,
    };
    Graded {
        form: row.form.clone(),
        title: row.title.clone(),
        kind: row.kind,
        program: row.program.clone(),
        command: row.command.clone(),
        posture: cell.posture,
        pid1: cell.pid1,
        predicted,
        seen,
        grade,
        kernel,
    }
}

/// A worker that is cut in the moment in which it is told may not get to say that it was: that it was told and could
/// not show it is no contradiction. That it showed it and should not have been told is.
fn agrees(predicted: Reaction, seen: Reaction) -> bool {
    let received = seen.received || (predicted.received && seen.worker == WorkerFate::Cut);
    predicted == Reaction { received, ..seen }
}
