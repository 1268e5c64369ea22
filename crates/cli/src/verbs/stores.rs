//! `stores`: lists the stores, and the settings behind each guarantee.

use serde::Serialize;
use storebench_engine::store::OpKind;
use storebench_stores::{Scheme, schemes};
use storebench_study::workload::did_you_mean;

use crate::args::StoresArgs;
use crate::failure::Failure;
use crate::listing::{Can, Listed, columns, list, shared_options};
use crate::output::{print, print_json};

/// What `stores --json` prints.
#[derive(Debug, Serialize)]
struct Printed {
    format: &'static str,
    stores: Vec<Listed>,
}

pub(crate) fn stores(args: &StoresArgs) -> Result<u8, Failure> {
    let chosen: Vec<&Scheme> = match &args.scheme {
        None => schemes().iter().collect(),
        Some(name) => vec![find(name.trim_end_matches([':', '+']))?],
    };
    let listed = chosen.into_iter().map(list).collect::<Result<Vec<_>, _>>()?;
    if args.json {
        print_json(&Printed { format: "storebench-stores/1", stores: listed })?;
    } else {
        print(&text(&listed))?;
    }
    Ok(0)
}

fn find(name: &str) -> Result<&'static Scheme, Failure> {
    let names = || schemes().iter().map(|s| s.name);
    schemes().iter().find(|s| s.name == name || s.aliases.contains(&name)).ok_or_else(|| {
        Failure::bad_input(match did_you_mean(name, names()) {
            Some(near) => format!("unknown store `{name}`; did you mean `{near}`?"),
            None => format!("unknown store `{name}`; expected one of: {}", names().collect::<Vec<_>>().join(", ")),
        })
    })
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
    for (name, means) in &can.durability {
        *out += &format!("  durability {name}: {means}\n");
    }
    for (name, means) in &can.consistency {
        *out += &format!("  reads {name}: {means}\n");
    }
    for (name, means) in &can.isolation {
        *out += &format!("  isolation {name}: {means}\n");
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
