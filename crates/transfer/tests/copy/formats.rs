//! Round trips through every format. What does not fit is reported.

use serde_json::{Value, json};
use storebench_transfer::{ColumnTypes, Infer, Kind, infer_columns};

use super::*;

/// Lines that every format can hold: each field has one type, and some are missing.
fn table(count: usize) -> String {
    (0..count)
        .map(|n| {
            let mut document = json!({
                "_id": format!("k{n:05}"),
                "name": format!("é, \"{n}\"\n漢\t"),
                "n": n as i64 - 7,
                "share": n as f64 + 0.5,
                "yes": n % 2 == 0,
                "tags": ["a", format!("{n}")],
                "deep": {"x": n, "list": [{"y": [n]}]},
            });
            if n % 3 == 0 {
                document.as_object_mut().unwrap().remove("share");
            }
            format!("{document}\n")
        })
        .collect()
}

/// A file with columns for a store's documents.
fn sink_with_columns(lab: &Lab, store: &Arc<dyn AnyStore>, name: &str) -> FileSink {
    let format = if name.ends_with('/') { Format::Parquet } else { Format::of_name(name) };
    sink_by(lab, &store_source(store), name, &Infer::new(format, Some(KEY_FIELD)))
}

/// The same for any source, with columns inferred by `infer`.
pub(super) fn sink_by(lab: &Lab, source: &dyn Source, name: &str, infer: &Infer) -> FileSink {
    let columns = infer_columns(source, &source.splits(1).unwrap(), &Shape::new(None, "test"), infer).unwrap();
    FileSink::open(FileSinkOptions {
        place: Some(lab.path(name).into()),
        folder: name.ends_with('/'),
        parts: lab.path(&format!(".{name}.parts")),
        format: infer.format,
        columns,
        packing: Packing::of_name(name),
        key_field: Some(KEY_FIELD.to_owned()),
        fresh: false,
        replace: false,
    })
    .unwrap()
}

fn filled(lines: &str) -> Arc<dyn AnyStore> {
    let lab = Lab::new();
    let store = memory();
    let report = lab.copy(&files(&[&lab.write("in.jsonl", lines)]), &store_sink(&store, RecordOp::Insert)).unwrap();
    assert_eq!(report.counts.rejected, 0);
    store
}

