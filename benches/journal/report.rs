//! What is printed: a line for each bar, and the figures from which the picture is drawn.

use std::fmt;

/// Which side of its target a figure has to be on.
#[derive(Clone, Copy)]
pub(crate) enum Side {
    AtLeast,
    AtMost,
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::AtLeast => ">=",
            Side::AtMost => "<=",
        })
    }
}

/// All that was found in this run.
#[derive(Default)]
pub(crate) struct Report {
    met: usize,
    short: Vec<&'static str>,
    void: Vec<&'static str>,
    figures: Vec<(&'static str, f64)>,
}

impl Report {
    /// A bar of the plan.
    pub(crate) fn bar(&mut self, name: &'static str, value: f64, side: Side, target: f64) {
        self.bar_with(name, value, side, target, "");
    }

    /// A bar of the plan that says behind itself what to try for.
    pub(crate) fn bar_with(&mut self, name: &'static str, value: f64, side: Side, target: f64, reach: &str) {
        let met = match side {
            Side::AtLeast => value >= target,
            Side::AtMost => value <= target,
        };
        let word = if met { "ok" } else { "short" };
        let reach = if reach.is_empty() {
            String::new()
        } else {
            format!("  reach {reach}")
        };
        println!("bar {name} {} {side} {target} {word}{reach}", Figure(value));
        match met {
            true => self.met += 1,
            false => self.short.push(name),
        }
        self.figures.push((name, value));
    }

    /// A figure that no bar asks for.
    pub(crate) fn info(&mut self, name: &'static str, value: f64, unit: &str) {
        println!("info {name} {} {unit}", Figure(value));
        self.figures.push((name, value));
    }

    /// The base against itself. Where that is not 1, nothing measured beside it means anything.
    pub(crate) fn control(&mut self, name: &'static str, value: f64, rounds: usize) {
        let sound = (0.9..=1.1).contains(&value);
        println!(
            "control {name} {value:.2} (the base against itself, {rounds} rounds){}",
            if sound { "" } else { " void" }
        );
        if !sound {
            self.void.push(name);
        }
    }

    pub(crate) fn figure(&self, name: &str) -> Option<f64> {
        self.figures.iter().find(|(known, _)| *known == name).map(|(_, value)| *value)
    }

    /// Whether every control was near 1.
    pub(crate) fn is_sound(&self) -> bool {
        self.void.is_empty()
    }

    pub(crate) fn close(&self) {
        println!("bars: {} ok, {} short {}", self.met, self.short.len(), self.short.join(" "));
        if !self.is_sound() {
            println!("void, since their control is off: {}", self.void.join(" "));
        }
    }
}

/// Three digits that mean something.
struct Figure(f64);

impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decimals = match self.0.abs() {
            size if size >= 100.0 => 0,
            size if size >= 10.0 => 1,
            _ => 2,
        };
        write!(f, "{:.decimals$}", self.0)
    }
}
