//! Compares the byte maps in `docs/format.md` with the layouts that the code uses, field by field.

use crate::layout::Field;

const DOCUMENT: &str = include_str!("../../../docs/format.md");

/// Every fixed layout, under the heading that it has in the document.
const LAYOUTS: &[(&str, &[Field])] = &[
    ("Place", crate::replicas::PlaceLayout::FIELDS),
    ("Order", crate::record::OrderLayout::FIELDS),
    ("Record", crate::record::RecordLayout::FIELDS),
    ("Chunk owner", crate::record::ChunkOwnerLayout::FIELDS),
    ("Entry", crate::entry::EntryLayout::FIELDS),
    ("Chunk list", crate::chunk_ref::ChunkListLayout::FIELDS),
    ("Part table", crate::part_table::PartTableLayout::FIELDS),
    ("Run row", crate::name_entry::RowLayout::FIELDS),
    ("Run block", crate::run_block::RunBlockLayout::FIELDS),
    ("Run index", crate::run_index::RunIndexLayout::FIELDS),
    ("Run index row", crate::run_index::BlockLayout::FIELDS),
    ("Manifest", crate::manifest::ManifestLayout::FIELDS),
    ("Manifest: run", crate::manifest::RunSummaryLayout::FIELDS),
    ("Manifest: index piece", crate::manifest::IndexPieceLayout::FIELDS),
    ("Manifest: log point", crate::manifest::LogPointLayout::FIELDS),
    ("Manifest: watermark", crate::manifest::WatermarkLayout::FIELDS),
    ("Manifest: live zones", crate::manifest::DeviceLiveLayout::FIELDS),
    ("Manifest: table", crate::manifest::RecordedTableLayout::FIELDS),
    ("Notes", crate::superblock::notes::Record::FIELDS),
    ("Unit table", crate::unit_table::UnitTableHeadLayout::FIELDS),
    ("Unit table: unit", crate::unit_table::LentUnitLayout::FIELDS),
    ("Chunk fences", crate::chunk_fences::ChunkFencesLayout::FIELDS),
    ("Blob header", crate::blob_header::BlobHeaderLayout::FIELDS),
    ("Chunk fences: shard", crate::chunk_fences::ShardFenceLayout::FIELDS),
];

/// The rows of the table under `### heading`: offset, bytes and name.
fn table(heading: &str) -> Vec<(usize, usize, String)> {
    let start = format!("\n### {heading}\n");
    let (_, section) = DOCUMENT.split_once(&start).unwrap_or_else(|| panic!("docs/format.md has no section {heading:?}"));
    let mut rows = Vec::new();
    for line in section.lines().take_while(|line| !line.starts_with('#')) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, at, bytes, name, ..] = cells[..] else { continue };
        let (Ok(at), Ok(bytes)) = (at.parse(), bytes.parse()) else { continue };
        rows.push((at, bytes, name.trim_matches('`').to_owned()));
    }
    rows
}

#[test]
fn the_document_shows_the_layouts_of_the_code() {
    for (heading, fields) in LAYOUTS {
        let expected: Vec<_> = fields.iter().map(|field| (field.offset, field.bytes, field.name.to_owned())).collect();
        assert_eq!(table(heading), expected, "docs/format.md, section {heading:?}");
    }
}

#[test]
fn layouts_have_no_holes() {
    for (heading, fields) in LAYOUTS {
        let mut end = 0;
        for field in *fields {
            assert_eq!(field.offset, end, "{heading}: {}", field.name);
            end += field.bytes;
        }
    }
}

#[test]
fn the_document_shows_the_attribute_tags() {
    let (_, section) = DOCUMENT.split_once("\n### Attributes\n").expect("a section for attributes");
    let mut shown = Vec::new();
    for line in section.lines().take_while(|line| !line.starts_with('#')) {
        let cells: Vec<_> = line.split('|').map(str::trim).collect();
        let [_, number, name, ..] = cells[..] else { continue };
        if let Ok(number) = number.parse::<u8>() {
            shown.push((number, name.trim_matches('`').to_owned()));
        }
    }
    let tags = crate::attributes::Tag::ALL;
    let expected: Vec<_> = tags.iter().map(|tag| (*tag as u8, format!("{tag:?}"))).collect();
    assert_eq!(shown, expected);
}
