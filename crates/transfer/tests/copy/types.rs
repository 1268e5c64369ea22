//! Tests column types of tables from other writers: the JSON each becomes, and values that JSON cannot represent.

use std::fs::File;
use std::io::Write;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, RecordBatch, StringArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampSecondArray, UInt64Array,
};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use parquet::arrow::ArrowWriter;
use serde_json::{Value, json};

use super::*;

/// Four rows. The second is null except for its key; the third and fourth have values that JSON cannot represent.
fn batch() -> RecordBatch {
    let columns: Vec<(&str, ArrayRef)> = vec![
        ("_id", Arc::new(StringArray::from(vec!["a", "b", "c", "d"]))),
        ("day", Arc::new(Date32Array::from(vec![Some(19_000), None, Some(0), Some(0)]))),
        ("local", Arc::new(TimestampMillisecondArray::from(vec![Some(1_542_129_070_011), None, Some(0), Some(0)]))),
        (
            "utc",
            Arc::new(
                TimestampMicrosecondArray::from(vec![Some(1_542_129_070_011_375), None, Some(0), Some(0)])
                    .with_timezone("UTC"),
            ),
        ),
        ("time", Arc::new(Time64MicrosecondArray::from(vec![Some(3_661_000_001), None, Some(0), Some(0)]))),
        ("blob", Arc::new(BinaryArray::from_opt_vec(vec![Some(b"\x00\xffz"), None, Some(b""), Some(b"")]))),
        (
            "price",
            Arc::new(
                Decimal128Array::from(vec![Some(12_345_678_901_234_567_890), None, Some(1), Some(1)])
                    .with_precision_and_scale(38, 4)
                    .unwrap(),
            ),
        ),
        ("big", Arc::new(UInt64Array::from(vec![Some(u64::MAX), None, Some(0), Some(0)]))),
        (
            "word",
            Arc::new(vec![Some("x"), None, Some("y"), Some("x")].into_iter().collect::<DictionaryArray<Int32Type>>()),
        ),
        ("share", Arc::new(Float64Array::from(vec![Some(0.1), None, Some(f64::NAN), Some(0.0)]))),
        ("far", Arc::new(TimestampSecondArray::from(vec![Some(0), None, Some(0), Some(i64::MAX)]))),
    ];
    RecordBatch::try_from_iter(columns).unwrap()
}

fn expected() -> Value {
    json!({
        "day": "2022-01-08",
        "local": "2018-11-13T17:11:10.011",
        "utc": "2018-11-13T17:11:10.011375Z",
        "time": "01:01:01.000001",
        "blob": "00ff7a",
        "price": serde_json::from_str::<Value>("1234567890123456.7890").unwrap(),
        "big": u64::MAX,
        "word": "x",
        "share": 0.1,
        "far": "1970-01-01T00:00:00",
    })
}

fn check(lab: &Lab, path: &Path) {
    let store = memory();
    let report = lab.copy(&files(&[path]), &store_sink(&store, Verb::Insert)).unwrap();
    assert_eq!((report.counts.written, report.counts.rejected), (2, 2), "{}: {:?}", path.display(), lab.rejects());
    let mut first: Value = serde_json::from_str(&contents(&store)[0]).unwrap();
    first.as_object_mut().unwrap().shift_remove("_id");
    assert_eq!(first, expected(), "{}", path.display());
    assert!(contents(&store)[1].contains("\"b\"") && !contents(&store)[1].contains("null"));
    for reject in lab.rejects() {
        assert!(reject.why.contains("NaN") && reject.from.contains(", row "), "{reject:?}");
    }
}

#[test]
fn each_type_of_a_table_becomes_what_the_documents_say() {
    let batch = batch();
    let lab = Lab::new();
    // A dictionary in Parquet is read back as strings.
    let mut parquet = ArrowWriter::try_new(File::create(lab.path("a.parquet")).unwrap(), batch.schema(), None).unwrap();
    parquet.write(&batch).unwrap();
    parquet.close().unwrap();
    check(&lab, &lab.path("a.parquet"));

    let lab = Lab::new();
    let mut file = FileWriter::try_new(File::create(lab.path("a.arrow")).unwrap(), &batch.schema()).unwrap();
    file.write(&batch).unwrap();
    file.finish().unwrap();
    check(&lab, &lab.path("a.arrow"));

    let lab = Lab::new();
    let mut stream = Vec::new();
    let mut writer = StreamWriter::try_new(&mut stream, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    check(&lab, &lab.write("a.arrows", &stream));

    let lab = Lab::new();
    let packed = File::create(lab.path("a.arrows.gz")).unwrap();
    let mut packed = flate2::write::GzEncoder::new(packed, flate2::Compression::fast());
    packed.write_all(&stream).unwrap();
    packed.finish().unwrap();
    check(&lab, &lab.path("a.arrows.gz"));
}

#[test]
fn tables_that_are_cut_off_or_none_are_told() {
    let lab = Lab::new();
    let batch = batch();
    let mut file = Vec::new();
    let mut writer = FileWriter::try_new(&mut file, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    let mut stream = Vec::new();
    let mut writer = StreamWriter::try_new(&mut stream, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    for (name, bytes) in [
        ("file.arrow", &file[..file.len() - 40]),
        ("stream.arrow", &stream[..stream.len() / 2]),
        ("none.arrow", b"{\"a\":1}\n"),
        ("none.parquet", b"{\"a\":1}\n"),
    ] {
        let path = lab.write(name, bytes);
        let told = match lab.copy(&files(&[&path]), &store_sink(&memory(), Verb::Insert)) {
            Ok(report) => report.damaged[0].what.clone(),
            Err(error) => error.to_string(),
        };
        assert!(told.contains(name), "{told}");
        let _ = std::fs::remove_file(lab.path("rejects.jsonl"));
        let _ = std::fs::remove_dir_all(lab.path("copy"));
    }
}
