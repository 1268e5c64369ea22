//! `docs/stores.md`: a hand-written introduction, and the rest generated from the drivers' descriptions.

use indexmap::IndexSet;
use storebench_engine::store::OpKind;
use storebench_stores::schemes;

use crate::failure::Failure;
use crate::listing::{Can, Listed, columns, list, shared_options};

const INTRODUCTION: &str = include_str!("stores_page.md");

const SHORT_NAMES: [&str; 7] = ["none", "os", "fsync", "majority", "stale-ok", "session", "strong"];

/// The page, in Markdown.
pub(crate) fn page() -> Result<String, Failure> {
    let listed = schemes().iter().map(list).collect::<Result<Vec<_>, _>>()?;
    let mut out = INTRODUCTION.to_owned();
    out += "\n## Supported operations\n\n`yes`: the store supports it; `made`: the driver emulates it, as listed below; `-`: refused. With `ordered=yes`, Redis has `prefix` and `scan`.\n";
    for group in columns(&listed) {
        out += "\n";
        out += &operations(&group);
    }
    out += "\n## What an acknowledged write survives\n\nThe sections below list the settings of each level, without options and before a server is asked. An option or a server \
             may add levels: RavenDB with `replicas=N`, Couchbase without replicas (`fsync`), more standbys or members. \
             Storebench refuses all others.\n";
    for (kind, heading) in ["", "\n## Read consistency\n", "\n## Isolation of transactions\n"].into_iter().enumerate() {
        out += heading;
        for group in columns(&listed) {
            out += "\n";
            out += &guarantees(&group, kind);
        }
    }
    let shared = shared_options(&listed);
    if !shared.is_empty() {
        out += "\n## Options common to all servers\n\n| option | meaning |\n|---|---|\n";
        for (name, meaning) in &shared {
            out += &format!("| `{name}=` | {} |\n", cell(meaning));
        }
        out += "\nCouchbase takes `tls_ca` only, and memcached no option of TLS. RavenDB logs in by `tls_cert` and `tls_key`, not by \
                user and password.\n";
    }
    for s in &listed {
        out += &section(s, |name, meaning| shared.get(name) == Some(&meaning));
    }
    Ok(out)
}

fn header(corner: &str, stores: &[(&str, &Can)]) -> String {
    let names: Vec<_> = stores.iter().map(|(name, _)| *name).collect();
    format!("| {corner} | {} |\n|---{}|\n", names.join(" | "), "|---".repeat(names.len()))
}

fn operations(stores: &[(&str, &Can)]) -> String {
    let mut out = header("operation", stores);
    for kind in OpKind::ALL {
        let cells: Vec<_> = stores.iter().map(|(_, can)| can.cell(kind.name())).collect();
        out += &format!("| {kind} | {} |\n", cells.join(" | "));
    }
    let cells: Vec<_> = stores.iter().map(|(_, can)| if can.indexes { "yes" } else { "-" }).collect();
    out + &format!("| index | {} |\n", cells.join(" | "))
}

/// The table of a kind of guarantees, by its position in [`Can::guarantees`], by store: first the levels with a short name,
/// weakest first, then the others as they appear.
fn guarantees(stores: &[(&str, &Can)], kind: usize) -> String {
    let offered: Vec<_> = stores.iter().map(|(_, can)| can.guarantees()[kind]).collect();
    let mut levels: Vec<_> =
        offered.iter().flat_map(|(_, levels)| levels.keys()).collect::<IndexSet<_>>().into_iter().collect();
    levels.sort_by_key(|level| SHORT_NAMES.iter().position(|name| name == level).unwrap_or(SHORT_NAMES.len()));
    let mut out = header(offered[0].0, stores);
    for level in levels {
        let cells: Vec<_> = offered.iter().map(|(_, all)| if all.contains_key(level) { "yes" } else { "-" }).collect();
        out += &format!("| {level} | {} |\n", cells.join(" | "));
    }
    out
}

fn section(s: &Listed, shared: impl Fn(&str, &str) -> bool) -> String {
    let mark = if s.decorator { "+" } else { ":" };
    let mut out = format!("\n## `{}{mark}`\n\n{}.\n\nExample: `{}`", s.scheme, s.what, s.example);
    if !s.aliases.is_empty() {
        let aliases: Vec<_> = s.aliases.iter().map(|alias| format!("`{alias}:`")).collect();
        out += &format!("; also {}", aliases.join(", "));
    }
    out += ".\n";
    let mut table = |head: &str, rows: Vec<(String, &str)>| {
        if !rows.is_empty() {
            out += &format!("\n| {head} | |\n|---|---|\n");
            for (name, text) in rows {
                out += &format!("| {name} | {} |\n", cell(text));
            }
        }
    };
    let own = s.options.iter().filter(|(name, meaning)| !shared(name, meaning));
    table("option", own.map(|(name, meaning)| (format!("`{name}=`"), *meaning)).collect());
    let Some(can) = &s.can else { return out };
    for (kind, levels) in can.guarantees() {
        table(kind, levels.iter().map(|(name, means)| (name.clone(), *means)).collect());
    }
    table("made", can.made().into_iter().map(|(how, names)| (names.join(", "), how)).collect());
    if !can.notes.is_empty() {
        out += "\n";
        for note in &can.notes {
            out += &format!("- {note}\n");
        }
    }
    out
}

/// Escapes text for a table cell.
fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}
