//! `stores`: what can be measured, and how each promise is kept.

use indexmap::IndexMap;
use serde::Serialize;
use storebench_core::store::{OpKind, Support};
use storebench_core::workload::did_you_mean;
use storebench_stores::{Scheme, schemes};

use crate::args::StoresArgs;
use crate::failure::Failure;
use crate::output::{print, print_json};
use crate::stores::open;

/// What `stores --json` prints.
#[derive(Debug, Serialize)]
struct Printed {
    format: &'static str,
    stores: Vec<Listed>,
}

/// One store or decorator.
#[derive(Debug, Serialize)]
struct Listed {
    scheme: &'static str,
    what: &'static str,
    example: &'static str,
    decorator: bool,
    options: IndexMap<&'static str, &'static str>,
    /// None for decorators, which can do what the store behind them can.
    can: Option<Can>,
}

/// What a store can do.
#[derive(Debug, Serialize)]
struct Can {
    /// By operation: how it is provided, `native` or what it is made of. What is missing is refused.
    operations: IndexMap<&'static str, &'static str>,
    durability: IndexMap<String, &'static str>,
    consistency: IndexMap<String, &'static str>,
    indexes: bool,
    embedded: bool,
    notes: Vec<&'static str>,
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
    schemes().iter().find(|s| s.name == name).ok_or_else(|| {
        Failure::bad_input(match did_you_mean(name, names()) {
            Some(near) => format!("`{name}` is no store; did you mean `{near}`?"),
            None => format!("`{name}` is no store; there are: {}", names().collect::<Vec<_>>().join(", ")),
        })
    })
}

fn list(scheme: &'static Scheme) -> Result<Listed, Failure> {
    let can = if scheme.decorator {
        None
    } else {
        // Made but never looked at: nothing is touched.
        let can = open(scheme.example)?.capabilities();
        let how = |support: Support| match support {
            Support::Native => "native",
            Support::Approximated(how) => how,
        };
        Some(Can {
            operations: OpKind::ALL
                .into_iter()
                .filter_map(|kind| Some((kind.name(), how(can.supports(kind)?))))
                .collect(),
            durability: can.durability.iter().map(|(d, means)| (d.to_string(), *means)).collect(),
            consistency: can.consistency.iter().map(|(c, means)| (c.to_string(), *means)).collect(),
            indexes: can.indexes,
            embedded: can.embedded,
            notes: can.notes,
        })
    };
    Ok(Listed {
        scheme: scheme.name,
        what: scheme.what,
        example: scheme.example,
        decorator: scheme.decorator,
        options: scheme.options.iter().map(|o| (o.name, o.meaning)).collect(),
        can,
    })
}

fn text(listed: &[Listed]) -> String {
    let mut out = String::new();
    for s in listed {
        let mark = if s.decorator { "+" } else { ":" };
        out += &format!("{}{mark}  {}\n  such as {}\n", s.scheme, s.what, s.example);
        for (name, meaning) in &s.options {
            out += &format!("  ?{name}=  {meaning}\n");
        }
        if let Some(can) = &s.can {
            for (name, means) in &can.durability {
                out += &format!("  durability {name}: {means}\n");
            }
            for (name, means) in &can.consistency {
                out += &format!("  reads {name}: {means}\n");
            }
            for (name, how) in can.operations.iter().filter(|(_, how)| **how != "native") {
                out += &format!("  {name} is made of: {how}\n");
            }
            for note in &can.notes {
                out += &format!("  {note}\n");
            }
        }
        out += "\n";
    }
    matrix(&mut out, listed);
    out
}

/// Operations by store: `yes`, `made` of something else, or `-`.
fn matrix(out: &mut String, listed: &[Listed]) {
    let stores: Vec<(&str, &Can)> = listed.iter().filter_map(|s| Some((s.scheme, s.can.as_ref()?))).collect();
    if stores.is_empty() {
        return;
    }
    let mut line = |name: &str, cells: &mut dyn Iterator<Item = String>| {
        let cells: String = cells.map(|cell| format!("{cell:<8}")).collect();
        *out += format!("{name:<13}{cells}").trim_end();
        *out += "\n";
    };
    line("operation", &mut stores.iter().map(|(name, _)| (*name).to_owned()));
    for kind in OpKind::ALL {
        let cell = |can: &Can| match can.operations.get(kind.name()) {
            Some(&"native") => "yes",
            Some(_) => "made",
            None => "-",
        };
        line(kind.name(), &mut stores.iter().map(|(_, can)| cell(can).to_owned()));
    }
    line("index", &mut stores.iter().map(|(_, can)| if can.indexes { "yes" } else { "-" }.to_owned()));
}
