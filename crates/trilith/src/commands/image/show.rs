//! Images for people.

use crate::commands::size::{duration, human};
use crate::commands::table;
use bench::output::Printed;
use bench::tell;
use block::protocol::ImageInfo;
use env::Env;

/// All images.
pub fn list(images: &[ImageInfo], in_trash: bool) -> Printed {
    let row = |image: &ImageInfo| {
        let first = if in_trash { image.id.to_string() } else { image.name.clone() };
        let second = if in_trash { image.name.clone() } else { image.holder.clone().unwrap_or_else(|| "-".to_owned()) };
        [first, human(image.size_bytes), human(image.allocated_bytes), copies(image), image.snapshots.len().to_string(), second]
    };
    let rows: Vec<[String; 6]> = images.iter().map(row).collect();
    match in_trash {
        true => table::print(["ID", "SIZE", "SPACE", "COPIES", "SNAPSHOTS", "NAME"], &rows),
        false => table::print(["NAME", "SIZE", "SPACE", "COPIES", "SNAPSHOTS", "OPEN ON"], &rows),
    }
}

/// The least number of copies that a part has, if these are fewer than it shall have, and how many it shall have.
fn copies(image: &ImageInfo) -> String {
    let (_, least) = image.redundancy;
    if least < image.copies { format!("{least} of {}", image.copies) } else { image.copies.to_string() }
}

/// That the space of some nodes is not counted.
pub fn unheard(nodes: &[String]) -> Printed {
    match nodes {
        [] => Ok(()),
        nodes => tell!("SPACE lacks what is on {}: no answer from there", nodes.join(", ")),
    }
}

/// One image.
pub fn info(image: &ImageInfo) -> Printed {
    tell!("{}", image.name)?;
    tell!("  id         {}", image.id)?;
    tell!("  size       {} ({} bytes)", human(image.size_bytes), image.size_bytes)?;
    tell!("  space      {}, {} of it written; all copies count", human(image.allocated_bytes), human(image.data_bytes))?;
    let (hosts, devices) = image.redundancy;
    tell!("  copies     {} wanted; each part has them on at least {hosts} hosts, {devices} devices", image.copies)?;
    for out in &image.out {
        let node = out.node.as_deref().unwrap_or("no node");
        tell!("  out        device {} of {node}: its copies do not count until the holder has compared them", out.device)?;
    }
    tell!("  made       {}", age(image.created_ms))?;
    tell!("  open on    {}", image.holder.as_deref().unwrap_or("no node"))?;
    if let Some(parent) = &image.parent {
        tell!("  clone of   {parent}")?;
    }
    for snapshot in &image.snapshots {
        tell!("  snapshot   {}@{}  {}  {}", image.name, snapshot.name, human(snapshot.size_bytes), age(snapshot.created_ms))?;
    }
    Ok(())
}

/// How long ago something was.
fn age(ms: u64) -> String {
    let now_ms = Env::real_with_cores(1).wall_clock_ms();
    format!("{} ago", duration(now_ms.saturating_sub(ms)))
}
