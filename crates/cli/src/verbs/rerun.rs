//! `rerun FILE`: repeats the run of a bundle, and tests its claims.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use serde_json::Value;
use storebench_results::bundle::{Bundle, Input, ReproductionVerdict, inputs_of, reproduction, rerun_text};
use storebench_results::exit::{FINE, INTERRUPTED};
use storebench_results::summary::summary;
use storebench_results::{HIDDEN, dated, redact_url};
use storebench_study::workload::{Stores, Study};

use super::measure::measured;
use super::publish::trouble;
use super::report::write_page;
use super::run::request;
use crate::args::{FitArgs, PartArgs, RerunArgs, ResultArgs, RunArgs};
use crate::bundles::{self, hash_of};
use crate::failure::{Failure, no_such};
use crate::output::{layout, print, print_json_or};
use crate::outputs::write_text;
use crate::progress::Progress;
use crate::{stores, studies};

/// The answer in the folder of a repeated run, as `--json` prints it.
const ANSWER: &str = "rerun.json";

pub(crate) fn rerun(args: &RerunArgs) -> Result<u8, Failure> {
    let bundle = bundles::open(&args.bundle, &args.trust)?;
    let study = bundles::study_of(&bundle.result.run)?;
    let folder = new_folder(&args.result.out, &bundle.result.run.name)?;
    let mut progress = Progress::new(args.result.show.quiet);
    let made = prepared(args, &bundle, &study, &folder).and_then(|run| Ok((request(&run, &mut progress)?, run)));
    let ((mut request, _servers, metrics), run) = made.inspect_err(|_| {
        // Nothing was started: everything in it came from the bundle.
        let _ = std::fs::remove_dir_all(&folder);
    })?;
    request.name.clone_from(&bundle.result.run.name);
    let outcome = measured(&request, &run.result, metrics, &mut progress)?;
    let code = outcome.exit_code();
    let here = &outcome.result;
    let found = reproduction(&bundle.result, here, bundles::signer(&bundle));
    print_json_or(args.result.show.json, &found, || rerun_text(&found, layout()))?;
    if args.result.show.full {
        print(&format!("\n{}", summary(here, layout())))?;
    }
    let text = serde_json::to_string_pretty(&found).map_err(Failure::spoiled)?;
    write_text(&folder.join(ANSWER), &(text + "\n"), true)?;
    if let Some(error) = &outcome.folder_error {
        return Err(Failure { code, message: error.to_string() });
    }
    if let Some(run) = &outcome.folder {
        match write_page(run) {
            Ok(page) => progress.note(&format!("the report of the run here is {}", page.display())),
            Err(why) => progress.tell(&format!("no report: {why}")),
        }
    }
    match (code, found.verdict) {
        (INTERRUPTED, _) => Ok(code),
        // A verdict on the claims says more than a good run, and less than a bad one.
        (FINE, ReproductionVerdict::Reproduced) => Ok(FINE),
        (FINE, _) => Err(Failure { code: found.exit_code(), message: found.answer }),
        _ => Err(Failure { code, message: trouble(&here.trials, &here.checks, code).unwrap_or(found.answer) }),
    }
}

