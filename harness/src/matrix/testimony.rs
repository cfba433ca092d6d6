//! What the kernel says of the cells, as a text.

use std::{collections::BTreeSet, fmt};

use super::{
    grade::{Graded, Matrix, Witness},
    table::{column, name},
    witness::{Agreement, Testimony, Why},
};
use crate::report::{
    Screen,
    screen::{BAD, PLAIN, paint},
};

/// What the kernel says of one cell, in words that follow what was seen.
impl fmt::Display for Testimony {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.agreement == Agreement::Agrees {
            return f.write_str("the kernel's record says what the masks say");
        }
        let differences = self.differences.iter().map(ToString::to_string);
        f.write_str(&differences.chain(self.missing.iter().cloned()).collect::<Vec<_>>().join("; "))
    }
}

/// What came of asking the kernel; nothing if it was not asked.
pub(super) fn text(screen: Screen, matrix: &Matrix) -> String {
    let (agree, explained, unexplained, missing) = match &matrix.kernel {
        None => return String::new(),
        Some(Witness::Unavailable { why }) => {
            return screen.wrap(&format!("The kernel's own record is unavailable, since {why}."), "", "  ");
        }
        Some(Witness::Compared { agree, explained, unexplained, missing, .. }) => {
            (*agree, *explained, *unexplained, *missing)
        }
    };
    let mut head = format!("Kernel record and masks: {agree} cells agree, {} differ", explained + unexplained);
    if unexplained > 0 {
        head.push_str(&format!(", {unexplained} of them for no known reason"));
    } else if explained > 0 {
        head.push_str(", each explained");
    }
    if missing > 0 {
        head.push_str(&format!("; {missing} lack a record"));
    }
    let style = if unexplained + missing > 0 { BAD } else { PLAIN };
    let mut text = paint(style, screen.wrap(&format!("{head}."), "", "  ").trim_end()) + "\n";
    for why in Why::ALL {
        let (cells, programs) = explained_by(matrix, why);
        if cells > 0 {
            text.push_str(&screen.wrap(&format!("{cells}: {} {why}", one_of(&programs)), "  ", "    "));
        }
    }
    for cell in matrix.cells.iter().filter(|cell| is_bad(cell)) {
        let Some(kernel) = &cell.kernel else { continue };
        text.push_str(&screen.wrap(&format!("{}, {}: {kernel}", name(cell), column(cell)), "  ", "    "));
    }
    text
}

/// `a, b or c`
fn one_of(programs: &[&str]) -> String {
    match programs {
        [all @ .., last] if !all.is_empty() => format!("{} or {last}", all.join(", ")),
        _ => programs.concat(),
    }
}

fn is_bad(cell: &Graded) -> bool {
    let agreement = cell.kernel.as_ref().map(|kernel| kernel.agreement);
    matches!(agreement, Some(Agreement::Unexplained | Agreement::Missing))
}

/// In how many cells there is such a difference, and of which programs.
fn explained_by(matrix: &Matrix, why: Why) -> (usize, Vec<&str>) {
    let of_cell = |cell: &'_ &Graded| {
        cell.kernel.iter().flat_map(|kernel| &kernel.differences).any(|difference| difference.why == Some(why))
    };
    let cells: Vec<&Graded> = matrix.cells.iter().filter(of_cell).collect();
    let differences = cells.iter().flat_map(|cell| &cell.kernel).flat_map(|kernel| &kernel.differences);
    let programs = differences.filter(|difference| difference.why == Some(why));
    let programs: BTreeSet<&str> = programs.map(|difference| difference.program.as_str()).collect();
    (cells.len(), programs.into_iter().collect())
}
