//! A server's address and credentials, as given in the URL.

use std::fmt;

use percent_encoding::percent_decode_str;
use storebench_engine::store::StoreError;

use super::{Secret, Tls};
use crate::registry::Options;

/// One host of a server or cluster.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct Host {
    /// Name or IP address, without the brackets of an IPv6 address.
    pub(crate) name: String,
    /// TCP port.
    pub(crate) port: u16,
}

impl fmt::Display for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.name.contains(':') {
            write!(f, "[{}]:{}", self.name, self.port)
        } else {
            write!(f, "{}:{}", self.name, self.port)
        }
    }
}

/// A parsed server URL, with secrets resolved.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    /// The URL without its password, for results and errors.
    pub(crate) shown: String,
    /// The user, if the URL names one.
    pub(crate) user: Option<String>,
    /// The password, from the URL, a file or the environment.
    pub(crate) password: Option<Secret>,
    /// Whether the password comes only from `STOREBENCH_PASSWORD`. The URL does not say that this server needs one.
    pub(crate) password_assumed: bool,
    /// At least one.
    pub(crate) hosts: Vec<Host>,
    /// The path segments after the hosts, decoded, without empty ones.
    pub(crate) path: Vec<String>,
    /// The TLS settings, if the connection is encrypted.
    pub(crate) tls: Option<Tls>,
}

impl Address {
    /// Reads `scheme://user:password@host:port/path?…` and takes the options of
    /// [`OPTIONS`](super::OPTIONS). `tls` says whether this scheme encrypts.
    ///
    /// # Errors
    /// `BadUrl`, which names the wrong part and shows how to write it. No error contains the password.
    pub(crate) fn parse(
        url: &str,
        example: &str,
        default_port: u16,
        tls: bool,
        options: &mut Options<'_>,
    ) -> Result<Self, StoreError> {
        let bad = |what: &str| StoreError::BadUrl(format!("{what}; write it like {example}"));
        let (head, query) = url.split_once('?').map_or((url, None), |(head, query)| (head, Some(query)));
        let (scheme, rest) =
            head.split_once("://").ok_or_else(|| bad("a server's URL requires `//` and a host after its colon"))?;
        let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
        // Splitting at that `/` would take parts of the password for a host and a path, and errors would show them.
        if path.contains('@') {
            return Err(bad("found an `@` after a `/`; in a password write `/` as %2F, elsewhere write `@` as %40"));
        }
        // Split at the last `@`: a password should write it as %40, but if it does not, the host is still right.
        let (userinfo, hosts) = authority.rsplit_once('@').unwrap_or(("", authority));
        let (shown_user, typed) = userinfo.split_once(':').map_or((userinfo, None), |(u, p)| (u, Some(p)));
        let user = Some(decode(shown_user, "user", example)?).filter(|user| !user.is_empty());
        let typed = typed.map(|p| decode(p, "password", example)).transpose()?;
        let hosts =
            hosts.split(',').map(|host| read_host(host, default_port).map_err(bad)).collect::<Result<Vec<_>, _>>()?;
        let path = path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(|part| decode(part, "path", example))
            .collect::<Result<Vec<_>, _>>()?;
        let (variable, file) = (options.take("password_env"), options.take("password_file"));
        let (password, password_assumed) = find_password(typed, variable, file, |name| std::env::var(name).ok())?;
        let at = if shown_user.is_empty() { "" } else { "@" };
        let shown_hosts: Vec<String> = hosts.iter().map(ToString::to_string).collect();
        let mut shown = format!("{scheme}://{shown_user}{at}{}", shown_hosts.join(","));
        for part in &path {
            shown.extend(["/", part]);
        }
        if let Some(query) = query {
            shown.extend(["?", query]);
        }
        let tls_options = Tls::take(options)?;
        let tls = match (tls, tls_options) {
            (true, tls) => Some(tls),
            (false, options) if options.is_default() => None,
            (false, _) => {
                return Err(StoreError::BadUrl(format!(
                    "`{scheme}://` does not encrypt and takes no `tls_…` options; use the TLS scheme, or remove them"
                )));
            }
        };
        Ok(Self { shown, user, password, password_assumed, hosts, path, tls })
    }

