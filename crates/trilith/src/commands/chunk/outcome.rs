//! What people are told of chunks.

use bench::output::Printed;
use bench::tell;
use chunkstore::chunk_client::{ChunkError, CopySeen, Whereabouts};
use chunkstore::message::{Found, Located, NodeAnswer};
use format::chunk_id::ChunkId;
use format::chunk_place::ChunkPlaces;

/// The error, about this chunk.
pub fn explain(error: ChunkError, id: ChunkId) -> anyhow::Error {
    anyhow::Error::new(error).context(format!("chunk {id}"))
}

/// Prints everything that is known of a chunk.
pub fn show(whereabouts: &Whereabouts) -> Printed {
    let unit = match &whereabouts.unit {
        Found::Unknown => "does not know it".to_owned(),
        Found::Pending(places) => format!("it is being put at {}", text(places)),
        Found::Known { places, wanted } => match places.as_slice().len() {
            copies if copies < usize::from(*wanted) => format!("{}; copies {copies} of {wanted}", text(places)),
            _ => text(places),
        },
    };
    tell!("unit         {unit}")?;
    for (node, located) in &whereabouts.hosts {
        let located = match located {
            Some(Located::At(places)) => text(places),
            Some(Located::Behind) => "has not heard of it yet".to_owned(),
            Some(Located::Nowhere) => "has nothing".to_owned(),
            None => "does not answer".to_owned(),
        };
        tell!("host         node {node}: {located}")?;
    }
    whereabouts.copies.iter().try_for_each(show_copy)
}

fn show_copy(copy: &CopySeen) -> Printed {
    let node = copy.node.map_or_else(|| "no node".to_owned(), |node| format!("node {node}"));
    let state = match &copy.answer {
        Some(NodeAnswer::Live(live)) => {
            let settled = if live.is_settled { "" } else { ", not known to be in all copies" };
            format!("version {}, era {}, room for {} bytes{settled}", live.version.counter, live.era.number(), live.capacity)
        }
        Some(NodeAnswer::Dead { .. }) => "ended".to_owned(),
        Some(NodeAnswer::Absent) => "nothing there".to_owned(),
        Some(NodeAnswer::Departed) => "moved away".to_owned(),
        Some(NodeAnswer::Damaged) => "damaged".to_owned(),
        Some(other) => format!("{other:?}"),
        None => "does not answer".to_owned(),
    };
    tell!("copy         {node}, device {}, block {}: {state}", copy.place.device(), copy.place.block())
}

fn text(places: &ChunkPlaces) -> String {
    let places: Vec<String> = places.iter().map(|place| format!("device {} block {}", place.device(), place.block())).collect();
    places.join(", ")
}
