//! The blobs of this node's devices, for holders on other nodes.

use super::local::LocalStores;
use crate::stores::{StoreError, Stores};
use crate::wire::{self, MAX_PAGE_ROWS, Request, ToDevice};
use bytes::Bytes;
use net::{BoxFuture, Refusal, Service};
use std::sync::Arc;
use types::DeviceId;

/// The service.
pub struct BlobService(pub Arc<LocalStores>);

impl Service for BlobService {
    fn handle(&self, request: net::Request) -> BoxFuture<'_, Result<Bytes, Refusal>> {
        Box::pin(async move {
            match wire::decode_request(&request.payload).map_err(Refusal::new)? {
                Request::Usage => Ok(wire::encode_answer(&Ok(self.0.usage()))),
                Request::Device(device, asked) => Ok(self.answer(device, asked).await),
            }
        })
    }
}

impl BlobService {
    async fn answer(&self, device: DeviceId, asked: ToDevice) -> Bytes {
        let stores = &*self.0;
        match asked {
            ToDevice::Enter { admission, after } => {
                wire::encode_answer(&stores.enter_page(device, admission, after, MAX_PAGE_ROWS).await)
            }
            ToDevice::Create { admission, blob, change } => {
                wire::encode_answer(&stores.create(device, admission, blob, change).await)
            }
            ToDevice::Change { admission, at, change } => {
                wire::encode_answer(&stores.change(device, admission, at, change).await)
            }
            ToDevice::Complete { admission, at } => wire::encode_answer(&stores.complete(device, admission, at).await),
            ToDevice::Read { admission, at, offset, length } => {
                wire::encode_answer(&stores.read(device, admission, at, offset, length).await)
            }
            ToDevice::Sums { admission, id } => wire::encode_answer(&stores.sums(device, admission, id).await),
            ToDevice::Free { admission, at } => wire::encode_answer(&stores.free(device, admission, at).await),
            ToDevice::Flush => wire::encode_answer(&stores.flush(device).await),
            ToDevice::Rows { image, after } => {
                let store =
                    stores.get(device).ok_or_else(|| StoreError::Failed(format!("device {device} is not on this node")));
                wire::encode_answer(&store.map(|store| store.rows_page(image, after, MAX_PAGE_ROWS)))
            }
        }
    }
}
