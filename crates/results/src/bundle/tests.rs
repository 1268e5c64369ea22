//! Bundles: written, read, damaged, and repeated.

use std::path::{Path, PathBuf};

use storebench_study::workload::Claim;

use super::claims::derived;
use super::reproduced::verdict;
use super::tar::{read_header, skip_padding, write_end, write_file};
use super::*;
use crate::claims::ClaimVerdict;
use crate::exit::{FINE, INVALID, SPOILED, UNDECIDED};
use crate::validity::Severity;
use crate::{RunResult, TrialResult, fixture};

/// A result in which nothing is invalid, of trials whose phases measured.
fn concluded(run: RunResult, published: &[Claim]) -> RunResult {
    let mut run = run;
    crate::conclude::conclude(published, &mut run);
    // The fixtures are short, which is not what these tests are about.
    run.checks.iter_mut().for_each(|check| check.severity = check.severity.min(Severity::Note));
    run.claims = crate::claims::judge_claims(published, &run);
    run
}

/// Three rounds of two stores, of which `b` is `times` as fast.
fn two_stores(times: f64) -> RunResult {
    let mut run = fixture::run_of(&[fixture::load(), fixture::closed_loop()]);
    let trial = run.trials.remove(0);
    run.plan.repeats = 3;
    for (round, drift) in (1..).zip([1.0, 1.02, 1.04]) {
        for (store, speed) in [("a", 1.0), ("b", times * [1.0, 1.01, 0.99][round as usize - 1])] {
            let number = run.trials.len() as u32 + 1;
            let (store, configuration) = (store.to_owned(), store.to_owned());
            let mut trial = TrialResult { trial: number, round, store, configuration, ..trial.clone() };
            fixture::speed(&mut trial, drift * speed);
            run.trials.push(trial);
        }
    }
    concluded(run, &[])
}

fn says(of: &Reproduction, verdict: Repetition) -> Vec<&str> {
    of.claims.iter().filter(|claim| claim.verdict == verdict).map(|claim| claim.says.as_str()).collect()
}

#[test]
fn a_result_states_its_order_and_its_ratio() {
    let run = two_stores(3.0);
    let claims = derived(&run);
    let told: Vec<&str> = claims.iter().map(|claim| claim.says.as_str()).collect();
    assert_eq!(told.len(), 2, "{told:?}");
    assert!(told[0].ends_with(".throughput is higher with store b than with store a"), "{told:?}");
    assert!(told[1].contains("with store a over that with store b is about 0.333"), "{told:?}");
    // Configurations that do not differ have no order, and one configuration has nothing to compare.
    assert!(derived(&two_stores(1.0)).iter().all(|claim| !claim.says.contains("higher")));
    assert!(derived(&concluded(fixture::run_of(&[fixture::closed_loop()]), &[])).is_empty());
}

#[test]
fn a_result_states_how_a_factor_changes_it() {
    let claims = derived(&concluded(fixture::swept(), &[]));
    let told: Vec<&str> = claims.iter().map(|claim| claim.says.as_str()).collect();
    assert!(told[0].contains("rises with workers on sqlite"), "{told:?}");
    assert!(told.iter().any(|says| says.contains("at workers 8 over that at 1 on sqlite is about 3.1")), "{told:?}");
    assert!(told.iter().any(|says| says.contains("more workers than 4 does not raise")), "{told:?}");
}

