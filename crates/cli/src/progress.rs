//! Progress bars: on standard error, only on a terminal, only for work longer than a second.

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;
use std::time::{Duration, Instant};

/// A bar that shows itself once the work has taken a second.
pub(crate) struct Bar {
    bar: ProgressBar,
    since: Instant,
    shown: bool,
}

impl Bar {
    /// A bar for this many steps; invisible when standard error is not a terminal or `quiet` is set.
    pub(crate) fn new(what: &str, steps: u64, quiet: bool) -> Self {
        let bar = ProgressBar::with_draw_target(Some(steps), ProgressDrawTarget::hidden());
        let style = ProgressStyle::with_template("{msg:>24} {wide_bar:.cyan/blue} {pos}/{len} {eta:>4}");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.set_message(what.to_owned());
        let shown = quiet || !std::io::stderr().is_terminal();
        Self { bar, since: Instant::now(), shown }
    }

    /// Sets how many steps there are and how many are done.
    pub(crate) fn set(&mut self, done: u64, steps: u64) {
        self.bar.set_length(steps);
        self.bar.set_position(done);
        self.show_if_due();
    }

    /// Shows that work is under way.
    pub(crate) fn tick(&mut self) {
        self.show_if_due();
        self.bar.tick();
    }

    fn show_if_due(&mut self) {
        if !self.shown && self.since.elapsed() > Duration::from_secs(1) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
            self.shown = true;
        }
    }

    /// Sets the message.
    pub(crate) fn say(&self, what: &str) {
        self.bar.set_message(what.to_owned());
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
