//! Formats that are not read, by the first bytes of a file. Read as lines of text, such a file would be thousands of
//! records that are wrong, and none of them would say why.

/// Where a tar archive has its mark.
const TAR_AT: usize = 257;
/// The highest type of a BSON element that begins a usual document.
const BSON_TYPES: u8 = 0x13;

/// Whether a file that begins with these bytes is of a format.
type Is = fn(&[u8]) -> bool;

/// The format of a file that begins with these bytes, and what to do; `None` if it may be text. Four bytes are enough for
/// most formats.
pub fn foreign(first: &[u8]) -> Option<&'static str> {
    const MAGIC: [(&[u8], &str); 9] = [
        (b"\xfd7zX", "it is compressed with xz, which is not read; decompress it with `unxz`"),
        (b"\x04\x22\x4d\x18", "it is compressed with lz4, which is not read; decompress it with `unlz4`"),
        (b"PK\x03\x04", "it is a ZIP archive or a spreadsheet; unpack it and name its files, or save the sheet as CSV"),
        (b"7z\xbc\xaf", "it is a 7z archive; unpack it, and name its files"),
        (b"Obj\x01", "it is an Avro file, which is not read; convert it to Parquet or to JSON lines"),
        (b"\xff\xfe", UTF_16),
        (b"\xfe\xff", UTF_16),
        (b"{\0", UTF_16),
        (b"[\0", UTF_16),
    ];
    let by_magic = MAGIC.iter().find(|(magic, _)| first.starts_with(magic)).map(|(_, what)| *what);
    let others: [(Is, &str); 4] = [
        (is_bzip2, "it is compressed with bzip2, which is not read; decompress it with `bunzip2`"),
        (is_orc, "it is an ORC file, which is not read; convert it to Parquet or to JSON lines"),
        (is_tar, "it is a tar archive; unpack it, and name its files"),
        (is_bson, "it is BSON, as mongodump writes it; convert it with `bsondump`, or copy from the database"),
    ];
    by_magic.or_else(|| others.iter().find(|(is, _)| is(first)).map(|(_, what)| *what))
}

const UTF_16: &str = "its text is UTF-16; convert it with `iconv -f UTF-16 -t UTF-8`";

/// The mark is letters, with which a text may begin. Its level follows, and then the mark of a block or of the end.
fn is_bzip2(first: &[u8]) -> bool {
    let Some(rest) = first.strip_prefix(b"BZh") else { return false };
    let marks = [&b"1AY&SY"[..], b"\x17\x72\x45\x38\x50\x90"];
    matches!(rest, [b'1'..=b'9', after @ ..] if marks.iter().any(|mark| after.iter().zip(*mark).all(|(a, b)| a == b)))
}

/// The mark is letters, with which a header of CSV may begin (`ORCID`). What follows it is not text.
fn is_orc(first: &[u8]) -> bool {
    let is_text = |byte: &u8| *byte >= b' ' || matches!(byte, b'\t' | b'\n' | b'\r');
    first.strip_prefix(b"ORC").is_some_and(|rest| !rest.iter().all(is_text))
}

fn is_tar(first: &[u8]) -> bool {
    first.get(TAR_AT..).is_some_and(|mark| mark.starts_with(b"ustar"))
}

/// Whether a BSON document begins here: its length, and the type of its first element. Text has no byte 0.
fn is_bson(first: &[u8]) -> bool {
    let Some((length, rest)) = first.split_first_chunk::<4>() else { return false };
    let length = u32::from_le_bytes(*length) as usize;
    let ends = first.get(length.wrapping_sub(1)).is_none_or(|last| *last == 0);
    first[..4].contains(&0) && length > 5 && ends && rest.first().is_some_and(|kind| (1..=BSON_TYPES).contains(kind))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_text_is_told() {
        let mut tar = vec![0; 600];
        tar[..7].copy_from_slice(b"a.jsonl");
        tar[TAR_AT..TAR_AT + 5].copy_from_slice(b"ustar");
        let bson = b"\x16\0\0\0\x02hello\0\x06\0\0\0world\0\0";
        for (first, what) in [
            (&b"BZh91AY&SY"[..], "bzip2"),
            (b"BZh9", "bzip2"),
            (b"ORC\x1d\0\0", "ORC"),
            (b"\xfd7zXZ\0", "xz"),
            (b"PK\x03\x04\x14", "ZIP"),
            (b"Obj\x01", "Avro"),
            (b"\xff\xfe{\0", "UTF-16"),
            (b"{\0\"\0", "UTF-16"),
            (&tar, "tar"),
            (bson, "BSON"),
        ] {
            assert!(foreign(first).unwrap().contains(what), "{what}");
        }
        for text in [
            "",
            "{}",
            "[",
            "{\"a\":1}\n",
            "a,b\n",
            "BZ",
            "BZhong,n\n",
            "BZh1,n\n",
            "\u{feff}{}",
            "OR",
            "ORC,n\n",
            "ORCID,name\nü,1\n",
            "\n\n\n\n\n",
        ] {
            assert_eq!(foreign(text.as_bytes()), None, "{text}");
        }
    }
}
