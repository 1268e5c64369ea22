//! Tests files in a publicly accessible object store. Credentials come from the environment, so they are tested through
//! the binary.

use storebench_fakes::s3::S3;
use storebench_transfer::{Access, FileLocation};

use super::*;

/// A server with one bucket.
pub(super) struct Bucket {
    pub(super) s3: S3,
    _folder: tempfile::TempDir,
}

pub(super) const ACCESS: Access = Access {
    retry: RetryPolicy {
        tries: 4,
        first: Duration::from_millis(1),
        cap: Duration::from_millis(5),
        total: Duration::from_secs(30),
    },
    timeout: Duration::from_secs(30),
};

impl Bucket {
    pub(super) fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let s3 = S3::serve_open(folder.path()).unwrap();
        s3.make_bucket("box").unwrap();
        Self { s3, _folder: folder }
    }

    fn url(&self, key: &str) -> String {
        self.s3.url("box", key)
    }

    pub(super) fn source(&self, key: &str) -> Result<FileSource, TransferError> {
        FileSource::open(&FileLocation::find_counted(&self.url(key), &ACCESS)?.0, FileSourceOptions::default())
    }

    fn sink(&self, lab: &Lab, key: &str, format: Format, columns: Columns) -> Result<FileSink, TransferError> {
        FileSink::open(FileSinkOptions {
            place: Some(FileLocation::of_url(&self.url(key), &ACCESS)?),
            folder: key.ends_with('/'),
            parts: lab.path("parts"),
            format,
            columns,
            packing: if key.ends_with('/') { Packing::Plain } else { Packing::of_name(key) },
            key_field: Some(KEY_FIELD.to_owned()),
            fresh: false,
            replace: true,
        })
    }

    fn lines_sink(&self, lab: &Lab, key: &str) -> FileSink {
        self.sink(lab, key, Format::Jsonl, Columns::default()).unwrap()
    }

    /// Stores an object.
    pub(super) fn put(&self, key: &str, text: &str) {
        let lab = Lab::new();
        lab.copy(&files(&[&lab.write("a.jsonl", text)]), &self.lines_sink(&lab, key)).unwrap();
    }
}

/// About 12 MB, so an upload of two parts.
const MANY: usize = 20_000;

/// Documents of about 600 bytes.
fn much(count: usize) -> String {
    (0..count)
        .map(|n| format!("{{\"_id\":\"k{n:06}\",\"n\":{n},\"text\":\"{}\"}}\n", "é lorem ipsum ".repeat(40)))
        .collect()
}

#[test]
fn objects_are_written_read_and_verified_in_every_format() {
    let bucket = Bucket::new();
    for key in ["x/a.jsonl", "x/a.jsonl.gz", "x/a.jsonl.zst", "x/a.json", "x/a.parquet", "x/out/"] {
        let mut lab = Lab::new();
        lab.verify = true;
        let count = if key == "x/a.jsonl" { MANY } else { 7_000 };
        let text = much(count);
        let path = lab.write("a.jsonl", &text);
        let format = Format::of_name(key);
        let shape = Shape::new(None, "test");
        let columns = if format.has_columns() {
            let source = files(&[&path]);
            let infer = storebench_transfer::Infer::new(format, Some(KEY_FIELD));
            storebench_transfer::infer_columns(&source, &source.splits(1).unwrap(), &shape, &infer).unwrap()
        } else {
            Columns::default()
        };
        let report = lab.copy(&files(&[&path]), &bucket.sink(&lab, key, format, columns).unwrap()).unwrap();
        assert_eq!((report.counts.written, report.counts.rejected), (count as u64, 0), "{key}");
        assert!(report.verified.is_some_and(|verified| verified.equal), "{key}");
        assert!(!lab.path("parts").exists(), "{key}: parts are left");
        let store = memory();
        let report = Lab::new().copy(&bucket.source(key).unwrap(), &store_sink(&store, RecordOp::Insert)).unwrap();
        assert_eq!(report.counts.written, count as u64, "{key}");
        if matches!(key, "x/a.jsonl" | "x/a.parquet" | "x/out/") {
            assert!(report.splits > 3, "{key}: {} parts", report.splits);
        }
        assert_eq!(contents(&store), sorted(&text), "{key}");
    }
    assert_eq!(bucket.s3.open_uploads(), 0);
}

#[test]
fn tables_are_read_and_written() {
    let bucket = Bucket::new();
    let lab = Lab::new();
    let text = "{\"_id\":\"a\",\"n\":1}\n{\"_id\":\"b\",\"n\":2}\n";
    let source = files(&[&lab.write("a.jsonl", text)]);
    let shape = Shape::new(None, "test");
    let infer = storebench_transfer::Infer::new(Format::Csv, Some(KEY_FIELD));
    let columns = storebench_transfer::infer_columns(&source, &source.splits(1).unwrap(), &shape, &infer).unwrap();
    lab.copy(&source, &bucket.sink(&lab, "a.csv", Format::Csv, columns).unwrap()).unwrap();
    assert_eq!(std::fs::read_to_string(bucket.s3.file("box", "a.csv")).unwrap(), "_id,n\na,1\nb,2\n");
    let store = memory();
    let types = "n=integer".parse().unwrap();
    let places = FileLocation::find_counted(&bucket.url("a.csv"), &ACCESS).unwrap().0;
    let source = FileSource::open(&places, FileSourceOptions { types, ..Default::default() }).unwrap();
    Lab::new().copy(&source, &store_sink(&store, RecordOp::Insert)).unwrap();
    assert_eq!(contents(&store), sorted(text));
}

