use scenarios::Status;

use super::{APP, C143, KILLED, OK, SH, row};
use crate::{
    check::{
        explain,
        samples::{drill, settings},
    },
    evidence::Disposition::Caught,
};

/// Whether the app was still able to close its port before it was cut is luck.
#[test]
fn what_is_told_of_a_wrapper_that_left_does_not_depend_on_what_the_app_could_still_do() {
    let python = ("python3 run.py", "/usr/bin/python3");
    for (wrapper, status, says) in [(python, OK, "run.py took it and left"), (SH, C143, "dash ran its trap and left")] {
        let told = |status: Status, closed: bool| {
            let observed = drill(true, &[row(wrapper, Caught, status, Some(40)), row(APP, Caught, KILLED, Some(39))]);
            let explanation = explain::explain(&settings(), &if closed { observed.closed(5) } else { observed });
            (explanation.cause, explanation.text, explanation.change)
        };
        let told = [false, true].map(|closed| told(status, closed));
        assert_eq!(told[0], told[1]);
        assert!(told[0].1.contains(says), "{told:?}");
    }
}
