//! Which route an address belongs to, for counting: one of a fixed list, whatever callers send.

/// Every route; the busiest first. `{}` stands for any one part.
const ROUTES: &[&str] = &[
    "/v1/federations/{}/check-in",
    "/v1/federations/{}/rounds/{}/updates",
    "/v1/federations/{}/models/{}",
    "/v1/federations/{}/models/{}/from/{}",
    "/v1/federations/{}",
    "/v1/federations/{}/catalog",
    "/v1/federations/{}/devices",
    "/v1/federations/{}/devices/me",
    "/v1/federations/{}/rounds/{}/refusal",
    "/v1/operator/federations",
    "/v1/operator/federations/{}",
    "/v1/operator/federations/{}/rounds",
    "/v1/operator/federations/{}/enrolment-tokens",
    "/v1/operator/federations/{}/enrolment-tokens/{}",
    "/v1/operator/federations/{}/devices/{}",
    "/v1/operator/federations/{}/{}",
    "/v1/operator/tokens",
    "/v1/operator/tokens/{}",
    "/v1/operator/events",
    "/healthz",
    "/readyz",
    "/metrics",
    "/openapi.json",
    "/",
];

/// The route of an address.
pub(super) fn of(path: &str) -> &'static str {
    ROUTES.iter().find(|route| matches(route, path)).copied().unwrap_or("other")
}

fn matches(route: &str, path: &str) -> bool {
    let (mut route, mut path) = (route.split('/'), path.split('/'));
    loop {
        match (route.next(), path.next()) {
            (None, None) => return true,
            (Some("{}"), Some(part)) if !part.is_empty() => (),
            (Some(one), Some(other)) if one == other => (),
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_counted_under_their_route_and_inventions_under_one() {
        assert_eq!(of("/v1/federations/films/check-in"), "/v1/federations/{}/check-in");
        assert_eq!(of("/v1/federations/films/models/3/from/2"), "/v1/federations/{}/models/{}/from/{}");
        assert_eq!(of("/v1/operator/federations/films/rounds"), "/v1/operator/federations/{}/rounds");
        assert_eq!(of("/v1/operator/federations/films/pause"), "/v1/operator/federations/{}/{}");
        assert_eq!(of("/"), "/");
        for other in ["", "/v2", "/v1/federations//check-in", "/v1/federations/a/b/c/d/e/f"] {
            assert_eq!(of(other), "other", "{other}");
        }
    }
}
