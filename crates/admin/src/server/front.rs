//! What is on the admin port, for those who come without a path: links for browsers, lines for everything else.

use axum::http::{HeaderMap, header};
use axum::response::{Html, IntoResponse, Response};

/// Every path, and what it tells.
const PATHS: [(&str, &str); 5] = [
    ("/status", "what this server says of itself, as JSON; `trilith status` shows it to people"),
    ("/metrics", "figures, in the OpenMetrics format"),
    ("/health/live", "200 while the process runs"),
    ("/health/ready", "200 while requests are served, else 503 and why not"),
    ("/scrub", "how far the reading of all copies is; POST begins it"),
];

/// The list of them.
pub async fn page(headers: HeaderMap) -> Response {
    let accepted = headers.get(header::ACCEPT).map(|accepted| accepted.as_bytes()).unwrap_or_default();
    let is_browser = accepted.windows(b"text/html".len()).any(|kind| kind.eq_ignore_ascii_case(b"text/html"));
    if !is_browser {
        let lines = PATHS.map(|(path, tells)| format!("{path:<14} {tells}\n"));
        return format!("The admin port of a Trilith server. It has:\n\n{}", lines.concat()).into_response();
    }
    let items = PATHS.map(|(path, tells)| format!("<li><a href=\"{path}\">{path}</a>: {tells}</li>\n"));
    let page = format!(
        "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><title>Trilith: admin port</title></head>\n\
         <body><h1>The admin port of a Trilith server</h1>\n<ul>\n{}</ul></body></html>\n",
        items.concat()
    );
    Html(page).into_response()
}
