//! Reads metrics from an endpoint.

use std::time::Duration;

use super::{Sample, text};

/// Maximum length of an answer.
const LIMIT_BYTES: u64 = 16 << 20;
/// Maximum time to connect: a running server accepts a connection at once.
const CONNECT_WITHIN: Duration = Duration::from_secs(3);

/// Requests `http://…` once and reads the samples of the answer, within `timeout` in total. It does not follow
/// redirects and does not use proxies.
///
/// # Errors
/// Fails if there is no such answer. The message names the URL and what to do.
pub fn scrape(url: &str, timeout: Duration) -> Result<Vec<Sample>, String> {
    if !url.get(..7).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http://")) {
        return Err(format!("{url}: not an http:// URL; give a URL such as http://HOST:9100/metrics"));
    }
    let config = ureq::Agent::config_builder()
        .timeout_global(Some(timeout))
        .timeout_connect(Some(timeout.min(CONNECT_WITHIN)))
        .http_status_as_error(false)
        .max_redirects(0)
        .max_redirects_will_error(false)
        .proxy(None)
        .user_agent("storebench")
        // Otherwise some endpoints would choose a binary format.
        .accept("text/plain;version=0.0.4")
        .build();
    // An open connection would count among the endpoint's open files.
    let request = config.new_agent().get(url).header("connection", "close");
    let mut answer = request.call().map_err(|error| explained(url, timeout, &error))?;
    let status = answer.status();
    let header = |name| answer.headers().get(name).and_then(|value| value.to_str().ok());
    if status.is_redirection() {
        let to = header("location").unwrap_or("somewhere else");
        return Err(format!("{url} answers {status}, and redirects are not followed; give {to} instead"));
    }
    if status != 200 {
        return Err(format!("{url} answers {status}; check the path, which is usually /metrics"));
    }
    if let Some(encoding) = header("content-encoding").filter(|encoding| *encoding != "identity") {
        return Err(format!(
            "{url} answers in {encoding}, which was not requested; configure it to answer in plain text"
        ));
    }
    let is_framed = header("content-length").or(header("transfer-encoding")).is_some();
    let bytes = answer.body_mut().with_config().limit(LIMIT_BYTES).read_to_vec();
    let bytes = bytes.map_err(|error| explained(url, timeout, &error))?;
    let text = String::from_utf8(bytes).map_err(|_| {
        format!("{url} does not answer in UTF-8; check that it serves metrics in the Prometheus text format")
    })?;
    // A truncated number is still a valid number.
    if !is_framed && !text.ends_with('\n') {
        return Err(format!("the answer of {url} ends within a line; try again, and check what closed the connection"));
    }
    let samples =
        text::parse(&text).map_err(|why| format!("{url}: {why}; check the path, which is usually /metrics"))?;
    if samples.is_empty() {
        return Err(format!("{url} returned no metrics; check the path, which is usually /metrics"));
    }
    Ok(samples)
}

