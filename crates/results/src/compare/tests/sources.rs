//! How sides are read: baselines, several runs of one side, paths.

use super::*;

fn kept(dir: &Path, name: &str, run: &RunResult) -> Source {
    let folder = dir.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("run.json"), serde_json::to_vec(run).unwrap()).unwrap();
    Source::open(folder.to_str().unwrap()).unwrap()
}

#[test]
fn a_baseline_is_a_set_of_runs_that_are_kept_whole() {
    let dir = tempfile::tempdir().unwrap();
    let baselines = dir.path().join("deep/baselines");
    let mains: Vec<Source> =
        runs_of(DAY_1, "x", EVEN).iter().zip(["a", "b", "c"]).map(|(r, n)| kept(dir.path(), n, r)).collect();
    let missing = |name: &str| Source::baseline(&baselines, name).unwrap_err().to_string();
    assert!(missing("main").contains("--save-baseline main"));
    for (of, runs) in mains.iter().zip(1..) {
        let saved = save_baseline(of, &baselines, "main", Keep::All).unwrap();
        assert_eq!((saved.runs, saved.removed.len()), (runs, 0));
        assert_eq!(std::fs::read(&saved.path).unwrap(), std::fs::read(&of.runs[0].file).unwrap());
    }
    let again = save_baseline(&mains[0], &baselines, "main", Keep::None).unwrap_err().to_string();
    assert!(again.contains("has this run already"), "{again}");
    let topic = several("topic", runs_of(DAY_2, "x", &faster(1.2)));
    let result = compared(&[Source::baseline(&baselines, "main").unwrap(), topic.clone()], &[]).unwrap();
    assert_eq!(result.pairs[0].a.label(), "baseline main#x");
    assert_eq!((result.pairs[0].a.more_runs.len(), figure(&result, "steady.throughput").a.trials), (2, 3));
    assert_eq!(figure(&result, "steady.throughput").word, "faster");
    // Only the newest are kept if that is said.
    let next = kept(dir.path(), "d", &run(DAY_2, &[("x", EVEN)]));
    let saved = save_baseline(&next, &baselines, "main", Keep::Newest(2)).unwrap();
    assert_eq!((saved.runs, saved.removed.len()), (2, 2));
    let days = |name: &str| -> Vec<String> {
        Source::baseline(&baselines, name).unwrap().runs.iter().map(|of| of.run.run.began.clone()).collect()
    };
    assert_eq!(days("main"), ["2026-01-01T02:00:00Z", DAY_2]);
    let other = kept(dir.path(), "e", &run("2026-01-03T00:00:00Z", &[("x", EVEN)]));
    assert_eq!(save_baseline(&other, &baselines, "main", Keep::None).unwrap().removed.len(), 2);
    assert_eq!(std::fs::read_dir(baselines.join("main")).unwrap().count(), 1, "nothing else is left there");
    assert!(Source::baseline(&baselines, "main#x").unwrap().configuration.is_some());
    assert!(missing("mian").contains("did you mean `main`"));
    assert!(missing("../main").contains("names no baseline"));
    let mut cut = run(DAY_2, &[("x", EVEN)]);
    cut.run.interrupted = true;
    let cut = kept(dir.path(), "cut", &cut);
    assert!(save_baseline(&cut, &baselines, "cut", Keep::All).unwrap_err().to_string().contains("interrupted"));
}

#[test]
fn several_runs_of_one_side_are_named_with_commas() {
    let dir = tempfile::tempdir().unwrap();
    let paths: Vec<String> = runs_of(DAY_1, "x", EVEN)
        .iter()
        .zip(["a", "b", "c"])
        .map(|(run, name)| kept(dir.path(), name, run).runs[0].name.clone())
        .collect();
    let three = Source::open(&paths.join(",")).unwrap();
    assert_eq!((three.runs.len(), three.name.as_str()), (3, paths.join(",").as_str()));
    let one = Source::open(&format!("{}#x, {}", paths[0], paths[1])).unwrap();
    assert_eq!((one.runs.len(), one.configuration.as_deref()), (2, Some("x")));
    let refusal = |text: String| Source::open(&text).unwrap_err().to_string();
    assert!(refusal(format!("{0},{1},{0}", paths[0], paths[1])).contains("are the same run"));
    assert!(refusal(format!("{}#x,{}#y", paths[0], paths[1])).contains("must have the same configuration"));
    // A run that measured something else does not belong to them.
    let mut odd = run(DAY_2, &[("x", EVEN)]);
    odd.trials.iter_mut().flat_map(|trial| &mut trial.phases).for_each(|phase| phase.durability.name = "fsync".into());
    let sides = [several("a", runs_of(DAY_1, "x", EVEN)), several("b", [run(DAY_2, &[("x", EVEN)]), odd])];
    let told = compared(&sides, &[]).unwrap_err().to_string();
    assert!(told.contains("b and b-2: durability"), "{told}");
}

#[test]
fn a_path_may_hold_the_sign_of_an_configuration() {
    let dir = tempfile::tempdir().unwrap();
    let odd = kept(dir.path(), "issue#7", &run(DAY_1, &[("x", EVEN)]));
    assert_eq!(odd.configuration, None);
    let text = dir.path().join("issue#7#x");
    assert_eq!(Source::open(text.to_str().unwrap()).unwrap().configuration.as_deref(), Some("x"));
    let slash = format!("{}/", dir.path().join("issue#7").display());
    assert_eq!(format!("{}/", Source::open(&slash).unwrap().name), slash);
    let error = Source::open("nowhere#x").unwrap_err().to_string();
    assert!(error.starts_with("nowhere: cannot be read"), "{error}");
}
