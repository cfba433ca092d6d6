//! Model time: integer ticks of 0.1 s, and the schedule that lays them on a real clock.

use std::{fmt, ops};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

/// How many ticks one model second has.
pub const TICKS_PER_SECOND: u32 = 10;

/// A moment of a drill, counted in ticks of 0.1 model seconds from its start. Written in model seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tick(pub u32);

/// A length of model time in ticks of 0.1 s. Written in model seconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Span(pub u32);

impl Tick {
    /// The start of every drill.
    pub const START: Tick = Tick(0);
    /// The last tick of every drill, 60 model seconds after its start; it is played like every other.
    pub const END: Tick = Tick(60 * TICKS_PER_SECOND);

    /// The moment in model seconds.
    #[must_use]
    pub fn seconds(self) -> f64 {
        f64::from(self.0) / f64::from(TICKS_PER_SECOND)
    }
}

impl Span {
    /// A length of whole model seconds.
    #[must_use]
    pub const fn seconds(seconds: u32) -> Span {
        Span(seconds * TICKS_PER_SECOND)
    }

    /// The length in model seconds.
    #[must_use]
    pub fn as_seconds(self) -> f64 {
        Tick(self.0).seconds()
    }

    /// The length that `seconds` means, or `None` when it is negative, not finite or off the 0.1 s grid.
    #[must_use]
    pub fn from_seconds(seconds: f64) -> Option<Span> {
        let ticks = (seconds * f64::from(TICKS_PER_SECOND)).round();
        // Only the double nearest to a multiple of 0.1 is on the grid: 0.30000000000000004 is not.
        let on_grid = (0.0..=1e9).contains(&ticks) && ticks / f64::from(TICKS_PER_SECOND) == seconds;
        on_grid.then_some(Span(ticks as u32))
    }
}

impl ops::Add<Span> for Tick {
    type Output = Tick;
    fn add(self, span: Span) -> Tick {
        Tick(self.0 + span.0)
    }
}

impl fmt::Display for Tick {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = format_args!("{}.{}", self.0 / TICKS_PER_SECOND, self.0 % TICKS_PER_SECOND).to_string();
        f.pad(&text)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&Tick(self.0), f)
    }
}

impl Serialize for Tick {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.seconds())
    }
}

impl Serialize for Span {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_f64(self.as_seconds())
    }
}

impl<'de> Deserialize<'de> for Tick {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Tick, D::Error> {
        let seconds = f64::deserialize(deserializer)?;
        Span::from_seconds(seconds)
            .map(|span| Tick(span.0))
            .ok_or_else(|| de::Error::custom(format!("{seconds} is not a multiple of 0.1 s")))
    }
}

/// Model ticks laid on CLOCK_MONOTONIC: an origin and the length of a tick. Every process of a drill has the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Schedule {
    /// CLOCK_MONOTONIC at tick 0, in nanoseconds.
    pub origin_ns: u64,
    /// The real length of one tick in nanoseconds; at least 1.
    pub tick_ns: u64,
}

impl Schedule {
    /// The schedule that starts at `origin_ns` and plays `speed` model seconds in one real second (more than 0).
    #[must_use]
    pub fn new(origin_ns: u64, speed: f64) -> Schedule {
        let tick_ns = (1e9 / f64::from(TICKS_PER_SECOND) / speed).round().max(1.0) as u64;
        Schedule { origin_ns, tick_ns }
    }

    /// When `tick` starts, in nanoseconds of CLOCK_MONOTONIC.
    #[must_use]
    pub fn start_of(&self, tick: Tick) -> u64 {
        self.origin_ns + u64::from(tick.0) * self.tick_ns
    }

    /// The moment at `percent` (0..=100) of `tick`, in nanoseconds of CLOCK_MONOTONIC.
    #[must_use]
    pub fn within(&self, tick: Tick, percent: u64) -> u64 {
        self.start_of(tick) + self.tick_ns * percent / 100
    }

    /// The tick that holds the moment `at_ns`; moments before the origin belong to tick 0.
    #[must_use]
    pub fn tick_at(&self, at_ns: u64) -> Tick {
        let ticks = at_ns.saturating_sub(self.origin_ns) / self.tick_ns;
        Tick(u32::try_from(ticks).unwrap_or(u32::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_multiples_of_a_tenth_are_on_the_grid() {
        assert_eq!(Span::from_seconds(0.3), Some(Span(3)));
        assert_eq!(Span::from_seconds(30.0), Some(Span(300)));
        assert_eq!(Span::from_seconds(0.0), Some(Span(0)));
        for off in [0.1 + 0.2, 0.25, -0.1, f64::NAN, f64::INFINITY, 1e300] {
            assert_eq!(Span::from_seconds(off), None, "{off}");
        }
    }

    #[test]
    fn a_schedule_maps_ticks_to_time_and_back() {
        let schedule = Schedule::new(1_000, 10.0);
        assert_eq!(schedule.tick_ns, 10_000_000);
        assert_eq!(schedule.start_of(Tick(3)), 30_001_000);
        assert_eq!(schedule.within(Tick(3), 50), 35_001_000);
        assert_eq!(schedule.tick_at(30_001_000), Tick(3));
        assert_eq!(schedule.tick_at(30_000_999), Tick(2));
        assert_eq!(schedule.tick_at(5), Tick(0));
    }

    #[test]
    fn seconds_are_written_with_one_decimal() {
        assert_eq!(Tick(300).to_string(), "30.0");
        assert_eq!(serde_json::to_string(&Tick(301)).unwrap(), "30.1");
        assert_eq!(serde_json::to_string(&Tick(300)).unwrap(), "30.0");
    }
}