#[test]
fn a_result_reproduces_if_its_shape_does_however_fast_the_machine_is() {
    let bundle = two_stores(3.0);
    let mut here = two_stores(2.6);
    here.trials.iter_mut().for_each(|trial| fixture::speed(trial, 10.0));
    here.environment.cpu_model = Some("another".into());
    let here = concluded(here, &[]);
    let same = reproduction(&bundle, &here, None);
    assert_eq!((same.verdict, same.exit_code()), (ReproductionVerdict::Reproduced, FINE), "{same:?}");
    assert!(same.answer.starts_with("The result reproduced here: all 2 claims"), "{}", same.answer);
    let processor = Difference { what: "processor".into(), bundle: "unknown".into(), here: "another".into() };
    assert_eq!(same.differences, [processor]);
    assert!(same.figures.iter().any(|pair| pair.bundle.is_some() && pair.here.is_some() && pair.bundle != pair.here));
    // The same order, and another ratio.
    let wider = reproduction(&bundle, &two_stores(9.0), None);
    assert_eq!((wider.verdict, wider.exit_code()), (ReproductionVerdict::Differs, SPOILED));
    assert_eq!((says(&wider, Repetition::Matches).len(), says(&wider, Repetition::Differs).len()), (1, 1));
    // The opposite order.
    let other = reproduction(&bundle, &two_stores(0.5), None);
    assert_eq!(says(&other, Repetition::Differs).len(), 2);
    assert!(other.answer.starts_with("The result did not reproduce here: of 2 claims"), "{}", other.answer);
}

#[test]
fn what_cannot_be_tested_is_neither_a_match_nor_a_difference() {
    let bundle = two_stores(3.0);
    let mut once = two_stores(3.0);
    once.trials.truncate(2);
    let open = reproduction(&bundle, &concluded(once, &[]), None);
    assert_eq!((open.verdict, open.exit_code()), (ReproductionVerdict::Undecided, UNDECIDED), "{open:?}");
    assert!(
        open.claims.iter().all(|claim| claim.verdict == Repetition::NotTestable && claim.why.contains("one round"))
    );
    let mut invalid = two_stores(3.0);
    invalid.checks[0].severity = Severity::Invalid;
    let invalid = reproduction(&bundle, &invalid, None);
    assert_eq!((invalid.verdict, invalid.exit_code()), (ReproductionVerdict::Invalid, INVALID));
    let mut cut = two_stores(3.0);
    cut.run.ended = None;
    assert_eq!(reproduction(&bundle, &cut, None).verdict, ReproductionVerdict::Invalid);
    assert_eq!(verdict(&[], &bundle).0, ReproductionVerdict::Undecided);
}

#[test]
fn a_published_claim_that_differed_in_the_bundle_repeats_if_it_differs_again() {
    let name = derived(&two_stores(3.0))[0].says.split(' ').next().unwrap().to_owned();
    let test = serde_json::json!({ "ratio": name, "of": { "store": "a" }, "to": { "store": "b" }, "between": [2] });
    let published: Claim =
        serde_json::from_value(serde_json::json!({ "says": "a is faster", "figures": "2", "test": test })).unwrap();
    let study = "title = \"T\"\nstores = [\"a=memory:\", \"b=memory:\"]\n[collections.books]\ncount = 1\n[[phases]]\n\
                 name = \"load\"\nload = [\"books\"]\n";
    let study = storebench_study::workload::Study::parse(study, Path::new("t"), &[]).unwrap();
    let mut bundle = two_stores(3.0);
    bundle.run.study =
        serde_json::to_value(storebench_study::workload::Study { published: vec![published], ..study }).unwrap();
    let again = reproduction(&bundle, &two_stores(3.0), None);
    let claim = &again.claims[0];
    assert_eq!((claim.published, claim.in_bundle, claim.verdict), (true, ClaimVerdict::Differs, Repetition::Matches));
    let other = reproduction(&bundle, &two_stores(0.3), None);
    assert_eq!(other.claims[0].verdict, Repetition::Differs);
}

