//! Tests existing files: they are overwritten only on request.

use super::*;

fn options(lab: &Lab, name: &str, fresh: bool, replace: bool) -> FileSinkOptions {
    let folder = name.ends_with('/');
    FileSinkOptions {
        folder,
        parts: if folder { lab.path(&format!("{name}.parts")) } else { lab.path(&format!(".{name}.parts")) },
        format: Format::Jsonl,
        columns: Columns::default(),
        packing: Packing::Plain,
        key_field: Some(KEY_FIELD.to_owned()),
        fresh,
        replace,
        place: Some(lab.path(name).into()),
    }
}

fn refused(options: FileSinkOptions) -> String {
    let Err(TransferError::BadInput(told)) = FileSink::open(options) else { panic!("taken") };
    told
}

#[test]
fn a_file_that_exists_is_refused_and_one_that_appears_is_left_alone() {
    let lab = Lab { keep_log: true, ..Lab::new() };
    let source = files(&[&lab.write("a.jsonl", lines(300))]);
    let sink = FileSink::open(options(&lab, "out.jsonl", true, false)).unwrap();
    lab.write("out.jsonl", "theirs");
    assert!(refused(options(&lab, "out.jsonl", true, false)).contains("--force"));
    let error = lab.copy(&source, &sink).unwrap_err();
    assert!(matches!(&error, TransferError::Target(told) if told.contains("appeared during the copy")), "{error}");
    assert_eq!(std::fs::read_to_string(lab.path("out.jsonl")).unwrap(), "theirs");
    drop(sink);
    // A resume does not mistake it for its own file either.
    assert!(refused(options(&lab, "out.jsonl", false, false)).contains("--force"));
    let again = Lab { begin: Begin::Resume, ..lab };
    again.copy(&source, &FileSink::open(options(&again, "out.jsonl", false, true)).unwrap()).unwrap();
    assert_eq!(sorted(&std::fs::read_to_string(again.path("out.jsonl")).unwrap()), sorted(&lines(300)));
}

#[test]
fn the_file_of_a_copy_that_was_killed_before_it_was_logged_is_its_own() {
    let lab = Lab { keep_log: true, ..Lab::new() };
    let source = files(&[&lab.write("a.jsonl", lines(300))]);
    let sink = FileSink::open(options(&lab, "out.jsonl", true, false)).unwrap();
    let splits = source.splits(3).unwrap();
    lab.copy(&source, &sink).unwrap();
    drop(sink);
    // Restore the state before the crash: the file in place, with its parts and their note.
    let lab = Lab { ..lab };
    std::fs::remove_file(lab.path("out.jsonl")).unwrap();
    std::fs::remove_dir_all(lab.path("copy")).unwrap();
    let sink = FileSink::open(options(&lab, "out.jsonl", true, false)).unwrap();
    for split in &splits {
        std::fs::write(lab.path(&format!(".out.jsonl.parts/part-{:05}", split.number)), lines(300)).unwrap();
    }
    sink.finish(&splits).unwrap();
    drop(sink);
    let sink = FileSink::open(options(&lab, "out.jsonl", false, false)).unwrap();
    sink.finish(&splits).unwrap();
    sink.close().unwrap();
    assert_eq!(std::fs::read_to_string(lab.path("out.jsonl")).unwrap().lines().count(), 300 * splits.len());
}

#[test]
fn parts_of_an_earlier_copy_go_only_by_force_and_all_of_them() {
    let lab = Lab::new();
    let source = files(&[&lab.write("a.jsonl", lines(300))]);
    std::fs::create_dir(lab.path("out")).unwrap();
    for name in ["out/part-00000.jsonl", "out/part-00077.jsonl", "out/part-list.txt"] {
        lab.write(name, "old");
    }
    assert!(refused(options(&lab, "out/", true, false)).contains("--force"));
    lab.copy(&source, &FileSink::open(options(&lab, "out/", true, true)).unwrap()).unwrap();
    let mut names: Vec<String> = std::fs::read_dir(lab.path("out"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .filter(|name| name.ends_with("jsonl") || name.ends_with("txt"))
        .collect();
    names.sort();
    assert_eq!(names, ["part-00000.jsonl", "part-list.txt"]);
    assert_eq!(sorted(&std::fs::read_to_string(lab.path("out/part-00000.jsonl")).unwrap()), sorted(&lines(300)));
}

#[test]
fn a_copy_that_goes_on_takes_no_part_of_another_for_its_own() {
    let lab = Lab::new();
    let splits = files(&[&lab.write("a.jsonl", lines(300))]).splits(2).unwrap();
    std::fs::create_dir(lab.path("out")).unwrap();
    let part = |split: &storebench_transfer::Split| lab.path(&format!("out/.parts/part-{:05}", split.number));
    let write = |split: &storebench_transfer::Split| std::fs::write(part(split), "mine").unwrap();
    let in_place = |split: &storebench_transfer::Split| lab.path(&format!("out/part-{:05}.jsonl", split.number));
    let options = |fresh| FileSinkOptions { parts: lab.path("out/.parts"), ..options(&lab, "out/", fresh, true) };
    let sink = FileSink::open(options(true)).unwrap();
    splits.iter().for_each(write);
    // Parts that were moved before a crash are recognized.
    sink.finish(&splits).unwrap();
    sink.finish(&splits).unwrap();
    write(&splits[0]);
    sink.finish(&splits).unwrap();
    drop(sink);
    // The folder has parts of an earlier copy, and those of this copy are missing.
    std::fs::remove_dir_all(lab.path("out/.parts")).unwrap();
    let sink = FileSink::open(options(false)).unwrap();
    let error = sink.finish(&splits).unwrap_err();
    assert!(matches!(&error, TransferError::Target(told) if told.contains("--restart")), "{error}");
    assert!(splits.iter().all(|split| in_place(split).exists()));
}
