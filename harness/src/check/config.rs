//! The configuration file: the options of the command line by the same names, in TOML or JSON.

use std::{
    fs,
    io::{self, ErrorKind, Read},
    path::Path,
};

use clap::ValueEnum;
use scenarios::near::nearest;
use serde_json::{Map, Value};

use super::{
    args::{As, Options},
    profiles::{PROFILES, Profile},
    settings,
    template::{self, Template},
};
use crate::failure::Failure;

/// The files that are looked for.
const NAMES: [&str; 2] = ["termdrill.toml", "termdrill.json"];

/// What stands in a file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct File {
    /// The command and its arguments.
    pub command: Vec<String>,
    /// Everything else.
    pub options: Options,
}

/// All keys of a file.
pub const KEYS: [&str; 27] = [
    "command",
    "profile",
    "as",
    "port",
    "env",
    "cwd",
    "user",
    "ready",
    "ready_timeout",
    "signal",
    "signal_at",
    "to",
    "grace",
    "pre_stop",
    "second_signal",
    "after",
    "request",
    "slow_request",
    "header",
    "data",
    "every",
    "clients",
    "request_timeout",
    "routing_lag",
    "allow_refused",
    "max_lost",
    "expect_exit",
];

/// Reads the file that was named, or the one in `directory` if there is one.
///
/// # Errors
/// It can't be read, or does not say what it may say.
pub fn read(named: Option<&Path>, directory: &Path) -> Result<File, Failure> {
    let found = || NAMES.iter().map(|name| directory.join(name)).find(|path| path.is_file());
    let Some(path) = named.map(|named| directory.join(named)).or_else(found) else {
        return Ok(File::default());
    };
    let name = named.unwrap_or(&path).display().to_string();
    let text = text_of(&path).map_err(|error| {
        let failure = Failure::bad_input(format!("{name} can't be read: {}", crate::failure::plain_io(&error)));
        if error.kind() == ErrorKind::NotFound {
            failure.hint("--config names the file with the options")
        } else {
            failure
        }
    })?;
    let is_json = path.extension().is_some_and(|extension| extension == "json");
    let mut file =
        parse(&text, is_json).map_err(|failure| Failure { what: format!("{name}: {}", failure.what), ..failure })?;
    // What a file says of places is said from where it is.
    if let (Some(cwd), Some(beside)) = (&mut file.options.cwd, path.parent()) {
        *cwd = beside.join(&*cwd);
    }
    Ok(file)
}

/// How long such a file can be.
const MAX_BYTES: usize = 1 << 20;