    /// The same for a driver that connects to one host and its database.
    ///
    /// # Errors
    /// Also for a URL with several hosts, or with more than a database after its host.
    pub(crate) fn of_database(
        url: &str,
        example: &str,
        default_port: u16,
        tls: bool,
        options: &mut Options<'_>,
    ) -> Result<(Self, Option<String>), StoreError> {
        let mut address = Self::parse(url, example, default_port, tls, options)?;
        let bad = |what: &str| StoreError::BadUrl(format!("`{}` {what}", address.shown));
        if address.hosts.len() > 1 {
            return Err(bad("names several hosts, but this driver connects to one; name the primary"));
        }
        if address.path.len() > 1 {
            return Err(bad(&format!("has more than a database after its host; write it as in {example}")));
        }
        let database = address.path.pop();
        Ok((address, database))
    }

    /// The first host, which receives control calls.
    pub(crate) fn host(&self) -> &Host {
        &self.hosts[0]
    }
}

fn decode(text: &str, what: &str, example: &str) -> Result<String, StoreError> {
    percent_decode_str(text).decode_utf8().map(Into::into).map_err(|_| {
        StoreError::BadUrl(format!("the {what} is not UTF-8 after decoding %XX; write the URL like {example}"))
    })
}

/// Takes the option `prefix`, of the keys of a store that has no collections.
///
/// # Errors
/// `BadUrl` if it is longer than `longest`, or has other characters. A `:` would end the prefix early, and some have a
/// special meaning in patterns.
pub(crate) fn key_prefix(options: &mut Options<'_>, longest: usize) -> Result<String, StoreError> {
    let prefix = options.take("prefix").unwrap_or("storebench");
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if prefix.is_empty() || prefix.len() > longest || !prefix.chars().all(fits) {
        return Err(StoreError::BadUrl(format!(
            "invalid `prefix={prefix}`: expected 1 to {longest} letters, digits, `-`, `_` or `.`, such as prefix=sb"
        )));
    }
    Ok(prefix.to_owned())
}

/// No error quotes the text, because it may be part of a password.
pub(crate) fn read_host(text: &str, default_port: u16) -> Result<Host, &'static str> {
    let (name, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (name, after) = rest.split_once(']').ok_or("a host in the URL has `[` without `]`")?;
            (name, after.strip_prefix(':'))
        }
        None => text.split_once(':').map_or((text, None), |(name, port)| (name, Some(port))),
    };
    if name.is_empty() {
        return Err("the URL does not name a host");
    }
    let port = match port {
        None => default_port,
        Some(port) => port.parse().ok().filter(|p| *p > 0).ok_or(
            "the port after the host's `:` is not a number from 1 to 65535 (in a password write `/`, `?`, `#` \
             as %2F, %3F, %23)",
        )?,
    };
    Ok(Host { name: name.to_owned(), port })
}

