//! The table of addresses: what the router knows, and what the interface's description must tell.

use super::Api;
use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodRouter, delete, get, post};
use std::sync::LazyLock;

/// Every route once, for counting: those without variable parts before those that would take their place.
static COUNTED: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut all: Vec<String> = super::addresses().into_iter().map(|(_, path)| path).collect();
    all.sort();
    all.dedup();
    all.sort_by_key(|path| (!BUSY.iter().any(|busy| path.ends_with(busy)), path.matches('{').count()));
    // A few texts that live as long as the program.
    all.into_iter().map(|path| &*path.leak()).collect()
});

/// Ends of the routes that nearly all requests take, to be found first.
const BUSY: [&str; 2] = ["/check-in", "/updates"];

/// The route of an address; one of a fixed list, whatever callers send.
pub(super) fn of(path: &str) -> &'static str {
    COUNTED.iter().find(|route| matches(route, path)).copied().unwrap_or("unknown")
}

fn matches(route: &str, path: &str) -> bool {
    let (mut route, mut path) = (route.split('/'), path.split('/'));
    loop {
        match (route.next(), path.next()) {
            (None, None) => return true,
            (Some(variable), Some(part)) if variable.starts_with('{') && !part.is_empty() => (),
            (Some(one), Some(other)) if one == other => (),
            _ => return false,
        }
    }
}

/// A router that remembers its addresses.
#[derive(Default)]
pub(super) struct Routes {
    pub(super) router: Router<Api>,
    /// Method and path of each.
    pub(super) known: Vec<(&'static str, String)>,
}

impl Routes {
    pub(super) fn get<H: Handler<T, Api>, T: 'static>(self, path: &str, handler: H) -> Self {
        self.on("GET", path, get(handler))
    }

    pub(super) fn post<H: Handler<T, Api>, T: 'static>(self, path: &str, handler: H) -> Self {
        self.on("POST", path, post(handler))
    }

    pub(super) fn delete<H: Handler<T, Api>, T: 'static>(self, path: &str, handler: H) -> Self {
        self.on("DELETE", path, delete(handler))
    }

    fn on(mut self, method: &'static str, path: &str, handler: MethodRouter<Api>) -> Self {
        self.known.push((method, path.to_owned()));
        Self { router: self.router.route(path, handler), ..self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_counted_under_their_route_and_inventions_under_one() {
        let federation = "/v1/federations/{federation}";
        assert_eq!(of("/v1/federations/films/check-in"), format!("{federation}/check-in"));
        assert_eq!(
            of("/v1/federations/films/models/3/from/2"),
            format!("{federation}/models/{{version}}/from/{{held}}")
        );
        let operated = "/v1/operator/federations/{federation}";
        assert_eq!(of("/v1/operator/federations/films/rounds"), format!("{operated}/rounds"));
        assert_eq!(of("/v1/operator/federations/films/pause"), format!("{operated}/{{action}}"));
        assert_eq!(of("/"), "/");
        for other in ["", "/v2", "/v1/federations//check-in", "/v1/federations/a/b/c/d/e/f"] {
            assert_eq!(of(other), "unknown", "{other}");
        }
    }
}
