//! Model time on the screen: a playhead that plays, stands still, is moved, or follows a drill that goes on.

use scenarios::{Tick, time::TICKS_PER_SECOND};

use crate::stream::Origin;

/// The speeds that can be chosen, in model seconds per real one.
const SPEEDS: [f64; 12] = [0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 30.0, 60.0, 100.0, 200.0];

/// The playhead.
#[derive(Clone, Debug, PartialEq)]
pub struct Player {
    /// Where it is, in ticks; 0 to [`Tick::END`].
    place: f64,
    /// Model seconds in a real one.
    speed: f64,
    playing: bool,
    /// When time was last looked at, in nanoseconds of CLOCK_MONOTONIC.
    seen_ns: Option<u64>,
    /// What is followed; none where everything is known already.
    live: Option<Live>,
}

/// The clock of a drill that goes on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Live {
    /// Whether the playhead stays with it.
    followed: bool,
    /// Model seconds in a real one; none on a stepped clock.
    speed: Option<f64>,
    /// When it began.
    origin: Origin,
    /// The last tick of which something was heard.
    last: Tick,
    /// Where it is now, in ticks.
    now: f64,
}

impl Player {
    /// At the start, playing, of something that is known to its end.
    #[must_use]
    pub fn new(speed: f64) -> Player {
        Player { place: 0.0, speed, playing: true, seen_ns: None, live: None }
    }

    /// The tick at which the playhead is.
    #[must_use]
    pub fn tick(&self) -> Tick {
        Tick(self.place.floor().max(0.0) as u32)
    }

    /// How far anything is known.
    #[must_use]
    pub fn limit(&self) -> Tick {
        self.live.map_or(Tick::END, |live| Tick(live.now.floor() as u32))
    }

    /// Model seconds in a real one.
    #[must_use]
    pub fn speed(&self) -> f64 {
        self.speed
    }

    /// Whether the playhead moves by itself.
    #[must_use]
    pub fn is_moving(&self) -> bool {
        self.playing || self.is_following()
    }

    /// Whether it stays with a drill that goes on.
    #[must_use]
    pub fn is_following(&self) -> bool {
        self.live.is_some_and(|live| live.followed)
    }

    /// Whether a drill goes on.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live.is_some()
    }

    /// Whether all is over.
    #[must_use]
    pub fn is_at_end(&self) -> bool {
        self.live.is_none() && self.tick() == Tick::END
    }

    /// A drill begins at this speed, and is followed; a second one is followed as the first was.
    pub fn begin(&mut self, speed: Option<f64>) {
        let followed = self.live.is_none_or(|live| live.followed);
        self.live = Some(Live { followed, speed, origin: Origin::default(), last: Tick::START, now: 0.0 });
        (self.place, self.playing) = (0.0, false);
        if let Some(speed) = speed {
            self.speed = speed;
        }
    }

    /// Something was heard at `now_ns` that happened at `tick`, `at_us` after the drill's start.
    pub fn heard(&mut self, tick: Tick, at_us: i64, now_ns: u64) {
        let Some(live) = &mut self.live else { return };
        live.last = live.last.max(tick.min(Tick::END));
        if live.speed.is_some() {
            live.origin.hear(at_us, now_ns);
        }
    }

    /// The drill has ended: all is known.
    pub fn end(&mut self) {
        if self.live.take().is_some_and(|live| live.followed) {
            (self.place, self.playing) = (ticks(Tick::END), false);
        }
    }

    /// Time has passed.
    pub fn pass(&mut self, now_ns: u64) {
        let passed_ns = self.seen_ns.map_or(0, |seen| now_ns.saturating_sub(seen));
        self.seen_ns = Some(now_ns);
        if let Some(live) = &mut self.live {
            let clock = match (live.speed, live.origin.ns()) {
                (Some(speed), Some(origin_ns)) => in_ticks(now_ns.saturating_sub(origin_ns), speed),
                _ => 0.0,
            };
            live.now = clock.max(ticks(live.last)).min(ticks(Tick::END));
            if live.followed {
                self.place = live.now;
            }
        }
        if self.playing {
            self.seek(self.place + in_ticks(passed_ns, self.speed));
            if self.live.is_none() && self.place >= ticks(Tick::END) {
                self.playing = false;
            }
        }
    }

    /// Plays or pauses. What goes on is followed again; from the end it plays from the start.
    pub fn toggle(&mut self) {
        if let Some(live) = &mut self.live {
            live.followed = !live.followed;
            self.playing = false;
        } else {
            if self.playing {
                self.playing = false;
                return;
            }
            if self.place >= ticks(Tick::END) {
                self.place = 0.0;
            }
            self.play();
        }
    }

    /// Plays from now on: while nothing moves, time is not looked at, and what has passed since it was does not count.
    fn play(&mut self) {
        (self.playing, self.seen_ns) = (true, None);
    }

    /// Moves by some ticks, and pauses.
    pub fn step(&mut self, by: i32) {
        self.pause();
        self.seek(self.place.floor() + f64::from(by));
    }

    /// Goes to the start and plays from there.
    pub fn restart(&mut self) {
        self.pause();
        self.place = 0.0;
        self.play();
    }

    /// Goes to the end; what goes on is followed again.
    pub fn to_end(&mut self) {
        self.playing = false;
        match &mut self.live {
            Some(live) => live.followed = true,
            None => self.place = ticks(Tick::END),
        }
    }

    /// Chooses the next higher or lower speed for playing; a drill that goes on keeps its own.
    pub fn change_speed(&mut self, faster: bool) {
        let next = match faster {
            true => SPEEDS.iter().copied().find(|&speed| speed > self.speed),
            false => SPEEDS.iter().copied().rfind(|&speed| speed < self.speed),
        };
        self.speed = next.unwrap_or(self.speed);
    }

    fn pause(&mut self) {
        self.playing = false;
        if let Some(live) = &mut self.live {
            live.followed = false;
        }
    }

    fn seek(&mut self, place: f64) {
        let limit = self.live.map_or(ticks(Tick::END), |live| live.now);
        self.place = place.clamp(0.0, limit);
    }
}