#[test]
fn runs_on_both_sides_of_a_published_range_do_not_say_the_same() {
    let name = derived(&two_stores(3.0))[0].says.split(' ').next().unwrap().to_owned();
    let test = serde_json::json!({ "ratio": name, "of": { "store": "b" }, "to": { "store": "a" }, "between": [2, 3] });
    let published = serde_json::json!({ "says": "b is 2 to 3 times as fast", "figures": "2", "test": test });
    let study = |times: f64| {
        let mut run = two_stores(times);
        let collections = serde_json::json!({ "books": { "count": 1 } });
        let phases = serde_json::json!([{ "name": "load", "load": ["books"] }]);
        run.run.study = serde_json::json!({
            "title": "T", "collections": collections, "phases": phases, "published": [published]
        });
        run
    };
    let below = study(0.4);
    let verdict = |here: f64| reproduction(&below, &study(here), None).claims[0].clone();
    let opposite = verdict(5.0);
    assert_eq!((opposite.in_bundle, opposite.verdict), (ClaimVerdict::Differs, Repetition::Differs), "{opposite:?}");
    assert!(opposite.why.contains("in other directions"), "{}", opposite.why);
    assert_eq!(verdict(0.5).verdict, Repetition::Matches);
}

#[test]
fn a_run_of_other_work_or_other_documents_tests_no_claim() {
    let bundle = two_stores(3.0);
    let with = |change: fn(&mut RunResult)| {
        let mut here = two_stores(3.0);
        change(&mut here);
        let found = reproduction(&bundle, &here, None);
        assert_eq!((found.verdict, found.exit_code()), (ReproductionVerdict::Undecided, UNDECIDED), "{found:?}");
        found.answer
    };
    let answer = with(|here| here.run.frozen = serde_json::json!({ "collections": { "books": { "count": 7 } } }));
    assert!(answer.contains("the documents here are not those of the bundle"), "{answer}");
    let answer = with(|here| {
        let phases = here.trials.iter_mut().filter(|trial| trial.store == "b").flat_map(|trial| &mut trial.phases);
        phases.for_each(|phase| phase.durability.name = "majority".into());
    });
    assert!(answer.contains("b did not do the same here as in the bundle: replicas, "), "{answer}");
}

#[test]
fn the_answer_comes_first() {
    let text = rerun_text(&reproduction(&two_stores(3.0), &two_stores(0.5), None), crate::summary::Layout::plain());
    assert!(text.starts_with("The result did not reproduce here"), "{text}");
    assert!(text.contains("differs           ") && text.contains("No difference between the machines"), "{text}");
}

#[test]
fn inputs_are_named_once_with_all_their_keys() {
    let study = serde_json::json!({
        "collections": { "a.b": { "trace": "t.jsonl" }, "c": { "text_file": "book.txt", "size": { "like": "l.jsonl" } } },
        "phases": [{ "name": "replay", "trace": "t.jsonl" }],
        "factors": { "phases.replay.workers": [1] }
    });
    let found: Vec<(String, Vec<String>)> =
        inputs_of(&study).unwrap().into_iter().map(|of| (of.path, of.keys)).collect();
    let keys = |all: &[&str]| all.iter().map(|key| (*key).to_owned()).collect::<Vec<_>>();
    let expected = [
        ("t.jsonl".to_owned(), keys(&["collections.\"a.b\".trace", "phases.replay.trace"])),
        ("book.txt".to_owned(), keys(&["collections.c.text_file"])),
        ("l.jsonl".to_owned(), keys(&["collections.c.size.like"])),
    ];
    assert_eq!(found, expected);
    let varied = serde_json::json!({ "factors": { "collections.c.from": ["a", "b"] } });
    assert_eq!(inputs_of(&varied), Err("collections.c.from".to_owned()));
    let sizes = serde_json::json!({ "factors": { "collections.c.size": ["1KB", { "like": "l.jsonl" }] } });
    assert_eq!(inputs_of(&sizes), Err("collections.c.size".to_owned()));
    let whole = serde_json::json!({ "factors": { "phases.replay": [{ "trace": "t.jsonl" }] } });
    assert_eq!(inputs_of(&whole), Err("phases.replay".to_owned()));
}

#[test]
fn an_input_has_changed_if_its_part_of_the_documents_has() {
    let frozen = |xxh3: &str, count: u64| {
        let from = serde_json::json!({ "bytes": 10, "skipped": 0, "xxh3": xxh3 });
        serde_json::json!({ "collections": { "books": { "count": 7 }, "lines": { "count": count, "from": from } } })
    };
    assert_eq!(changed_input(&frozen("a", 5), &frozen("a", 5)), None);
    assert_eq!(changed_input(&frozen("a", 5), &frozen("b", 5)), Some("lines"));
}

