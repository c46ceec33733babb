//! Medians, spreads and ratios of repeated measurements.

/// What is told of some measurements of one thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Summary {
    /// The middle one, or the mean of the two in the middle.
    pub(super) median: f64,
    /// The smallest.
    pub(super) min: f64,
    /// The largest.
    pub(super) max: f64,
}

impl Summary {
    /// None of no measurements.
    pub(super) fn of(values: &[f64]) -> Option<Self> {
        let mut sorted = values.to_vec();
        sorted.sort_by(f64::total_cmp);
        let (&min, &max) = (sorted.first()?, sorted.last()?);
        let middle = sorted.len() / 2;
        let median = if sorted.len().is_multiple_of(2) {
            f64::midpoint(sorted[middle - 1], sorted[middle])
        } else {
            sorted[middle]
        };
        Some(Self { median, min, max })
    }

    /// This median as a part of the other; None of nothing.
    pub(super) fn ratio_to(&self, other: &Self) -> Option<f64> {
        (other.median > 0.0).then(|| self.median / other.median)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(values: &[f64]) -> (f64, f64, f64) {
        let summary = Summary::of(values).expect("there are values");
        (summary.min, summary.median, summary.max)
    }

    #[test]
    fn the_median_is_the_middle_one_whatever_the_order() {
        assert_eq!(summary(&[3.0, 100.0, 1.0, 2.0, 4.0]), (1.0, 3.0, 100.0));
        assert_eq!(summary(&[7.0]), (7.0, 7.0, 7.0));
    }

    #[test]
    fn of_an_even_number_it_lies_between_the_two_in_the_middle() {
        assert_eq!(summary(&[4.0, 1.0, 2.0, 9.0]), (1.0, 3.0, 9.0));
        assert_eq!(summary(&[1.0, 2.0]), (1.0, 1.5, 2.0));
    }

    #[test]
    fn nothing_has_no_summary() {
        assert_eq!(Summary::of(&[]), None);
    }

    #[test]
    fn the_ratio_is_that_of_the_medians() {
        let ours = Summary::of(&[1.0, 2.0, 30.0]).expect("there are values");
        let core = Summary::of(&[1.0, 8.0, 8.5]).expect("there are values");
        assert_eq!(ours.ratio_to(&core), Some(0.25));
        let nothing = Summary::of(&[0.0, 0.0, 0.0]).expect("there are values");
        assert_eq!(ours.ratio_to(&nothing), None);
    }
}
