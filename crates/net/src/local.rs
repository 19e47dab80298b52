//! The short cut within one process: a call is a call.

use crate::call::{BoxFuture, CallError, Caller, Request, Service};
use crate::frame::MAX_PAYLOAD_BYTES;
use bytes::Bytes;
use env::{Env, Instant};
use std::sync::Arc;

/// Calls a service in this process, on the caller's thread. The same limits hold as over a network, so that what works here works there.
pub struct LocalCaller {
    env: Env,
    service: Arc<dyn Service>,
}

impl LocalCaller {
    pub fn new(env: &Env, service: Arc<dyn Service>) -> Self {
        LocalCaller { env: env.clone(), service }
    }
}

const ADDRESS: &str = "this process";

impl Caller for LocalCaller {
    fn call(&self, payload: Bytes, deadline: Instant) -> BoxFuture<'_, Result<Bytes, CallError>> {
        Box::pin(async move {
            if payload.len() > MAX_PAYLOAD_BYTES {
                return Err(CallError::TooLong { bytes: payload.len(), most: MAX_PAYLOAD_BYTES });
            }
            let address = || ADDRESS.to_owned();
            if self.env.now() >= deadline {
                return Err(CallError::NotSent { address: address(), reason: "its deadline has passed".to_owned() });
            }
            tokio::select! {
                biased;
                answer = self.service.handle(Request { payload, deadline }) => {
                    answer.map_err(|refusal| CallError::Refused { address: address(), refusal })
                }
                () = self.env.sleep_until(deadline) => {
                    Err(CallError::Unanswered { address: address(), reason: "its deadline has passed".to_owned() })
                }
            }
        })
    }
}