/// A folder for bundles.
struct Files(tempfile::TempDir);

impl Files {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn write(&self, bytes: &[u8]) -> PathBuf {
        let path = self.0.path().join("a.sbz");
        std::fs::write(&path, bytes).unwrap();
        path
    }

    /// Why a bundle with these bytes is refused.
    fn refused(&self, bytes: &[u8]) -> String {
        Bundle::open(&self.write(bytes)).unwrap_err().what
    }
}

fn files() -> Vec<PackedFile> {
    let result = serde_json::to_vec(&two_stores(3.0)).unwrap();
    let file = |path: String, bytes: &[u8]| PackedFile { path, content: Content::Bytes(bytes.to_vec()) };
    vec![
        file("run/study.toml".into(), b"title = \"T\"\n"),
        file("run/run.json".into(), &result),
        file(format!("run/001-{}.hlog", "long".repeat(40)), &[7; 1_000]),
        file("run/empty".into(), b""),
    ]
}

fn packed() -> Vec<u8> {
    let mut out = Vec::new();
    write_bundle(&mut out, files(), Vec::new(), None).unwrap();
    out
}

/// An archive of these files, whatever they are.
fn archive(files: &[(&str, &[u8])]) -> Vec<u8> {
    let mut tar = Vec::new();
    for (name, content) in files {
        write_file(&mut tar, name, content.len() as u64, *content).unwrap();
    }
    write_end(&mut tar).unwrap();
    zstd::stream::encode_all(tar.as_slice(), 1).unwrap()
}

/// A bundle whose manifest is changed.
fn with_manifest(change: impl Fn(&mut serde_json::Value), more: &[(&str, &[u8])]) -> Vec<u8> {
    let (sha256, _) = sha256_of(&b"x"[..]).unwrap();
    let mut manifest = serde_json::json!({
        "format": BUNDLE_FORMAT, "inputs": [], "files": [{ "path": "run/a", "sha256": sha256, "size_bytes": 1 }]
    });
    change(&mut manifest);
    let text = manifest.to_string();
    archive(&[&[("manifest.json", text.as_bytes())][..], more].concat())
}

#[test]
fn the_same_run_makes_the_same_bytes_and_reads_back() {
    let bytes = packed();
    let mut turned = files();
    turned.reverse();
    let mut again = Vec::new();
    write_bundle(&mut again, turned, Vec::new(), None).unwrap();
    assert!(bytes == again);
    let folder = Files::new();
    let bundle = Bundle::open(&folder.write(&bytes)).unwrap();
    assert_eq!((&bundle.signed, bundle.result.trials.len()), (&Signed::No, 6));
    let into = folder.0.path().join("into");
    bundle.unpack(&into, "").unwrap();
    for file in files() {
        let Content::Bytes(expected) = file.content else { panic!() };
        assert!(std::fs::read(into.join(&file.path)).unwrap() == expected, "{}", file.path);
    }
    // What is there already is not replaced.
    assert!(bundle.unpack(&into, "").unwrap_err().what.contains("cannot be written"));
    let some = folder.0.path().join("some");
    bundle.unpack(&some, "run/e").unwrap();
    let names: Vec<_> = std::fs::read_dir(some.join("run")).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names, ["empty"]);
}

