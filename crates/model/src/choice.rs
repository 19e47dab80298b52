//! Where a simulation takes its decisions from.
//!
//! A simulation asks for every decision ("which of these five events happens next?") through [`Choose`]. Fed from [`Seeded`] it
//! is one random run, which the seed replays; fed from [`Exhaustive`] it is run again and again until every path of decisions
//! has been taken once.

/// Makes decisions.
pub trait Choose {
    /// A number below `bound`, which is at least 1.
    fn below(&mut self, bound: usize) -> usize;

    /// Whether something that happens `percent` times in a hundred happens now.
    fn percent(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Decides by a seeded generator (SplitMix64, Steele et al. 2014): small, and the same everywhere.
#[derive(Clone, Debug)]
pub struct Seeded(u64);

impl Seeded {
    pub fn new(seed: u64) -> Self {
        // Neighbouring seeds must not give neighbouring runs.
        let mut seeded = Seeded(seed.wrapping_mul(0xd134_2543_de82_ef95).wrapping_add(1));
        seeded.draw();
        seeded
    }

    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Choose for Seeded {
    fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "a choice among nothing");
        ((u128::from(self.draw()) * bound as u128) >> 64) as usize
    }
}

/// Takes every path of decisions once, depth first. The caller runs its simulation anew for each path:
///
/// ```
/// use model::choice::{Choose, Exhaustive};
/// let mut paths = Exhaustive::default();
/// let mut seen = Vec::new();
/// while paths.begin() {
///     seen.push((paths.below(2), paths.below(3)));
/// }
/// assert_eq!(seen.len(), 6);
/// ```
#[derive(Clone, Debug, Default)]
pub struct Exhaustive {
    /// The decisions of the present path and how many there were to choose from.
    path: Vec<(usize, usize)>,
    taken: usize,
    begun: bool,
}

impl Exhaustive {
    /// Starts the next path; false when all have been taken.
    pub fn begin(&mut self) -> bool {
        self.taken = 0;
        if !self.begun {
            self.begun = true;
            return true;
        }
        while let Some((choice, bound)) = self.path.pop() {
            if choice + 1 < bound {
                self.path.push((choice + 1, bound));
                return true;
            }
        }
        false
    }

    /// The decisions taken so far on this path, for a failure's report.
    pub fn path(&self) -> Vec<usize> {
        self.path[..self.taken].iter().map(|(choice, _)| *choice).collect()
    }
}

impl Choose for Exhaustive {
    fn below(&mut self, bound: usize) -> usize {
        assert!(bound > 0, "a choice among nothing");
        if self.taken == self.path.len() {
            self.path.push((0, bound));
        }
        let (choice, known) = self.path[self.taken];
        assert!(known == bound, "the simulation is not determined by its choices: {known} possibilities became {bound}");
        self.taken += 1;
        choice
    }
}

#[cfg(test)]
mod tests;
