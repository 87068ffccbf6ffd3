//! The table of routes.

use super::{
    Api, advertiser_api as advertiser, dashboard, device_api as device, openapi, operator_api as operator, ready,
};
use axum::Router;
use axum::handler::Handler;
use axum::routing::{MethodRouter, delete, get, post};
use std::sync::LazyLock;

/// A router that lists its routes.
#[derive(Default)]
struct Routes {
    router: Router<Api>,
    /// Method and path of each.
    listed: Vec<(&'static str, String)>,
}

impl Routes {
    fn get<H: Handler<T, Api>, T: 'static>(self, path: &str, handler: H) -> Self {
        self.on("GET", path, get(handler))
    }

    fn post<H: Handler<T, Api>, T: 'static>(self, path: &str, handler: H) -> Self {
        self.on("POST", path, post(handler))
    }

    fn delete<H: Handler<T, Api>, T: 'static>(self, path: &str, handler: H) -> Self {
        self.on("DELETE", path, delete(handler))
    }

    fn on(mut self, method: &'static str, path: &str, handler: MethodRouter<Api>) -> Self {
        self.listed.push((method, path.to_owned()));
        Self { router: self.router.route(path, handler), ..self }
    }
}

/// Which routes a listener has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Part {
    /// All.
    #[default]
    All,
    /// Those of devices and advertisers, where operators have a listener of their own.
    Devices,
    /// Those of operators.
    Operators,
}

fn of(part: Part) -> Routes {
    let common = Routes::default()
        .get("/openapi.json", openapi::document)
        .get("/healthz", || async { "well\n" })
        .get("/readyz", ready);
    match part {
        Part::All => for_advertisers(for_operators(for_devices(common))),
        Part::Devices => for_advertisers(for_devices(common)),
        Part::Operators => for_operators(common),
    }
}

fn for_devices(routes: Routes) -> Routes {
    let federation = "/v1/federations/{federation}";
    let at = |rest: &str| format!("{federation}{rest}");
    routes
        .get(federation, device::about)
        .get(&at("/catalog"), device::catalog)
        .post(&at("/devices"), device::enrol)
        .delete(&at("/devices/me"), device::withdraw)
        .post(&at("/check-in"), device::check_in)
        .get(&at("/model"), device::current_model)
        .get(&at("/models/{version}"), device::model)
        .get(&at("/models/{version}/from/{held}"), device::difference)
        .post(&at("/rounds/{round}/updates"), device::update)
        .post(&at("/rounds/{round}/token"), device::token)
        .post(&at("/rounds/{round}/anonymous-updates"), device::anonymous_update)
        .post(&at("/rounds/{round}/refusal"), device::refusal)
        .post(&at("/rounds/{round}/seal"), device::send_seal_message)
        .get(&at("/rounds/{round}/seal"), device::seal_message)
        .get(&at("/audiences"), device::audiences)
        .post(&at("/audience-tokens/{rotation}"), device::audience_tokens)
        .post(&at("/audiences/{audience}/segments/{rotation}"), device::report)
}

fn for_advertisers(routes: Routes) -> Routes {
    let at = |rest: &str| format!("/v1/advertiser/federations/{{federation}}{rest}");
    routes
        .get(&at("/audiences"), advertiser::list)
        .post(&at("/audiences"), advertiser::create)
        .get(&at("/audiences/{audience}"), advertiser::show)
        .delete(&at("/audiences/{audience}"), advertiser::close)
        .post(&at("/audiences/{audience}/measurements"), advertiser::measure)
        .get(&at("/audiences/{audience}/segments"), advertiser::segments)
        .post(&at("/thresholds"), advertiser::thresholds)
        .get(&at("/measurements/{measurement}"), advertiser::measurement)
}

