//! What of the settings is not shown.

use super::Settings;

/// What stands in a record in the place of a value that may be a secret.
pub const HIDDEN: &str = "(hidden)";

/// What names of headers that hold secrets have in them, in small letters: Authorization, Cookie, X-Api-Key and the like.
const SECRET: [&str; 7] = ["auth", "cookie", "credential", "key", "secret", "session", "token"];

fn is_secret(header: &str) -> bool {
    let header = header.to_ascii_lowercase();
    SECRET.iter().any(|secret| header.contains(secret))
}

impl Settings {
    /// The same as it is shown and stored: without the values of variables, and of headers whose names tell that theirs are
    /// secrets.
    #[must_use]
    pub fn without_secrets(mut self) -> Settings {
        let variables = self.env.iter_mut();
        let templates = self.requests.iter_mut().chain(&mut self.slow_requests);
        let headers = templates.flat_map(|template| &mut template.headers).filter(|(name, _)| is_secret(name));
        variables.chain(headers).for_each(|(_, value)| HIDDEN.clone_into(value));
        self
    }
}
