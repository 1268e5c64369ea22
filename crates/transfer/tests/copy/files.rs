//! Tests files and what can be wrong with them.

use std::io::Write as _;

use super::*;

#[test]
fn files_go_into_a_store_and_come_out_the_same() {
    let lab = Lab::new();
    let text = lines(20_000);
    let (first, second) = text.split_at(text.find("{\"_id\":\"k007000\"").unwrap());
    let plain = lab.write("a.jsonl", first);
    let packed = lab.path("b.jsonl.gz");
    let mut gzip = flate2::write::GzEncoder::new(std::fs::File::create(&packed).unwrap(), flate2::Compression::fast());
    gzip.write_all(second.as_bytes()).unwrap();
    gzip.finish().unwrap();
    let store = memory();
    let report = lab.copy(&files(&[&plain, &packed]), &store_sink(&store, RecordOp::Upsert)).unwrap();
    assert_eq!((report.counts.read, report.counts.written, report.counts.rejected), (20_000, 20_000, 0));
    assert!(report.splits > 1 && report.splits == report.splits_done);
    for name in ["out.jsonl", "out.jsonl.gz", "out.jsonl.zst"] {
        let lab = Lab::new();
        let report = lab.copy(&store_source(&store), &file_sink(&lab, name)).unwrap();
        assert_eq!(report.counts.written, 20_000);
        assert!(!lab.path(&format!(".{name}.parts")).exists(), "parts are left");
        // Read it back: compressed files can be decompressed.
        let again = memory();
        Lab::new().copy(&files(&[&lab.path(name)]), &store_sink(&again, RecordOp::Insert)).unwrap();
        assert_eq!(contents(&again), sorted(&text), "{name}");
    }
}

#[test]
fn a_thousand_bad_records_are_told_and_the_others_arrive() {
    let lab = Lab::new();
    let mut text = String::new();
    for (n, line) in lines(100_000).lines().enumerate() {
        match n % 100 {
            17 if n % 300 == 17 => text += "{\"_id\":\"broken\",\"n\":\n",
            17 if n % 200 == 17 => text += "{\"n\":1}\n",
            17 => text += "[\"no object\"]\n",
            _ => {
                text += line;
                text.push('\n');
            }
        }
    }
    let path = lab.write("a.jsonl", &text);
    let store = memory();
    let report = lab.copy(&files(&[&path]), &store_sink(&store, RecordOp::Upsert)).unwrap();
    assert_eq!((report.counts.read, report.counts.written, report.counts.rejected), (100_000, 99_000, 1_000));
    let rejects = lab.rejects();
    assert_eq!(rejects.len(), 1_000);
    for reject in &rejects {
        let line: usize = reject.from.rsplit_once("line ").unwrap().1.parse().unwrap();
        assert_eq!(line % 100, 18, "{reject:?}");
        let told = text.lines().nth(line - 1).unwrap();
        match &reject.record {
            serde_json::Value::String(record) => assert_eq!(record, told),
            record => assert_eq!(&serde_json::from_str::<serde_json::Value>(told).unwrap(), record),
        }
        assert_eq!((reject.error.as_str(), reject.tries), ("unreadable", 0));
    }
    for why in ["broken JSON", "`_id` is missing", "a record must be a JSON object"] {
        assert!(rejects.iter().any(|reject| reject.why.contains(why)), "{why}");
    }
}

#[test]
fn what_is_not_utf8_is_one_reject() {
    let lab = Lab::new();
    let mut text = lines(3).into_bytes();
    text.extend_from_slice(b"{\"_id\":\"x\",\"t\":\"\xff\"}\n");
    text.extend_from_slice(b"{\"_id\":\"y\"}\n");
    let store = memory();
    let report = lab.copy(&files(&[&lab.write("a.jsonl", text)]), &store_sink(&store, RecordOp::Upsert)).unwrap();
    assert_eq!((report.counts.written, report.counts.rejected), (4, 1));
    let reject = &lab.rejects()[0];
    assert!(reject.why.contains("not UTF-8 from byte 17"), "{reject:?}");
    // Not JSON, which could be mistaken for the original record.
    assert!(reject.record.is_string(), "{reject:?}");
    assert!(reject.from.ends_with("line 4"), "{reject:?}");
}