#[test]
fn damage_is_found_wherever_it_is() {
    let folder = Files::new();
    let bytes = packed();
    for end in [0, 10, bytes.len() / 2, bytes.len() - 1] {
        let told = folder.refused(&bytes[..end]);
        assert!(told.contains("cut short") || told.contains("not a bundle"), "{end}: {told}");
    }
    assert!(folder.refused(b"something else").contains("not a bundle"));
    let tar = zstd::stream::decode_all(bytes.as_slice()).unwrap();
    // In a file, in its name, and in what fills up its block.
    for at in (0..2_048).step_by(61).chain((0..tar.len()).step_by(9_973)) {
        let mut changed = tar.clone();
        changed[at] ^= 0x20;
        let packed = zstd::stream::encode_all(changed.as_slice(), 1).unwrap();
        if let Ok(bundle) = Bundle::open(&folder.write(&packed)) {
            // Bytes that mean nothing.
            let whole = Bundle::open(&folder.write(&bytes)).unwrap();
            assert_eq!(bundle.manifest, whole.manifest, "byte {at}");
        }
    }
}

#[test]
fn what_a_bundle_must_not_contain_is_refused() {
    let folder = Files::new();
    let fine: (&str, &[u8]) = ("run/a", b"x");
    let path = |path: &str| with_manifest(|manifest| manifest["files"][0]["path"] = path.into(), &[(path, b"x")]);
    for outside in
        ["/etc/passwd", "../a", "run/../../a", "run//a", "run/./a", "other/a", "run/a\u{1b}", "run", "inputs/.."]
    {
        let told = folder.refused(&path(outside));
        assert!(told.contains("does not stay within"), "{outside}: {told}");
    }
    let twice = with_manifest(
        |manifest| manifest["files"] = serde_json::json!([manifest["files"][0].clone(), manifest["files"][0].clone()]),
        &[fine, fine],
    );
    for (bytes, expected) in [
        (twice, "repeated or not in order"),
        (with_manifest(|_| (), &[]), "`run/a` is missing"),
        (with_manifest(|_| (), &[fine, fine]), "`run/a` is not in its manifest, or is repeated"),
        (with_manifest(|_| (), &[("run/b", b"x")]), "`run/b` is where its manifest has `run/a`"),
        (with_manifest(|_| (), &[("run/a", b"y")]), "the content of `run/a` differs from its manifest"),
        (with_manifest(|_| (), &[("run/a", b"xy")]), "the size of `run/a` differs"),
        (with_manifest(|_| (), &[fine]), "it has no run/run.json"),
        (with_manifest(|m| m["files"][0]["size_bytes"] = u64::MAX.into(), &[fine]), "at most 8.00 GiB are allowed"),
        (with_manifest(|m| m["files"][0]["sha256"] = "00".into(), &[fine]), "no SHA-256"),
        (with_manifest(|m| m["format"] = "storebench-bundle/2".into(), &[fine]), "update Storebench"),
        (with_manifest(|m| m["format"] = "storebench-run/3".into(), &[fine]), "is not that of a bundle"),
        (
            with_manifest(
                |m| m["inputs"] = serde_json::json!([{ "path": "a", "keys": [], "file": "inputs/a" }]),
                &[fine],
            ),
            "names the input `a`, and does not list it",
        ),
        (archive(&[fine]), "does not begin with a manifest"),
    ] {
        let told = folder.refused(&bytes);
        assert!(told.contains(expected), "{expected}: {told}");
    }
}

/// So many inputs were looked up one by one among so many files, which took hours.
#[test]
fn a_manifest_is_checked_quickly_and_has_a_limited_number_of_inputs() {
    let sha256 = "0".repeat(64);
    let file = |n: usize| BundleFile { path: format!("run/{n:06}"), sha256: sha256.clone(), size_bytes: 0 };
    let input = |n: usize| Input { path: n.to_string(), file: Some(format!("run/{n:06}")), ..Input::default() };
    let manifest = |n: usize| Manifest {
        files: (0..100_000).map(file).collect(),
        inputs: (0..n).map(input).collect(),
        ..Manifest::default()
    };
    let began = std::time::Instant::now();
    manifest(100_000).check().unwrap();
    assert!(began.elapsed().as_secs() < 20, "{:?}", began.elapsed());
    let told = manifest(100_001).check().unwrap_err();
    assert!(told.contains(" inputs, and at most "), "{told}");
}

