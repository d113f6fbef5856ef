//! A setting whose change has been requested but not confirmed yet.
//!
//! Answers that the session computed before it received the request still contain the old value.
//! They are ignored for a while, so that two quick key presses are two steps.

/// Number of answers with the old value that are ignored: about half a second of them. After that
/// the request counts as refused.
const IGNORED_ANSWERS: u8 = 5;

/// A setting and its requested value.
#[derive(Clone, Copy, Debug)]
pub struct Pending<T> {
    value: T,
    ignored_left: u8,
}

impl<T: Copy + PartialEq> Pending<T> {
    /// A setting with a confirmed value.
    pub fn new(value: T) -> Pending<T> {
        Pending { value, ignored_left: 0 }
    }

    /// The requested value, or the confirmed one if no request is pending.
    pub fn value(&self) -> T {
        self.value
    }

    /// Requests another value.
    pub fn request(&mut self, value: T) {
        *self = Pending { value, ignored_left: IGNORED_ANSWERS };
    }

    /// Processes the value that an answer reports.
    pub fn confirm(&mut self, value: T) {
        if self.ignored_left == 0 || value == self.value {
            *self = Pending::new(value);
        } else {
            self.ignored_left -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refused_request_is_given_up_after_five_answers() {
        let mut setting = Pending::new(1);
        setting.request(2);
        setting.confirm(1);
        assert_eq!(setting.value(), 2);
        (0..IGNORED_ANSWERS).for_each(|_| setting.confirm(1));
        assert_eq!(setting.value(), 1, "the request was refused");
    }
}