/// All of the file, unless it never ends.
fn text_of(path: &Path) -> io::Result<String> {
    let mut bytes = Vec::new();
    fs::File::open(path)?.take(MAX_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    if bytes.len() > MAX_BYTES {
        let what = format!("it is longer than the {MAX_BYTES} bytes that such a file can have");
        return Err(io::Error::new(ErrorKind::InvalidData, what));
    }
    String::from_utf8(bytes).map_err(|error| {
        let what = format!("the byte at offset {} is no text", error.utf8_error().valid_up_to());
        io::Error::new(ErrorKind::InvalidData, what)
    })
}

/// Reads the text of a file.
///
/// # Errors
/// It does not say what it may say.
pub fn parse(text: &str, is_json: bool) -> Result<File, Failure> {
    let table: Map<String, Value> = if is_json {
        serde_json::from_str(text).map_err(|error| Failure::bad_input(error.to_string()))?
    } else {
        toml::from_str(text).map_err(|error| Failure::bad_input(error.to_string().trim_end().to_owned()))?
    };
    let mut file = File::default();
    for (key, value) in &table {
        if !KEYS.contains(&key.as_str()) {
            let failure = Failure::bad_input(format!("{}there is no option {key:?}", line_of(text, is_json, key)));
            return Err(match nearest(key, KEYS.into_iter()) {
                Some(meant) => failure.hint(format!("is {meant:?} meant?")),
                None => failure.hint(format!("there are: {}", KEYS.join(", "))),
            });
        }
        file.set(key, value).map_err(|allowed| {
            let line = line_of(text, is_json, key);
            Failure::bad_input(format!("{line}{key}: {value} is not allowed: {allowed}"))
        })?;
    }
    Ok(file)
}

/// Where a key stands in a text, as the beginning of an error: `line 3: `. Nothing where that can't be told.
fn line_of(text: &str, is_json: bool, key: &str) -> String {
    let found = if is_json { in_json(text, key) } else { in_toml(text, key) };
    let line = found.and_then(|offset| text.get(..offset)).map(|before| before.matches('\n').count() + 1);
    line.map_or_else(String::new, |line| format!("line {line}: "))
}

fn in_toml(text: &str, key: &str) -> Option<usize> {
    let table = toml::de::DeTable::parse(text).ok()?;
    table.get_ref().keys().find(|known| known.get_ref() == key).map(|known| known.span().start)
}

/// The parser of JSON does not tell places: it is the first text of that name that is no value, and not in a deeper table.
fn in_json(text: &str, key: &str) -> Option<usize> {
    let quoted = Value::from(key).to_string();
    let mut depth = 0;
    let mut at = 0;
    while let Some(found) = text.get(at..)?.find(['{', '}', '[', ']', '"']) {
        at += found;
        let rest = text.get(at..)?;
        match rest.as_bytes().first()? {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth -= 1,
            _ => {
                let mut texts = serde_json::Deserializer::from_str(rest).into_iter::<String>();
                texts.next()?.ok()?;
                let end = texts.byte_offset();
                if depth == 1 && rest.starts_with(&quoted) && rest.get(end..)?.trim_start().starts_with(':') {
                    return Some(at);
                }
                at += end;
                continue;
            }
        }
        at += 1;
    }
    None
}

impl File {
    fn set(&mut self, key: &str, value: &Value) -> Result<(), String> {
        let options = &mut self.options;
        let text = || text(value);
        match key {
            "command" => {
                self.command = match value {
                    Value::Array(words) => words.iter().map(word).collect::<Result<_, _>>()?,
                    Value::String(_) => shlex::split(&word(value)?).ok_or("a quotation mark is not closed")?,
                    _ => return Err("a text, or a list of words".to_owned()),
                }
            }
            "profile" => {
                let name = text()?;
                Profile::from_name(&name)
                    .ok_or_else(|| format!("the platforms are {}", PROFILES.map(|profile| profile.name).join(", ")))?;
                options.profile = Some(name);
            }
            "as" => options.seat = Some(As::from_str(&text()?, false).map_err(|_| "pid1, process or both")?),
            "port" => {
                let port = text()?.parse().ok().filter(|&port: &u16| port > 0);
                options.port = Some(port.ok_or("a number from 1 to 65535")?);
            }
            "env" => {
                let table = value.as_object().ok_or("a table of names and values")?;
                let pair = |(name, value): (&String, &Value)| super::args::variable(name, &self::text(value)?);
                options.env = table.iter().map(pair).collect::<Result<_, String>>()?;
            }
            "cwd" => options.cwd = Some(word(value)?.into()),
            "user" => options.user = Some(text()?),
            "ready" => options.ready = Some(text()?.parse()?),
            "ready_timeout" => options.ready_timeout = Some(settings::timeout_ms(&text()?)?),
            "signal" => options.signal = Some(settings::signal(&text()?)?),
            "signal_at" => options.signal_at = Some(text()?.parse()?),
            "to" => options.to = Some(super::args::target(&text()?)?),
            "grace" => options.grace = Some(settings::duration_ms(&text()?)?),
            "pre_stop" => options.pre_stop = Some(settings::duration_ms(&text()?)?),
            "second_signal" => options.second_signal = Some(settings::signal(&text()?)?),
            "after" => options.after = Some(settings::duration_ms(&text()?)?),
            "request" => options.request = templates(value)?,
            "slow_request" => options.slow_request = templates(value)?,
            "header" => options.header = headers(value)?,
            "data" => options.data = Some(text()?),
            "every" => options.every = Some(super::args::every(&text()?)?),
            "clients" => {
                let clients = text()?.parse().ok().filter(|clients| (1..=10_000).contains(clients));
                options.clients = Some(clients.ok_or("a number from 1 to 10000")?);
            }
            "request_timeout" => options.request_timeout = Some(settings::timeout_ms(&text()?)?),
            "routing_lag" => options.routing_lag = Some(settings::duration_ms(&text()?)?),
            "allow_refused" => options.allow_refused = Some(text()?.parse()?),
            "max_lost" => options.max_lost = Some(text()?.parse().map_err(|_| "a number")?),
            "expect_exit" => options.expect_exit = Some(settings::exit(&text()?)?),
            _ => return Err("it is no option".to_owned()),
        }
        Ok(())
    }
}

/// A value as it would stand on the command line.
fn text(value: &Value) -> Result<String, String> {
    match value {
        Value::String(text) => Ok(text.clone()),
        Value::Number(number) => Ok(number.to_string()),
        Value::Bool(flag) => Ok(flag.to_string()),
        _ => Err("a text or a number".to_owned()),
    }
}

/// The same, where the kernel takes no zero byte.
fn word(value: &Value) -> Result<String, String> {
    let text = text(value)?;
    if text.contains('\0') { Err("a text without a zero byte".to_owned()) } else { Ok(text) }
}

/// One request or several, each as on the command line, or as a table of method, path, headers and body.
fn templates(value: &Value) -> Result<Vec<Template>, String> {
    match value {
        Value::Array(several) => several.iter().map(template).collect(),
        one => Ok(vec![template(one)?]),
    }
}

fn template(value: &Value) -> Result<Template, String> {
    let Value::Object(table) = value else { return text(value)?.parse() };
    let mut template: Template = "/".parse()?;
    for (key, value) in table {
        match key.as_str() {
            "method" => template.method = text(value)?,
            "path" => template.path = text(value)?,
            "headers" => template.headers = headers(value)?,
            "body" => template.body = Some(text(value)?),
            _ => return Err(format!("a request has method, path, headers and body, and no {key:?}")),
        }
    }
    template.check()?;
    Ok(template)
}

/// A table of names and values, or lines as on the command line.
fn headers(value: &Value) -> Result<Vec<(String, String)>, String> {
    match value {
        Value::Object(table) => {
            table.iter().map(|(name, value)| template::header(&format!("{name}: {}", text(value)?))).collect()
        }
        Value::Array(lines) => lines.iter().map(|line| template::header(&text(line)?)).collect(),
        line => Ok(vec![template::header(&text(line)?)?]),
    }
}
