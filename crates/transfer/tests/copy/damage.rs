//! Tests sources that are cut off or damaged: everything readable arrives, and the damage is reported.

use std::io::Write as _;

use storebench_transfer::Infer;

use super::formats::sink_by;
use super::*;

/// Copies a file. Returns the documents that arrived, the report and the rejects.
fn copied(name: &str, bytes: &[u8]) -> (Vec<String>, CopyReport, Vec<Rejected>) {
    let lab = Lab::new();
    let store = memory();
    let path = lab.write(name, bytes);
    let report = lab.copy(&files(&[&path]), &store_sink(&store, RecordOp::Upsert)).unwrap();
    (contents(&store), report, lab.rejects())
}

fn gzip(text: &[u8]) -> Vec<u8> {
    let mut out = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    out.write_all(text).unwrap();
    out.finish().unwrap()
}

fn zstd(text: &[u8]) -> Vec<u8> {
    zstd::encode_all(text, 1).unwrap()
}

/// The number of complete lines in a truncated compressed file, and whether a partial line follows.
fn readable(packed: &[u8], name: &str) -> (usize, bool) {
    let mut text = Vec::new();
    let _cut = match name.ends_with("gz") {
        true => std::io::Read::read_to_end(&mut flate2::read::MultiGzDecoder::new(packed), &mut text),
        false => std::io::Read::read_to_end(&mut zstd::stream::read::Decoder::new(packed).unwrap(), &mut text),
    };
    (text.iter().filter(|byte| **byte == b'\n').count(), !text.is_empty() && !text.ends_with(b"\n"))
}

/// Lines that all differ, so that they compress badly.
fn many() -> String {
    so_many(9_000)
}

fn so_many(count: usize) -> String {
    let mut state = 1_u64;
    let mut next = move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 20
    };
    (0..count).map(|n| format!("{{\"_id\":\"k{n:06}\",\"n\":{n},\"noise\":\"{:x}{:x}\"}}\n", next(), next())).collect()
}

#[test]
fn all_before_a_cut_arrives_and_the_line_that_was_cut_is_told() {
    let text = many();
    for (name, whole) in [("a.jsonl.gz", gzip(text.as_bytes())), ("a.jsonl.zst", zstd(text.as_bytes()))] {
        for part in [whole.len() / 10, whole.len() / 2, whole.len() * 9 / 10, whole.len() - 1] {
            let (lines, open) = readable(&whole[..part], name);
            let (arrived, report, rejects) = copied(name, &whole[..part]);
            assert!(arrived.len() >= lines, "{name} {part}: {} of {lines}", arrived.len());
            assert_eq!(arrived, sorted(&text)[..arrived.len()], "{name} {part}");
            assert_eq!(report.damaged.len(), 1);
            let damage = &report.damaged[0];
            assert_eq!(damage.records, arrived.len() as u64, "{name} {part}");
            let format = if name.ends_with("gz") { "gzip" } else { "zstd" };
            assert!(damage.what.contains(&format!("{name}: the {format} stream ends in the middle")), "{damage:?}");
            assert!(rejects.len() <= 1 && (!open || rejects.len() == 1), "{rejects:?}");
            for reject in rejects {
                assert!(reject.why.contains("ends in the middle of this record"), "{reject:?}");
                assert!(text.contains(reject.record.as_str().unwrap()), "{reject:?}");
            }
        }
    }
}

#[test]
fn other_formats_that_are_cut_give_what_they_hold() {
    let lines = many();
    let rows: String = std::iter::once("_id,n,noise\n".to_owned())
        .chain((0..9_000).map(|n| format!("k{n:06},{n},\"no\"\"ise {}\"\n", n * 7_919 % 10_007)))
        .collect();
    let list = format!("[{}]", lines.trim_end().replace('\n', ",\n"));
    for (name, text) in [("a.csv.gz", &rows), ("a.json.gz", &list)] {
        let whole = gzip(text.as_bytes());
        let (arrived, report, rejects) = copied(name, &whole[..whole.len() / 2]);
        assert!(arrived.len() > 3_000 && arrived.len() < 6_000, "{name} {}", arrived.len());
        assert_eq!(report.damaged[0].records, arrived.len() as u64);
        assert!(report.damaged[0].what.contains("the gzip stream ends in the middle"), "{report:?}");
        assert!(
            rejects.len() <= 1 && rejects.iter().all(|r| r.why.contains("ends in the middle of this")),
            "{rejects:?}"
        );
        let last = arrived.last().unwrap();
        let id: usize = last.split("k").nth(1).unwrap()[..6].parse().unwrap();
        assert_eq!(id + 1, arrived.len(), "{last}");
    }
    // Without a final line break, only an incomplete record shows that something is missing.
    let (arrived, report, rejects) = copied("a.jsonl", &lines.as_bytes()[..lines.len() - 10]);
    assert_eq!((arrived.len(), report.damaged.len(), rejects.len()), (8_999, 0, 1));
    assert!(rejects[0].why.contains("ends in the middle of this record"), "{rejects:?}");
    let (arrived, report, rejects) = copied("a.jsonl", lines.trim_end().as_bytes());
    assert_eq!((arrived.len(), report.damaged.len(), rejects.len()), (9_000, 0, 0));
    let (arrived, report, _) = copied("a.json", &list.as_bytes()[..list.len() - 1]);
    assert_eq!((arrived.len(), report.damaged.len()), (9_000, 1));
}

