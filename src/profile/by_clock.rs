//! A small map with one optional value per clock.

use crate::wire::Clock;

/// One optional value per clock. A lookup is an array index.
#[derive(Debug)]
pub(super) struct ByClock<T>([Option<Box<T>>; Clock::ALL.len()]);

impl<T> Default for ByClock<T> {
    fn default() -> Self {
        ByClock([const { None }; Clock::ALL.len()])
    }
}

impl<T> ByClock<T> {
    pub(super) fn get(&self, clock: Clock) -> Option<&T> {
        self.0[clock as usize].as_deref()
    }

    pub(super) fn get_mut(&mut self, clock: Clock) -> Option<&mut T> {
        self.0[clock as usize].as_deref_mut()
    }

    pub(super) fn get_or_default(&mut self, clock: Clock) -> &mut T
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

    /// Converts every value.
    pub(super) fn map<U>(&self, mut convert: impl FnMut(&T) -> U) -> ByClock<U> {
        ByClock(self.0.each_ref().map(|value| value.as_deref().map(|value| Box::new(convert(value)))))
    }
}
