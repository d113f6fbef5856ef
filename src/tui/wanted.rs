//! A setting that was asked for and is not confirmed yet. Answers that were made before the session heard of it still say
//! the old value; for a while they are not believed, so that two quick steps are two steps.

/// Answers that may still say the old value: what comes within half a second.
const PATIENCE: u8 = 5;

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<T> {
    value: T,
    patience: u8,
}

impl<T: Copy + PartialEq> Wanted<T> {
    /// A setting that is so.
    pub fn new(value: T) -> Wanted<T> {
        Wanted { value, patience: 0 }
    }

    /// What it is, or will be.
    pub fn value(&self) -> T {
        self.value
    }

    /// Asks for another value.
    pub fn want(&mut self, value: T) {
        *self = Wanted { value, patience: PATIENCE };
    }

    /// An answer says that it is `value`.
    pub fn hear(&mut self, value: T) {
        if self.patience == 0 || value == self.value {
            *self = Wanted::new(value);
        } else {
            self.patience -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn old_answers_are_not_believed_for_ever() {
        let mut wanted = Wanted::new(1);
        wanted.want(2);
        wanted.hear(1);
        assert_eq!(wanted.value(), 2);
        (0..PATIENCE).for_each(|_| wanted.hear(1));
        assert_eq!(wanted.value(), 1, "it was refused");
    }
}
