//! Rounds: each measures every side once, so that drift affects all sides.

use crate::Failure;
use crate::figure::Samples;

/// One side of a comparison: measures once, and returns a value for each of its figures.
pub(crate) type Side<'a, const N: usize> = &'a mut dyn FnMut() -> Result<[f64; N], Failure>;

/// Runs every side once per round. Every second round runs backwards (A B, B A, A B …), so that no side always inherits
/// what the same other side left.
pub(crate) fn interleave<const N: usize>(
    rounds: usize,
    mut sides: Vec<Side<'_, N>>,
) -> Result<Vec<[Samples; N]>, Failure> {
    let mut all: Vec<[Samples; N]> = sides.iter().map(|_| std::array::from_fn(|_| Samples::default())).collect();
    let count = sides.len();
    for round in 0..rounds {
        for step in 0..count {
            let at = if round % 2 == 0 { step } else { count - 1 - step };
            let values = sides[at]()?;
            for (samples, value) in all[at].iter_mut().zip(values) {
                samples.0.push(value);
            }
        }
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;

    #[test]
    fn sides_take_turns_forwards_and_backwards() {
        let order = RefCell::new(String::new());
        let side = |name: char| {
            let order = &order;
            move || {
                order.borrow_mut().push(name);
                Ok([f64::from(order.borrow().len() as u32)])
            }
        };
        let (mut a, mut b) = (side('a'), side('b'));
        let values = interleave::<1>(3, vec![&mut a, &mut b]).unwrap();
        assert_eq!(order.into_inner(), "abbaab");
        assert_eq!(values[0][0], Samples(vec![1.0, 4.0, 5.0]));
        assert_eq!(values[1][0], Samples(vec![2.0, 3.0, 6.0]));
    }

    #[test]
    fn a_side_that_fails_ends_it() {
        let mut fails = || Err("no".into());
        assert!(interleave::<1>(2, vec![&mut fails]).is_err());
    }
}
