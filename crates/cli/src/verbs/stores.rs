//! `stores`: lists the stores, and the settings behind each guarantee.

use serde::Serialize;
use storebench_engine::store::OpKind;
use storebench_stores::{Scheme, schemes};

use crate::args::StoresArgs;
use crate::failure::{Failure, no_such};
use crate::listing::{Can, Listed, columns, list, shared_options};
use crate::output::print_json_or;

/// What `stores --json` prints.
#[derive(Debug, Serialize)]
struct Printed<'a> {
    format: &'static str,
    stores: &'a [Listed],
}

pub(crate) fn stores(args: &StoresArgs) -> Result<u8, Failure> {
    let chosen: Vec<&Scheme> = match &args.scheme {
        None => schemes().iter().collect(),
        Some(name) => vec![find(name.trim_end_matches([':', '+']))?],
    };
    let listed = chosen.into_iter().map(list).collect::<Result<Vec<_>, _>>()?;
    let printed = Printed { format: "storebench-stores/1", stores: &listed };
    print_json_or(args.json, &printed, || text(&listed))?;
    Ok(0)
}

fn find(name: &str) -> Result<&'static Scheme, Failure> {
    let found = schemes().iter().find(|s| s.name == name || s.aliases.contains(&name));
    found.ok_or_else(|| Failure::bad_input(no_such("store", name, schemes().iter().map(|s| s.name))))
}

fn text(listed: &[Listed]) -> String {
    let mut out = String::new();
    let shared = shared_options(listed);
    for s in listed {
        let mark = if s.decorator { "+" } else { ":" };
        out += &format!("{}{mark}  {}\n  such as {}\n", s.scheme, s.what, s.example);
        if !s.aliases.is_empty() {
            out += &format!("  also written {}:\n", s.aliases.join(":, "));
        }
        for (name, meaning) in s.options.iter().filter(|(name, meaning)| shared.get(*name) != Some(*meaning)) {
            out += &format!("  ?{name}=  {meaning}\n");
        }
        let common: Vec<_> =
            s.options.iter().filter(|(n, meaning)| shared.get(*n) == Some(*meaning)).map(|(n, _)| *n).collect();
        if !common.is_empty() {
            out += &format!("  common options (see the end): {}\n", common.join(", "));
        }
        if let Some(can) = &s.can {
            tell(&mut out, can);
        }
        out += "\n";
    }
    if !shared.is_empty() {
        out += "Options of every server\n";
        for (name, meaning) in &shared {
            out += &format!("  ?{name}=  {meaning}\n");
        }
        out += "\n";
    }
    out += &columns(listed).iter().map(|group| matrix(group)).collect::<Vec<_>>().join("\n");
    out
}

fn tell(out: &mut String, can: &Can) {
    for (kind, levels) in can.guarantees() {
        for (name, means) in levels {
            *out += &format!("  {kind} {name}: {means}\n");
        }
    }
    for (how, names) in can.made() {
        *out += &format!("  made: {}: {how}\n", names.join(", "));
    }
    for note in &can.notes {
        *out += &format!("  {note}\n");
    }
}

/// The table of operations by store.
fn matrix(stores: &[(&str, &Can)]) -> String {
    let mut out = String::new();
    let width = stores.iter().map(|(name, _)| name.len() + 2).max().unwrap_or(0).max(8);
    let mut line = |name: &str, cells: &mut dyn Iterator<Item = &str>| {
        let cells: String = cells.map(|cell| format!("{cell:<width$}")).collect();
        out += format!("{name:<13}{cells}").trim_end();
        out += "\n";
    };
    line("operation", &mut stores.iter().map(|(name, _)| *name));
    for kind in OpKind::ALL {
        line(kind.name(), &mut stores.iter().map(|(_, can)| can.cell(kind.name())));
    }
    line("index", &mut stores.iter().map(|(_, can)| if can.indexes { "yes" } else { "-" }));
    out
}
