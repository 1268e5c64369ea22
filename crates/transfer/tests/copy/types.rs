//! Tests column types of tables from other writers: the JSON each becomes, and values that JSON cannot represent.

use std::fs::File;
use std::io::Write;

use arrow_array::types::Int32Type;
use arrow_array::{
    ArrayRef, BinaryArray, Date32Array, Decimal128Array, DictionaryArray, Float64Array, RecordBatch, StringArray,
    Time64MicrosecondArray, TimestampMicrosecondArray, TimestampMillisecondArray, TimestampSecondArray, UInt64Array,
};
use arrow_ipc::writer::{FileWriter, StreamWriter};
use arrow_schema::{DataType, Field, Schema};
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
    let report = lab.copy(&files(&[path]), &store_sink(&store, RecordOp::Insert)).unwrap();
    assert_eq!((report.counts.written, report.counts.rejected), (2, 2), "{}: {:?}", path.display(), lab.rejects());
    let mut first: Value = serde_json::from_str(&contents(&store)[0]).unwrap();
    first.as_object_mut().unwrap().shift_remove("_id");
    assert_eq!(first, expected(), "{}", path.display());
    assert!(contents(&store)[1].contains("\"b\"") && !contents(&store)[1].contains("null"));
    for (reject, (key, value)) in
        lab.rejects().iter().zip([("c", r#""share":NaN"#), ("d", r#""far":9223372036854775807"#)])
    {
        assert!(reject.why.contains("NaN") && reject.from.contains(", row "), "{reject:?}");
        // The row is told, but not as JSON.
        assert_eq!(reject.key.as_deref(), Some(key));
        assert!(reject.record.as_str().unwrap().contains(value), "{reject:?}");
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

/// An Arrow stream of one document in a column of JSON, with this metadata.
fn whole_document(mark: &str) -> Vec<u8> {
    let texts = |text: &str| Arc::new(StringArray::from(vec![text])) as ArrayRef;
    let columns = [("_id", texts("a")), ("document", texts(r#"{"n":1}"#))];
    let fields: Vec<_> = columns.iter().map(|(name, _)| Field::new(*name, DataType::Utf8, true)).collect();
    let metadata = std::collections::HashMap::from([("storebench".to_owned(), mark.to_owned())]);
    let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
    let batch = RecordBatch::try_new(schema, columns.map(|(_, column)| column).to_vec()).unwrap();
    let mut stream = Vec::new();
    let mut writer = StreamWriter::try_new(&mut stream, &batch.schema()).unwrap();
    writer.write(&batch).unwrap();
    writer.finish().unwrap();
    drop(writer);
    stream
}

/// What the Python package writes for Spark names only what there is.
#[test]
fn metadata_of_a_table_may_name_only_its_overflow() {
    let lab = Lab::new();
    let store = memory();
    let path = lab.write("a.arrows", whole_document(r#"{"overflow":"document"}"#));
    lab.copy(&files(&[&path]), &store_sink(&store, RecordOp::Insert)).unwrap();
    let found = contents(&store);
    assert!(found.len() == 1 && found[0].contains(r#""n":1"#) && !found[0].contains("document"), "{found:?}");
}

#[test]
fn a_table_whose_metadata_cannot_be_read_is_refused() {
    for mark in ["{", r#"{"overflow":7}"#] {
        let lab = Lab::new();
        let path = lab.write("a.arrows", whole_document(mark));
        let error = lab.copy(&files(&[&path]), &store_sink(&memory(), RecordOp::Insert)).unwrap_err().to_string();
        assert!(
            error.contains("a.arrows: the metadata `storebench` cannot be read") && error.contains(mark),
            "{error}"
        );
    }
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
        let told = match lab.copy(&files(&[&path]), &store_sink(&memory(), RecordOp::Insert)) {
            Ok(report) => report.damaged[0].what.clone(),
            Err(error) => error.to_string(),
        };
        assert!(told.contains(name), "{told}");
        let _ = std::fs::remove_file(lab.path("rejects.jsonl"));
        let _ = std::fs::remove_dir_all(lab.path("copy"));
    }
}

/// An INT96 time: nanoseconds of a Julian day.
fn int96(day_of_1970: i64, nanos: u64) -> parquet::data_type::Int96 {
    let mut time = parquet::data_type::Int96::new();
    time.set_data(nanos as u32, (nanos >> 32) as u32, (day_of_1970 + 2_440_588) as u32);
    time
}

#[test]
fn int96_times_are_right_at_both_ends_of_every_range() {
    use parquet::data_type::{ByteArray, ByteArrayType, Int96Type};
    use parquet::file::writer::SerializedFileWriter;

    const DAY: u64 = 86_400_000_000_000;
    let cases = [
        (0, 0, Some("1970-01-01T00:00:00Z")),
        (17_848, 61_870_000_000_001, Some("2018-11-13T17:11:10.000000001Z")),
        // The first and last nanoseconds in 64 bits, and their neighbours.
        (-106_752, 763_145_224_192, Some("1677-09-21T00:12:43.145224192Z")),
        (-106_752, 763_145_224_191, Some("1677-09-21T00:12:43.145224Z")),
        (106_751, 85_636_854_775_807, Some("2262-04-11T23:47:16.854775807Z")),
        (106_751, 85_636_854_775_808, Some("2262-04-11T23:47:16.854775Z")),
        // What pipelines use for never and for the beginning of all time.
        (2_932_896, DAY - 1_000_000_000, Some("9999-12-31T23:59:59Z")),
        (2_932_896, DAY - 1, Some("9999-12-31T23:59:59.999999Z")),
        (-135_140, 0, Some("1600-01-01T00:00:00Z")),
        (-719_162, 0, Some("0001-01-01T00:00:00Z")),
        // Microseconds wrap around here too.
        (200_000_000, 0, None),
        (-2_000_000_000, 0, None),
    ];
    let lab = Lab::new();
    let path = lab.path("i96.parquet");
    let schema = "message m { required binary _id (UTF8); required int96 t; \
                  required group l (LIST) { repeated group list { required int96 element; } } }";
    let schema = parquet::schema::parser::parse_message_type(schema).unwrap();
    let mut file = SerializedFileWriter::new(File::create(&path).unwrap(), Arc::new(schema), Arc::default()).unwrap();
    let mut group = file.next_row_group().unwrap();
    let keys: Vec<ByteArray> = (0..cases.len()).map(|n| ByteArray::from(format!("{n:02}").into_bytes())).collect();
    let times: Vec<_> = cases.iter().map(|(day, nanos, _)| int96(*day, *nanos)).collect();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<ByteArrayType>().write_batch(&keys, None, None).unwrap();
    column.close().unwrap();
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int96Type>().write_batch(&times, None, None).unwrap();
    column.close().unwrap();
    // Lists of an ordinary time and the one above.
    let twos: Vec<_> = times.iter().flat_map(|time| [int96(1, 0), *time]).collect();
    let (definition, repetition) = (vec![1; twos.len()], [0, 1].repeat(times.len()));
    let mut column = group.next_column().unwrap().unwrap();
    column.typed::<Int96Type>().write_batch(&twos, Some(&definition), Some(&repetition)).unwrap();
    column.close().unwrap();
    group.close().unwrap();
    file.close().unwrap();

    let report = lab.copy(&files(&[&path]), &file_sink(&lab, "o.jsonl")).unwrap();
    let found: Vec<Value> = std::fs::read_to_string(lab.path("o.jsonl"))
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let expected: Vec<Value> = cases
        .iter()
        .enumerate()
        .filter_map(|(n, (_, _, time))| {
            Some(json!({"_id": format!("{n:02}"), "t": (*time)?, "l": ["1970-01-02T00:00:00Z", (*time)?]}))
        })
        .collect();
    assert_eq!(found, expected);
    assert_eq!((report.counts.written, report.counts.rejected), (10, 2));
    assert!(lab.rejects().iter().all(|reject| reject.why.contains("a time out of range")), "{:?}", lab.rejects());
}

#[test]
fn times_and_numbers_are_right_at_both_ends_of_their_types() {
    use arrow_array::{Date64Array, Int64Array, TimestampNanosecondArray};

    let (least, most) = (i64::MIN, i64::MAX);
    // The last microsecond of year 9999, the first of year 1, and what no calendar holds.
    let (first, last) = (-62_135_596_800_000_000, 253_402_300_799_999_999);
    let columns: Vec<(&str, ArrayRef, [Value; 2])> = vec![
        ("i", Arc::new(Int64Array::from(vec![least, most])), [json!(least), json!(most)]),
        (
            "ns",
            Arc::new(TimestampNanosecondArray::from(vec![least, most])),
            [json!("1677-09-21T00:12:43.145224192"), json!("2262-04-11T23:47:16.854775807")],
        ),
        (
            "us",
            Arc::new(TimestampMicrosecondArray::from(vec![first, last])),
            [json!("0001-01-01T00:00:00"), json!("9999-12-31T23:59:59.999999")],
        ),
        (
            "ms",
            Arc::new(TimestampMillisecondArray::from(vec![first / 1_000, last / 1_000])),
            [json!("0001-01-01T00:00:00"), json!("9999-12-31T23:59:59.999")],
        ),
        (
            "s",
            Arc::new(TimestampSecondArray::from(vec![first / 1_000_000, last / 1_000_000])),
            [json!("0001-01-01T00:00:00"), json!("9999-12-31T23:59:59")],
        ),
        ("d", Arc::new(Date32Array::from(vec![-719_162, 2_932_896])), [json!("0001-01-01"), json!("9999-12-31")]),
        (
            "d64",
            Arc::new(Date64Array::from(vec![first / 1_000, last / 1_000])),
            [json!("0001-01-01T00:00:00"), json!("9999-12-31T23:59:59.999")],
        ),
        (
            "dec",
            Arc::new(
                Decimal128Array::from(vec![-(10_i128.pow(38) - 1), 10_i128.pow(38) - 1])
                    .with_precision_and_scale(38, 2)
                    .unwrap(),
            ),
            [
                serde_json::from_str("-999999999999999999999999999999999999.99").unwrap(),
                serde_json::from_str("999999999999999999999999999999999999.99").unwrap(),
            ],
        ),
    ];
    let keys: ArrayRef = Arc::new(StringArray::from(vec!["a", "b"]));
    let all = [("_id", keys)].into_iter().chain(columns.iter().map(|(name, column, _)| (*name, Arc::clone(column))));
    let batch = RecordBatch::try_from_iter(all).unwrap();
    let lab = Lab::new();
    let path = lab.path("ends.parquet");
    let mut writer = ArrowWriter::try_new(File::create(&path).unwrap(), batch.schema(), None).unwrap();
    writer.write(&batch).unwrap();
    writer.close().unwrap();
    lab.copy(&files(&[&path]), &file_sink(&lab, "o.jsonl")).unwrap();
    let text = std::fs::read_to_string(lab.path("o.jsonl")).unwrap();
    for (row, line) in text.lines().enumerate() {
        let found: Value = serde_json::from_str(line).unwrap();
        for (name, _, expected) in &columns {
            assert_eq!(found[*name], expected[row], "{name}");
        }
    }
    assert_eq!(text.lines().count(), 2);
}
