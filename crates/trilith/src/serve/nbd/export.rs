//! An image as an NBD export.

use block::image::{Image, ImageError, ImageErrorKind, Part};
use block::{Offered, OpenImage};
use bytes::Bytes;
use nbd::{
    Answer, Content, ContentPart, Export, ExportError, ExportErrorKind, ExportFacts, Exports, Extent, ListedExport, OpenError,
    Span, WriteZerosFlags,
};
use std::sync::Arc;

/// The images of one place.
pub struct PlaceExports(pub Arc<dyn Offered>);

impl Exports for PlaceExports {
    fn find<'a>(&'a self, name: &'a str) -> nbd::BoxFuture<'a, Result<Arc<dyn Export>, OpenError>> {
        Box::pin(async move {
            let images = self.0.images();
            let name = match (name, images.as_slice()) {
                ("", [only]) => only.as_str(),
                _ => name,
            };
            if !images.iter().any(|image| image == name) {
                return Err(OpenError::NoSuchExport);
            }
            let image = self.0.open(name).await.map_err(OpenError::Unavailable)?;
            Ok(Arc::new(ImageExport(image)) as Arc<dyn Export>)
        })
    }

    fn list(&self) -> nbd::BoxFuture<'_, Result<Vec<ListedExport>, OpenError>> {
        let listed = |name| ListedExport { name, description: String::new() };
        Box::pin(std::future::ready(Ok(self.0.images().into_iter().map(listed).collect())))
    }
}

struct ImageExport(Arc<OpenImage>);

impl ImageExport {
    fn image(&self) -> &Image {
        self.0.image()
    }

    /// In the sync modes in which a write is not durable when it is answered.
    async fn settle(&self, is_asked: bool) -> Result<(), ImageError> {
        if is_asked { self.image().flush().await } else { Ok(()) }
    }
}

impl Export for ImageExport {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn facts(&self) -> ExportFacts {
        ExportFacts {
            size_bytes: self.image().size(),
            is_coherent_across_connections: true,
            can_trim: true,
            description: format!("image {}", self.0.name()),
            ..ExportFacts::default()
        }
    }

    fn read(&self, span: Span) -> Answer<'_, Content> {
        Answer::later(async move {
            let parts = self.image().read(span.offset, span.length).await.map_err(explain)?;
            let part = |part| match part {
                Part::Data(bytes) => ContentPart::Data(bytes),
                Part::Zeros(length) => ContentPart::Zeros(length),
            };
            Ok(parts.into_iter().map(part).collect())
        })
    }

    fn write(&self, offset: u64, data: Bytes, force_unit_access: bool) -> Answer<'_, ()> {
        Answer::later(async move {
            self.image().write(offset, data).await.map_err(explain)?;
            self.settle(force_unit_access).await.map_err(explain)
        })
    }

    fn write_zeros(&self, span: Span, flags: WriteZerosFlags) -> Answer<'_, ()> {
        if flags.only_if_fast {
            let message = "zeros may take as long as data here";
            return Answer::Now(Err(ExportError::new(ExportErrorKind::NotFast, message)));
        }
        Answer::later(async move {
            let length = u64::from(span.length);
            self.image().write_zeros(span.offset, length, flags.keep_allocated).await.map_err(explain)?;
            self.settle(flags.force_unit_access).await.map_err(explain)
        })
    }

    fn trim(&self, span: Span, force_unit_access: bool) -> Answer<'_, ()> {
        Answer::later(async move {
            self.image().trim(span.offset, u64::from(span.length)).await.map_err(explain)?;
            self.settle(force_unit_access).await.map_err(explain)
        })
    }

    fn flush(&self) -> Answer<'_, ()> {
        Answer::later(async move { self.image().flush().await.map_err(explain) })
    }

    fn block_status(&self, span: Span, most: usize) -> Answer<'_, Vec<Extent>> {
        Answer::later(async move {
            let found = self.image().status(span.offset, u64::from(span.length), most).await.map_err(explain)?;
            let extent = |extent: block::image::Extent| {
                let block::image::Extent { length, is_hole, is_zero } = extent;
                Extent { length, is_hole, is_zero }
            };
            Ok(found.into_iter().map(extent).collect())
        })
    }
}

fn explain(error: ImageError) -> ExportError {
    let kind = match error.kind {
        ImageErrorKind::NoSpace => ExportErrorKind::NoSpace,
        ImageErrorKind::Invalid => ExportErrorKind::Invalid,
        ImageErrorKind::Io | ImageErrorKind::Superseded => ExportErrorKind::Io,
        ImageErrorKind::Closed => ExportErrorKind::ShuttingDown,
    };
    ExportError::new(kind, error.message)
}
