//! Every combination of the values that are varied, and what the model says of each.

use std::thread;

use scenarios::{Expectation, Gate, Scenario, expect};

use super::axis::Axis;
use crate::{failure::Failure, input, shell::Shell};

/// How many points a grid can have: a minute or so on one core.
pub const MAX_POINTS: usize = 10_000_000;

/// How many points one thread plays before results are passed on.
const PORTION: usize = 4_096;

/// A scenario, and what is varied in it. Every point is a valid scenario.
#[derive(Clone, Debug)]
pub struct Grid {
    base: Scenario,
    axes: Vec<Axis>,
    shell: Shell,
}

/// What came of one point: counts, as a table shows them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cell {
    /// Requests that arrived.
    pub arrivals: u16,
    /// Requests that a worker took.
    pub admitted: u16,
    /// Requests that nobody took.
    pub rejected: u16,
    /// Rejected per arrivals in percent, with one decimal.
    pub rejected_percent: f64,
    /// Requests whose result was committed.
    pub completed: u16,
    /// Requests whose invocation ended with its worker.
    pub killed: u16,
    /// Requests that were still running at the end.
    pub running: u16,
    /// The scenario's gate.
    pub gate: Gate,
}

impl Cell {
    fn of(expected: &Expectation) -> Cell {
        let outcome = &expected.outcome;
        Cell {
            arrivals: outcome.arrivals,
            admitted: outcome.admitted,
            rejected: outcome.rejected,
            rejected_percent: outcome.rejected_percent,
            // There are at most 391 requests.
            completed: outcome.completed.len() as u16,
            killed: outcome.killed.len() as u16,
            running: outcome.running.len() as u16,
            gate: outcome.gate,
        }
    }

    /// How many requests were taken and not completed.
    #[must_use]
    pub fn lost(&self) -> u16 {
        self.killed + self.running
    }
}

impl Grid {
    /// All combinations of what `specs` say is to be varied in `base`. The last varies fastest.
    ///
    /// # Errors
    /// Those of [`Axis::parse`]; a field that is varied twice; a combination that is no scenario; too many points.
    pub fn new(base: &Scenario, specs: &[String], shell: Shell) -> Result<Grid, Failure> {
        let axes = specs.iter().map(|spec| Axis::parse(base, spec)).collect::<Result<Vec<_>, _>>()?;
        for (index, axis) in axes.iter().enumerate() {
            if axes[..index].iter().any(|other| other.field.name == axis.field.name) {
                return Err(Failure::bad_input(format!("--vary: {} is varied twice", axis.field.name)));
            }
        }
        let points = axes.iter().try_fold(1usize, |points, axis| points.checked_mul(axis.values.len()));
        if points.is_none_or(|points| points > MAX_POINTS) {
            let sizes: Vec<String> = axes.iter().map(|axis| axis.values.len().to_string()).collect();
            let what = format!("--vary: {} combinations are more than {MAX_POINTS}", sizes.join(" × "));
            return Err(Failure::bad_input(what).hint("give longer steps, as in grace_period_s=0..20/0.5"));
        }
        let grid = Grid { base: base.clone(), axes, shell };
        for scenario in grid.kinds() {
            scenario.map_err(|error| Failure::bad_input(input::joined("--vary", &error.to_string())))?;
        }
        Ok(grid)
    }

    /// What is varied.
    #[must_use]
    pub fn axes(&self) -> &[Axis] {
        &self.axes
    }

    /// What it is varied in.
    #[must_use]
    pub fn base(&self) -> &Scenario {
        &self.base
    }

    /// How many points there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.axes.iter().map(|axis| axis.values.len()).product()
    }

    /// Whether there is nothing to play; never so.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The index of point `index` on each axis.
    #[must_use]
    pub fn place(&self, index: usize) -> Vec<usize> {
        place(&self.axes, index)
    }

    /// One scenario for every combination of the fields that hang on each other, with all others as in the base. Only
    /// these can still be wrong: the values of the other fields were looked at one by one.
    pub(super) fn kinds(&self) -> impl Iterator<Item = Result<Scenario, scenarios::ScenarioError>> {
        let axes: Vec<Axis> = self.axes.iter().filter(|axis| axis.hangs_on_others()).cloned().collect();
        let count = axes.iter().map(|axis| axis.values.len()).product();
        (0..count).map(move |index| scenario_at(&self.base, &axes, index))
    }

    /// Plays every point on `jobs` threads and gives each result to `row`, in order. Only a portion of them is held at
    /// any time.
    ///
    /// # Errors
    /// Those of `row`, after which no more is played.
    pub fn play(&self, jobs: usize, mut row: impl FnMut(usize, Cell) -> Result<(), Failure>) -> Result<(), Failure> {
        let (jobs, count) = (jobs.max(1), self.len());
        let mut start = 0;
        while start < count {
            let portions: Vec<_> = (0..jobs)
                .map(|job| (start + job * PORTION).min(count)..(start + (job + 1) * PORTION).min(count))
                .filter(|portion| !portion.is_empty())
                .collect();
            let results: Vec<Result<Vec<Cell>, Failure>> = match &portions[..] {
                [portion] => vec![portion.clone().map(|index| self.cell(index)).collect()],
                _ => thread::scope(|scope| {
                    let players: Vec<_> = portions
                        .iter()
                        .map(|portion| scope.spawn(|| portion.clone().map(|index| self.cell(index)).collect()))
                        .collect();
                    let died = || Err(Failure::unable("a thread that plays the model died"));
                    players.into_iter().map(|player| player.join().unwrap_or_else(|_| died())).collect()
                }),
            };
            for (portion, cells) in portions.iter().zip(results) {
                for (index, cell) in portion.clone().zip(cells?) {
                    row(index, cell)?;
                }
            }
            start += jobs * PORTION;
        }
        Ok(())
    }

    fn cell(&self, index: usize) -> Result<Cell, Failure> {
        let scenario = scenario_at(&self.base, &self.axes, index)
            .map_err(|error| Failure::bad_input(input::joined("--vary", &error.to_string())))?;
        Ok(Cell::of(&expect(&scenario, &self.shell.host(&scenario))))
    }
}

