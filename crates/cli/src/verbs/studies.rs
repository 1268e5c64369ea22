//! `studies`: lists the built-in studies, what each shows, and its presets.

use indexmap::IndexMap;
use serde::Serialize;
use std::path::Path;
use storebench_results::lines::paragraph;
use storebench_study::workload::{Flaw, Study};

use crate::args::StudiesArgs;
use crate::built_in::{ALL, BuiltIn, find};
use crate::failure::{Failure, no_such};
use crate::output::{print, print_json_or};

/// The width of the text, in columns.
const WIDTH: usize = 100;

/// What `studies --json` prints.
#[derive(Debug, Serialize)]
struct Printed<'a> {
    format: &'static str,
    studies: &'a [Listed],
}

#[derive(Debug, Serialize)]
struct Listed {
    name: &'static str,
    title: String,
    question: Option<String>,
    stores: Vec<String>,
    factors: IndexMap<String, Vec<serde_json::Value>>,
    presets: IndexMap<String, String>,
    flaws: Vec<Flaw>,
}

pub(crate) fn studies(args: &StudiesArgs) -> Result<u8, Failure> {
    let unknown = |name: &str| no_such("built-in study", name, ALL.iter().map(|study| study.name));
    let chosen: Vec<&BuiltIn> = match &args.name {
        None => ALL.iter().collect(),
        Some(name) => vec![find(name).ok_or_else(|| Failure::bad_input(unknown(name)))?],
    };
    if args.file {
        for study in &chosen {
            print(study.text)?;
        }
        return Ok(0);
    }
    let listed = chosen.iter().map(|study| list(study)).collect::<Result<Vec<_>, _>>()?;
    let printed = Printed { format: "storebench-studies/1", studies: &listed };
    print_json_or(args.json, &printed, || text(&listed, args.name.is_some()))?;
    Ok(0)
}

fn list(of: &BuiltIn) -> Result<Listed, Failure> {
    let study = Study::parse(of.text, Path::new(&format!("{}.toml", of.name)), &[])?;
    Ok(Listed {
        name: of.name,
        title: study.title,
        question: study.question,
        stores: study.stores.0.into_values().collect(),
        factors: study.factors,
        presets: study.presets.into_iter().map(|(name, preset)| (name, preset.about)).collect(),
        flaws: study.flaws,
    })
}

fn text(listed: &[Listed], in_full: bool) -> String {
    let mut out = String::new();
    for study in listed {
        out += &format!("{}\n", study.name);
        out += &paragraph("  ", "  ", &study.title, WIDTH);
        if let Some(question) = &study.question {
            out += &paragraph("  ", "  ", question, WIDTH);
        }
        for (name, about) in &study.presets {
            let head = format!("  --preset {name:<10} ");
            out += &paragraph(&head, &" ".repeat(head.chars().count()), about, WIDTH);
        }
        if in_full {
            if !study.factors.is_empty() {
                out += "\nfactors\n";
            }
            for (path, values) in &study.factors {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                out += &paragraph("  ", "    ", &format!("{path}: {}", values.join(", ")), WIDTH);
            }
            if !study.flaws.is_empty() {
                out += "\nflaws that readers found in the original, and what this study does about them\n";
            }
            for flaw in &study.flaws {
                out += &paragraph("  - ", "    ", &flaw.original, WIDTH);
                out += &paragraph("    → ", "      ", &flaw.here, WIDTH);
            }
        }
        out.push('\n');
    }
    if in_full {
        out += "the study file: storebench studies NAME --file\n";
    } else {
        out +=
            "to run one: storebench run NAME [--preset PRESET] [--store URL]; to read more: storebench studies NAME\n";
    }
    out
}
