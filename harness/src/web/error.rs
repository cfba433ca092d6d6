//! What goes wrong with a request, as it is answered.

use axum::{
    http::StatusCode,
    response::{IntoResponse, Response},
};
use scenarios::ScenarioError;
use serde::Serialize;

use super::api::json;
use crate::failure::{BAD_INPUT, Failure};

/// An answer that is no answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct HttpError {
    #[serde(skip)]
    status: StatusCode,
    /// What is wrong.
    error: String,
    /// What to do about it.
    hint: Option<String>,
    /// What is wrong with each field of a scenario.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    problems: Vec<FieldProblem>,
}

/// What is wrong with one field of a scenario.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct FieldProblem {
    /// Its name; null where the whole scenario is meant.
    field: Option<String>,
    message: String,
}

impl HttpError {
    /// An error with this status.
    #[must_use]
    pub fn new(status: StatusCode, error: impl Into<String>) -> HttpError {
        HttpError { status, error: error.into(), hint: None, problems: Vec::new() }
    }

    /// The same with a next step.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> HttpError {
        self.hint = Some(hint.into());
        self
    }

    /// A request that is not what it should be.
    #[must_use]
    pub fn bad(error: impl Into<String>) -> HttpError {
        HttpError::new(StatusCode::BAD_REQUEST, error)
    }

    /// There is no such thing.
    #[must_use]
    pub fn not_found(error: impl Into<String>) -> HttpError {
        HttpError::new(StatusCode::NOT_FOUND, error)
    }

    /// More than is taken.
    #[must_use]
    pub fn too_many(error: impl Into<String>) -> HttpError {
        HttpError::new(StatusCode::TOO_MANY_REQUESTS, error)
    }

    /// A run that ended and did not say how.
    #[must_use]
    pub fn unknown_end() -> HttpError {
        HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, "the process that ran the drill ended without a word")
    }

    /// A scenario of which one field can't be used.
    #[must_use]
    pub fn of_field(field: &str, failure: &Failure) -> HttpError {
        let problem = FieldProblem { field: Some(field.to_owned()), message: failure.what.clone() };
        HttpError { problems: vec![problem], ..HttpError::from(failure.clone()) }
    }

    /// Its status.
    #[must_use]
    pub fn status(&self) -> StatusCode {
        self.status
    }
}

impl From<ScenarioError> for HttpError {
    fn from(error: ScenarioError) -> HttpError {
        let problems = error
            .problems
            .iter()
            .map(|problem| FieldProblem { field: problem.field().map(str::to_owned), message: problem.to_string() });
        HttpError { problems: problems.collect(), ..HttpError::bad("this is not a scenario") }
    }
}

impl From<Failure> for HttpError {
    fn from(failure: Failure) -> HttpError {
        let status = match failure.exit_code {
            BAD_INPUT => StatusCode::BAD_REQUEST,
            _ => StatusCode::SERVICE_UNAVAILABLE,
        };
        HttpError { hint: failure.next_step, ..HttpError::new(status, failure.what) }
    }
}

impl From<anyhow::Error> for HttpError {
    fn from(error: anyhow::Error) -> HttpError {
        match error.downcast::<Failure>() {
            Ok(failure) => failure.into(),
            Err(error) => HttpError::new(StatusCode::INTERNAL_SERVER_ERROR, format!("{error:#}")),
        }
    }
}

impl IntoResponse for HttpError {
    fn into_response(self) -> Response {
        json(self.status, &self)
    }
}