#[test]
fn patterns_and_folders_name_objects() {
    let bucket = Bucket::new();
    let line = |key: &str| format!("{{\"_id\":\"{key}\"}}\n");
    for key in
        ["2014-01.jsonl", "2014-02.jsonl", "2015-01.jsonl", "deep/2014-03.jsonl", ".hidden/x.jsonl", "_tmp/x.jsonl"]
    {
        bucket.put(&format!("logs/{key}"), &line(key));
    }
    for (pattern, keys) in [
        ("logs/2014-*.jsonl", &["2014-01.jsonl", "2014-02.jsonl"][..]),
        ("logs/201?-01.jsonl", &["2014-01.jsonl", "2015-01.jsonl"]),
        ("logs/*/2014-*.jsonl", &["deep/2014-03.jsonl"]),
        ("logs/", &["2014-01.jsonl", "2014-02.jsonl", "2015-01.jsonl", "deep/2014-03.jsonl"]),
        ("logs/deep/", &["deep/2014-03.jsonl"]),
    ] {
        let store = memory();
        Lab::new().copy(&bucket.source(pattern).unwrap(), &store_sink(&store, RecordOp::Insert)).unwrap();
        let wanted: String = keys.iter().map(|key| line(key)).collect();
        assert_eq!(contents(&store), sorted(&wanted), "{pattern}");
    }
    let counted = FileLocation::find_counted(&bucket.url("logs/"), &ACCESS).unwrap();
    assert_eq!((counted.0.len(), counted.1), (4, 1));
    let Err(TransferError::BadInput(none)) = bucket.source("logs/2016-*") else { panic!("found") };
    assert!(none.contains("s3://box/logs/2016-*: no file matches"), "{none}");
    let Err(TransferError::BadInput(none)) = bucket.source("logs/2016.jsonl") else { panic!("found") };
    assert!(none.contains("s3://box/logs/2016.jsonl: not found"), "{none}");
}

#[test]
fn an_object_that_changes_midway_is_told_and_no_mixture_is_copied() {
    for key in ["a.jsonl", "a.jsonl.gz"] {
        let bucket = Bucket::new();
        bucket.put(key, &much(7_000));
        let source = bucket.source(key).unwrap();
        bucket.put(key, &much(7_000).replace("lorem", "dolor"));
        let lab = Lab::new();
        let error = lab.copy(&source, &store_sink(&memory(), RecordOp::Upsert)).unwrap_err();
        assert!(matches!(error, TransferError::Source(_)), "{error}");
        assert!(error.to_string().contains("has changed since the copy began to read it"), "{error}");
        let log = std::fs::read_to_string(lab.path("copy/log.jsonl")).unwrap();
        assert_eq!(log.lines().count(), 1, "{log}");
    }
}

#[test]
fn a_resume_reads_only_what_is_left_and_refuses_another_object() {
    let bucket = Bucket::new();
    bucket.put("a.jsonl", &much(7_000));
    let mut lab = Lab::new();
    (lab.stop_after, lab.parallel, lab.keep_log) = (Some(1), 1, true);
    let sink = |lab: &Lab| bucket.lines_sink(lab, "out/");
    let report = lab.copy(&bucket.source("a.jsonl").unwrap(), &sink(&lab)).unwrap();
    assert!(report.interrupted && report.splits_done < report.splits, "{report:?}");
    (lab.stop, lab.stop_after, lab.begin, lab.keep_log) = (Arc::default(), None, Begin::Resume, false);
    bucket.put("a.jsonl", &much(7_000).replace("lorem", "dolor"));
    let error = lab.copy(&bucket.source("a.jsonl").unwrap(), &sink(&lab)).unwrap_err();
    assert!(error.to_string().contains("has changed since the copy began"), "{error}");
    // An ETag is a checksum of the object's content, so the same content is the same object.
    bucket.put("a.jsonl", &much(7_000));
    let report = lab.copy(&bucket.source("a.jsonl").unwrap(), &sink(&lab)).unwrap();
    assert_eq!((report.counts.written, report.splits), (7_000, report.splits_done));
    let store = memory();
    Lab::new().copy(&bucket.source("out/").unwrap(), &store_sink(&store, RecordOp::Insert)).unwrap();
    assert_eq!(contents(&store), sorted(&much(7_000)));
}