#[test]
fn a_file_that_is_cut_off_is_no_whole_one() {
    for name in ["a.jsonl.gz", "a.jsonl.zst"] {
        let lab = Lab::new();
        Lab::new().copy(&files(&[&lab.write("a.jsonl", lines(5_000))]), &file_sink(&lab, name)).unwrap();
        let whole = std::fs::read(lab.path(name)).unwrap();
        let cut = lab.write("cut", &whole[..whole.len() * 2 / 3]);
        let store = memory();
        let report = lab.copy(&files(&[&cut]), &store_sink(&store, RecordOp::Upsert)).unwrap();
        assert!(report.damaged[0].what.contains("ends in the middle"), "{name}: {report:?}");
        assert_eq!(report.damaged[0].records, contents(&store).len() as u64);
    }
}

#[test]
fn what_is_packed_is_never_empty() {
    for (name, begin) in [
        ("a.jsonl.gz", &b""[..]),
        ("a.jsonl.zst", b""),
        ("a.json.zstd", b""),
        ("a.csv.gz", b"\x1f"),
        ("a.csv.zst", b"\x28\xb5\x2f"),
        ("a.arrow.gz", b""),
    ] {
        let lab = Lab::new();
        let path = lab.write(name, begin);
        let report = lab.copy(&files(&[&path]), &store_sink(&memory(), RecordOp::Upsert)).unwrap();
        let what = &report.damaged[0].what;
        assert!(what.starts_with(&path.display().to_string()) && what.contains("ends in the middle"), "{name}: {what}");
    }
    // An uncompressed file may be empty.
    let lab = Lab::new();
    let report = lab.copy(&files(&[&lab.write("a.jsonl", "")]), &store_sink(&memory(), RecordOp::Upsert)).unwrap();
    assert_eq!((report.counts.read, report.counts.rejected), (0, 0));
}

#[test]
fn a_target_is_not_there_before_it_is_whole() {
    let mut lab = Lab::new();
    let path = lab.write("a.jsonl", lines(200_000));
    lab.stop_after = Some(1);
    lab.write("out.jsonl", "what was there before");
    let report = lab.copy(&files(&[&path]), &file_sink(&lab, "out.jsonl")).unwrap();
    assert!(report.interrupted, "{report:?}");
    assert_eq!(std::fs::read_to_string(lab.path("out.jsonl")).unwrap(), "what was there before");
}

#[test]
fn duplicate_keys_under_insert_are_told_unless_the_documents_are_the_same() {
    let lab = Lab::new();
    let text = "{\"_id\":\"a\",\"n\":1}\n{\"_id\":\"b\",\"n\":2}\n{\"_id\":\"a\",\"n\":3}\n{\"_id\":\"b\", \"n\": 2}\n";
    let store = memory();
    let report = lab.copy(&files(&[&lab.write("a.jsonl", text)]), &store_sink(&store, RecordOp::Insert)).unwrap();
    assert_eq!((report.counts.written, report.counts.rejected, report.counts.there_already), (3, 1, 1));
    let reject = &lab.rejects()[0];
    assert_eq!((reject.error.as_str(), reject.key.as_deref()), ("conflict", Some("a")));
    assert!(reject.from.ends_with("line 3"), "{reject:?}");
}

#[test]
fn a_missing_file_is_bad_input() {
    let missing = FileSource::open(&[PathBuf::from("/nowhere/a.jsonl")], FileSourceOptions::default());
    assert!(matches!(missing, Err(TransferError::BadInput(text)) if text.contains("/nowhere/a.jsonl")));
    let folder = FileSource::open(&[std::env::temp_dir()], FileSourceOptions::default());
    assert!(matches!(folder, Err(TransferError::BadInput(text)) if text.contains("is a folder")));
}