/// Creates the folder of a repeated run.
fn new_folder(out: &Path, name: &str) -> Result<PathBuf, Failure> {
    let failed = |path: &Path, error: std::io::Error| {
        Failure::bad_input(format!("{}: cannot be created: {error}; give another folder with --out", path.display()))
    };
    std::fs::create_dir_all(out).map_err(|error| failed(out, error))?;
    // The name is the bundle's, and stays within the folder.
    let stem = dated(&format!("{}-rerun", plain(name)));
    for n in 1.. {
        let path = out.join(if n == 1 { stem.clone() } else { format!("{stem}-{n}") });
        match std::fs::create_dir(&path) {
            Ok(()) => return path.canonicalize().map_err(|error| failed(&path, error)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(failed(&path, error)),
        }
    }
    unreachable!("some number is free")
}

/// A name with letters, digits, `-` and `_` only.
fn plain(name: &str) -> String {
    name.chars().take(60).map(|c| if c.is_ascii_alphanumeric() || c == '_' { c } else { '-' }).collect()
}

/// The arguments of `run` that repeat the run of a bundle, which is unpacked into a folder.
fn prepared(args: &RerunArgs, bundle: &Bundle, study: &Study, folder: &Path) -> Result<RunArgs, Failure> {
    let stores = stores_here(study, &args.stores, args.manage_servers, &folder.join("stores"))?;
    let unpacked = folder.join("bundle");
    bundles::unpacked(bundle.unpack(&unpacked, ""))?;
    let mut opened = bundles::study_args(&bundle.result, unpacked.join("run").join(bundles::STUDY));
    bundles::refuse_other_study(&args.bundle, &studies::open(&opened, &stores)?.study, &bundle.result.run)?;
    opened.overrides.extend(inputs_here(bundle, &unpacked, &args.inputs)?);
    let skip_unsupported = bundle.result.plan.left_out().iter().any(|(_, what)| !what.is_empty());
    Ok(RunArgs {
        study: opened,
        stores,
        // The durability is among the overrides.
        fit: FitArgs { durability: None, skip_unsupported },
        keep: false,
        compare_answers: false,
        manage_servers: args.manage_servers,
        resume: None,
        prices: None,
        parts: PartArgs::default(),
        result: ResultArgs { out: folder.to_owned(), ..args.result.clone() },
    })
}

/// Each store of a study as `NAME=URL` of this machine. Embedded stores are in a new folder, wherever they were.
fn stores_here(study: &Study, typed: &[String], managed: bool, folder: &Path) -> Result<Vec<String>, Failure> {
    let known = &study.stores.0;
    if known.is_empty() {
        return Err(Failure::bad_input("run.json of the bundle names no store; ask for another bundle"));
    }
    let variables =
        study.servers.iter().flat_map(|(name, of)| of.env.iter().map(move |(key, value)| (name, key, value)));
    if let Some((name, key, _)) = variables.filter(|_| managed).find(|(.., value)| value.contains(HIDDEN)) {
        return Err(Failure::bad_input(format!(
            "servers.{name}.env.{key} is a secret, which the bundle does not have; unpack the bundle (tar --zstd -xf), \
             set it in run/study.toml, and run that study"
        )));
    }
    let mut given: HashMap<String, String> = HashMap::new();
    let typed = Stores::from_entries(typed).map_err(|why| Failure::bad_input(format!("--store: {why}")))?.0;
    let only = typed.len() == 1 && known.len() == 1;
    for (name, url) in typed {
        let name = match known.first() {
            Some((first, _)) if only => first.clone(),
            _ if known.contains_key(&name) => name,
            _ => return Err(Failure::bad_input(no_such("store", &name, known.keys().map(String::as_str)))),
        };
        given.insert(name, url);
    }
    let mut places: HashMap<String, PathBuf> = HashMap::new();
    let (mut stores, mut missing) = (Vec::new(), Vec::new());
    for (name, url) in known {
        let here = given.remove(name).or_else(|| embedded_here(name, url, folder, &mut places)).or_else(|| {
            let scheme = url.split(':').next().unwrap_or_default();
            let started = managed && study.server_of(name, scheme).is_some() && !url.contains(HIDDEN);
            started.then(|| url.clone())
        });
        match here {
            Some(url) => stores.push(format!("{name}={url}")),
            None => missing.push(format!("--store {name}={}", redact_url(url))),
        }
    }
    if !places.is_empty() {
        std::fs::create_dir_all(folder).map_err(|error| Failure::spoiled(format!("{}: {error}", folder.display())))?;
    }
    match missing.as_slice() {
        [] => Ok(stores),
        missing => Err(Failure::bad_input(format!(
            "the study runs on servers, and the bundle does not say where they are here; give your own: {}",
            missing.join(" ")
        ))),
    }
}

/// The URL of an embedded store in a new folder. `None` for a server, or a store that this build does not have.
fn embedded_here(name: &str, url: &str, folder: &Path, places: &mut HashMap<String, PathBuf>) -> Option<String> {
    let store = stores::open(url).ok()?;
    let (schemes, rest) = url.split_once(':')?;
    // Another process hosts it, and would have to run here.
    if !store.capabilities().embedded || schemes.split('+').any(|scheme| scheme == "hosted") {
        return None;
    }
    if store.paths().is_empty() {
        return Some(url.to_owned());
    }
    let (path, options) = rest.find('?').map_or((rest, ""), |at| rest.split_at(at));
    let number = places.len() + 1;
    // Stores at one place stay at one place.
    let place = places.entry(path.to_owned()).or_insert_with(|| folder.join(format!("{number}-{}", plain(name))));
    Some(format!("{schemes}:{}{options}", place.display()))
}

/// Overrides that name the input files of this machine. Their content must be that of the bundle.
fn inputs_here(bundle: &Bundle, unpacked: &Path, folder: &Path) -> Result<Vec<String>, Failure> {
    // A file that the manifest does not list would be read wherever the study says, whatever it contains.
    let read = inputs_of(&bundle.result.run.study).map_err(|factor| {
        Failure::bad_input(format!(
            "the factor `{factor}` varies which file is read, and a bundle cannot hold that yet"
        ))
    })?;
    let listed = |input: &Input| (input.path.clone(), input.keys.clone());
    if !read.iter().map(listed).eq(bundle.manifest.inputs.iter().map(listed)) {
        let read: Vec<&str> = read.iter().map(|input| input.path.as_str()).collect();
        return Err(Failure::bad_input(format!(
            "the manifest of the bundle does not list the files that its study reads: {}; ask for another bundle",
            if read.is_empty() { "none".to_owned() } else { read.join(", ") }
        )));
    }
    let mut overrides = Vec::new();
    for input in &bundle.manifest.inputs {
        let place = match &input.file {
            Some(file) => unpacked.join(file),
            None => folder.join(&input.path),
        };
        let name = place.display();
        let found = hash_of(&place)?.ok_or_else(|| {
            let remedy = "put it there, or give its folder with --inputs DIR";
            Failure::bad_input(format!("{name}: the study reads it, and the bundle has only its hash; {remedy}"))
        })?;
        match &input.sha256 {
            None => {
                let remedy = "ask for a bundle that was packed where the file is";
                return Err(Failure::bad_input(format!(
                    "{name}: the bundle does not say which content this had; {remedy}"
                )));
            }
            Some(expected) if *expected != found.0 => {
                return Err(Failure::bad_input(format!(
                    "{name}: its content is not what the bundle's study read: SHA-256 {}, expected {expected}",
                    found.0
                )));
            }
            Some(_) => {}
        }
        let place = place.canonicalize().map_err(|error| Failure::bad_input(format!("{name}: {error}")))?;
        let value = Value::from(place.to_string_lossy());
        overrides.extend(input.keys.iter().map(|key| format!("{key}={value}")));
    }
    Ok(overrides)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn study(stores: &str) -> Study {
        let text = format!(
            "title = \"T\"\nstores = {stores}\n[collections.a]\ncount = 1\n[[phases]]\nname = \"load\"\nload = [\"a\"]\n"
        );
        Study::parse(&text, Path::new("t.toml"), &[]).unwrap()
    }

    fn here(stores: &str, typed: &[&str]) -> Result<Vec<String>, String> {
        let folder = tempfile::tempdir().unwrap();
        let typed: Vec<String> = typed.iter().map(|url| (*url).to_owned()).collect();
        let stores = stores_here(&study(stores), &typed, false, &folder.path().join("stores"));
        let shown = folder.path().display().to_string();
        stores.map(|all| all.iter().map(|url| url.replace(&shown, "NEW")).collect()).map_err(|failure| failure.message)
    }

    #[test]
    fn embedded_stores_never_stay_where_the_bundle_says() {
        let stores = "[\"a/b=sqlite:/home/me/mine.db?cache=1MiB\", \"c=sqlite:../mine.db\", \"d=sqlite:/home/me/mine.db\", \
                      \"m=slow+memory:?latency=1ms\"]";
        let expected = [
            "a/b=sqlite:NEW/stores/1-a-b?cache=1MiB",
            "c=sqlite:NEW/stores/2-c",
            "d=sqlite:NEW/stores/1-a-b",
            "m=slow+memory:?latency=1ms",
        ];
        assert_eq!(here(stores, &[]).unwrap(), expected);
        // What the user gives stays as it is.
        assert_eq!(here("[\"sqlite:/x.db\"]", &["sqlite:my.db"]).unwrap(), ["sqlite=sqlite:my.db"]);
    }

    #[test]
    fn stores_that_are_elsewhere_must_be_given() {
        let stores = "[\"sqlite:x.db\", \"one=redis://h\", \"hosted+sqlite:y.db?socket=/tmp/s\"]";
        let told = here(stores, &[]).unwrap_err();
        assert!(told.contains("--store one=redis://h --store hosted+sqlite=hosted+sqlite:y.db"), "{told}");
        let told = here(stores, &["on=redis://mine"]).unwrap_err();
        assert!(told.contains("unknown store `on`; did you mean `one`?"), "{told}");
    }

    #[test]
    fn a_server_is_not_started_without_its_secrets() {
        let mut study = study("[\"redis://h\"]");
        let server =
            |password: &str| serde_json::json!({ "redis": { "run": "x", "env": { "REDIS_PASSWORD": password } } });
        let mut here = |password: &str, managed| {
            study.servers = serde_json::from_value(server(password)).unwrap();
            stores_here(&study, &[], managed, Path::new("none")).map_err(|failure| failure.message)
        };
        assert_eq!(here("public", true).unwrap(), ["redis=redis://h"]);
        assert!(here("***", true).unwrap_err().starts_with("servers.redis.env.REDIS_PASSWORD is a secret"));
        assert!(here("***", false).unwrap_err().contains("--store redis=redis://h"));
    }

    #[test]
    fn a_bundle_without_stores_is_refused() {
        let mut study = study("[\"memory:\"]");
        study.stores = Stores::default();
        let told = stores_here(&study, &[], false, Path::new("none")).unwrap_err().message;
        assert!(told.contains("names no store"), "{told}");
    }

    #[test]
    fn a_name_of_a_bundle_stays_within_the_folder() {
        let out = tempfile::tempdir().unwrap();
        let folder = new_folder(&out.path().join("runs"), "../../etc").unwrap();
        assert!(folder.starts_with(out.path().canonicalize().unwrap().join("runs")), "{}", folder.display());
        let again = new_folder(&out.path().join("runs"), "../../etc").unwrap();
        assert_ne!(folder, again);
    }
}
