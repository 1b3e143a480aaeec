//! Golden: image networks on a GPU against an independent float64 implementation.
//!
//! The emulator would take minutes: it runs them only where `KELVIN_TEST_DEVICE=emulator` asks for it.

use std::sync::Arc;

use crate::reference::{Golden, relative_error, to_f64};
use crate::support::{device_for_tests, gpu_for_tests};
use kelvin::data::{Examples, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Network, Rows, Weights};
use kelvin::potential::Posterior;
use kelvin::prior::IsotropicGaussian;
use kelvin_cuda::{Device, GeneralEngine, Precision};

fn device() -> Option<Arc<dyn Device>> {
    if std::env::var_os("KELVIN_TEST_DEVICE").is_some() { device_for_tests() } else { gpu_for_tests() }
}

/// A golden file with the preset it belongs to, and the file's names of its tensors in the library's order.
struct Problem {
    golden: Golden,
    network: Network,
    tensors: Vec<String>,
    /// The file's names of convolutions with batch norm, in the library's order.
    units: Vec<String>,
}

fn mnist() -> Option<Problem> {
    let golden = Golden::open("cnn_mnist.safetensors")?;
    let network = Network::mnist_cnn();
    let tensors = network.layout().tensors().iter().map(|tensor| tensor.name.clone()).collect();
    Some(Problem { golden, network, tensors, units: Vec::new() })
}

fn resnet() -> Option<Problem> {
    let golden = Golden::open("resnet20_bn.safetensors")?;
    let mut units = vec!["stem".to_owned()];
    for stack in 1..=3 {
        for block in 1..=3 {
            let names = ["unit1", "unit2", "proj"].map(|unit| format!("stack{stack}.block{block}.{unit}"));
            units.extend(names.into_iter().filter(|unit| golden.has(&format!("params.{unit}.conv.kernel"))));
        }
    }
    let of_unit =
        |unit: &String| ["conv.kernel", "conv.bias", "bn.gamma", "bn.beta"].map(|name| format!("{unit}.{name}"));
    let mut tensors: Vec<String> = units.iter().flat_map(of_unit).collect();
    tensors.extend(["dense.kernel".to_owned(), "dense.bias".to_owned()]);
    Some(Problem { golden, network: Network::resnet(20).unwrap(), tensors, units })
}

impl Problem {
    fn joined(&self, prefix: &str, names: &[String]) -> Vec<f64> {
        names.iter().flat_map(|name| self.golden.f64s(&format!("{prefix}{name}"))).collect()
    }

    fn parameters(&self) -> Vec<f32> {
        let parameters = self.joined("params.", &self.tensors);
        assert_eq!(parameters.len(), self.network.layout().len(), "the file's network is the preset");
        parameters.into_iter().map(|value| value as f32).collect()
    }

    fn statistics(&self, prefix: &str, mean: &str, variance: &str) -> Vec<f64> {
        let of_unit = |unit: &String| [format!("{mean}{unit}"), format!("{variance}{unit}")];
        self.joined(prefix, &self.units.iter().flat_map(of_unit).collect::<Vec<String>>())
    }

    fn examples(&self) -> Examples {
        let labels = self.golden.indices("y").into_iter().map(|label| label as u32).collect();
        let inputs = self.golden.f32s("x").into();
        Examples { num_features: self.network.num_inputs(), inputs, targets: Targets::Classes(labels) }
    }

    fn engine(&self, device: &Arc<dyn Device>, examples: &Examples, precision: Precision) -> GeneralEngine {
        let likelihood = Likelihood::Categorical { num_classes: self.network.num_outputs() };
        let prior = IsotropicGaussian::new(1.0).unwrap();
        let posterior = Posterior::new(&self.network, likelihood, prior, examples).unwrap();
        GeneralEngine::new(device.clone(), &posterior, precision).unwrap()
    }

    /// Mean cross entropy, and its gradient without the prior's, which is θ itself.
    fn cross_entropy(&self, engine: &GeneralEngine, num_images: usize) -> (f64, Vec<f64>) {
        let theta = self.parameters();
        let rows: Vec<u32> = (0..num_images as u32).collect();
        let (sum, gradient) = engine.gradients(&[&theta], &[1.0], &[Rows::These(&rows)]).unwrap().remove(0);
        let without = engine.gradients(&[&theta], &[1.0], &[]).unwrap().remove(0).1;
        let n = num_images as f64;
        (-sum / n, gradient.iter().zip(&without).map(|(&g, &p)| (f64::from(g) - f64::from(p)) / n).collect())
    }
}

#[test]
fn the_mnist_network() {
    let (Some(device), Some(problem)) = (device(), mnist()) else { return };
    let examples = problem.examples();
    for (precision, tolerance) in [(Precision::Single, 1e-5), (Precision::Half, 2e-2)] {
        let engine = problem.engine(&device, &examples, precision);
        let theta = problem.parameters();
        let outputs = engine.outputs(&examples, &[Weights::plain(&theta)]).unwrap().remove(0);
        let error = relative_error(&to_f64(&outputs), &problem.golden.f64s("expected.logits"));
        assert!(error < tolerance, "{precision:?}: logits off by {error:e}");
        let (entropy, gradient) = problem.cross_entropy(&engine, examples.len());
        let wanted = problem.golden.scalar("expected.mean_cross_entropy");
        assert!((entropy / wanted - 1.0).abs() < tolerance, "{precision:?}: cross entropy {entropy}, not {wanted}");
        let error = relative_error(&gradient, &problem.joined("expected.grad.", &problem.tensors));
        assert!(error < 2.0 * tolerance, "{precision:?}: gradient off by {error:e}");
    }
}

#[test]
fn resnet_20_with_batch_norm() {
    let (Some(device), Some(problem)) = (device(), resnet()) else { return };
    let examples = problem.examples();
    let theta = problem.parameters();
    let running: Vec<f32> =
        problem.statistics("running.", "mean.", "var.").into_iter().map(|value| value as f32).collect();
    // Eight images are few for the norms of a network of twenty layers: rounding to bf16 shows.
    for (precision, tolerance) in [(Precision::Single, 2e-5), (Precision::Half, 2e-1)] {
        let engine = problem.engine(&device, &examples, precision);
        let (entropy, gradient) = problem.cross_entropy(&engine, examples.len());
        let wanted = problem.golden.scalar("expected.train.mean_cross_entropy");
        assert!((entropy / wanted - 1.0).abs() < tolerance, "{precision:?}: cross entropy {entropy}, not {wanted}");
        let error = relative_error(&gradient, &problem.joined("expected.train.grad.", &problem.tensors));
        assert!(error < 2.0 * tolerance, "{precision:?}: gradient off by {error:e}");
        let weights = Weights { parameters: &theta, statistics: &running };
        let outputs = engine.outputs(&examples, &[weights]).unwrap().remove(0);
        let error = relative_error(&to_f64(&outputs), &problem.golden.f64s("expected.eval.logits"));
        assert!(error < tolerance, "{precision:?}: logits off by {error:e}");
        let rows: Vec<u32> = (0..examples.len() as u32).collect();
        let statistics = engine.batch_statistics(&[&theta], &[vec![Rows::These(&rows)]]).unwrap().remove(0);
        let wanted = problem.statistics("expected.train.", "batch_mean.", "batch_var.");
        let error = relative_error(&to_f64(&statistics), &wanted);
        assert!(error < tolerance, "{precision:?}: statistics off by {error:e}");
    }
}