fn ticks(tick: Tick) -> f64 {
    f64::from(tick.0)
}

fn in_ticks(ns: u64, speed: f64) -> f64 {
    ns as f64 / 1e9 * speed * f64::from(TICKS_PER_SECOND)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    #[test]
    fn it_plays_at_its_speed_and_stops_at_the_end() {
        let mut player = Player::new(10.0);
        player.pass(5 * SECOND);
        assert_eq!(player.tick(), Tick(0), "what passed before is of no interest");
        player.pass(6 * SECOND);
        assert_eq!(player.tick(), Tick(100));
        player.toggle();
        player.pass(8 * SECOND);
        assert_eq!(player.tick(), Tick(100));
        player.toggle();
        player.pass(100 * SECOND);
        assert_eq!(player.tick(), Tick(100), "nobody looked at the time while it stood still");
        player.pass(101 * SECOND);
        assert_eq!(player.tick(), Tick(200));
        player.step(-10);
        player.restart();
        player.pass(200 * SECOND);
        assert_eq!(player.tick(), Tick(0));
        player.pass(300 * SECOND);
        assert_eq!((player.tick(), player.is_moving(), player.is_at_end()), (Tick::END, false, true));
        player.toggle();
        assert_eq!((player.tick(), player.is_moving()), (Tick(0), true), "from the end it starts anew");
    }

    #[test]
    fn steps_stay_within_the_drill() {
        let mut player = Player::new(1.0);
        for (by, at) in [(10, 10), (1, 11), (-10, 1), (-10, 0), (600, 600), (10, 600)] {
            player.step(by);
            assert_eq!((player.tick(), player.is_moving()), (Tick(at), false));
        }
    }

    #[test]
    fn a_drill_is_followed_by_its_own_clock() {
        let mut player = Player::new(1.0);
        player.begin(Some(10.0));
        assert_eq!(player.speed(), 10.0);
        player.heard(Tick(0), -1_000, 10 * SECOND - 1_000_000);
        // Heard late: it does not set the clock back.
        player.heard(Tick(5), 50_000, 11 * SECOND);
        player.pass(11 * SECOND);
        assert_eq!(player.tick(), Tick(100));
        player.step(-10);
        player.pass(12 * SECOND);
        assert_eq!((player.tick(), player.is_following(), player.limit()), (Tick(90), false, Tick(200)));
        player.step(1000);
        assert_eq!(player.tick(), Tick(200), "not beyond what is known");
        player.toggle();
        player.pass(13 * SECOND);
        assert_eq!((player.tick(), player.is_following()), (Tick(300), true));
        player.end();
        assert!(player.is_at_end());
    }

    #[test]
    fn a_stepped_drill_is_as_far_as_what_was_heard() {
        let mut player = Player::new(10.0);
        player.begin(None);
        player.heard(Tick(42), 4_200_000, SECOND);
        player.pass(2 * SECOND);
        assert_eq!(player.tick(), Tick(42));
        player.toggle();
        player.end();
        assert_eq!(player.tick(), Tick(42), "who looks at something else is left there");
    }

    #[test]
    fn speeds_are_chosen_from_a_list() {
        let mut player = Player::new(7.0);
        player.change_speed(true);
        assert_eq!(player.speed(), 10.0);
        player.change_speed(false);
        assert_eq!(player.speed(), 5.0);
        for _ in 0..20 {
            player.change_speed(true);
        }
        assert_eq!(player.speed(), 200.0);
    }
}
