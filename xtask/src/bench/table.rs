//! The table of a comparison: ours, core's, their ratio, and the bar that it has to stay below.

use super::stats::Summary;

/// What a number counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Seconds.
    Time,
    /// Bytes.
    Bytes,
    /// Things.
    Count,
}

/// What a line has to show.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Bar {
    /// Nothing: it is there to be read.
    Open,
    /// A ratio of at most this.
    Ratio(f64),
    /// Ours are all zero.
    None,
}

/// One thing that was measured both ways.
#[derive(Clone, Debug)]
pub(super) struct Line {
    /// What it is.
    pub(super) label: String,
    /// What the values count.
    pub(super) unit: Unit,
    /// Ours, one a run.
    pub(super) ours: Vec<f64>,
    /// Core's, one a run.
    pub(super) core: Vec<f64>,
    /// What it has to show.
    pub(super) bar: Bar,
}

impl Line {
    fn ratio(&self) -> Option<f64> {
        Summary::of(&self.ours)?.ratio_to(&Summary::of(&self.core)?)
    }

    /// Whether the bar was met; None if there is none, or nothing to hold against it.
    fn is_met(&self) -> Option<bool> {
        match self.bar {
            Bar::Open => None,
            Bar::Ratio(most) => Some(self.ratio()? <= most),
            Bar::None => Some(Summary::of(&self.ours)?.max == 0.0),
        }
    }

    fn cells(&self) -> [String; COLUMNS] {
        let bar = match self.bar {
            Bar::Open => String::new(),
            Bar::Ratio(most) => format!("≤ {most:.2}"),
            Bar::None => "none".into(),
        };
        let verdict = match self.is_met() {
            None => "",
            Some(true) => "ok",
            Some(false) => "MISSED",
        };
        [
            self.label.clone(),
            spread(&self.ours, self.unit),
            spread(&self.core, self.unit),
            self.ratio()
                .map(|ratio| format!("{ratio:.2}"))
                .unwrap_or_default(),
            bar,
            verdict.into(),
        ]
    }

    /// What a missed bar looks like in a sentence.
    fn miss(&self, case: &str) -> String {
        let found = match (self.bar, self.ratio()) {
            (Bar::Ratio(most), Some(ratio)) => format!("{ratio:.3} of core's, the bar is {most:.2}"),
            _ => format!("{}, the bar is none", spread(&self.ours, self.unit)),
        };
        format!("{case}, {}: {found}", self.label)
    }
}

/// The lines of one case.
#[derive(Clone, Debug)]
pub(super) struct Section {
    /// The case.
    pub(super) case: String,
    /// What was measured of it.
    pub(super) lines: Vec<Line>,
}

const COLUMNS: usize = 6;
const HEAD: [&str; COLUMNS] = [
    "case",
    "ours, median (min–max)",
    "core, median (min–max)",
    "ratio",
    "bar",
    "verdict",
];

/// The bars that were missed, each as a sentence.
pub(super) fn misses(sections: &[Section]) -> Vec<String> {
    let missed = sections.iter().flat_map(|section| {
        let lines = section.lines.iter().filter(|line| line.is_met() == Some(false));
        lines.map(|line| line.miss(&section.case))
    });
    missed.collect()
}

/// For a terminal: columns side by side, numbers to the right, each case below its name.
pub(super) fn plain(sections: &[Section]) -> String {
    let indented = |line: &Line| {
        let mut cells = line.cells();
        cells[0].insert_str(0, "  ");
        cells
    };
    let mut widths = HEAD.map(|word| word.chars().count());
    for line in sections.iter().flat_map(|section| &section.lines) {
        for (width, cell) in widths.iter_mut().zip(indented(line)) {
            *width = cell.chars().count().max(*width);
        }
    }
    let mut text = aligned(&HEAD.map(Into::into), &widths);
    for section in sections {
        text.push_str(&format!("\n{}\n", section.case));
        for line in &section.lines {
            text.push_str(&aligned(&indented(line), &widths));
        }
    }
    text
}

/// For a README.
pub(super) fn markdown(sections: &[Section]) -> String {
    let row = |cells: &[String]| format!("| {} |\n", cells.join(" | "));
    let mut text = row(&HEAD.map(Into::into));
    text.push_str("|---|---:|---:|---:|---:|---|\n");
    for section in sections {
        for (index, line) in section.lines.iter().enumerate() {
            let mut cells = line.cells();
            if index == 0 {
                cells[0] = format!("**{}**: {}", section.case, cells[0]);
            }
            text.push_str(&row(&cells));
        }
    }
    text
}