/// The password, and whether it comes from the default variable rather than from the URL's options.
fn find_password(
    typed: Option<String>,
    variable: Option<&str>,
    file: Option<&str>,
    environment: impl Fn(&str) -> Option<String>,
) -> Result<(Option<Secret>, bool), StoreError> {
    let given = usize::from(typed.is_some()) + usize::from(variable.is_some()) + usize::from(file.is_some());
    if given > 1 {
        return Err(StoreError::BadUrl(
            "more than one password is given; use only one of: the URL, password_env, password_file".into(),
        ));
    }
    if let Some(typed) = typed {
        return Ok((Some(Secret::new(typed)), false));
    }
    if let Some(file) = file {
        let text = std::fs::read_to_string(file)
            .map_err(|e| StoreError::BadUrl(format!("cannot read password_file={file}: {e}; name a readable file")))?;
        return Ok((Some(Secret::new(text.lines().next().unwrap_or_default())), false));
    }
    match (variable, environment(variable.unwrap_or("STOREBENCH_PASSWORD"))) {
        (named, Some(password)) => Ok((Some(Secret::new(password)), named.is_none())),
        (None, None) => Ok((None, false)),
        (Some(variable), None) => Err(StoreError::BadUrl(format!(
            "password_env={variable}: this environment variable is not set; set it, or name another"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(url: &str) -> Result<Address, StoreError> {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let mut options = Options::for_test(query);
        Address::parse(url, "redis://127.0.0.1:6379", 6379, url.starts_with("rediss"), &mut options)
    }

    #[test]
    fn every_part_is_read_and_the_password_is_not_shown() {
        let a = parse("redis://us%40er:p%3Aw%40d@one,two:7000,[::1]:7001/db/0?x=1").unwrap();
        assert_eq!(a.user.as_deref(), Some("us@er"));
        assert_eq!(a.password.as_ref().map(Secret::expose), Some("p:w@d"));
        let hosts: Vec<String> = a.hosts.iter().map(ToString::to_string).collect();
        assert_eq!(hosts, ["one:6379", "two:7000", "[::1]:7001"]);
        assert_eq!(a.path, ["db", "0"]);
        assert_eq!(a.shown, "redis://us%40er@one:6379,two:7000,[::1]:7001/db/0?x=1");
        assert!(!format!("{a:?}").contains("w@d"));
    }

    #[test]
    fn an_at_sign_in_a_password_leaks_nothing_into_the_host() {
        let a = parse("redis://u:p@ss@h:1").unwrap();
        assert_eq!((a.hosts[0].to_string(), a.shown.as_str()), ("h:1".into(), "redis://u@h:1"));
    }

    #[test]
    fn what_is_wrong_is_named_without_the_password() {
        for url in [
            "redis:h",
            "redis://u:secret@",
            "redis://u:secret@h:0",
            "redis://u:sec?ret@h",
            "redis://u:secret@h:99999",
            "redis://[::1",
        ] {
            let error = parse(url).unwrap_err();
            assert!(matches!(error, StoreError::BadUrl(_)), "{url}");
            assert!(!error.to_string().contains("secret"), "{error}");
        }
    }

    #[test]
    fn no_part_of_a_password_is_shown() {
        for mark in ["/", "?", "#", "@", ":", ",", "[", "]", "&", "=", "/?", "@/", "?=", "?&", "@?", ":?", ",[?"] {
            for (user, before) in [("u:", "s3cr"), ("u:", "612"), (":", "s3cr"), ("u:a@b:", "s3cr")] {
                for behind in ["/0", "", ":6379", ":6379/0"] {
                    let url = format!("redis://{user}{before}{mark}w0rd@h.example{behind}");
                    let told = match crate::registry::open(&url) {
                        Ok(store) => format!("{:?}", store.describe()),
                        Err(error) => format!("{error} {error:?}"),
                    };
                    for part in ["s3cr", "612", "w0rd"] {
                        assert!(!told.contains(part), "{url}: {told}");
                    }
                }
            }
        }
    }

    #[test]
    fn a_password_comes_from_one_place() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("pw");
        std::fs::write(&file, "from a file\n").unwrap();
        let a = parse(&format!("redis://u@h?password_file={}", file.display())).unwrap();
        assert_eq!(a.password.as_ref().map(Secret::expose), Some("from a file"));
        assert!(parse(&format!("redis://u:p@h?password_file={}", file.display())).is_err());
        assert!(parse("redis://u@h?password_env=STOREBENCH_NO_SUCH_VARIABLE").is_err());
        let a = parse("redis://u@h?password_env=PATH").unwrap();
        assert!(a.password.is_some() && !a.password_assumed, "it was named");
    }

    #[test]
    fn a_password_that_nothing_names_is_one_for_whoever_asks() {
        let set = |_: &str| Some("from anywhere".to_owned());
        let assumed =
            |typed: Option<&str>, variable| find_password(typed.map(str::to_owned), variable, None, set).unwrap().1;
        assert!(assumed(None, None));
        assert!(!assumed(None, Some("NAMED")) && !assumed(Some("typed"), None));
        assert_eq!(find_password(None, None, None, |_| None).unwrap(), (None, false));
    }

    #[test]
    fn tls_options_need_a_scheme_that_encrypts() {
        assert!(parse("redis://h?tls_name=x").is_err());
        assert!(parse("rediss://h?tls_name=x").unwrap().tls.is_some());
        assert!(parse("rediss://h?tls_cert=/x").is_err(), "a certificate without its key");
    }
}
