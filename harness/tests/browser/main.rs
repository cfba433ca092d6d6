//! The page of `termdrill serve` in a real browser: Chromium, told what to do by WebDriver as a person would with mouse and
//! keyboard. What is to be shown comes from the model; what is shown is read from the page.
//!
//! All tests share one chromedriver. Where there is none, or no Chromium, they say so and are skipped.

#![expect(clippy::unwrap_used, reason = "a test that can't go on fails")]

mod access;
mod driver;
mod expected;
mod experiment;
mod layout;
mod live;
mod page;
mod panels;
#[path = "../drills/processes.rs"]
mod processes;
mod runs;
mod server;
mod speed;
#[path = "../drills/support.rs"]
#[expect(dead_code, reason = "it is shared with the tests of drills, which use the rest")]
mod support;
mod time;
mod webdriver;
