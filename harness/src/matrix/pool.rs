//! Many cells side by side, each in an inner process of its own: most of a cell is waiting.

use std::{cell::RefCell, fs, path::Path, rc::Rc};

use anyhow::Context;
use tokio::{sync::mpsc, task::JoinSet};

use super::{
    CELL,
    cell::{Cell, Played, Seen, Signalled},
    play::RESULT,
    witness::{Testimony, testimony},
};
use crate::{
    evidence::KernelTrace,
    isolation::{Isolation, start_inside},
};

/// One recording of the kernel's for all cells, each of which finds its own processes in it.
pub(super) type SharedTrace = Rc<RefCell<KernelTrace>>;

/// What came of one cell.
#[derive(Clone, Debug)]
pub(super) struct Outcome {
    /// What was seen.
    pub(super) seen: Seen,
    /// What the kernel says, if it is asked and a signal was sent.
    pub(super) kernel: Option<Testimony>,
}

impl Outcome {
    fn inconclusive(why: String) -> Outcome {
        Outcome { seen: Seen::Inconclusive(why), kernel: None }
    }
}

/// Plays all cells, `jobs` at a time, and gives what came of each in their order. `done` hears how many are over.
///
/// What came out inconclusive may have been too much at once: it is played again, in smaller company.
///
/// # Errors
/// No directory can be made for a cell.
pub(super) async fn play_all(
    cells: &[Cell],
    jobs: usize,
    isolation: &Isolation,
    trace: Option<&SharedTrace>,
    mut done: impl FnMut(usize),
) -> anyhow::Result<Vec<Outcome>> {
    let indices: Vec<usize> = (0..cells.len()).collect();
    let mut all = play_some(cells, &indices, jobs, isolation, trace, &mut done).await?;
    let may_pass = |outcome: &Outcome| matches!(outcome.seen, Seen::Inconclusive(_));
    let again: Vec<usize> = indices.into_iter().filter(|&index| may_pass(&all[index])).collect();
    if may_be_for_want_of_time(again.len(), cells.len()) {
        let repeated = play_some(cells, &again, jobs.div_ceil(16), isolation, trace, &mut |_| ()).await?;
        for (index, outcome) in again.into_iter().zip(repeated) {
            all[index] = outcome;
        }
    }
    Ok(all)
}

/// So many cells may come out inconclusive because the machine stood still for a moment: that meets all that are being
/// played, which in a small matrix are all that there are.
const A_MOMENT: usize = 16;

/// Whether it can be for want of time that so many cells of all are inconclusive. What fails in more of them will again.
fn may_be_for_want_of_time(inconclusive: usize, cells: usize) -> bool {
    inconclusive <= cells.div_ceil(10).max(A_MOMENT)
}

async fn play_some(
    cells: &[Cell],
    indices: &[usize],
    jobs: usize,
    isolation: &Isolation,
    trace: Option<&SharedTrace>,
    done: &mut dyn FnMut(usize),
) -> anyhow::Result<Vec<Outcome>> {
    let (results, mut outcomes) = mpsc::unbounded_channel();
    let isolation = Rc::new(isolation.clone());
    let mut tasks = JoinSet::new();
    let mut waiting = indices.iter().map(|&index| &cells[index]).enumerate();
    let mut all: Vec<Option<Outcome>> = vec![None; indices.len()];
    let mut running = 0;
    loop {
        while running < jobs {
            let Some((index, cell)) = waiting.next() else { break };
            fs::create_dir_all(&cell.directory).context("no directory can be made for a cell")?;
            let (cell, isolation, results) = (cell.clone(), Rc::clone(&isolation), results.clone());
            let trace = trace.map(Rc::clone);
            tasks.spawn_local(async move {
                let outcome = match play(&cell, &isolation).await {
                    Ok(Played { seen, signalled }) => {
                        let ask = |(trace, signalled): (SharedTrace, Signalled)| ask(&trace, signalled);
                        Outcome { seen, kernel: trace.zip(signalled).map(ask) }
                    }
                    Err(error) => Outcome::inconclusive(format!("{error:#}")),
                };
                // Nobody listens any more when the matrix was stopped.
                let _ = results.send((index, outcome));
            });
            running += 1;
        }
        if running == 0 {
            break;
        }
        let Some((index, outcome)) = outcomes.recv().await else { break };
        all[index] = Some(outcome);
        running -= 1;
        done(indices.len() - waiting.len() - running);
    }
    let not_played = || Outcome::inconclusive("it was not played".to_owned());
    Ok(all.into_iter().map(|outcome| outcome.unwrap_or_else(not_played)).collect())
}

async fn play(cell: &Cell, isolation: &Isolation) -> anyhow::Result<Played> {
    let (inner, control) = start_inside(&[CELL], &mut isolation.clone(), cell)?;
    inner.watch()?.await;
    drop(control);
    let status = inner.reap().map(|ended| ended.status);
    let played = read(&cell.directory).with_context(|| format!("the cell's process ended with {status:?}"));
    // What is left of it is of no use to anybody.
    let _ = fs::remove_dir_all(&cell.directory);
    played
}

fn read(directory: &Path) -> anyhow::Result<Played> {
    Ok(serde_json::from_slice(&fs::read(directory.join(RESULT))?)?)
}

/// What the kernel recorded of a cell that is over. Reading it now keeps its buffer from running full.
fn ask(trace: &SharedTrace, signalled: Signalled) -> Testimony {
    let mut trace = trace.borrow_mut();
    let records = trace.read().and_then(|()| {
        let harness = signalled.harness_host_pid.ok_or("the host's numbers could not be looked up")?;
        let window_ns = signalled.sent_ns..=signalled.over_ns;
        Ok(trace.records(signalled.processes.iter(), (harness, signalled.harness), signalled.sent_ns, window_ns))
    });
    testimony(signalled, records)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_matrix_is_played_again_as_a_whole_and_a_large_one_in_part() {
        for (inconclusive, cells, again) in [
            (0, 2, true),
            (2, 2, true),
            (16, 16, true),
            (17, 17, false),
            (17, 160, false),
            (30, 300, true),
            (31, 300, false),
        ] {
            assert_eq!(may_be_for_want_of_time(inconclusive, cells), again, "{inconclusive} of {cells}");
        }
    }
}
