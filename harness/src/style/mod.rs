//! The looks of the page and of the reports, which share their colours and fonts.

/// The style of the page, and of the reports that replay a drill.
pub const PAGE: &str = concat!(include_str!("tokens.css"), "\n", include_str!("../../assets/style.css"));

/// The style of the report on a check.
pub const CHECK: &str = concat!(include_str!("tokens.css"), "\n", include_str!("../check/html/style.css"));

#[cfg(test)]
mod tests {
    use super::*;

    /// What a script sets at an element.
    const SET_BY_SCRIPTS: [&str; 1] = ["--depth"];

    /// A name that nobody defines would leave a browser without a colour, and without a word about it.
    #[test]
    fn every_token_that_is_used_is_there() {
        for style in [PAGE, CHECK] {
            for used in style.split("var(").skip(1) {
                let name = used.split([')', ',']).next().unwrap().trim();
                assert!(SET_BY_SCRIPTS.contains(&name) || style.contains(&format!("{name}:")), "{name}");
            }
        }
    }
}
