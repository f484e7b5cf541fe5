pub(super) mod concurrency;
pub(super) mod lost_cache;
pub(super) mod saturation_point;
