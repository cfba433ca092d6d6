//! Near matches for misspelt names.

/// No name of the project is longer; longer ones are not compared at all.
const LONGEST: usize = 100;

/// The one of `known` that `name` is most likely meant to be: one that it differs little from, or begins.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let name = name.trim();
    if name.is_empty() || name.len() > LONGEST {
        return None;
    }
    let name = name.to_lowercase().replace([' ', '-'], "_");
    let likeness = |candidate: &str| {
        let candidate = candidate.replace('-', "_");
        // `slots` for `slots_per_worker`: a whole word that is there counts for more than the letters that are not.
        let begun = candidate.strip_prefix(&name).is_some_and(|rest| rest.starts_with('_'));
        if begun { 1.0 } else { strsim::jaro_winkler(&name, &candidate) }
    };
    let rated = known.map(|candidate| (likeness(candidate), candidate)).filter(|(likeness, _)| *likeness >= 0.85);
    // The first of several equals.
    rated.reduce(|best, next| if next.0 > best.0 { next } else { best }).map(|(_, candidate)| candidate)
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn what_may_be_meant() {
        let known = ["slots_per_worker", "startup_s", "grace_period_s", "initial_workers", "on_sigterm", "why"];
        for (name, meant) in [
            ("slots", Some("slots_per_worker")),
            ("grace-period", Some("grace_period_s")),
            ("Grace_Period_S", Some("grace_period_s")),
            ("initial_worker", Some("initial_workers")),
            ("onsigterm", Some("on_sigterm")),
            ("start_up_s", Some("startup_s")),
            ("colour", None),
            ("", None),
            (&"slots".repeat(100), None),
        ] {
            assert_eq!(nearest(name, known.into_iter()), meant, "{name}");
        }
    }
}
