use format::attributes::ChecksumAlgorithm;

use super::parts;

fn list(inner: &str) -> String {
    format!("<CompleteMultipartUpload xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">{inner}</CompleteMultipartUpload>")
}

fn code(document: &str) -> &'static str {
    parts(document.as_bytes()).expect_err(document).code.name
}

#[test]
fn what_stands_in_a_list() {
    let tag = "<ETag>&quot;5eb63bbbe01eeed093cb22bb8f5acdc3&quot;</ETag>";
    let document = list(&format!(
        "\n <Part><PartNumber>2</PartNumber>{tag}</Part> <!-- a remark -->\
         <Part>{tag}<ChecksumMD5>XrY7u+Ae7tCTyyK7j1rNww&#61;=</ChecksumMD5><PartNumber>1</PartNumber></Part>\
         <Part><PartNumber>3</PartNumber><ETag>no tag</ETag><ChecksumCRC32>DUoRhQ==</ChecksumCRC32></Part>"
    ));
    let found = parts(format!("<?xml version=\"1.0\" encoding=\"UTF-8\"?>{document}").as_bytes()).expect("well-formed");
    let found: Vec<_> =
        found.iter().map(|part| (part.number, part.etag.is_some(), part.checksum.map(|sum| sum.algorithm()))).collect();
    let expected = [(2, true, None), (1, true, Some(ChecksumAlgorithm::Md5)), (3, false, Some(ChecksumAlgorithm::Crc32))];
    assert_eq!(found, expected);
    assert_eq!(parts(list("").as_bytes()).expect("well-formed"), []);
}

#[test]
fn what_is_no_list() {
    let part = |inner: &str| list(&format!("<Part><PartNumber>1</PartNumber><ETag>a</ETag>{inner}</Part>"));
    for document in [
        String::new(),
        String::from("<Delete/>"),
        String::from("<CompleteMultipartUpload>"),
        list("") + "<more/>",
        list("<Parts/>"),
        list("<Part><PartNumber>1</PartNumber></Part>"),
        list("<Part><ETag>a</ETag></Part>"),
        list("<Part><PartNumber>one</PartNumber><ETag>a</ETag></Part>"),
        part("<PartNumber>1</PartNumber>"),
        part("<ETag>a</ETag>"),
        part("<ChecksumMD4>AAAA</ChecksumMD4>"),
        part("<Size>1</Size>"),
    ] {
        assert_eq!(code(&document), "MalformedXML", "{document}");
    }
    let crc = "<ChecksumCRC32>DUoRhQ==</ChecksumCRC32>";
    for inner in [
        "<ChecksumCRC32>nonsense</ChecksumCRC32>",
        "<ChecksumSHA512/>",
        &format!("{crc}{crc}"),
        &format!("{crc}<ChecksumMD5/>"),
    ] {
        assert_eq!(code(&part(inner)), "InvalidArgument", "{inner}");
    }
    let negative = list("<Part><PartNumber>-1</PartNumber><ETag>a</ETag></Part>");
    assert_eq!(code(&negative), "InvalidArgument");
}
