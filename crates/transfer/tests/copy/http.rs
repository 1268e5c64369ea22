//! Tests files behind HTTP, from servers with and without range requests.

use storebench_fakes::http::serve;
use storebench_transfer::FileLocation;

use super::remote::ACCESS;
use super::*;

fn source(port: u16, manner: &str) -> Result<FileSource, TransferError> {
    let url = format!("http://127.0.0.1:{port}/{manner}/x.jsonl?token=verysecret");
    FileSource::open(&FileLocation::find_counted(&url, &ACCESS)?.0, FileSourceOptions::default())
}

#[test]
fn files_are_read_whatever_the_server_can() {
    let text = lines(60_000);
    let port = serve(text.clone().into_bytes()).unwrap();
    for (manner, many) in
        [("ranges", true), ("flaky", true), ("torn", true), ("moved", true), ("whole", false), ("chunked", false)]
    {
        let store = memory();
        let source = source(port, manner).unwrap();
        assert_eq!(source.describe(), format!("http://127.0.0.1:{port}/{manner}/x.jsonl"));
        let report = Lab::new().copy(&source, &store_sink(&store, RecordOp::Insert)).unwrap();
        assert_eq!((report.counts.written, report.splits > 1), (60_000, many), "{manner}");
        assert_eq!(contents(&store), sorted(&text), "{manner}");
    }
}

#[test]
fn an_answer_that_is_cut_off_is_no_smaller_file() {
    let port = serve(lines(60_000).into_bytes()).unwrap();
    let lab = Lab::new();
    let store = memory();
    let error = lab.copy(&source(port, "cut").unwrap(), &store_sink(&store, RecordOp::Upsert)).unwrap_err();
    assert!(error.to_string().contains("/cut/x.jsonl"), "{error}");
    // The data before the response broke off has arrived.
    let arrived = contents(&store);
    assert!(!arrived.is_empty() && arrived == sorted(&lines(60_000))[..arrived.len()], "{}", arrived.len());
    let log = std::fs::read_to_string(lab.path("copy/log.jsonl")).unwrap();
    assert_eq!(log.lines().count(), 1, "{log}");
}

#[test]
fn what_is_not_there_and_what_needs_ranges_is_refused() {
    let port = serve(b"PAR1".to_vec()).unwrap();
    let Err(TransferError::BadInput(text)) = source(port, "nothing") else { panic!("found") };
    assert!(text.contains("not found") && !text.contains("verysecret"), "{text}");
    let url = format!("http://127.0.0.1:{port}/chunked/x.parquet");
    let places = FileLocation::find_counted(&url, &ACCESS).unwrap().0;
    let source = FileSource::open(&places, FileSourceOptions::default()).unwrap();
    let error = source.splits(1).unwrap_err();
    assert!(error.to_string().contains("does not support range requests"), "{error}");
}

#[test]
fn parquet_is_read_by_ranges() {
    let lab = Lab::new();
    let text = lines(5_000);
    let input = files(&[&lab.write("a.jsonl", &text)]);
    let columns = storebench_transfer::infer_columns(
        &input,
        &input.splits(1).unwrap(),
        &Shape::new(None, "test"),
        &storebench_transfer::Infer::new(Format::Parquet, Some(KEY_FIELD)),
    )
    .unwrap();
    let sink = FileSink::open(FileSinkOptions {
        place: Some(lab.path("a.parquet").into()),
        folder: false,
        parts: lab.path("parts"),
        format: Format::Parquet,
        columns,
        packing: Packing::Plain,
        key_field: Some(KEY_FIELD.to_owned()),
        fresh: false,
        replace: false,
    });
    lab.copy(&input, &sink.unwrap()).unwrap();
    let port = serve(std::fs::read(lab.path("a.parquet")).unwrap()).unwrap();
    let places = FileLocation::find_counted(&format!("http://127.0.0.1:{port}/ranges/a.parquet"), &ACCESS).unwrap().0;
    let store = memory();
    let source = FileSource::open(&places, FileSourceOptions::default()).unwrap();
    Lab::new().copy(&source, &store_sink(&store, RecordOp::Insert)).unwrap();
    assert_eq!(contents(&store), sorted(&text));
}
