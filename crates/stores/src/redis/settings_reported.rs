//! How the server says that it is set up.

use storebench_engine::store::{StoreError, StoreSettings};

use super::control::Connection;
use super::reach::Reached;
use super::resp::{self, Value};

/// Settings that speed, memory and durability depend on, each with the value that both Redis 7 and Valkey 8 are shipped
/// with. `None` if they differ in it.
const SETTINGS: &[(&str, Option<&str>)] = &[
    ("activedefrag", Some("no")),
    ("appendfsync", Some("everysec")),
    (APPENDS, Some("no")),
    ("cluster-enabled", Some("no")),
    ("databases", Some("16")),
    ("hash-max-listpack-entries", Some("512")),
    ("hash-max-listpack-value", Some("64")),
    ("hz", Some("10")),
    ("io-threads", Some("1")),
    ("io-threads-do-reads", None),
    ("lazyfree-lazy-server-del", None),
    ("lazyfree-lazy-user-del", None),
    ("list-max-listpack-size", Some("-2")),
    (LIMIT, Some("0")),
    (POLICY, Some("noeviction")),
    ("maxmemory-samples", Some("5")),
    ("min-replicas-to-write", Some("0")),
    ("no-appendfsync-on-rewrite", Some("no")),
    ("rdbcompression", Some("yes")),
    ("save", Some("3600 1 300 100 60 10000")),
];

const APPENDS: &str = "appendonly";
/// The limit of memory in bytes, or 0.
const LIMIT: &str = "maxmemory";
const POLICY: &str = "maxmemory-policy";

/// What `INFO` tells of the settings, each with its name in `CONFIG`.
const OF_INFO: [(&str, &str); 3] = [("aof_enabled", APPENDS), ("maxmemory", LIMIT), ("maxmemory_policy", POLICY)];

/// Settings of one node, by name. All nodes have the same names in the same order.
type Told = Vec<(&'static str, Option<String>)>;

/// Asks all nodes. Uses `INFO` if one of them refuses `CONFIG`.
pub(super) async fn ask(reached: &mut Reached) -> Result<StoreSettings, StoreError> {
    let mut nodes = Vec::new();
    for node in &mut reached.nodes {
        match of_config(node).await? {
            Some(told) => nodes.push(told),
            None => return of_info(reached).await,
        }
    }
    Ok(read(&nodes, is_known(&reached.facts.version)))
}

/// What `CONFIG GET` tells. `None` if it is refused, as by managed services and to users without the permission.
async fn of_config(node: &mut Connection) -> Result<Option<Told>, StoreError> {
    let mut requests = Vec::new();
    for (name, _) in SETTINGS {
        // Redis 6 takes only one name.
        resp::full_command(&mut requests, &[b"CONFIG", b"GET", name.as_bytes()]);
    }
    let answers = node.answers(&requests, SETTINGS.len()).await?;
    for answer in &answers {
        match answer {
            Value::Error(line) if is_refused(line) => return Ok(None),
            Value::Error(line) => return Err(node.refusal("CONFIG GET", line)),
            _ => {}
        }
    }
    let values = answers.iter().map(|answer| answer.items().get(1).and_then(Value::text));
    Ok(Some(SETTINGS.iter().map(|(name, _)| *name).zip(values).collect()))
}

/// Whether the server does not run `CONFIG` for this user: `NOPERM …`, `ERR unknown command …`. Other errors come from
/// the state of the server, such as `LOADING`.
fn is_refused(line: &str) -> bool {
    matches!(line.split(' ').next(), Some("NOPERM" | "ERR"))
}

async fn of_info(reached: &mut Reached) -> Result<StoreSettings, StoreError> {
    let mut nodes = Vec::new();
    for node in &mut reached.nodes {
        let info = node.info("everything").await?;
        nodes.push(told_by_info(|name| info.get(name)));
    }
    Ok(StoreSettings { incomplete: true, ..read(&nodes, false) })
}

/// What `INFO` tells, in the words of `CONFIG`.
fn told_by_info<'a>(value: impl Fn(&str) -> Option<&'a str>) -> Told {
    let in_words_of_config = |name: &str, value: &str| match (name, value) {
        (APPENDS, "0") => "no".to_owned(),
        (APPENDS, "1") => "yes".to_owned(),
        _ => value.to_owned(),
    };
    OF_INFO.map(|(theirs, name)| (name, value(theirs).map(|value| in_words_of_config(name, value)))).into()
}

/// Whether the shipped values of this version are known.
fn is_known(version: &str) -> bool {
    let major = version.strip_prefix("Redis ").and_then(|numbers| numbers.split('.').next()?.parse::<u32>().ok());
    major.is_some_and(|major| major >= 7) || version.starts_with("Valkey ")
}