fn place(axes: &[Axis], mut index: usize) -> Vec<usize> {
    let mut places = vec![0; axes.len()];
    for (place, axis) in places.iter_mut().zip(axes).rev() {
        *place = index % axis.values.len();
        index /= axis.values.len();
    }
    places
}

fn scenario_at(base: &Scenario, axes: &[Axis], index: usize) -> Result<Scenario, scenarios::ScenarioError> {
    let places = place(axes, index);
    base.with_settings(axes.iter().zip(places).map(|(axis, place)| axis.values[place].setting.as_str()))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use scenarios::{Entrypoint, Host, OnSigterm, ShellBehaviour, Span, catalogue};

    use super::*;

    fn grid(base: &Scenario, specs: &[&str]) -> Result<Grid, Failure> {
        let specs: Vec<String> = specs.iter().map(|&spec| spec.to_owned()).collect();
        Grid::new(base, &specs, Shell::usual(ShellBehaviour::Stays))
    }

    fn cells(grid: &Grid, jobs: usize) -> Vec<Cell> {
        let mut cells = Vec::new();
        grid.play(jobs, |index, cell| {
            assert_eq!(index, cells.len());
            cells.push(cell);
            Ok(())
        })
        .unwrap();
        cells
    }

    #[test]
    fn every_point_is_what_the_model_says_of_that_scenario() {
        let base = catalogue::get("handler-grace-10").unwrap();
        let grid = grid(base, &["grace_period_s=0..20", "slots_per_worker=1,4", "on_sigterm=drain,ignore"]).unwrap();
        assert_eq!(grid.len(), 84);
        let cells = cells(&grid, 1);
        let mut expected = Vec::new();
        for grace in 0..=20 {
            for slots in [1, 4] {
                for on_sigterm in [OnSigterm::Drain, OnSigterm::Ignore] {
                    let mut scenario = base.clone();
                    scenario.grace_period_s = Span::seconds(grace);
                    (scenario.slots_per_worker, scenario.on_sigterm) = (slots, on_sigterm);
                    let host = Host { shell: ShellBehaviour::Stays, custom: None };
                    expected.push(Cell::of(&expect(&scenario, &host)));
                }
            }
        }
        assert_eq!(cells, expected);
        assert_eq!(grid.place(83), [20, 1, 1]);
        assert_eq!(grid.place(2), [0, 1, 0]);
    }

    #[test]
    fn the_number_of_threads_changes_nothing() {
        let grid = grid(&Scenario::new("a", "a"), &["invocation_s=0.1..60/0.1", "grace_period_s=0..20"]).unwrap();
        let one = cells(&grid, 1);
        assert_eq!(one.len(), 12_600);
        assert!(one == cells(&grid, 3) && one == cells(&grid, 64));
    }

    #[test]
    fn the_first_error_ends_it() {
        let grid = grid(&Scenario::new("a", "a"), &["grace_period_s=0..20/0.1", "invocation_s=1..60"]).unwrap();
        let mut rows = 0;
        let failure = grid.play(2, |index, _| {
            rows += 1;
            if index == 5 { Err(Failure::unable("full")) } else { Ok(()) }
        });
        assert_eq!((failure, rows), (Err(Failure::unable("full")), 6));
    }

    #[test]
    fn a_grid_that_is_none_is_refused() {
        let base = Scenario::new("a", "a");
        let mut said = base.clone();
        said.entrypoint = Entrypoint::Custom(vec!["init".into(), "{worker}".into()]);
        said.expected_effect = Some(scenarios::Effect::Drained);
        let every = ["invocation_s=0.1..60/0.1", "startup_s=0.1..30/0.1", "signal_at_s=1..40/0.1"];
        for (base, specs, part) in [
            (&base, &["grace_period_s=1", "grace_period_s=2"][..], "--vary: grace_period_s is varied twice"),
            (&base, &every, "600 × 300 × 391 combinations are more than 10000000"),
            (&base, &["expected_effect=drained"], "expected_effect: \"drained\" can't be used"),
            (&said, &["entrypoint=exec,script"], "expected_effect: \"drained\" can't be used"),
            (&said, &["grace_period_s=1..20", "entrypoint=[\"x\",\"{worker}\"],exec"], "expected_effect"),
        ] {
            let failure = grid(base, specs).unwrap_err();
            assert_eq!(failure.exit_code, 2);
            assert!(failure.what.contains(part), "{}", failure.what);
        }
        assert!(grid(&base, &["expected_effect=drained", "entrypoint=[\"x\",\"{worker}\"]"]).is_ok());
        assert!(grid(&said, &["expected_effect=drained,ignored"]).is_ok());
    }

    /// Scenarios in which SIGTERM is heard.
    fn drained() -> impl Strategy<Value = Scenario> {
        let times = (1..=300u32, 1..=400u32, 1..=600u32, 10..=400u32);
        (times, 1..=4u8, 1..=6u8, any::<bool>(), any::<bool>()).prop_map(
            |(times, workers, slots, routing, replaced)| {
                let (startup, interval, invocation, signal) = times;
                Scenario {
                    startup_s: Span(startup),
                    request_interval_s: Span(interval.max(2)),
                    invocation_s: Span(invocation),
                    signal_at_s: Span(signal),
                    initial_workers: workers,
                    slots_per_worker: slots,
                    ready_only_routing: routing,
                    boot_replacement: replaced,
                    on_sigterm: OnSigterm::Drain,
                    ..Scenario::new("drained", "Drained")
                }
            },
        )
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn with_a_handler_a_longer_grace_period_kills_no_more(base in drained()) {
            let cells = cells(&grid(&base, &["grace_period_s=0..20/0.1"]).unwrap(), 1);
            for pair in cells.windows(2) {
                prop_assert!(pair[0].killed >= pair[1].killed);
                // At most one request is admitted in a tick, so at most one completes in one.
                prop_assert!(pair[0].killed <= pair[1].killed + 1);
            }
        }

        /// A draining worker is no candidate, so with routing that leaves it out the deadline changes no admission.
        #[test]
        fn with_a_handler_and_ready_only_routing_the_grace_period_costs_nothing(base in drained()) {
            let base = Scenario { ready_only_routing: true, ..base };
            let cells = cells(&grid(&base, &["grace_period_s=0..20/0.1"]).unwrap(), 1);
            for pair in cells.windows(2) {
                prop_assert_eq!((pair[0].rejected, pair[0].running), (pair[1].rejected, pair[1].running));
                prop_assert!(pair[0].completed <= pair[1].completed);
            }
        }

        /// A larger allowance only ever turns a failing gate into one that passes.
        #[test]
        fn a_larger_allowance_passes_whatever_a_smaller_one_passes(base in drained()) {
            let cells = cells(&grid(&base, &["rejection_allowance_percent=0..100"]).unwrap(), 1);
            prop_assert!(cells.is_sorted_by_key(|cell| cell.gate == Gate::Pass));
            let same = |cell: &Cell| Cell { gate: Gate::Fail, ..*cell };
            prop_assert!(cells.windows(2).all(|pair| same(&pair[0]) == same(&pair[1])));
        }
    }

    /// More of what seems good can lose more: these are the reasons for sweeping instead of reckoning.
    #[test]
    fn what_is_not_monotone() {
        let numbers = |name: &str, specs: &[&str], number: fn(&Cell) -> u16| -> Vec<u16> {
            cells(&grid(catalogue::get(name).unwrap(), specs).unwrap(), 1).iter().map(number).collect()
        };
        // Deaf to SIGTERM: the worker goes on taking requests, and at a longer deadline more are in flight.
        let killed = numbers("short-work-ignored-signal", &["grace_period_s=0..20/0.1"], |cell| cell.killed);
        assert!(!killed.is_sorted() && !killed.is_sorted_by(|a, b| a >= b), "{killed:?}");
        // Deaf and slow: it rejects less the longer it lives.
        let rejected = numbers("ignored-signal", &["grace_period_s=0..10/0.1"], |cell| cell.rejected);
        assert!(rejected.is_sorted_by(|a, b| a >= b) && rejected.first() > rejected.last(), "{rejected:?}");
        // With a handler, but with routing that still offers it requests: it refuses them for as long as it drains.
        let rejected = numbers("unguarded-routing-draining", &["grace_period_s=0..20/0.1"], |cell| cell.rejected);
        assert!(rejected.is_sorted() && rejected.first() < rejected.last(), "{rejected:?}");
        // Longer work is not always more work killed.
        let killed = numbers("ignored-signal", &["invocation_s=0.1..60/0.1"], |cell| cell.killed);
        assert!(!killed.is_sorted(), "{killed:?}");
    }
}