/// What was measured and the verdict to the left, numbers to the right.
fn aligned(cells: &[String; COLUMNS], widths: &[usize; COLUMNS]) -> String {
    let mut text = String::new();
    for (index, (cell, &width)) in cells.iter().zip(widths).enumerate() {
        if index == 0 || index == COLUMNS - 1 {
            text.push_str(&format!("{cell:<width$}  "));
        } else {
            text.push_str(&format!("{cell:>width$}  "));
        }
    }
    format!("{}\n", text.trim_end())
}

/// Median and spread, all in the unit that suits the median.
fn spread(values: &[f64], unit: Unit) -> String {
    let Some(Summary { median, min, max }) = Summary::of(values) else {
        return "–".into();
    };
    let (divisor, digits, name) = scale(median, unit);
    let shown = |value: f64| format!("{:.digits$}", value / divisor);
    format!("{}{name} ({}–{})", shown(median), shown(min), shown(max))
}

/// What to divide by, how many digits to show, and what to call it.
fn scale(value: f64, unit: Unit) -> (f64, usize, &'static str) {
    match unit {
        Unit::Time if value >= 10.0 => (1.0, 1, " s"),
        Unit::Time if value >= 1.0 => (1.0, 2, " s"),
        Unit::Time if value >= 0.1 => (1e-3, 0, " ms"),
        Unit::Time => (1e-3, 1, " ms"),
        Unit::Bytes if value >= 100e6 => (1e6, 0, " MB"),
        Unit::Bytes => (1e6, 1, " MB"),
        Unit::Count => (1.0, 0, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(label: &str, ours: &[f64], core: &[f64], bar: Bar) -> Line {
        Line {
            label: label.into(),
            unit: Unit::Time,
            ours: ours.to_vec(),
            core: core.to_vec(),
            bar,
        }
    }

    fn sections() -> Vec<Section> {
        let lines = vec![
            line("time", &[1.0, 2.0, 3.0], &[4.0, 5.0, 3.0], Bar::Ratio(0.5)),
            line("too slow", &[0.51], &[1.0], Bar::Ratio(0.5)),
            line("to be read", &[9.0], &[1.0], Bar::Open),
            line("blocks", &[0.0, 1.0, 0.0], &[7.0], Bar::None),
        ];
        vec![Section {
            case: "big".into(),
            lines,
        }]
    }

    #[test]
    fn only_missed_bars_are_told() {
        let found = misses(&sections());
        assert_eq!(found.len(), 2, "{found:?}");
        assert_eq!(found[0], "big, too slow: 0.510 of core's, the bar is 0.50");
        assert!(found[1].starts_with("big, blocks: "), "{found:?}");
    }

    #[test]
    fn a_ratio_at_the_bar_is_met() {
        assert_eq!(line("", &[1.0], &[2.0], Bar::Ratio(0.5)).is_met(), Some(true));
        assert_eq!(line("", &[], &[2.0], Bar::Ratio(0.5)).is_met(), None);
    }

    #[test]
    fn the_columns_stand_below_each_other() {
        let text = plain(&sections());
        let lines: Vec<&str> = text.lines().collect();
        let column = |line: &str, word: &str| {
            let bytes = line
                .find(word)
                .unwrap_or_else(|| panic!("no {word:?} in {line:?}"));
            line[..bytes].chars().count()
        };
        assert_eq!(lines[2], "big");
        assert_eq!(column(lines[0], "verdict"), column(lines[3], "ok"), "{text}");
        assert_eq!(column(lines[0], "verdict"), column(lines[4], "MISSED"), "{text}");
        assert_eq!(column(lines[3], ")"), column(lines[6], ")"), "{text}");
    }

    #[test]
    fn markdown_has_the_same_cells() {
        let text = markdown(&sections());
        assert!(
            text.contains(
                "| **big**: time | 2.00 s (1.00–3.00) | 4.00 s (3.00–5.00) | 0.50 | ≤ 0.50 | ok |\n"
            ),
            "{text}"
        );
    }

    #[test]
    fn numbers_come_in_the_unit_of_their_median() {
        assert_eq!(spread(&[0.0123, 0.019, 0.02], Unit::Time), "19.0 ms (12.3–20.0)");
        assert_eq!(spread(&[12.34], Unit::Time), "12.3 s (12.3–12.3)");
        assert_eq!(spread(&[383_400_000.0], Unit::Bytes), "383 MB (383–383)");
        assert_eq!(spread(&[17.0], Unit::Count), "17 (17–17)");
        assert_eq!(spread(&[], Unit::Count), "–");
    }
}
