//! The table of addresses: what the router knows, and what the interface's description must tell.

use super::Api;
use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodRouter, delete, get, post};

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