/// The settings of all nodes together. `known` says whether the shipped values are those of [`SETTINGS`].
fn read(nodes: &[Told], known: bool) -> StoreSettings {
    let mut settings = StoreSettings { memory_bytes: limit(nodes), ..StoreSettings::default() };
    for (at, (name, _)) in nodes.first().into_iter().flatten().enumerate() {
        let values: Vec<&str> = nodes.iter().filter_map(|node| node.get(at)?.1.as_deref()).collect();
        let Some(one) = values.first() else { continue };
        let text = match values.iter().find(|other| *other != one) {
            Some(another) => format!("{one} on one node, {another} on another"),
            None => (*one).to_owned(),
        };
        let changed = shipped(name).filter(|_| known).map(|shipped| values.iter().any(|value| *value != shipped));
        settings.add(*name, text, changed);
    }
    settings
}

fn shipped(name: &str) -> Option<&'static str> {
    SETTINGS.iter().find(|(other, _)| *other == name)?.1
}

/// The memory of all nodes together. `None` if one of them has no limit.
fn limit(nodes: &[Told]) -> Option<u64> {
    let of = |node: &Told| {
        let (_, value) = node.iter().find(|(name, _)| *name == LIMIT)?;
        value.as_deref()?.parse::<u64>().ok().filter(|bytes| *bytes > 0)
    };
    let all = nodes.iter().try_fold(0_u64, |all, node| Some(all.saturating_add(of(node)?)));
    all.filter(|bytes| *bytes > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(values: &[(&'static str, &str)]) -> Told {
        values.iter().map(|(name, value)| (*name, Some((*value).to_owned()))).collect()
    }

    fn shown(settings: &StoreSettings) -> Vec<String> {
        settings.all.iter().map(|of| format!("{} {} {:?}", of.name, of.value, of.changed)).collect()
    }

    #[test]
    fn settings_are_compared_with_the_shipped_ones() {
        let mut node = told(&[(LIMIT, "100"), ("appendonly", "no"), ("lazyfree-lazy-user-del", "yes"), ("save", "")]);
        node.push(("hz", None));
        let settings = read(std::slice::from_ref(&node), true);
        let expected = [
            "appendonly no Some(false)",
            "lazyfree-lazy-user-del yes None",
            "maxmemory 100 Some(true)",
            "save  Some(true)",
        ];
        assert_eq!((shown(&settings), settings.memory_bytes), (expected.map(str::to_owned).to_vec(), Some(100)));
        assert!(read(&[node], false).all.iter().all(|of| of.changed.is_none()));
        assert_eq!(read(&[], true), StoreSettings::default());
    }

    #[test]
    fn nodes_that_differ_are_told() {
        let node = |limit: &str| told(&[(LIMIT, limit), ("hz", "10")]);
        let settings = read(&[node("7"), node("7"), node("8")], true);
        assert_eq!(shown(&settings), ["hz 10 Some(false)", "maxmemory 7 on one node, 8 on another Some(true)"]);
        assert_eq!(settings.memory_bytes, Some(22));
        assert_eq!(read(&[node("7"), node("0")], true).memory_bytes, None, "one node has no limit");
        let most = u64::MAX.to_string();
        assert_eq!(read(&[node(&most), node(&most)], true).memory_bytes, Some(u64::MAX));
        assert_eq!(read(&[node("lots")], true).memory_bytes, None);
    }

    #[test]
    fn info_tells_in_the_words_of_config() {
        for (given, shown) in [("0", "no"), ("1", "yes"), ("2", "2")] {
            let info = [("aof_enabled", given), ("maxmemory", "1"), ("maxmemory_policy", "allkeys-lru")];
            let told = told_by_info(|name| info.iter().find(|(other, _)| *other == name).map(|(_, value)| *value));
            let value = |value: &str| Some(value.to_owned());
            assert_eq!(told, [(APPENDS, value(shown)), (LIMIT, value("1")), (POLICY, value("allkeys-lru"))]);
            assert!(told.iter().all(|(name, _)| SETTINGS.iter().any(|(other, _)| other == name)));
        }
        assert_eq!(told_by_info(|_| None), [(APPENDS, None), (LIMIT, None), (POLICY, None)]);
    }

    #[test]
    fn versions_and_refusals_are_known() {
        for (version, known) in [
            ("Redis 7.0.15", true),
            ("Redis 8.2.0", true),
            ("Valkey 8.0.1", true),
            ("Redis 6.2.14", false),
            ("Redis x", false),
        ] {
            assert_eq!(is_known(version), known, "{version}");
        }
        for (line, refused) in [
            ("NOPERM User guest has no permissions to run the 'config|get' command", true),
            ("ERR unknown command 'CONFIG', with args beginning with: 'GET'", true),
            ("LOADING Redis is loading the dataset in memory", false),
            ("NOAUTH Authentication required.", false),
            ("", false),
        ] {
            assert_eq!(is_refused(line), refused, "{line}");
        }
    }
}