#[test]
fn later_members_checksums_and_what_follows_are_told_for_what_they_are() {
    let text = many();
    let (first, second) = text.split_at(text.len() / 2 + text[text.len() / 2..].find('\n').unwrap() + 1);
    let (one, two) = (gzip(first.as_bytes()), gzip(second.as_bytes()));
    let all = text.lines().count();
    let (arrived, report, _) = copied("a.jsonl.gz", &[one.clone(), two.clone()].concat());
    assert_eq!((arrived.len(), report.damaged.len()), (all, 0));
    let (arrived, report, _) = copied("a.jsonl.gz", &[one.clone(), two[..two.len() / 2].to_vec()].concat());
    assert!(arrived.len() > first.lines().count() && arrived.len() < all, "{}", arrived.len());
    assert!(report.damaged[0].what.contains("ends in the middle"), "{report:?}");
    let (arrived, report, _) = copied("a.jsonl.gz", &[one.clone(), b"<html>".to_vec()].concat());
    assert_eq!(arrived.len(), first.lines().count());
    assert!(report.damaged[0].what.contains("other data follows the gzip stream"), "{report:?}");
    let mut sum = one;
    let at = sum.len() - 7;
    sum[at] ^= 1;
    let (arrived, report, _) = copied("a.jsonl.gz", &sum);
    assert_eq!(arrived.len(), first.lines().count());
    assert!(report.damaged[0].what.contains("checksum of the gzip stream is wrong"), "{report:?}");
}

#[test]
fn tables_that_are_cut_or_damaged_give_what_stands_before() {
    let lab = Lab { parallel: 1, ..Lab::new() };
    let source = files(&[&lab.write("in.jsonl", so_many(50_000))]);
    for name in ["a.arrow", "a.parquet"] {
        lab.copy(&source, &sink_by(&lab, &source, name, &Infer::new(Format::of_name(name), Some(KEY_FIELD)))).unwrap();
    }
    let arrow = std::fs::read(lab.path("a.arrow")).unwrap();
    // In the first case, only the footer is cut: the stream of batches has its own end marker.
    for (cut, least, most) in [(arrow.len() - 3, 50_000, 50_000), (arrow.len() * 2 / 3, 10_000, 49_999)] {
        let (arrived, report, _) = copied("a.arrow", &arrow[..cut]);
        assert!((least..=most).contains(&arrived.len()), "{}", arrived.len());
        assert!(report.damaged[0].what.contains("a.arrow"), "{report:?}");
        assert_eq!(report.damaged[0].records, arrived.len() as u64);
    }
    let mut parquet = std::fs::read(lab.path("a.parquet")).unwrap();
    let middle = parquet.len() / 2;
    parquet[middle..middle + 64].fill(0xa5);
    let (arrived, report, _) = copied("a.parquet", &parquet);
    let damage = &report.damaged[0];
    assert!(damage.what.contains("a.parquet, after row") && damage.what.contains("one part of the file"), "{damage:?}");
    assert!(arrived.len() > 30_000 && arrived.len() < 50_000 && damage.records < 20_000, "{}", arrived.len());
}

#[test]
fn the_other_files_arrive_and_the_target_is_made() {
    let lab = Lab { parallel: 1, ..Lab::new() };
    let text = many();
    let whole = gzip(text.as_bytes());
    let cut = lab.write("a.jsonl.gz", &whole[..whole.len() / 2]);
    let other = lab.write("b.jsonl", "{\"_id\":\"other\"}\n");
    let report = lab.copy(&files(&[&cut, &other]), &file_sink(&lab, "out.jsonl")).unwrap();
    let out = std::fs::read_to_string(lab.path("out.jsonl")).unwrap();
    assert!(out.contains("other") && out.starts_with(&text[..text.len() / 3]), "{}", out.len());
    assert_eq!(out.lines().count() as u64, report.counts.written);
    assert_eq!(report.damaged[0].records + 1, report.counts.written);
}

#[test]
fn columns_are_found_in_what_can_be_read() {
    let lab = Lab::new();
    let whole = gzip(many().as_bytes());
    let source = files(&[&lab.write("a.jsonl.gz", &whole[..whole.len() / 2])]);
    let infer = Infer::new(Format::Parquet, Some(KEY_FIELD));
    let report = lab.copy(&source, &sink_by(&lab, &source, "out.parquet", &infer)).unwrap();
    assert!(report.counts.written > 3_000 && report.damaged.len() == 1, "{report:?}");
}

#[test]
fn keys_that_repeat_or_are_numbers_are_counted() {
    let lab = Lab::new();
    let text = "{\"_id\":1,\"n\":1}\n{\"_id\":\"1\",\"n\":2}\n{\"_id\":2}\n{\"_id\":true}\n{\"n\":3}\n{\"_id\":1}\n";
    let store = memory();
    let report = lab.copy(&files(&[&lab.write("a.jsonl", text)]), &store_sink(&store, RecordOp::Upsert)).unwrap();
    assert_eq!((report.counts.written, report.counts.rejected, report.counts.keys_made_text), (5, 1, 4));
    let repeated = report.repeated_keys.unwrap();
    assert_eq!((repeated.records, repeated.exact, repeated.at_least), (2, true, false));
    assert_eq!(contents(&store).len(), 3);
    // A collection has each key only once.
    let report = Lab::new().copy(&store_source(&store), &file_sink(&lab, "out.jsonl")).unwrap();
    assert_eq!(report.repeated_keys, None);
}
