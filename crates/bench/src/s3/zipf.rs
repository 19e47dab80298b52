//! Zipf-distributed ranks in constant time and memory, for any exponent above 0.
//!
//! Rejection-inversion (Hörmann and Derflinger, "Rejection-inversion to generate variates from monotone discrete
//! distributions", 1996): invert the integral of the continuous hat `x^-theta`, round, and reject the little that the hat
//! has too much. No table of `n` sums is built, so a hundred million keys start at once.

use crate::random::Random;

/// Ranks `0..count`, rank 0 the most frequent: `P(rank) ∝ (rank + 1)^-theta`.
#[derive(Debug, Clone)]
pub struct Zipf {
    count: u64,
    theta: f64,
    integral_low: f64,
    integral_high: f64,
    /// Distance below the rounded point within which acceptance needs no further test.
    sure: f64,
}

impl Zipf {
    /// `count` and `theta` must be above 0.
    pub fn new(count: u64, theta: f64) -> Self {
        assert!(count > 0, "a distribution needs at least one key");
        assert!(theta > 0.0 && theta.is_finite(), "theta must be above 0");
        let mut zipf = Zipf { count, theta, integral_low: 0.0, integral_high: 0.0, sure: 0.0 };
        zipf.integral_low = zipf.integral(1.5) - 1.0;
        zipf.integral_high = zipf.integral(count as f64 + 0.5);
        zipf.sure = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// Draws one rank.
    pub fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let area = self.integral_low + random.unit() * (self.integral_high - self.integral_low);
            let point = self.inverse(area);
            let rank = point.round().clamp(1.0, self.count as f64);
            if rank - point <= self.sure || area >= self.integral(rank + 0.5) - self.density(rank) {
                return (rank as u64).min(self.count) - 1;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        x.powf(-self.theta)
    }

    /// The antiderivative of the density, continuous in theta at 1.
    fn integral(&self, x: f64) -> f64 {
        let power = 1.0 - self.theta;
        let log = x.ln();
        if power.abs() < 1e-9 { log } else { (power * log).exp_m1() / power }
    }

    fn inverse(&self, area: f64) -> f64 {
        let power = 1.0 - self.theta;
        if power.abs() < 1e-9 { area.exp() } else { ((power * area).max(-1.0).ln_1p() / power).exp() }
    }
}
