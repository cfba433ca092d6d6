//! How moments lie on columns, with labels. Pure.

use crate::{check::record::Observed, report::Screen};

use super::{Event, LABEL};

/// How long before the signal the picture begins at most, in microseconds.
const BEFORE_US: i64 = 2_000_000;
/// The narrowest picture, in columns.
const NARROWEST: usize = 20;

/// How moments lie on columns.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scale {
    start_us: i64,
    end_us: i64,
    pub(super) columns: usize,
}

impl Scale {
    /// One on which everything lies that was seen in these drills, and the signal.
    pub(super) fn over<'a>(screen: Screen, drills: impl IntoIterator<Item = (&'a Observed, &'a [Event])>) -> Scale {
        let (mut first_us, mut last_us) = (0, 0);
        for (observed, events) in drills {
            let sent_us = || observed.requests.iter().map(|request| request.sent_us);
            first_us = first_us.min(sent_us().next().unwrap_or(0).max(-BEFORE_US));
            let all_us = events.iter().map(|event| event.at_us);
            (first_us, last_us) = all_us.clone().fold((first_us, last_us), |(a, b), at| (a.min(at), b.max(at)));
            last_us = sent_us().fold(last_us, i64::max);
        }
        let columns = screen.width.saturating_sub(LABEL + 1).max(NARROWEST);
        // A little room behind the last one.
        let span_us = (last_us - first_us).max(100_000);
        Scale { start_us: first_us, end_us: last_us + span_us / 40, columns }
    }

    /// The column of a moment.
    pub(super) fn column(self, at_us: i64) -> usize {
        let span = (self.end_us - self.start_us).max(1);
        let at = (at_us - self.start_us).clamp(0, span);
        (usize::try_from(at * self.columns as i64 / span).unwrap_or(0)).min(self.columns - 1)
    }

    /// Where each of these moments, which are in order, is marked: beside each other where they would fall together, and
    /// none outside.
    pub(super) fn places(self, at_us: impl IntoIterator<Item = i64>) -> Vec<usize> {
        let mut places: Vec<usize> = Vec::new();
        for at_us in at_us {
            let next = places.last().map_or(0, |last| last + 1);
            places.push(self.column(at_us).max(next));
        }
        let mut end = self.columns;
        for place in places.iter_mut().rev() {
            *place = (*place).min(end.saturating_sub(1));
            end = *place;
        }
        places
    }

    /// The labels: where it begins, the signal, and where it ends. One that would touch that of the signal is left out.
    pub(super) fn axis(self) -> String {
        let (start, zero, end) = (seconds(self.start_us), self.column(0), seconds(self.end_us));
        let mut line = String::new();
        if self.start_us < 0 && start.len() < zero {
            line.push_str(&start);
        }
        line = format!("{line:<zero$}0");
        let room = self.columns.saturating_sub(zero + 1);
        if end.len() < room {
            line.push_str(&format!("{end:>room$}"));
        }
        line
    }
}

fn seconds(at_us: i64) -> String {
    let text = format!("{:+.1}", at_us as f64 / 1e6);
    format!("{} s", text.strip_suffix(".0").unwrap_or(&text))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn scale(width: usize, first_ms: i64, last_ms: i64) -> Scale {
        let event = |at_ms: i64| Event { mark: '.', name: String::new(), at_us: at_ms * 1000 };
        let screen = Screen { width, ascii: false, verbose: false };
        Scale::over(screen, [(&Observed::default(), &[event(first_ms), event(last_ms)][..])])
    }

    #[test]
    fn every_label_is_whole() {
        for (width, first_ms, last_ms, labels) in [
            (80, -2_000, 3_000, vec!["-2 s", "0", "+3.1 s"]),
            (80, -2_000, 100_000, vec!["0", "+102.5 s"]),
            (80, -2_000, 300_000, vec!["0", "+307.6 s"]),
            (80, -2_000, 86_400_000, vec!["0", "+88560.1 s"]),
            (40, -2_000, 86_400_000, vec!["0", "+88560.1 s"]),
            (40, -86_400_000, 5, vec!["-86400 s", "0"]),
            (80, -2_000, 2, vec!["-2 s", "0"]),
            (40, 0, 0, vec!["0", "+0 s"]),
        ] {
            let axis = scale(width, first_ms, last_ms).axis();
            let found: Vec<&str> = axis.split("  ").map(str::trim).filter(|word| !word.is_empty()).collect();
            assert_eq!(found, labels, "{axis}");
        }
    }

    proptest! {
        #[test]
        fn labels_are_whole_and_within(width in 40usize..200, first_ms in -86_400_000i64..=0, last_ms in 0i64..=90_000_000) {
            let scale = scale(width, first_ms, last_ms);
            let axis = scale.axis();
            prop_assert!(axis.len() <= scale.columns);
            prop_assert_eq!(axis.chars().nth(scale.column(0)), Some('0'));
            let (before, after) = (&axis[..scale.column(0)], &axis[scale.column(0) + 1..]);
            prop_assert!(["", &seconds(scale.start_us)].contains(&before.trim()), "{}", axis);
            prop_assert!(["", &seconds(scale.end_us)].contains(&after.trim()), "{}", axis);
            prop_assert!(before.is_empty() || before.ends_with(' '));
            prop_assert!(after.is_empty() || after.starts_with(' '));
        }

        #[test]
        fn marks_are_in_order_and_within(width in 40usize..200, mut at_ms in prop::collection::vec(-5_000i64..40_000, 0..9)) {
            at_ms.sort_unstable();
            let scale = scale(width, -5_000, 40_000);
            let places = scale.places(at_ms.iter().map(|at_ms| at_ms * 1000));
            prop_assert_eq!(places.len(), at_ms.len());
            prop_assert!(places.windows(2).all(|two| two[0] < two[1]), "{:?}", places);
            prop_assert!(places.iter().all(|&place| place < scale.columns));
        }
    }
}