#[test]
fn links_and_folders_are_refused() {
    for (kind, expected) in [(b'1', "is a link"), (b'2', "is a link"), (b'5', "is not a plain file")] {
        let mut tar = Vec::new();
        write_file(&mut tar, "run/a", 0, &b""[..]).unwrap();
        // The sum changes with the kind.
        let sum = format!(
            "{:06o}\0 ",
            tar[..512]
                .iter()
                .enumerate()
                .map(|(at, byte)| match at {
                    148..156 => u32::from(b' '),
                    156 => u32::from(kind),
                    _ => u32::from(*byte),
                })
                .sum::<u32>()
        );
        tar[148..156].copy_from_slice(sum.as_bytes());
        tar[156] = kind;
        let told = read_header(&mut tar.as_slice()).unwrap_err().to_string();
        assert!(told.contains(expected), "{told}");
    }
}

#[test]
fn a_file_that_changes_while_it_is_packed_is_refused() {
    let mut out = Vec::new();
    for content in [&b"short"[..], b"and this is too long"] {
        let told = write_file(&mut out, "a", 10, content).unwrap_err().to_string();
        assert!(told.contains("changed while it was packed"), "{told}");
    }
    // A size that fills its blocks has nothing to skip.
    skip_padding(&mut &b""[..], 1_024).unwrap();
}

#[cfg(feature = "signatures")]
mod signed {
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;

    use super::*;

    /// A block of PEM with these bytes.
    fn pem(label: &str, der: &[u8]) -> String {
        format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", STANDARD.encode(der))
    }

    /// A private key as `openssl genpkey -algorithm ed25519` writes it.
    fn key() -> SigningKey {
        let head = [0x30, 0x2e, 0x02, 0x01, 0x00, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x04, 0x22, 0x04, 0x20];
        SigningKey::from_pem(&pem("PRIVATE KEY", &[&head[..], &[7; 32]].concat())).unwrap()
    }

    fn signed() -> Vec<u8> {
        let mut out = Vec::new();
        write_bundle(&mut out, files(), Vec::new(), Some(&key())).unwrap();
        out
    }

    #[test]
    fn a_signature_names_its_key() {
        let folder = Files::new();
        let public = key().sign(b"").public_key;
        assert_eq!(Bundle::open(&folder.write(&signed())).unwrap().signed, Signed::By(public.clone()));
        assert!(signed() == signed());
        // As `openssl pkey -pubout` writes it.
        let head = [0x30, 0x2a, 0x30, 0x05, 0x06, 0x03, 0x2b, 0x65, 0x70, 0x03, 0x21, 0x00];
        let der = [&head[..], &STANDARD.decode(&public).unwrap()].concat();
        assert_eq!(public_key(&pem("PUBLIC KEY", &der)), Ok(public.clone()));
        assert_eq!(public_key(&public), Ok(public));
        for wrong in ["", "abc", &pem("PUBLIC KEY", &der[1..])] {
            assert!(public_key(wrong).unwrap_err().contains("is not a public key"), "{wrong}");
        }
        // What was given by mistake is not shown.
        let secret = pem("PRIVATE KEY", &[7; 48]);
        let told = public_key(&secret).unwrap_err();
        assert!(told.starts_with("this is a private key; give the public one") && !told.contains("BwcH"), "{told}");
        assert!(!public_key("hunter2hunter2").unwrap_err().contains("hunter2"));
        assert!(SigningKey::from_pem(&pem("PUBLIC KEY", &der)).unwrap_err().contains("openssl genpkey"));
        assert_eq!(format!("{:?}", key()), "SigningKey(***)");
    }

    #[test]
    fn a_signature_of_another_manifest_is_refused() {
        let folder = Files::new();
        let signature = serde_json::to_vec(&key().sign(b"another")).unwrap();
        let bytes = with_manifest(|_| (), &[("signature.json", &signature), ("run/a", b"x")]);
        assert!(folder.refused(&bytes).contains("its signature does not match"), "{}", folder.refused(&bytes));
    }
}
