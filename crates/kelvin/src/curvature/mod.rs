//! The curvature of U at a state: products with its Hessian, its largest eigenvalue, its mean over each tensor.

mod gauss_newton;
mod hessian;
mod largest;

pub use gauss_newton::GaussNewtonMeans;
pub use hessian::HessianProduct;
pub(crate) use hessian::{displacement, quotient};
pub use largest::LargestCurvature;