#[test]
fn credentials_that_expire_lose_nothing() {
    let bucket = Bucket::new();
    let mut lab = Lab::new();
    lab.verify = true;
    lab.keep_log = true;
    let path = lab.write("a.jsonl", much(7_000));
    let sink = bucket.lines_sink(&lab, "out/");
    bucket.s3.expire_after(5);
    let error = lab.copy(&files(&[&path]), &sink).unwrap_err();
    drop(sink);
    let TransferError::Target(text) = &error else { panic!("{error}") };
    // A failed `HEAD` has no reason.
    assert!(text.contains("ExpiredToken") || text.contains("400 Bad Request"), "{text}");
    assert!(text.contains("access denied") && text.contains("AWS_SESSION_TOKEN"), "{text}");
    assert!(text.contains("--resume"), "{text}");
    bucket.s3.renew();
    lab.begin = Begin::Resume;
    let report = lab.copy(&files(&[&path]), &bucket.lines_sink(&lab, "out/")).unwrap();
    assert_eq!(report.counts.written, 7_000);
    assert!(report.before.written > 0 && report.verified.is_some_and(|verified| verified.equal));
    // The same while reading.
    let mut lab = Lab::new();
    (lab.keep_log, lab.parallel) = (true, 1);
    let store = memory();
    let source = bucket.source("out/").unwrap();
    bucket.s3.expire_after(3);
    let error = lab.copy(&source, &store_sink(&store, RecordOp::Upsert)).unwrap_err();
    assert!(matches!(&error, TransferError::Source(text) if text.contains("ExpiredToken")), "{error}");
    bucket.s3.renew();
    lab.begin = Begin::Resume;
    lab.copy(&bucket.source("out/").unwrap(), &store_sink(&store, RecordOp::Upsert)).unwrap();
    assert_eq!(contents(&store), sorted(&much(7_000)));
}

#[test]
fn a_target_that_cannot_be_written_is_refused_at_the_beginning() {
    let bucket = Bucket::new();
    let lab = Lab::new();
    let options = |url: &str| FileSinkOptions {
        fresh: false,
        replace: false,
        place: Some(FileLocation::of_url(url, &ACCESS).unwrap()),
        folder: false,
        parts: lab.path("parts"),
        format: Format::Jsonl,
        columns: Columns::default(),
        packing: Packing::Plain,
        key_field: None,
    };
    let Err(error) = FileSink::open(options(&bucket.s3.url("nobody", "a.jsonl"))) else { panic!("taken") };
    assert!(matches!(&error, TransferError::BadInput(text) if text.contains("NoSuchBucket")), "{error}");
    let Err(error) = FileSink::open(options("s3://box/a.jsonl?endpoint=http://127.0.0.1:1&anonymous=true")) else {
        panic!("taken")
    };
    assert!(matches!(error, TransferError::Store { .. }), "{error}");
    let Err(error) = FileSink::open(options("https://127.0.0.1:1/a.jsonl")) else { panic!("taken") };
    assert!(error.to_string().contains("is read-only"), "{error}");
    assert!(!lab.path("parts").exists());
}

#[test]
fn a_large_object_is_read_ahead_with_bounded_requests() {
    let bucket = Bucket::new();
    bucket.put("a.jsonl", &much(7_000));
    let before = bucket.s3.requests();
    let report = Lab::new().copy(&bucket.source("a.jsonl").unwrap(), &store_sink(&memory(), RecordOp::Upsert)).unwrap();
    let requests = bucket.s3.requests() - before;
    // Two requests inspect the object. Each part needs one, and at most one more for the rest of its last line.
    assert!(requests <= 2 + 2 * report.splits, "{requests} requests for {} parts", report.splits);
}

#[test]
fn an_object_that_exists_is_overwritten_only_where_that_is_asked_for() {
    let bucket = Bucket::new();
    bucket.put("there.jsonl", &much(10));
    bucket.put("out/part-00099.jsonl", &much(10));
    let lab = Lab::new();
    let options = |key: &str, replace| FileSinkOptions {
        fresh: true,
        replace,
        place: Some(FileLocation::of_url(&bucket.url(key), &ACCESS).unwrap()),
        folder: key.ends_with('/'),
        parts: lab.path("parts"),
        format: Format::Jsonl,
        columns: Columns::default(),
        packing: Packing::Plain,
        key_field: Some(KEY_FIELD.to_owned()),
    };
    for key in ["there.jsonl", "out/"] {
        let Err(error) = FileSink::open(options(key, false)) else { panic!("taken") };
        assert!(matches!(&error, TransferError::BadInput(told) if told.contains("--force")), "{error}");
    }
    let source = files(&[&lab.write("a.jsonl", lines(300))]);
    for key in ["there.jsonl", "out/"] {
        let copying = Lab::new();
        copying.copy(&source, &FileSink::open(options(key, true)).unwrap()).unwrap();
        let store = memory();
        Lab::new().copy(&bucket.source(key).unwrap(), &store_sink(&store, RecordOp::Upsert)).unwrap();
        assert_eq!(contents(&store), sorted(&lines(300)), "{key}: parts of the earlier copy are gone");
    }
    // An object that appears during the copy stays.
    let sink = FileSink::open(options("new.jsonl", false)).unwrap();
    bucket.put("new.jsonl", &much(10));
    let error = Lab::new().copy(&source, &sink).unwrap_err();
    assert!(matches!(&error, TransferError::Target(told) if told.contains("appeared")), "{error}");
}