fn explained(url: &str, timeout: Duration, error: &ureq::Error) -> String {
    use ureq::{Error, Timeout};
    match error {
        Error::Timeout(Timeout::Connect | Timeout::Resolve) => {
            let within = timeout.min(CONNECT_WITHIN);
            format!("no answer from {url} within {within:?}; check that it runs, and that no firewall blocks it")
        }
        Error::Timeout(_) => {
            format!("{url} did not return its metrics within {timeout:?}; allow more time, or reduce its metrics")
        }
        Error::BodyExceedsLimit(_) => {
            format!("{url} returned more than {} MiB; reduce its metrics", LIMIT_BYTES >> 20)
        }
        Error::HostNotFound => format!("the host of {url} is unknown; check its spelling"),
        Error::Io(error) => format!("{url} cannot be read: {error}; check that it runs and listens there"),
        other => format!("{url} cannot be read: {other}; check that it is a metrics endpoint"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read as _, Write as _};
    use std::net::{TcpListener, TcpStream};
    use std::thread;

    const LONG: Duration = Duration::from_secs(30);

    /// An endpoint that answers one request, and its URL.
    fn endpoint(answer: impl FnOnce(&mut TcpStream, &str) + Send + 'static) -> String {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}/metrics", listener.local_addr().unwrap());
        thread::spawn(move || {
            let mut stream = listener.accept().unwrap().0;
            let (mut request, mut byte) = (Vec::new(), [0]);
            while !request.ends_with(b"\r\n\r\n") {
                stream.read_exact(&mut byte).unwrap();
                request.extend(byte);
            }
            answer(&mut stream, &String::from_utf8(request).unwrap());
        });
        url
    }

    fn answering(answer: impl Into<Vec<u8>>) -> String {
        let answer = answer.into();
        endpoint(move |stream, _| drop(stream.write_all(&answer)))
    }

    fn fails(url: &str, timeout: Duration) -> String {
        let error = scrape(url, timeout).unwrap_err();
        assert!(error.contains(url), "{error}");
        error
    }

    #[test]
    fn metrics_are_read_over_http() {
        let url = endpoint(|stream, request| {
            let request = request.to_lowercase();
            assert!(request.starts_with("get /metrics http/1.1\r\n"), "{request}");
            assert!(request.contains("accept: text/plain;version=0.0.4\r\n"), "{request}");
            assert!(!request.contains("accept-encoding: gzip"), "{request}");
            stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 15\r\n\r\nup{a=\"b\"} 1\nx 2").unwrap();
        });
        let samples = scrape(&url, LONG).unwrap();
        assert_eq!(samples.len(), 2);
        assert_eq!((samples[0].label("a"), samples[1].value), (Some("b"), 2.0));
    }

    #[test]
    fn an_answer_may_come_in_pieces_or_end_with_its_connection() {
        let head = "HTTP/1.1 200 OK\r\n";
        for rest in [
            "Transfer-Encoding: chunked\r\n\r\n3\r\nup \r\n2\r\n12\r\n1\r\n3\r\n0\r\n\r\n",
            "Connection: close\r\n\r\nup 123\n",
        ] {
            assert_eq!(scrape(&answering(format!("{head}{rest}")), LONG).unwrap()[0].value, 123.0);
        }
        for (rest, why) in [
            ("Connection: close\r\n\r\nup 12", "ends within a line"),
            ("Content-Length: 7\r\n\r\nup 12", "cannot be read"),
            ("Transfer-Encoding: chunked\r\n\r\n9\r\nup 12", "cannot be read"),
        ] {
            let error = fails(&answering(format!("{head}{rest}")), LONG);
            assert!(error.contains(why), "{error}");
        }
    }

    #[test]
    fn what_is_no_answer_of_metrics_is_refused() {
        for (answer, why) in [
            ("HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n", "404"),
            ("HTTP/1.1 204 No Content\r\n\r\n", "204"),
            ("HTTP/1.1 302 Found\r\nLocation: /other\r\nContent-Length: 0\r\n\r\n", "give /other instead"),
            (
                "HTTP/1.1 301 Moved\r\nLocation: http://127.0.0.1:1/x\r\nContent-Length: 0\r\n\r\n",
                "http://127.0.0.1:1/x",
            ),
            ("HTTP/1.1 200 OK\r\nContent-Length: 13\r\n\r\n<html></html>", "line 1 is not"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nup 1\nup x\n", "line 2 is not"),
            ("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "no metrics"),
            ("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 4\r\n\r\n\x1f..\n", "gzip"),
            ("SSH-2.0-OpenSSH_9.6\r\n", "cannot be read"),
            ("", "cannot be read"),
        ] {
            let error = fails(&answering(answer), LONG);
            assert!(error.contains(why), "{error}");
        }
        let binary = answering(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n\xff\n".as_slice());
        assert!(fails(&binary, LONG).contains("UTF-8"));
    }

    #[test]
    fn an_answer_that_never_comes_or_never_ends_is_given_up() {
        let timeout = Duration::from_millis(200);
        let silent = endpoint(|stream, _| drop(stream.read(&mut [0])));
        assert!(fails(&silent, timeout).contains("200ms"));
        // A byte every few milliseconds, so that no single wait is long.
        let slow = endpoint(|stream, _| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while stream.write_all(b"#\n").is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        });
        assert!(fails(&slow, timeout).contains("200ms"));
        let slow_head = endpoint(|stream, _| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nX: ");
            while stream.write_all(b"x").is_ok() {
                thread::sleep(Duration::from_millis(5));
            }
        });
        assert!(fails(&slow_head, timeout).contains("200ms"));
        let long = endpoint(|stream, _| {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n");
            while stream.write_all("x 1\n".repeat(10_000).as_bytes()).is_ok() {}
        });
        assert!(fails(&long, LONG).contains("16 MiB"));
    }

    #[test]
    fn where_nobody_listens_or_the_url_is_none_it_is_said_so() {
        let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        assert!(fails(&format!("http://{nobody}/metrics"), LONG).contains("check that it runs"));
        for url in ["https://127.0.0.1/metrics", "127.0.0.1:9100/metrics", "", "ünïcödé://x"] {
            assert!(fails(url, LONG).contains("http://HOST:9100/metrics"));
        }
        for url in ["http://", "http:// /x", "http://127.0.0.1:99999/"] {
            fails(url, LONG);
        }
    }
}
