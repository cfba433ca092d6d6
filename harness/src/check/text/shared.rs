//! What two texts share, so that it is said once. Pure.

/// How a process is told to be PID 1 or not: that stands beside each text anyway.
const SEATS: [&str; 2] = [" (PID 1)", " (not PID 1)"];
/// Where a text may be parted.
const ENDS: [&str; 2] = [". ", ": "];

/// What was told of two seats, in parts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Shared {
    /// What holds for both, as whole sentences. Empty where that is nothing.
    pub(super) both: String,
    /// What is told of each beyond that. Both are empty where there is no difference.
    pub(super) each: [String; 2],
}

impl Shared {
    /// Parts two texts.
    pub(super) fn of(texts: [&str; 2]) -> Shared {
        let plain = texts.map(|text| SEATS.iter().fold(text.to_owned(), |text, seat| text.replace(seat, "")));
        let [one, other] = &plain;
        if one == other {
            return Shared { both: one.clone(), each: [String::new(), String::new()] };
        }
        let same = one.bytes().zip(other.bytes()).take_while(|(a, b)| a == b).count();
        let end =
            ENDS.iter().filter_map(|end| one.as_bytes()[..same].windows(2).rposition(|two| two == end.as_bytes()));
        match end.max() {
            // Both ends are ASCII, so the parts are whole characters.
            Some(end) => {
                let each = [one, other].map(|text| text[end + 2..].to_owned());
                Shared { both: format!("{}.", &one[..end]), each }
            }
            None => Shared { both: String::new(), each: texts.map(str::to_owned) },
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_is_the_same_is_said_once() {
        let rows = [
            (
                [
                    "It went to a (PID 1), which is deaf: dropped. All went on.",
                    "It went to a (not PID 1), which is deaf: died.",
                ],
                "It went to a, which is deaf.",
                ["dropped. All went on.", "died."],
            ),
            (["It went to a (PID 1). b.", "It went to a (not PID 1). c."], "It went to a.", ["b.", "c."]),
            (["Same (PID 1).", "Same (not PID 1)."], "Same.", ["", ""]),
            (
                ["It exited (PID 1) 0.", "It exited (not PID 1) 1."],
                "",
                ["It exited (PID 1) 0.", "It exited (not PID 1) 1."],
            ),
            (["é. x", "é. y"], "é.", ["x", "y"]),
            (["", "a."], "", ["", "a."]),
        ];
        for (texts, both, each) in rows {
            assert_eq!(Shared::of(texts), Shared { both: both.to_owned(), each: each.map(str::to_owned) });
        }
    }

    proptest! {
        #[test]
        fn nothing_is_left_out(same in "[a-zé.: ]{0,20}", one in "[a-zé.: ]{0,20}", other in "[a-zé.: ]{0,20}") {
            let texts = [format!("{same}{one}"), format!("{same}{other}")];
            let shared = Shared::of([&texts[0], &texts[1]]);
            for (text, each) in texts.iter().zip(&shared.each) {
                let whole = format!("{}{each}", shared.both);
                let letters = |text: &str| text.replace(['.', ':', ' '], "");
                prop_assert_eq!(letters(text), letters(&whole));
            }
        }
    }
}
