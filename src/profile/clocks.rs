//! Something for each clock: three places, and no searching.

use crate::link::wire::Clock;

/// By clock, as far as there is something.
#[derive(Debug)]
pub(super) struct Clocks<T>([Option<Box<T>>; 3]);

const _: () = assert!(Clock::Virtual as usize == 2);

impl<T> Default for Clocks<T> {
    fn default() -> Self {
        Clocks([None, None, None])
    }
}

impl<T> Clocks<T> {
    pub(super) fn get(&self, clock: Clock) -> Option<&T> {
        self.0[clock as usize].as_deref()
    }

    pub(super) fn get_mut(&mut self, clock: Clock) -> Option<&mut T> {
        self.0[clock as usize].as_deref_mut()
    }

    /// What there is, or is from now on.
    pub(super) fn of(&mut self, clock: Clock) -> &mut T
    where
        T: Default,
    {
        self.0[clock as usize].get_or_insert_default()
    }

    pub(super) fn remove(&mut self, clock: Clock) {
        self.0[clock as usize] = None;
    }

    pub(super) fn values(&self) -> impl Iterator<Item = &T> {
        self.0.iter().flatten().map(|value| &**value)
    }

    pub(super) fn values_mut(&mut self) -> impl Iterator<Item = &mut T> {
        self.0.iter_mut().flatten().map(|value| &mut **value)
    }

    /// The same of something made of each.
    pub(super) fn map<U>(&self, mut make: impl FnMut(&T) -> U) -> Clocks<U> {
        Clocks(self.0.each_ref().map(|value| value.as_deref().map(|value| Box::new(make(value)))))
    }
}
