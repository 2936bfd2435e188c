//! What the requests of a volume look like.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What hosts ask of a volume, over all doors: how long its requests are, of which kinds, and whether they
/// follow one another.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct IoProfile {
    pub volume: String,
    /// How long requests were counted; absent: since the array started, or the volume was made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub counted_seconds: Option<u64>,
    pub reads: RequestProfile,
    pub writes: RequestProfile,
    /// Ranges given back: discard, trim.
    pub unmap_count: u64,
    /// Writes of zeroes that carry no data.
    pub write_zeroes_count: u64,
    pub flush_count: u64,
}

/// Requests of one kind.
#[derive(Clone, PartialEq, Eq, Default, Debug, Serialize, Deserialize, ToSchema)]
pub struct RequestProfile {
    pub count: u64,
    /// Those that began where one of the eight before them ended. The others are random.
    pub sequential_count: u64,
    /// By length, the shortest first; classes without requests are left out.
    pub sizes: Vec<SizeClass>,
}

/// Requests of like length.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize, ToSchema)]
pub struct SizeClass {
    /// A power of two: requests so long, and shorter ones down to half of it. The first class, 512, has all
    /// that are shorter, too.
    pub up_to_bytes: u64,
    pub count: u64,
}