fn for_operators(routes: Routes) -> Routes {
    let federations = "/v1/operator/federations";
    let at = |rest: &str| format!("{federations}/{{federation}}{rest}");
    routes
        .get("/", dashboard::page)
        .get("/dashboard", dashboard::page)
        .get("/dashboard/page.css", dashboard::style)
        .get("/dashboard/page.js", dashboard::script)
        .get("/metrics", operator::metrics)
        .get(federations, operator::list)
        .post(federations, operator::create)
        .get(&at(""), operator::show)
        .delete(&at(""), operator::delete)
        .get(&at("/deletion"), operator::deletion)
        .post(&at("/{action}"), operator::set_status)
        .post(&at("/extend"), operator::extend)
        .post(&at("/schedule"), operator::schedule)
        .post(&at("/archive"), operator::archive)
        .post(&at("/rollback"), operator::roll_back)
        .get(&at("/rounds"), operator::rounds)
        .delete(&at("/devices/{device}"), operator::revoke)
        .delete(&at("/quarantine/{device}"), operator::release)
        .get(&at("/enrolment-tokens"), operator::enrolment_tokens)
        .post(&at("/enrolment-tokens"), operator::add_enrolment_token)
        .delete(&at("/enrolment-tokens/{token}"), operator::remove_enrolment_token)
        .get(&at("/audiences"), operator::audiences)
        .delete(&at("/audiences/{audience}"), operator::close_audience)
        .get(&at("/advertisers"), operator::advertisers)
        .post(&at("/advertisers"), operator::add_advertiser)
        .delete(&at("/advertisers/{token}"), operator::remove_advertiser)
        .get("/v1/operator/tokens", operator::tokens)
        .post("/v1/operator/tokens", operator::add_token)
        .delete("/v1/operator/tokens/{token}", operator::remove_token)
        .get("/v1/operator/acts", operator::acts)
        .get("/v1/operator/me", operator::me)
        .get("/v1/operator/events", operator::events)
}

pub(super) fn router(part: Part) -> Router<Api> {
    of(part).router
}

/// Method and path of every route.
pub fn routes() -> Vec<(&'static str, String)> {
    of(Part::All).listed
}

/// Endings of the busiest routes, which are matched first.
const BUSY: [&str; 2] = ["/check-in", "/updates"];

/// The paths of all routes: the busy ones first, then by number of parameters, so that a literal matches before a
/// parameter.
static PATHS: LazyLock<Vec<&'static str>> = LazyLock::new(|| {
    let mut all: Vec<String> = routes().into_iter().map(|(_, path)| path).collect();
    all.sort();
    all.dedup();
    all.sort_by_key(|path| (!BUSY.iter().any(|busy| path.ends_with(busy)), path.matches('{').count()));
    // A few strings that live as long as the program.
    all.into_iter().map(|path| &*path.leak()).collect()
});

/// The route of a path, as a metric's label: one of a fixed list, whatever callers send.
pub(super) fn route_of(path: &str) -> &'static str {
    PATHS.iter().find(|route| matches(route, path)).copied().unwrap_or("unknown")
}

fn matches(route: &str, path: &str) -> bool {
    let (mut route, mut path) = (route.split('/'), path.split('/'));
    loop {
        match (route.next(), path.next()) {
            (None, None) => return true,
            (Some(parameter), Some(part)) if parameter.starts_with('{') && !part.is_empty() => (),
            (Some(one), Some(other)) if one == other => (),
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_labelled_by_route_and_unknown_ones_alike() {
        let federation = "/v1/federations/{federation}";
        assert_eq!(route_of("/v1/federations/films/check-in"), format!("{federation}/check-in"));
        assert_eq!(
            route_of("/v1/federations/films/models/3/from/2"),
            format!("{federation}/models/{{version}}/from/{{held}}")
        );
        let operated = "/v1/operator/federations/{federation}";
        assert_eq!(route_of("/v1/operator/federations/films/rounds"), format!("{operated}/rounds"));
        assert_eq!(route_of("/v1/operator/federations/films/pause"), format!("{operated}/{{action}}"));
        assert_eq!(route_of("/v1/operator/federations/films/extend"), format!("{operated}/extend"));
        assert_eq!(route_of("/"), "/");
        for other in ["", "/v2", "/v1/federations//check-in", "/v1/federations/a/b/c/d/e/f"] {
            assert_eq!(route_of(other), "unknown", "{other}");
        }
    }
}