fn values(lines: &[String]) -> Vec<Value> {
    lines.iter().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[test]
fn each_format_gives_back_what_it_got() {
    let store = filled(&table(5_000));
    let before = values(&contents(&store));
    let types: ColumnTypes = "n=integer,share=number,yes=boolean,tags=json,deep=json".parse().unwrap();
    for name in ["a.json", "a.json.gz", "a.csv", "a.csv.zst", "a.tsv", "a.parquet", "a.arrow"] {
        let tables = name.contains("sv");
        let lab = Lab { verify: !tables, ..Lab::new() };
        let report = lab.copy(&store_source(&store), &sink_with_columns(&lab, &store, name)).unwrap();
        assert_eq!((report.counts.written, report.counts.rejected), (5_000, 0), "{name}: {:?}", lab.rejects().first());
        assert!(tables || report.verified.unwrap().equal, "{name}");
        let again = memory();
        let types = if tables { types.clone() } else { ColumnTypes::default() };
        let source = FileSource::open(&[lab.path(name)], FileSourceOptions { types, ..Default::default() }).unwrap();
        let lab = Lab::new();
        let report = lab.copy(&source, &store_sink(&again, RecordOp::Insert)).unwrap();
        assert_eq!((report.counts.written, report.counts.rejected), (5_000, 0), "{name}: {:?}", lab.rejects().first());
        let mut after = values(&contents(&again));
        if tables {
            // Missing fields are null in a table.
            for document in &mut after {
                document.as_object_mut().unwrap().retain(|_, value| !value.is_null());
            }
        }
        assert!(after == before, "{name}: {:?} {:?}", after.first(), before.first());
    }
}

#[test]
fn parts_of_arrow_are_batches() {
    let store = filled(&table(30_000));
    let mut lab = Lab { verify: true, ..Lab::new() };
    lab.parallel = 4;
    let report = lab.copy(&store_source(&store), &sink_with_columns(&lab, &store, "a.arrow")).unwrap();
    assert!(report.splits > 4 && report.verified.unwrap().equal);
    let again = memory();
    let source = files(&[&lab.path("a.arrow")]);
    assert!(source.splits(4).unwrap().len() > 4);
    let lab = Lab { parallel: 4, ..Lab::new() };
    let report = lab.copy(&source, &store_sink(&again, RecordOp::Insert)).unwrap();
    assert_eq!((report.counts.written, report.counts.rejected), (30_000, 0));
    assert!(values(&contents(&again)) == values(&contents(&store)));
}

#[test]
fn parquet_parts_become_one_file_or_a_folder() {
    let store = filled(&table(30_000));
    let mut lab = Lab { verify: true, ..Lab::new() };
    lab.parallel = 4;
    let report = lab.copy(&store_source(&store), &sink_with_columns(&lab, &store, "a.parquet")).unwrap();
    assert!(report.splits > 4 && report.verified.unwrap().equal);
    let report = lab.copy(&store_source(&store), &sink_with_columns(&lab, &store, "parts/")).unwrap();
    assert!(report.verified.unwrap().equal);
    let parts = std::fs::read_dir(lab.path("parts")).unwrap().count() as u64;
    assert_eq!(parts, report.splits);
    // Row groups are read in parallel.
    let splits = files(&[&lab.path("a.parquet")]).splits(4).unwrap();
    assert_eq!(splits.len() as u64, report.splits);
}

/// Documents that do not fit the columns.
fn odd_ones() -> [Value; 9] {
    [
        json!({"_id": "x0", "n": "seven"}),
        json!({"_id": "x1", "n": 1.5}),
        json!({"_id": "x2", "share": 9_007_199_254_740_993u64}),
        json!({"_id": "x3", "name": 7}),
        json!({"_id": "x4", "tags": ["a", 1]}),
        json!({"_id": "x5", "deep": {"z": 1}}),
        json!({"_id": "x6", "later": 1}),
        json!({"_id": "x7", "n": null, "share": 9_007_199_254_740_992u64}),
        json!({"_id": "x8", "n": 9_223_372_036_854_775_808u64}),
    ]
}

#[test]
fn what_has_no_column_or_does_not_fit_it_comes_back_all_the_same() {
    let mut lines = table(12_000);
    odd_ones().iter().for_each(|other| lines += &format!("{other}\n"));
    let store = filled(&lines);
    let before = values(&contents(&store));
    for name in ["a.parquet", "a.arrow"] {
        let lab = Lab { verify: true, ..Lab::new() };
        let report = lab.copy(&store_source(&store), &sink_with_columns(&lab, &store, name)).unwrap();
        assert_eq!((report.counts.written, report.counts.rejected), (12_009, 0), "{name}: {:?}", lab.rejects());
        assert!(report.verified.unwrap().equal, "{name}");
        let again = memory();
        lab_copy(&files(&[&lab.path(name)]), &again);
        assert!(values(&contents(&again)) == before, "{name}");
    }
}

fn lab_copy(source: &dyn Source, into: &Arc<dyn AnyStore>) {
    let lab = Lab::new();
    let report = lab.copy(source, &store_sink(into, RecordOp::Insert)).unwrap();
    assert_eq!(report.counts.rejected, 0, "{:?}", lab.rejects().first());
}

/// Half of the documents have a field that first occurs after the sampled records.
#[test]
fn a_field_that_comes_late_is_kept_and_all_records_can_be_looked_at() {
    let late: String =
        (0..20_000)
            .map(|n| {
                if n < 10_500 {
                    format!("{{\"_id\":\"{n}\"}}\n")
                } else {
                    format!("{{\"_id\":\"{n}\",\"late\":{n}}}\n")
                }
            })
            .collect();
    for (records, columns) in
        [(10_000, vec!["_id", "_more"]), (0, vec!["_id", "late", "_more"]), (10_501, vec!["_id", "late", "_more"])]
    {
        let lab = Lab::new();
        let source = files(&[&lab.write("in.jsonl", &late)]);
        let infer = Infer { records, ..Infer::new(Format::Parquet, Some(KEY_FIELD)) };
        let found = infer_columns(&source, &source.splits(1).unwrap(), &shape(), &infer).unwrap();
        let names: Vec<&str> =
            found.list.iter().map(|(name, _)| name.as_str()).chain(found.overflow.as_deref()).collect();
        assert_eq!(names, columns, "{records}");
        let report = lab.copy(&source, &sink_by(&lab, &source, "a.parquet", &infer)).unwrap();
        assert_eq!((report.counts.written, report.counts.rejected), (20_000, 0));
        let again = memory();
        lab_copy(&files(&[&lab.path("a.parquet")]), &again);
        assert_eq!(contents(&again), sorted(&late));
    }
}

#[test]
fn a_source_that_was_seen_whole_gets_no_overflow_that_stays_empty() {
    let lab = Lab::new();
    for (name, text, overflow) in [
        ("a.csv", "{\"_id\":\"a\",\"n\":1}\n{\"_id\":\"b\",\"n\":null}\n", false),
        ("b.csv", "{\"_id\":\"a\",\"n\":1}\n{\"_id\":\"b\",\"n\":\"x\"}\n", true),
        ("a.parquet", "{\"_id\":\"a\",\"n\":1}\n{\"_id\":\"b\"}\n", false),
        ("b.parquet", "{\"_id\":\"a\",\"n\":1}\n{\"_id\":\"b\",\"n\":null}\n", true),
        ("c.parquet", "{\"_id\":\"a\",\"n\":1.5}\n{\"_id\":\"b\",\"n\":18.0}\n", true),
        ("d.parquet", "{\"_id\":\"a\",\"n\":1.5}\n{\"_id\":\"b\",\"n\":18}\n", false),
    ] {
        let source = files(&[&lab.write("in.jsonl", text)]);
        let infer = Infer::new(Format::of_name(name), Some(KEY_FIELD));
        let found = infer_columns(&source, &source.splits(1).unwrap(), &shape(), &infer).unwrap();
        assert_eq!(found.overflow.is_some(), overflow, "{name}");
    }
}

/// Numbers keep their notation: `18` must not become `18.0` in a column of doubles.
#[test]
fn numbers_come_back_as_they_are_written() {
    let numbers = [
        "18",
        "18.0",
        "18.5",
        "-0.0",
        "-0",
        "0",
        "1e3",
        "1E400",
        "-7",
        "9007199254740993",
        "18446744073709551615",
        "123456789012345678901234567890.125",
        "0.1000",
        "5e-324",
        "1.7976931348623157e308",
    ];
    let lines: String = numbers
        .iter()
        .enumerate()
        .map(|(n, number)| format!("{{\"_id\":\"{n:02}\",\"n\":{number},\"l\":[{number},1.5]}}\n"))
        .collect();
    for name in ["a.parquet", "a.arrow"] {
        let lab = Lab::new();
        let source = files(&[&lab.write("in.jsonl", &lines)]);
        let report = lab
            .copy(&source, &sink_by(&lab, &source, name, &Infer::new(Format::of_name(name), Some(KEY_FIELD))))
            .unwrap();
        assert_eq!(report.counts.rejected, 0, "{:?}", lab.rejects());
        lab.copy(&files(&[&lab.path(name)]), &file_sink(&lab, "out.jsonl")).unwrap();
        let mut back = sorted(&std::fs::read_to_string(lab.path("out.jsonl")).unwrap());
        // Members of the overflow follow the others.
        for line in &mut back {
            let value: serde_json::value::Value = serde_json::from_str(&line.replace("1E400", "7")).unwrap();
            assert_eq!(value.as_object().unwrap().len(), 3, "{line}");
        }
        for (line, number) in back.iter().zip(numbers) {
            assert!(line.contains(&format!("\"n\":{number}")), "{line} {number}");
            assert!(line.contains(&format!("\"l\":[{number},1.5]")), "{line} {number}");
        }
    }
}

#[test]
fn without_an_overflow_what_does_not_fit_is_rejected_with_its_reason() {
    let mut lines = table(12_000);
    odd_ones().iter().for_each(|other| lines += &format!("{other}\n"));
    let store = filled(&lines);
    for (name, refused) in [("a.parquet", 8), ("a.arrow", 8)] {
        let lab = Lab::new();
        let infer = Infer { overflow: None, ..Infer::new(Format::of_name(name), Some(KEY_FIELD)) };
        let sink = sink_by(&lab, &store_source(&store), name, &infer);
        let report = lab.copy(&store_source(&store), &sink).unwrap();
        assert_eq!((report.counts.written, report.counts.rejected), (12_009 - refused, refused), "{name}");
        let rejects = lab.rejects();
        for (key, part) in [
            ("x0", "column `n`: \"seven\" is not an integer"),
            ("x1", "column `n`: 1.5 is not an integer"),
            ("x2", "column `share`: 9007199254740993 is not a number that a double holds exactly"),
            ("x3", "column `name`: 7 is not a string"),
            ("x4", "column `tags`: [\"a\",1] is not a list"),
            ("x5", "column `deep`: {\"z\":1} is not an object with"),
            ("x6", "no column for its field `later`"),
            ("x8", "column `n`: 9223372036854775808 is not an integer"),
        ] {
            let reject = rejects.iter().find(|reject| reject.key.as_deref() == Some(key)).unwrap();
            assert!(reject.why.contains(part), "{name}: {reject:?}");
        }
    }
}

#[test]
fn what_a_file_rejects_does_not_count_as_its_bytes() {
    let counts = |more: &str| {
        let store = filled(&(table(12_000) + more));
        let lab = Lab::new();
        let infer = Infer { overflow: None, ..Infer::new(Format::Parquet, Some(KEY_FIELD)) };
        let sink = sink_by(&lab, &store_source(&store), "a.parquet", &infer);
        lab.copy(&store_source(&store), &sink).unwrap().counts
    };
    let (fine, odd) = (counts(""), counts(&format!("{}\n", odd_ones()[0])));
    assert_eq!((odd.written, odd.rejected, odd.bytes), (fine.written, 1, fine.bytes));
    assert!(fine.bytes > 0);
}

#[test]
fn a_table_of_texts_keeps_what_does_not_fit_and_every_digit() {
    let lines = [
        r#"{"_id":"a","l":[1.5,12345678901234567890123],"o":{"x":0.12345678901234567890123}}"#,
        r#"{"_id":"b","l":[0.50,null,1e30],"o":{"x":7}}"#,
        r#"{"_id":"c","l":null,"o":{"x":98765432109876543210}}"#,
        r#"{"_id":"d","l":"none","o":7}"#,
        "",
    ];
    let lab = Lab::new();
    let source = files(&[&lab.write("in.jsonl", lines.join("\n"))]);
    let report =
        lab.copy(&source, &sink_by(&lab, &source, "a.csv", &Infer::new(Format::Csv, Some(KEY_FIELD)))).unwrap();
    assert_eq!((report.counts.written, report.counts.rejected), (4, 0), "{:?}", lab.rejects());
    let rows = [
        "_id,l,o,_more",
        r#"a,"[1.5,12345678901234567890123]","{""x"":0.12345678901234567890123}","#,
        r#"b,"[0.50,null,1e30]","{""x"":7}","#,
        r#"c,,"{""x"":98765432109876543210}","#,
        r#"d,,,"{""l"":""none"",""o"":7}""#,
        "",
    ];
    assert_eq!(std::fs::read_to_string(lab.path("a.csv")).unwrap(), rows.join("\n"));
    let types = "l=json,o=json,_more=overflow".parse().unwrap();
    let source = FileSource::open(&[lab.path("a.csv")], FileSourceOptions { types, ..Default::default() }).unwrap();
    lab.copy(&source, &file_sink(&lab, "out.jsonl")).unwrap();
    assert_eq!(std::fs::read_to_string(lab.path("out.jsonl")).unwrap(), lines.join("\n"));
}

#[test]
fn a_json_list_that_is_written_in_many_lines_is_one_line_of_csv() {
    let lab = Lab::new();
    let path = lab.write("a.json", "[{\"_id\": \"a\",\n \"l\": [\r\n  1.0,\n  \"x\\ny\"\n ]}]");
    let store = memory();
    lab.copy(&files(&[&path]), &store_sink(&store, RecordOp::Insert)).unwrap();
    let lab = Lab::new();
    let list = vec![(KEY_FIELD.to_owned(), Kind::Text), ("l".to_owned(), Kind::Json)];
    let columns = Columns { list, overflow: None };
    let sink = FileSink::open(FileSinkOptions {
        place: Some(lab.path("a.csv").into()),
        folder: false,
        parts: lab.path("parts"),
        format: Format::Csv,
        columns,
        packing: Packing::Plain,
        key_field: Some(KEY_FIELD.to_owned()),
        fresh: false,
        replace: false,
    })
    .unwrap();
    lab.copy(&store_source(&store), &sink).unwrap();
    let text = std::fs::read_to_string(lab.path("a.csv")).unwrap();
    assert_eq!(text, "_id,l\na,\"[  1.0,  \"\"x\\ny\"\" ]\"\n");
}

#[test]
fn a_quote_that_is_wrong_ends_the_copy_and_swallows_no_rows() {
    for (text, part) in [
        ("_id,text\n1,a\n2,\"oops\n3,x\n4,y\n", "line 3: the quote that opens a field here is never closed"),
        (
            "_id,text\n1,a\n2,\"oops\n3,\"x\"\n",
            "line 4: text follows the closing quote of a field that begins in line 3",
        ),
        ("_id,\"text\n1,a\n", "line 1: the quote"),
    ] {
        let lab = Lab::new();
        let packed = lab.path("a.csv.gz");
        let file = std::fs::File::create(&packed).unwrap();
        let mut gzip = flate2::write::GzEncoder::new(file, flate2::Compression::fast());
        std::io::Write::write_all(&mut gzip, text.as_bytes()).unwrap();
        gzip.finish().unwrap();
        for path in [lab.write("a.csv", text), packed] {
            let lab = Lab::new();
            let report = lab.copy(&files(&[&path]), &store_sink(&memory(), RecordOp::Insert)).unwrap();
            let told = &report.damaged[0].what;
            assert!(told.starts_with(&format!("{}, {part}", path.display())), "{told}");
            assert!(told.contains("is written twice: \"a \"\"b\"\"\""), "{told}");
            // The rows before the quote arrive.
            let before = if text.starts_with("_id,text") { 1 } else { 0 };
            assert_eq!((report.counts.written, report.damaged[0].records), (before, before), "{text}");
            assert_eq!(lab.rejects().len(), 0);
        }
    }
    // In a field that does not start with a quote, a quote is text.
    let lab = Lab::new();
    let store = memory();
    let path = lab.write("a.tsv", "_id\ttext\r\n1\t5\" disk\r\n2\t\"a \"\"b\"\"\"\r\n");
    lab.copy(&files(&[&path]), &store_sink(&store, RecordOp::Insert)).unwrap();
    let rows = [r#"{"_id":"1","text":"5\" disk"}"#, r#"{"_id":"2","text":"a \"b\""}"#];
    assert_eq!(contents(&store), rows);
}

#[test]
fn rows_that_are_no_records_are_told() {
    let lab = Lab::new();
    let text = "_id,n,note\na,1,\"two\nlines\"\nb,x,\nc,2\nd,3,\"q\"\"q\",4\n,5,\ne,,last\n";
    let path = lab.write("a.csv", text);
    let types = "n=integer".parse().unwrap();
    let source =
        FileSource::open(std::slice::from_ref(&path), FileSourceOptions { types, ..Default::default() }).unwrap();
    let store = memory();
    let report = lab.copy(&source, &store_sink(&store, RecordOp::Insert)).unwrap();
    assert_eq!((report.counts.written, report.counts.rejected), (2, 4));
    let told: Vec<(String, String)> =
        lab.rejects().into_iter().map(|Rejected { reject, .. }| (reject.from, reject.why)).collect();
    for ((from, why), (line, part)) in told.iter().zip([
        ("line 4", "column `n`: `x` is not a valid 64-bit integer"),
        ("line 5", "the row has 2 fields, but the header has 3"),
        ("line 6", "the row has 4 fields"),
        ("line 7", "the key is empty"),
    ]) {
        assert!(from.ends_with(line) && why.contains(part), "{from}: {why}");
    }
    let rows = contents(&store);
    assert_eq!(rows[0], "{\"_id\":\"a\",\"n\":1,\"note\":\"two\\nlines\"}");
    assert_eq!(rows[1], "{\"_id\":\"e\",\"n\":null,\"note\":\"last\"}");
    let types = "m=integer".parse().unwrap();
    let opened = FileSource::open(&[path], FileSourceOptions { types, ..Default::default() });
    let error = opened.err().unwrap().to_string();
    assert!(error.contains("no column `m`") && error.contains("_id, n, note"), "{error}");
}

#[test]
fn a_list_that_is_broken_ends_the_copy_and_a_broken_element_does_not() {
    let copy = |text: &str| {
        let lab = Lab::new();
        let store = memory();
        let report = lab.copy(&files(&[&lab.write("a.json", text)]), &store_sink(&store, RecordOp::Insert));
        let damage = |report: &CopyReport| report.damaged.first().map(|damage| damage.what.clone());
        report.map(|report| (report.counts.written, report.counts.rejected, damage(&report))).map_err(|e| e.to_string())
    };
    assert_eq!(copy("[]"), Ok((0, 0, None)));
    assert_eq!(copy(" [ {\"_id\":\"a,]\\\"\"} , {\"_id\":\"b\",\"x\":[{}]}\n]\n"), Ok((2, 0, None)));
    assert_eq!(copy("[{\"_id\":\"a\"},{\"n\":1},{\"_id\":01},7,{\"_id\":\"b\"}]"), Ok((2, 3, None)));
    for (text, part) in [("", "begins with `[`"), ("{\"_id\":\"a\"}", "begins with `[`")] {
        let error = copy(text).unwrap_err();
        assert!(error.contains(part), "{text}: {error}");
    }
    for (text, rejected, part) in [
        ("[{\"_id\":\"a\"}", 0, "does not end"),
        ("[{\"_id\":\"a\"},{\"_id\":", 1, "does not end"),
        ("[{\"_id\":\"a\"}] x", 0, "after the array"),
    ] {
        let (written, refused, damage) = copy(text).unwrap();
        assert!((written, refused) == (1, rejected) && damage.unwrap().contains(part), "{text}");
    }
}

#[test]
fn a_parquet_file_that_is_cut_off_is_refused() {
    let store = filled(&table(500));
    let lab = Lab::new();
    lab.copy(&store_source(&store), &sink_with_columns(&lab, &store, "a.parquet")).unwrap();
    let whole = std::fs::read(lab.path("a.parquet")).unwrap();
    let cut = lab.write("cut.parquet", &whole[..whole.len() - 10]);
    let error = lab.copy(&files(&[&cut]), &store_sink(&store, RecordOp::Upsert)).unwrap_err();
    assert!(
        matches!(&error, TransferError::BadInput(text) if text.contains("is not a complete Parquet file")),
        "{error}"
    );
}

#[test]
fn a_file_that_is_not_packed_as_it_is_named_is_refused() {
    let lab = Lab::new();
    for (name, part) in [("a.jsonl.gz", "its name says gzip"), ("a.jsonl.zst", "its name says zstd")] {
        let path = lab.write(name, lines(3));
        let Err(TransferError::BadInput(told)) = FileSource::open(&[path], FileSourceOptions::default()) else {
            panic!("taken")
        };
        assert!(told.contains(part) && told.contains("begins with `{"), "{told}");
    }
    // A file that ends before its magic bytes do is cut off, which is reported when it is read.
    let path = lab.write("cut.jsonl.gz", [0x1f]);
    FileSource::open(&[path], FileSourceOptions::default()).unwrap();
}

#[test]
fn another_delimiter_is_taken_when_it_is_named_and_named_when_it_is_not() {
    let lab = Lab::new();
    let path = lab.write("a.csv", "_id;name\nk1;one\nk2;two\n");
    let open = |delimiter| {
        FileSource::open(std::slice::from_ref(&path), FileSourceOptions { delimiter, ..Default::default() })
    };
    let store = memory();
    // It fails before any target is created.
    let error = open(None).err().unwrap();
    assert!(matches!(&error, TransferError::BadInput(told) if told.contains("--delimiter ';'")), "{error}");
    let other = Lab::new();
    let report = other.copy(&open(Some(b';')).unwrap(), &store_sink(&store, RecordOp::Upsert)).unwrap();
    assert_eq!((report.counts.written, report.counts.rejected), (2, 0));
    assert_eq!(contents(&store)[0], r#"{"_id":"k1","name":"one"}"#);
}
