//! The page and its files, embedded.

use std::{
    hash::{DefaultHasher, Hash, Hasher},
    sync::LazyLock,
};

use axum::{
    Router,
    http::{
        HeaderMap, StatusCode,
        header::{CACHE_CONTROL, CONTENT_TYPE, ETAG, IF_NONE_MATCH},
    },
    response::{IntoResponse, Response},
    routing::get,
};

use crate::style;

/// A file of the page.
struct Asset {
    /// Where it is served.
    path: &'static str,
    content: &'static str,
}

macro_rules! assets {
    ($($path:literal => $file:literal,)*) => {
        [$(Asset { path: $path, content: include_str!(concat!("../../assets/", $file)) }),*]
    };
}

/// Every file of `harness/assets` but the style; a test sees that none is missing.
static ASSETS: [Asset; 14] = assets! {
    "/" => "index.html",
    "/address.js" => "address.js",
    "/app.js" => "app.js",
    "/dom.js" => "dom.js",
    "/evidence.js" => "evidence.js",
    "/experiment.js" => "experiment.js",
    "/growing.js" => "growing.js",
    "/keys.js" => "keys.js",
    "/lanes.js" => "lanes.js",
    "/panels.js" => "panels.js",
    "/player.js" => "player.js",
    "/runlist.js" => "runlist.js",
    "/runs.js" => "runs.js",
    "/start.js" => "start.js",
};

/// The style, whose colours are those of the reports too.
static STYLE: Asset = Asset { path: "/style.css", content: style::PAGE };

fn all() -> impl Iterator<Item = &'static Asset> {
    ASSETS.iter().chain([&STYLE])
}

/// The routes of the page.
pub(super) fn routes<S: Clone + Send + Sync + 'static>() -> Router<S> {
    static TAGS: LazyLock<Vec<String>> = LazyLock::new(|| all().map(|asset| tag(asset.content)).collect());
    all().zip(TAGS.iter()).fold(Router::new(), |router, (asset, tag)| {
        router.route(asset.path, get(async move |headers: HeaderMap| answer(asset, tag, &headers)))
    })
}

/// A browser asks each time whether the file is still the same, so that a new version of the program is seen at once.
fn answer(asset: &Asset, tag: &str, headers: &HeaderMap) -> Response {
    let caching = [(ETAG, tag.to_owned()), (CACHE_CONTROL, "no-cache".to_owned())];
    let known = headers.get_all(IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let is_known = known.flat_map(|value| value.split(',')).any(|value| value.trim().trim_start_matches("W/") == tag);
    if is_known {
        return (StatusCode::NOT_MODIFIED, caching).into_response();
    }
    (caching, [(CONTENT_TYPE, media_type(asset.path))], asset.content).into_response()
}

fn media_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/html; charset=utf-8",
    }
}

/// An entity tag (RFC 9110, section 8.8.3) that is another one for other content.
fn tag(content: &str) -> String {
    let mut hasher = DefaultHasher::new();
    content.hash(&mut hasher);
    format!("\"{:016x}\"", hasher.finish())
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn every_file_of_the_page_is_served() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("assets");
        for entry in fs::read_dir(folder).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let path = if name == "index.html" { "/".to_owned() } else { format!("/{name}") };
            assert!(all().any(|asset| asset.path == path), "{name} is not in the table");
        }
    }

    #[test]
    fn a_file_that_is_known_is_not_sent_again() {
        let asset = Asset { path: "/app.js", content: "let x = 1;" };
        let tag = tag(asset.content);
        let status = |known: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in known {
                headers.append(IF_NONE_MATCH, value.parse().unwrap());
            }
            answer(&asset, &tag, &headers).status()
        };
        assert_eq!(status(&[]), 200);
        assert_eq!(status(&["\"another\""]), 200);
        assert_eq!(status(&[&tag]), 304);
        assert_eq!(status(&[&format!("\"another\", W/{tag}")]), 304);
        assert_eq!(answer(&asset, &tag, &HeaderMap::new()).headers()[CONTENT_TYPE], "text/javascript; charset=utf-8");
    }
}
