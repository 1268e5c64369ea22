//! `infer SAMPLE…`: describes a collection that generates documents like a sample.

use std::path::Path;

use indexmap::IndexMap;
use serde::Serialize;
use storebench_documents::infer::{Inferred, Likeness, Profile, RandomPart, compare};
use storebench_results::human::{bytes, count, digits, duration, percent};
use storebench_results::lines::paragraph;
use storebench_results::table::{ColumnKind, Table};
use storebench_study::units::Count;
use storebench_study::workload::{Collection, Study};
use toml_edit::Value;
use toml_edit::ser::{Error, to_string};

use super::infer_store::on_store;
use crate::args::InferArgs;
use crate::failure::Failure;
use crate::output::{layout, print, print_json};
use crate::outputs::{refuse_existing, write_text};
use crate::progress::line;

/// From this number of documents on, a check uses a random tenth.
const TENTH_FROM: u64 = 10_000;
const TENTH: u64 = 10;
/// The width of lines in the file.
const WIDTH: usize = 100;

/// What `infer --check --json` prints.
#[derive(Debug, Serialize)]
struct Printed<'a> {
    format: &'static str,
    /// Documents in the sample, and as many generated ones.
    documents: u64,
    /// The generated documents were made from one of so many documents of the sample.
    from_every: u64,
    /// The seed of the draw of these documents.
    seed: u64,
    figures: &'a [Likeness],
    /// What the study does not reproduce.
    notes: &'a [String],
}

pub(crate) fn infer(args: &InferArgs) -> Result<u8, Failure> {
    if let Some(file) = &args.output {
        refuse_existing(file, args.force)?;
    }
    if !args.collection.chars().all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_') {
        return Err(Failure::bad_input(format!(
            "--collection {}: use letters, digits, - and _, and begin with a letter",
            args.collection
        )));
    }
    let profile = Profile::of_files(&args.samples, args.keep_values, None)?;
    let inferred = profile.collection(args.keep_values)?;
    let text = file_of(args, &profile, &inferred)?;
    // The file must be a study that can run.
    Study::parse(&text, Path::new("infer"), &[])?;
    if args.check {
        check(args, &profile, &inferred)?;
    }
    match &args.output {
        Some(file) => {
            write_text(file, &text, args.force)?;
            if !args.check {
                print(&format!("{}\n", file.display()))?;
            }
            line(&format!("next: read it, then `storebench run {} --store URL`", file.display()));
        }
        None if !args.check => print(&text)?,
        None => {}
    }
    Ok(0)
}

fn check(args: &InferArgs, profile: &Profile, inferred: &Inferred) -> Result<(), Failure> {
    let documents = profile.documents();
    let from_every = if documents >= TENTH_FROM { TENTH } else { 1 };
    let fitted;
    let collection = if from_every == 1 {
        &inferred.collection
    } else {
        let part = RandomPart { one_of: from_every, seed: args.seed };
        fitted = Profile::of_files(&args.samples, args.keep_values, Some(part))?.collection(args.keep_values)?;
        &fitted.collection
    };
    let mut figures = compare(profile, &Profile::of_collection(collection, documents)?);
    let mut notes = inferred.notes.clone();
    if let Some(url) = &args.store {
        let [sample] = &args.samples[..] else {
            return Err(Failure::bad_input(
                "--store takes one sample file; join them: `cat a.jsonl b.jsonl > all.jsonl`",
            ));
        };
        let collection = Collection { count: Some(Count(documents)), ..collection.clone() };
        let found = on_store(url, sample, profile, &collection)?;
        figures.extend(found.figures);
        notes.extend(found.notes);
    }
    if args.json {
        return print_json(&Printed {
            format: "storebench-infer-check/1",
            documents,
            from_every,
            seed: args.seed,
            figures: &figures,
            notes: &notes,
        });
    }
    let mut out = format!("{} documents of the sample, and as many generated ones", count(documents));
    if from_every > 1 {
        out += &format!(", made from one of {from_every}, drawn at random with seed {}", args.seed);
    }
    out.push('\n');
    let mut table = Table::new([
        ("field", ColumnKind::Text),
        ("", ColumnKind::Text),
        ("sample", ColumnKind::Count),
        ("generated", ColumnKind::Count),
        ("", ColumnKind::Text),
    ]);
    for row in &figures {
        let field = if row.field.is_empty() { "documents" } else { &row.field };
        let off = if row.is_near { String::new() } else { format!("off: {}", off(row)) };
        table.row([field.to_owned(), row.what.to_owned(), shown(row, row.sample), shown(row, row.like), off]);
    }
    out += &layout().table(&table);
    let far = figures.iter().filter(|row| !row.is_near).count();
    out +=
        &format!("{} of {} figures are within 10 %, or as near as chance allows", figures.len() - far, figures.len());
    out.push('\n');
    for note in &notes {
        out += &format!("note: {note}\n");
    }
    print(&out)
}

/// How far the generated documents are off.
fn off(row: &Likeness) -> String {
    if row.sample == 0.0 { "none in the sample".into() } else { format!("×{}", digits(row.like / row.sample)) }
}

fn shown(row: &Likeness, figure: f64) -> String {
    match row.what {
        "present"
        | "null"
        | "true"
        | "texts"
        | "numbers"
        | "true or false"
        | "lists"
        | "objects"
        | "share left by zstd"
        | "share of the most frequent" => percent(figure),
        what if what.starts_with("read, ") => duration(figure),
        what if what.contains("bytes") => bytes(figure),
        "different values" => count(figure.round() as u64),
        _ if figure < 0.0 => format!("-{}", digits(-figure)),
        _ => digits(figure),
    }
}

/// The study as a file for people to edit.
fn file_of(args: &InferArgs, profile: &Profile, inferred: &Inferred) -> Result<String, Failure> {
    let names: Vec<String> = args
        .samples
        .iter()
        .map(|path| path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned())
        .collect();
    let sample = plain(&names.join(", "));
    let mut out =
        format!("# Written by `storebench infer` from {} documents of {sample}.\n", count(profile.documents()));
    out += if args.keep_values {
        "# Texts of fields with few different values are from the sample (--keep-values).\n"
    } else {
        "# No text of a value is in it. Names of fields, numbers, times, lengths and shares are from the sample.\n"
    };
    for note in &inferred.notes {
        for part in paragraph("", "", note, WIDTH - 4).lines() {
            out += &format!("# {}\n", plain(part));
        }
    }
    let name = &args.collection;
    let title = if names.len() == 1 { format!("Documents like {sample}") } else { "Documents like a sample".into() };
    let failed = |error: Error| Failure::bad_input(format!("cannot write the study: {error}"));
    // A line for each key.
    let fields = to_string(&inferred.collection.fields).map_err(failed)?;
    let others = Collection { fields: IndexMap::new(), ..inferred.collection.clone() };
    let others = to_string(&others).map_err(failed)?;
    out += &format!(
        "\ntitle = {}\n\n[collections.{name}]\n{others}\n[collections.{name}.fields]\n{fields}\n[[phases]]\n\
         name = \"load\"\nload = [\"{name}\"]\n\n[[phases]]\nname = \"mix\"\nmix = {{ read = 95, upsert = 5 }}\n\
         collection = \"{name}\"\npopularity = \"zipf\"\nduration = \"30s\"\n",
        Value::from(title)
    );
    Ok(out)
}

/// Text without control characters, for a comment.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '?' } else { c }).collect()
}
