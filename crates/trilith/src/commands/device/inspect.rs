//! Looking at a disk without changing it: superblock, zones, usage.

use super::InspectArgs;
use crate::commands::size::human;
use crate::commands::table;
use crate::prepared::NO_CLUSTER;
use anyhow::Context;
use bench::output::Printed;
use bench::s3::sigv4::Timestamp;
use bench::tell;
use device::{Device, ZoneState, ZoneStream};
use disk::{Disk, DiskErrorKind, DiskExt, FileDisk, OpenOptions, ReadMode};
use format::superblock::{Superblock, ZoneRegion};
use format::zone_header::{ZONE_DATA_START, ZoneHeader, ZoneHeaderError};
use types::ZoneIndex;

/// A zone as its header tells it.
struct Zone {
    index: ZoneIndex,
    header: Result<ZoneHeader, ZoneHeaderError>,
}

pub async fn run(args: &InspectArgs) -> anyhow::Result<()> {
    let options = OpenOptions { create: false, capacity_bytes: None, direct: true };
    let disk = FileDisk::open(&args.path, &options).context("a disk can only be looked at while no server uses it")?;
    let superblock = Device::identify(&disk).await?;
    print_identity(&disk, &superblock)?;
    let Some(region) = superblock.zone_region() else {
        tell!("  it has no zones")?;
        return Ok(());
    };
    let mut zones = Vec::new();
    for index in (0..region.zone_count).map(ZoneIndex) {
        zones.push(Zone { index, header: read_header(&disk, &superblock, &region, index).await? });
    }
    print_usage(&region, &zones)?;
    if args.zones {
        print_zones(&region, &zones)?;
    }
    Ok(())
}

async fn read_header(
    disk: &FileDisk,
    superblock: &Superblock,
    region: &ZoneRegion,
    index: ZoneIndex,
) -> anyhow::Result<Result<ZoneHeader, ZoneHeaderError>> {
    let start = region.first_byte + u64::from(index.0) * region.zone_bytes;
    match disk.read(start, ZONE_DATA_START as usize, ReadMode::Cached).await {
        Ok(area) => Ok(ZoneHeader::decode(&area, superblock.device_uuid, index)),
        // A file grows with its use.
        Err(error) if error.kind == DiskErrorKind::OutOfRange => Ok(Err(ZoneHeaderError::Absent)),
        Err(error) => Err(error.into()),
    }
}

fn print_identity(disk: &FileDisk, superblock: &Superblock) -> Printed {
    tell!("{}", disk.describe())?;
    if superblock.cluster == NO_CLUSTER {
        tell!("  prepared by `trilith device format`; no server has taken it yet")?;
    } else {
        tell!("  device      {}", superblock.device)?;
        tell!("  cluster     {}", superblock.cluster)?;
        tell!("  cell        {}", superblock.cell)?;
    }
    tell!("  uuid        {}", superblock.device_uuid)?;
    let made = Timestamp::from_unix(superblock.created_ms / 1000);
    tell!("  superblock  number {}, made {}", superblock.sequence, made.text())?;
    tell!("  size        {} of the disk or file now", human(disk.size_bytes()))
}

fn print_usage(region: &ZoneRegion, zones: &[Zone]) -> Printed {
    let in_state = |wanted: ZoneState| zones.iter().filter(move |zone| zone.header.is_ok_and(|header| header.state == wanted));
    let never = zones.iter().filter(|zone| zone.header == Err(ZoneHeaderError::Absent)).count();
    let damaged = zones.iter().filter(|zone| zone.header.is_err()).count() - never;
    let lent = in_state(ZoneState::Lent).count();
    let finished: u64 = in_state(ZoneState::Finished).map(|zone| used_bytes(zone).unwrap_or(0)).sum();
    let (open, free) =
        (in_state(ZoneState::Open).count(), in_state(ZoneState::Free).count() + in_state(ZoneState::Returned).count());
    tell!("  zones       {} of {}, from byte {}", region.zone_count, human(region.zone_bytes), region.first_byte)?;
    tell!(
        "              {} finished with {}, {open} open, {free} free, {never} never used",
        in_state(ZoneState::Finished).count(),
        human(finished)
    )?;
    if lent > 0 {
        tell!("              {lent} lent to chunks, {}", human(lent as u64 * region.zone_bytes))?;
    }
    if open > 0 {
        tell!(
            "              the next start walks the open zones to their ends: it was not shut down in order, or free zones are short"
        )?;
    }
    if damaged > 0 {
        tell!("              {damaged} with a header of another device or a damaged one: the next start looks into them")?;
    }
    Ok(())
}

fn print_zones(region: &ZoneRegion, zones: &[Zone]) -> Printed {
    let rows: Vec<[String; 5]> = zones
        .iter()
        .filter(|zone| zone.header != Err(ZoneHeaderError::Absent))
        .map(|zone| {
            let index = zone.index.0.to_string();
            match &zone.header {
                Ok(header) => {
                    let used = match header.state {
                        ZoneState::Open => format!("up to {}", human(region.zone_bytes)),
                        ZoneState::Lent => human(region.zone_bytes),
                        ZoneState::Finished | ZoneState::Free | ZoneState::Returned => human(used_bytes(zone).unwrap_or(0)),
                    };
                    [
                        index,
                        state_name(header.state).to_owned(),
                        stream_name(header.stream).to_owned(),
                        header.activation.0.to_string(),
                        used,
                    ]
                }
                Err(error) => [index, error.to_string(), String::new(), String::new(), String::new()],
            }
        })
        .collect();
    tell!("")?;
    table::print(["zone", "state", "stream", "activation", "used"], &rows)
}

/// Bytes of a finished zone; none where the header can't say.
fn used_bytes(zone: &Zone) -> Option<u64> {
    match zone.header.ok()? {
        ZoneHeader { state: ZoneState::Finished, end, .. } => Some(end.bytes().saturating_sub(ZONE_DATA_START)),
        _ => None,
    }
}

fn state_name(state: ZoneState) -> &'static str {
    match state {
        ZoneState::Open => "open",
        ZoneState::Finished => "finished",
        ZoneState::Free => "free",
        ZoneState::Lent => "lent",
        ZoneState::Returned => "free, without space",
    }
}

fn stream_name(stream: Option<ZoneStream>) -> &'static str {
    match stream {
        Some(ZoneStream::Ordered) => "ordered",
        Some(ZoneStream::Relocated) => "relocated",
        Some(ZoneStream::Meta) => "meta",
        None => "-",
    }
}
