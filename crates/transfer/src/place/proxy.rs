//! Proxies that variables of the environment name. The HTTP client reads these variables itself; here it is told not to,
//! and messages name the proxy.

use std::net::IpAddr;

use object_store::ClientOptions;

/// Addresses of this machine.
const LOOPBACK: &str = "127.0.0.0/8,localhost,::1";

/// Whether a URL leads to this machine.
pub(super) fn is_loopback(url: &str) -> bool {
    let host = host(url);
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Options with which no proxy is used for this machine. A proxy of its own makes the client ignore the environment, and
/// each address of this machine is an exception to it.
pub(super) fn without(options: ClientOptions) -> ClientOptions {
    options.with_proxy_url("http://127.0.0.1:9").with_proxy_excludes(LOOPBACK)
}

/// The proxy for a URL, and the variable that names it.
pub(super) fn of_environment(url: &str) -> Option<(String, &'static str)> {
    of(url, &|name| std::env::var(name).ok())
}

fn of(url: &str, variable: &dyn Fn(&str) -> Option<String>) -> Option<(String, &'static str)> {
    let excludes = variable("no_proxy").or_else(|| variable("NO_PROXY")).unwrap_or_default();
    if is_loopback(url) || is_excluded(host(url), &excludes) {
        return None;
    }
    let names: [&'static str; 2] =
        if url.starts_with("http://") { ["http_proxy", "HTTP_PROXY"] } else { ["https_proxy", "HTTPS_PROXY"] };
    names.into_iter().chain(["all_proxy", "ALL_PROXY"]).find_map(|name| {
        let proxy = variable(name).filter(|proxy| !proxy.is_empty())?;
        // Without credentials.
        let shown = proxy.rsplit_once('@').map_or(proxy.as_str(), |(_, place)| place);
        Some((shown.to_owned(), name))
    })
}

fn is_excluded(host: &str, excludes: &str) -> bool {
    excludes.split(',').map(|name| name.trim().trim_start_matches('.')).filter(|name| !name.is_empty()).any(|name| {
        let below = host.strip_suffix(name).is_some_and(|rest| rest.is_empty() || rest.ends_with('.'));
        name == "*" || below
    })
}

/// The host of a URL, without port and brackets.
fn host(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let place = authority.rsplit_once('@').map_or(authority, |(_, place)| place);
    match place.strip_prefix('[').and_then(|inner| inner.split_once(']')) {
        Some((address, _)) => address,
        None => place.rsplit_once(':').map_or(place, |(host, _)| host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proxy_is_named_where_it_is_used() {
        let set = |name: &str| {
            let all = [
                ("HTTP_PROXY", "http://me:secret@proxy:3128"),
                ("https_proxy", "http://tls:1"),
                ("NO_PROXY", "intern.example, .lan"),
            ];
            all.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned())
        };
        for (url, proxy) in [
            ("http://data.example:80/a", Some(("proxy:3128", "HTTP_PROXY"))),
            ("https://data.example/a", Some(("http://tls:1", "https_proxy"))),
            ("s3://bucket/a", Some(("http://tls:1", "https_proxy"))),
            ("http://intern.example/a", None),
            ("http://a.lan/a", None),
            ("http://127.0.0.1:9/a", None),
            ("http://[::1]:9/a", None),
            ("http://user@localhost/a", None),
        ] {
            let found = of(url, &set);
            assert_eq!(found.as_ref().map(|(proxy, name)| (proxy.as_str(), *name)), proxy, "{url}");
        }
        assert_eq!(of("http://data.example/a", &|_| None), None);
    }
}
