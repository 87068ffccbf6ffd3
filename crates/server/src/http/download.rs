//! Downloads: compressed, of a range, or not at all if the caller has the file.

use super::problem::Problem;
use crate::federation::Encoded;
use axum::body::Body;
use axum::http::header::{
    ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_RANGE, CONTENT_TYPE, ETAG, IF_NONE_MATCH,
    IF_RANGE, RANGE, VARY,
};
use axum::http::{HeaderMap, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use bytes::Bytes;
use std::ops::Range;

/// Everybody may cache a file, for good: it never changes.
pub(super) const PUBLIC: &str = "public, max-age=31536000, immutable";
/// The caller may cache it, for good.
pub(super) const PRIVATE: &str = "private, max-age=31536000, immutable";
/// Everybody may cache it, but must revalidate.
pub(super) const REVALIDATE: &str = "no-cache";

/// The response to a request for a file; `caching` says who may cache it.
pub(super) fn send(file: &Encoded, headers: &HeaderMap, caching: &'static str) -> Result<Response, Problem> {
    let mut response = if is_cached(headers, &file.tag) {
        StatusCode::NOT_MODIFIED.into_response()
    } else {
        match range(headers, file)? {
            Some(range) => part(file, range)?,
            None => whole(file, headers),
        }
    };
    let headers = response.headers_mut();
    headers.insert(CACHE_CONTROL, HeaderValue::from_static(caching));
    headers.insert(VARY, HeaderValue::from_static("accept-encoding"));
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Ok(tag) = HeaderValue::from_str(&file.tag) {
        headers.insert(ETAG, tag);
    }
    Ok(response)
}

fn is_cached(headers: &HeaderMap, tag: &str) -> bool {
    let Some(known) = headers.get(IF_NONE_MATCH).and_then(|value| value.to_str().ok()) else { return false };
    known.split(',').map(|each| each.trim().trim_start_matches("W/")).any(|each| each == tag || each == "*")
}

fn whole(file: &Encoded, headers: &HeaderMap) -> Response {
    let accepted = headers.get(ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or("");
    let (bytes, coding) = match (&file.zstd, &file.gzip) {
        (Some(zstd), _) if accepts(accepted, "zstd") => (zstd, Some("zstd")),
        (_, Some(gzip)) if accepts(accepted, "gzip") => (gzip, Some("gzip")),
        _ => (&file.plain, None),
    };
    let mut response = of(file, bytes.clone());
    if let Some(coding) = coding {
        response.headers_mut().insert(CONTENT_ENCODING, HeaderValue::from_static(coding));
    }
    response
}

fn of(file: &Encoded, bytes: Bytes) -> Response {
    let mut response = Response::new(Body::from(bytes));
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(file.media));
    response
}

/// Whether a list of encodings contains this one, not with weight 0.
fn accepts(list: &str, coding: &str) -> bool {
    list.split(',').any(|each| {
        let mut parts = each.split(';').map(str::trim);
        let named = parts.next().is_some_and(|name| name.eq_ignore_ascii_case(coding));
        let refused =
            parts.any(|part| part.strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok()) == Some(0.0));
        named && !refused
    })
}

/// The range of the plain file requested; `None` for all of it, also if several ranges or other units are requested.
fn range(headers: &HeaderMap, file: &Encoded) -> Result<Option<Range<usize>>, Problem> {
    let Some(asked) = headers.get(RANGE).and_then(|value| value.to_str().ok()) else { return Ok(None) };
    if headers.get(IF_RANGE).is_some_and(|tag| tag.as_bytes() != file.tag.as_bytes()) {
        return Ok(None);
    }
    let length = file.plain.len();
    let Some((from, to)) = asked.strip_prefix("bytes=").and_then(|range| range.split_once('-')) else {
        return Ok(None);
    };
    let range = match (from.trim().parse::<usize>(), to.trim().parse::<usize>()) {
        (Ok(from), Ok(to)) if from <= to => from..to.saturating_add(1).min(length),
        (Ok(from), Err(_)) if to.trim().is_empty() => from..length,
        (Err(_), Ok(last)) if from.trim().is_empty() && last > 0 => length.saturating_sub(last)..length,
        _ => return Ok(None),
    };
    if range.start >= length {
        return Err(Problem::new("bad-range", format!("the file has {length} bytes")));
    }
    Ok(Some(range))
}

fn part(file: &Encoded, range: Range<usize>) -> Result<Response, Problem> {
    let content_range = format!("bytes {}-{}/{}", range.start, range.end - 1, file.plain.len());
    let mut response = of(file, file.plain.slice(range));
    *response.status_mut() = StatusCode::PARTIAL_CONTENT;
    let value = HeaderValue::from_str(&content_range).map_err(|_| Problem::of("bad-range"))?;
    response.headers_mut().insert(CONTENT_RANGE, value);
    Ok(response)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(axum::http::HeaderName, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.clone(), HeaderValue::from_str(value).unwrap())).collect()
    }

    fn file() -> Encoded {
        Encoded::new((0..4000u32).flat_map(|n| [(n % 7) as u8, 0]).collect(), "text/plain")
    }

    #[test]
    fn sends_the_smallest_accepted_encoding() {
        let file = file();
        let coding = |accepted: &str| {
            let response = send(&file, &headers(&[(ACCEPT_ENCODING, accepted)]), PUBLIC).unwrap();
            response.headers().get(CONTENT_ENCODING).map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(coding("gzip, zstd").as_deref(), Some("zstd"));
        assert_eq!(coding("gzip, zstd;q=0").as_deref(), Some("gzip"));
        assert_eq!(coding("br"), None);
    }

    #[test]
    fn sends_ranges_and_not_modified() {
        let file = file();
        let status = |pairs: &[(axum::http::HeaderName, &str)]| {
            send(&file, &headers(pairs), REVALIDATE).map(|response| {
                let range = response.headers().get(CONTENT_RANGE).map(|value| value.to_str().unwrap().to_owned());
                (response.status().as_u16(), range.unwrap_or_default())
            })
        };
        assert_eq!(status(&[(IF_NONE_MATCH, &file.tag)]).unwrap().0, 304);
        assert_eq!(status(&[(RANGE, "bytes=10-19")]).unwrap(), (206, "bytes 10-19/8000".to_owned()));
        assert_eq!(status(&[(RANGE, "bytes=7990-")]).unwrap().1, "bytes 7990-7999/8000");
        assert_eq!(status(&[(RANGE, "bytes=-5")]).unwrap().1, "bytes 7995-7999/8000");
        assert_eq!(status(&[(RANGE, "bytes=7999-99999")]).unwrap().1, "bytes 7999-7999/8000");
        assert_eq!(status(&[(RANGE, "bytes=8000-")]).unwrap_err().code(), "bad-range");
        for ignored in ["bytes=5-2", "items=1-2", "bytes=1-2,5-6", "bytes=a-b", "bytes=-0"] {
            assert_eq!(status(&[(RANGE, ignored)]).unwrap().0, 200, "{ignored}");
        }
        assert_eq!(status(&[(RANGE, "bytes=0-1"), (IF_RANGE, "\"other\"")]).unwrap().0, 200);
    }
}