#[test]
fn tasks_of_a_larger_job_copy_a_part_each() {
    let lab = Lab::new();
    let path = lab.write("a.jsonl", lines(60_000));
    let source = files(&[&path]);
    let splits = source.splits(4).unwrap();
    // Serialize the splits, as a job does to send them over a network.
    let text = serde_json::to_string(&splits).unwrap();
    let splits: Vec<storebench_transfer::Split> = serde_json::from_str(&text).unwrap();
    assert!(splits.len() >= 4);
    let store = memory();
    let shape = Shape::new(None, "test");
    let mut written = 0;
    for task in splits.chunks(2) {
        let lab = Lab::new();
        let sink = store_sink(&store, RecordOp::Insert);
        let request = CopyRequest {
            source: &source,
            sink: &sink,
            splits: Some(task),
            shape: &shape,
            op: "insert",
            parallel: 1,
            docs_per_s: None,
            bytes_per_s: None,
            folder: lab.path("copy"),
            rejects: lab.path("rejects.jsonl"),
            settings: BTreeMap::new(),
            begin: Begin::Fresh,
            replace: false,
            verify: true,
            interval: std::time::Duration::from_secs(1),
            tasks: None,
            observer: None,
        };
        let outcome = copy(&request, &lab.stop, &mut |_| {}).unwrap();
        assert!(outcome.report.verified.unwrap().equal);
        let documents: u64 = outcome.record.total.ops.iter().map(|tally| tally.documents).sum();
        assert_eq!(documents, outcome.report.counts.written);
        let of_intervals: u64 =
            outcome.record.intervals.iter().flat_map(|i| i.record().ops).map(|tally| tally.documents).sum();
        assert_eq!(of_intervals, documents);
        written += documents;
        let one_file = copy(&CopyRequest { sink: &file_sink(&lab, "out.jsonl"), ..request }, &lab.stop, &mut |_| {});
        assert!(matches!(one_file, Err(TransferError::BadInput(text)) if text.contains("folder")));
    }
    assert_eq!(written, 60_000);
    assert_eq!(contents(&store), sorted(&lines(60_000)));
}

#[test]
fn fields_that_folders_name_are_part_of_each_record() {
    let lab = Lab { verify: true, ..Lab::new() };
    for (folder, line) in
        [("year=2024/month=01", r#"{"_id":"a","n":1}"#), ("year=2025/month=02", r#"{"_id":"b","year":"own"}"#)]
    {
        std::fs::create_dir_all(lab.path(folder)).unwrap();
        lab.write(&format!("{folder}/f.jsonl"), line);
    }
    let paths = [lab.path("year=2024/month=01/f.jsonl"), lab.path("year=2025/month=02/f.jsonl")];
    for (partitions, expected) in [
        (true, [r#"{"_id":"a","n":1,"year":2024,"month":"01"}"#, r#"{"_id":"b","year":"own","month":"02"}"#]),
        (false, [r#"{"_id":"a","n":1}"#, r#"{"_id":"b","year":"own"}"#]),
    ] {
        let options = FileSourceOptions { partitions, ..FileSourceOptions::default() };
        let source = FileSource::open(&paths, options).unwrap();
        assert_eq!(source.partitions().len(), if partitions { 2 } else { 0 });
        let name = format!("out-{partitions}.jsonl");
        assert!(lab.copy(&source, &file_sink(&lab, &name)).unwrap().verified.unwrap().equal);
        assert_eq!(sorted(&std::fs::read_to_string(lab.path(&name)).unwrap()), expected);
    }
}

#[test]
fn byte_order_marks_and_frames_to_skip_are_skipped() {
    let lab = Lab::new();
    let zstd = |text: &[u8]| zstd::encode_all(text, 1).unwrap();
    // As pzstd writes it: before each frame, one to skip that holds its size.
    let skipped = [&[0x50, 0x2a, 0x4d, 0x18, 4, 0, 0, 0, 1, 2, 3, 4][..], &zstd(b"{\"_id\":\"1\"}\n")].concat();
    for (name, content) in [
        ("a.json", b"\xef\xbb\xbf[{\"_id\":\"1\"}]".to_vec()),
        ("b.json", b"\xef\xbb\xbf \n [ {\"_id\":\"1\"} ]".to_vec()),
        ("c.jsonl.zst", skipped.repeat(1)),
        ("d.jsonl.zst", [skipped.clone(), [&[0x5f, 0x2a, 0x4d, 0x18, 0, 0, 0, 0][..], &zstd(b"")].concat()].concat()),
    ] {
        let source = files(&[&lab.write(name, content)]);
        let report = lab.copy(&source, &file_sink(&lab, &format!("out-{name}.jsonl"))).unwrap();
        assert_eq!((report.counts.written, report.counts.rejected, report.damaged.len()), (1, 0, 0), "{name}");
        assert_eq!(std::fs::read_to_string(lab.path(&format!("out-{name}.jsonl"))).unwrap(), "{\"_id\":\"1\"}\n");
    }
    // Neither a mark alone nor in the middle is an array.
    for content in [&b"\xef\xbb\xbf"[..], b"\xef\xbb", b" \xef\xbb\xbf[]", b"\xef\xbb\xbf{}"] {
        lab.copy(&files(&[&lab.write("e.json", content)]), &file_sink(&lab, "e.jsonl")).unwrap_err();
        let _ = std::fs::remove_dir_all(lab.path("copy"));
        let _ = std::fs::remove_dir_all(lab.path(".e.jsonl.parts"));
    }
}
