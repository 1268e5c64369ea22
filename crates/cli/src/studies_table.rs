//! The table of studies by stores in `docs/studies.md`: which study runs on which store, as the program knows it before it
//! has asked a server.

use std::path::{Path, PathBuf};

use indexmap::IndexSet;
use storebench_engine::Unsupported;
use storebench_engine::store::DurabilityRequest;
use storebench_lab::run::ConfigurationRequest;
use storebench_stores::{Scheme, schemes};

use crate::args::StudyArgs;
use crate::failure::Failure;
use crate::servers::Servers;
use crate::studies::CompiledByStudy;
use crate::{built_in, stores, studies};

/// Documents are few, because the table does not depend on their number.
const SCALE: f64 = 0.000_1;

/// The table, in Markdown, and the reasons below it. `examples` is the folder of example studies.
pub(crate) fn table(examples: &Path) -> Result<String, Failure> {
    let stores: Vec<&Scheme> = schemes().iter().filter(|scheme| !scheme.decorator && scheme.name != "null").collect();
    let mut reasons = IndexSet::new();
    let names: Vec<&str> = stores.iter().map(|scheme| scheme.name).collect();
    let mut out = format!("| study | {} |\n|---{}|\n", names.join(" | "), "|---".repeat(names.len()));
    for study in all(examples)? {
        let mut rows: Vec<(Vec<String>, Vec<String>)> = Vec::new();
        let mut documents = CompiledByStudy::new();
        for preset in presets(&study)? {
            let cell = |scheme: &&Scheme| cell(&study, preset.as_deref(), scheme, &mut documents, &mut reasons);
            let cells = stores.iter().map(cell).collect::<Result<Vec<_>, _>>()?;
            let name = preset.unwrap_or_else(|| "no preset".to_owned());
            match rows.iter_mut().find(|(_, known)| *known == cells) {
                Some((names, _)) => names.push(name),
                None => rows.push((vec![name], cells)),
            }
        }
        let shown = study.file_stem().unwrap_or_default().to_string_lossy();
        let several = rows.len() > 1;
        for (presets, cells) in rows {
            let presets = if several { format!(", {}", presets.join(", ")) } else { String::new() };
            out += &format!("| `{shown}`{presets} | {} |\n", cells.join(" | "));
        }
    }
    out.push('\n');
    for (number, reason) in (1..).zip(&reasons) {
        out += &format!("{number}. {reason}\n");
    }
    Ok(out)
}

/// The built-in studies by name, and the files of examples.
fn all(examples: &Path) -> Result<Vec<PathBuf>, Failure> {
    let folder = std::fs::read_dir(examples).map_err(|e| Failure::bad_input(format!("{}: {e}", examples.display())))?;
    let files = folder.filter_map(|entry| Some(entry.ok()?.path()));
    let mut files: Vec<PathBuf> = files.filter(|path| path.extension().is_some_and(|ext| ext == "toml")).collect();
    files.sort();
    Ok(built_in::ALL.iter().map(|study| PathBuf::from(study.name)).chain(files).collect())
}

/// No preset, and then each preset of the study.
fn presets(study: &Path) -> Result<Vec<Option<String>>, Failure> {
    let opened = studies::open(&arguments(study, None), &[])?;
    Ok(std::iter::once(None).chain(opened.study.presets.keys().cloned().map(Some)).collect())
}

fn arguments(study: &Path, preset: Option<&str>) -> StudyArgs {
    StudyArgs { study: study.to_owned(), preset: preset.map(str::to_owned), overrides: Vec::new(), scale: Some(SCALE) }
}

/// How a study runs on a store. Reasons are numbered from 1, in `reasons`.
fn cell(
    study: &Path,
    preset: Option<&str>,
    scheme: &Scheme,
    documents: &mut CompiledByStudy,
    reasons: &mut IndexSet<String>,
) -> Result<String, Failure> {
    let mut opened = studies::open(&arguments(study, preset), &[])?;
    stores::choose(&mut opened.study, &[format!("store={}", scheme.example)])?;
    let configurations = opened.configurations_of(&mut Servers::none(), documents)?;
    let Some(first) = configurations.first() else { return Ok("-".to_owned()) };
    let strongest = first.store.capabilities().default_durability().map(|(level, _)| level);
    let accepted = strongest.map(|level| (weakened(first, DurabilityRequest::AtLeast(level)), level.written()));
    let with_flag = accepted.as_ref().map(|(request, level)| (request, Some(level)));
    let mut why = String::new();
    for (request, flag) in std::iter::once((first, None)).chain(with_flag) {
        for unsupported in [Unsupported::Refuse, Unsupported::LeaveOut] {
            let mut request = request.clone();
            match request.fit(unsupported) {
                Err(error) => why = error.to_string(),
                Ok(phases) => {
                    let mut guarantees = phases.iter().map(|phase| phase.guarantees()).filter(|_| flag.is_none());
                    let stronger = guarantees.find(|of| of.durability_asked_in_words().is_some());
                    let mut told: Vec<String> = Vec::new();
                    told.extend(stronger.map(|of| of.durability.to_string()));
                    told.extend(flag.map(|level| format!("`--durability {level}`")));
                    let left_out = request.left_out.iter().map(|out| format!("{}: it {}", out.what, out.why));
                    let left_out: Vec<String> = left_out.collect();
                    if !left_out.is_empty() {
                        let number = number_of(reasons, format!("Without {}.", left_out.join("; without ")));
                        told.push(format!("in part [{number}]"));
                    }
                    return Ok(if told.is_empty() { "yes".to_owned() } else { told.join(", ") });
                }
            }
        }
    }
    let number = number_of(reasons, format!("Refused: {why}."));
    Ok(format!("no [{number}]"))
}

/// The same configuration with this durability in every phase that asks for one.
fn weakened(of: &ConfigurationRequest, level: DurabilityRequest) -> ConfigurationRequest {
    let mut of = of.clone();
    of.study.phases.iter_mut().filter_map(|phase| phase.durability.as_mut()).for_each(|asked| *asked = level);
    of
}

fn number_of(reasons: &mut IndexSet<String>, reason: String) -> usize {
    reasons.insert_full(reason).0 + 1
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_store_declares_the_durability_that_it_is_shipped_with() {
        for scheme in schemes().iter().filter(|scheme| !scheme.decorator) {
            let can = stores::open(scheme.example).unwrap().capabilities();
            assert!(can.durability_for(DurabilityRequest::AsShipped).is_ok(), "{}", scheme.name);
        }
    }
}
