//! Golden: image networks against an independent float64 implementation, in f32 as used and in f64 as reference.

use crate::support::{Golden, relative_error};
use kelvin::data::{Examples, Targets};
use kelvin::likelihood::Likelihood;
use kelvin::network::{Evaluator, KernelStart, Layer, Mode, Network, Rows, Shape, Weights};
use kelvin::potential::{Posterior, Potential, TemperedModel};
use kelvin::prior::IsotropicGaussian;

fn conv(golden: &Golden, kernel: &str, stride: usize) -> Layer {
    let shape = golden.shape(kernel);
    assert_eq!(shape[0], shape[1], "kernels are square");
    Layer::Conv { filters: shape[3], kernel: shape[0], stride, groups: 1 }
}

fn image_shape(golden: &Golden) -> Shape {
    let shape = golden.shape("x");
    Shape::image(shape[1], shape[2], shape[3])
}

/// Numbers of the named arrays, one after the other.
fn joined(golden: &Golden, names: &[String]) -> Vec<f64> {
    names.iter().flat_map(|name| golden.f64s(name)).collect()
}

fn to_f64(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

/// softmax(logits) − onehot over the number of rows: the gradient of the mean cross entropy.
fn cross_entropy_gradient(labels: &[usize], logits: &mut [f64]) {
    let (rows, classes) = (labels.len(), logits.len() / labels.len());
    for (logits, &label) in logits.chunks_exact_mut(classes).zip(labels) {
        let largest = logits.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let total: f64 = logits.iter().map(|logit| (logit - largest).exp()).sum();
        for (class, logit) in logits.iter_mut().enumerate() {
            let probability = (*logit - largest).exp() / total;
            *logit = (probability - f64::from(u8::from(class == label))) / rows as f64;
        }
    }
}

struct Problem {
    golden: Golden,
    network: Network,
    /// The file's names of the tensors, in the library's order.
    tensors: Vec<String>,
}

/// What one way of evaluating gave.
struct Found {
    outputs: Vec<f64>,
    mean_cross_entropy: Option<f64>,
    /// Of the mean cross entropy.
    gradient: Vec<f64>,
}

impl Problem {
    fn parameters(&self) -> Vec<f64> {
        let names: Vec<String> = self.tensors.iter().map(|name| format!("params.{name}")).collect();
        let parameters = joined(&self.golden, &names);
        assert_eq!(parameters.len(), self.network.layout().len());
        parameters
    }

    fn labels(&self) -> Vec<usize> {
        self.golden.indices("y")
    }

    fn examples(&self) -> Examples {
        let inputs = self.golden.f32s("x");
        let labels = self.labels().into_iter().map(|label| label as u32).collect();
        Examples { num_features: self.network.num_inputs(), inputs: inputs.into(), targets: Targets::Classes(labels) }
    }

    fn posterior(&self, examples: &Examples) -> Posterior {
        let likelihood = Likelihood::Categorical { num_classes: self.network.num_outputs() };
        Posterior::new(&self.network, likelihood, IsotropicGaussian::new(1.0).unwrap(), examples).unwrap()
    }

    /// In f32, as chains do it; also the statistics after the step.
    fn in_f32(&self, mode: Mode<'_>, statistics: &mut [f32]) -> Found {
        let examples = self.examples();
        let posterior = self.posterior(&examples);
        let theta: Vec<f32> = self.parameters().into_iter().map(|value| value as f32).collect();
        let rows: Vec<u32> = (0..examples.len() as u32).collect();
        let mut work = posterior.workspace();
        let mut gradient = vec![f32::NAN; theta.len()];
        let rows = Rows::These(&rows);
        let sum = posterior.tempered_gradient(&theta, rows, mode, 1.0, &mut gradient, &mut work);
        posterior.update_statistics(&work, statistics);
        let n = examples.len() as f64;
        let inputs = posterior.evaluator().prepare(&examples.inputs);
        let mut outputs = vec![f32::NAN; examples.len() * self.network.num_outputs()];
        let mut outputs_work = posterior.evaluator().workspace();
        let weights = Weights { parameters: &theta, statistics };
        posterior.evaluator().outputs(weights, &inputs, Rows::All, &mut outputs, &mut outputs_work);
        Found {
            outputs: to_f64(&outputs),
            mean_cross_entropy: Some(-sum.value / n),
            gradient: gradient.iter().map(|&g| -f64::from(g) / n).collect(),
        }
    }

    fn in_f64(&self, statistics: Option<&[f64]>) -> (Found, Vec<f64>) {
        let Evaluator::Images(stack) = self.network.general_evaluator() else { unreachable!() };
        let labels = self.labels();
        let differentiate = |logits: &mut [f64]| cross_entropy_gradient(&labels, logits);
        let found = stack.reference(&self.parameters(), &self.golden.f64s("x"), statistics, differentiate);
        let gradient = found.gradient;
        (Found { outputs: found.outputs, mean_cross_entropy: None, gradient }, found.batch_statistics)
    }

    /// Compares the gradient in all and tensor by tensor; tensors that are exactly 0 by their numbers.
    fn assert_gradient(&self, way: &str, found: &[f64], expected: &str, in_all: f64, by_tensor: f64) {
        let names: Vec<String> = self.tensors.iter().map(|name| format!("{expected}{name}")).collect();
        let wanted = joined(&self.golden, &names);
        let error = relative_error(found, &wanted);
        assert!(error < in_all, "{way}: gradient off by {error:e}");
        for (tensor, name) in self.network.layout().tensors().iter().zip(&names) {
            let (found, wanted) = (&found[tensor.range.clone()], &wanted[tensor.range.clone()]);
            if wanted.iter().all(|&value| value == 0.0) {
                assert!(found.iter().all(|value| value.abs() < 1e-5), "{way}: {name} is not 0");
            } else {
                let error = relative_error(found, wanted);
                assert!(error < by_tensor, "{way}: {name} off by {error:e}");
            }
        }
    }
}

/// conv, relu, pool by 2, …, then dense layers with ReLU between them: every size from the file.
fn mnist() -> Option<Problem> {
    let golden = Golden::open("cnn_mnist.safetensors")?;
    let mut layers = Vec::new();
    let mut tensors = Vec::new();
    for number in 1.. {
        let name = format!("conv{number}");
        if !golden.has(&format!("params.{name}.kernel")) {
            break;
        }
        layers.extend([conv(&golden, &format!("params.{name}.kernel"), 1), Layer::Relu, Layer::AvgPool { size: 2 }]);
        tensors.extend([format!("{name}.kernel"), format!("{name}.bias")]);
    }
    for number in 1.. {
        let name = format!("dense{number}");
        if !golden.has(&format!("params.{name}.kernel")) {
            break;
        }
        layers.extend([Layer::Dense { units: golden.shape(&format!("params.{name}.bias"))[0] }, Layer::Relu]);
        tensors.extend([format!("{name}.kernel"), format!("{name}.bias")]);
    }
    layers.pop();
    let network = Network::new(image_shape(&golden), layers).unwrap();
    Some(Problem { golden, network, tensors })
}

#[test]
fn the_mnist_network() {
    let Some(problem) = mnist() else { return };
    if problem.network.layout().len() == 824_458 {
        assert_eq!(problem.network, Network::mnist_cnn(), "the file's network is the preset");
    }
    let golden = &problem.golden;
    let found = problem.in_f32(Mode::Training, &mut []);
    let (reference, _) = problem.in_f64(None);
    for (way, found, tolerance) in [("f32", found, 1.0), ("f64", reference, 1e-2)] {
        let error = relative_error(&found.outputs, &golden.f64s("expected.logits"));
        assert!(error < 5e-6 * tolerance, "{way}: logits off by {error:e}");
        if let Some(entropy) = found.mean_cross_entropy {
            let wanted = golden.scalar("expected.mean_cross_entropy");
            assert!((entropy - wanted).abs() < 5e-6 * wanted, "{way}: {entropy} {wanted}");
        }
        // The file's gradients are rounded to f32.
        problem.assert_gradient(way, &found.gradient, "expected.grad.", 1e-5 * tolerance, 2e-5 * tolerance);
    }
}

struct Resnet {
    problem: Problem,
    /// The file's names of convolutions with batch norm, in the library's order.
    units: Vec<String>,
}

/// Stem, stacks of blocks, projections where the file has them: every size from the file.
fn resnet() -> Option<Resnet> {
    let golden = Golden::open("resnet20_bn.safetensors")?;
    let norm = Layer::BatchNorm { momentum: golden.scalar("bn_momentum"), epsilon: golden.scalar("bn_eps") };
    let kernel = |unit: &str| format!("params.{unit}.conv.kernel");
    let mut units = vec!["stem".to_owned()];
    let mut layers = vec![conv(&golden, &kernel("stem"), 1), norm.clone(), Layer::Relu];
    for stack in 1.. {
        if !golden.has(&kernel(&format!("stack{stack}.block1.unit1"))) {
            break;
        }
        for block in 1.. {
            let name = format!("stack{stack}.block{block}");
            if !golden.has(&kernel(&format!("{name}.unit1"))) {
                break;
            }
            let projection = golden.has(&kernel(&format!("{name}.proj")));
            let stride = if projection { 2 } else { 1 };
            let [unit1, unit2, proj] = ["unit1", "unit2", "proj"].map(|unit| format!("{name}.{unit}"));
            let (first, second) = (conv(&golden, &kernel(&unit1), stride), conv(&golden, &kernel(&unit2), 1));
            let body = vec![first, norm.clone(), Layer::Relu, second, norm.clone()];
            units.extend([unit1, unit2]);
            let mut shortcut = Vec::new();
            if projection {
                shortcut = vec![conv(&golden, &kernel(&proj), stride), norm.clone()];
                units.push(proj);
            }
            layers.extend([Layer::Residual { body, shortcut }, Layer::Relu]);
        }
    }
    layers.extend([Layer::GlobalAvgPool, Layer::Dense { units: golden.shape("params.dense.bias")[0] }]);
    let network = Network::new(image_shape(&golden), layers).unwrap().starting_from(KernelStart::He);
    let mut tensors: Vec<String> = units
        .iter()
        .flat_map(|unit| ["conv.kernel", "conv.bias", "bn.gamma", "bn.beta"].map(|tensor| format!("{unit}.{tensor}")))
        .collect();
    tensors.extend(["dense.kernel".to_owned(), "dense.bias".into()]);
    Some(Resnet { problem: Problem { golden, network, tensors }, units })
}

impl Resnet {
    /// Means and variances in the library's order.
    fn statistics(&self, prefix: &str, mean: &str, variance: &str) -> Vec<f64> {
        let names: Vec<String> = self
            .units
            .iter()
            .flat_map(|unit| [format!("{prefix}{mean}{unit}"), format!("{prefix}{variance}{unit}")])
            .collect();
        joined(&self.problem.golden, &names)
    }
}

#[test]
fn resnet_with_batch_norm_in_training_mode() {
    let Some(resnet) = resnet() else { return };
    let problem = &resnet.problem;
    let golden = &problem.golden;
    if problem.network.layout().len() == 273_258 {
        assert_eq!(problem.network, Network::resnet(20).unwrap(), "the file's network is the preset");
    }
    let running: Vec<f32> =
        resnet.statistics("running.", "mean.", "var.").into_iter().map(|value| value as f32).collect();
    let mut after = running.clone();
    let found = problem.in_f32(Mode::Training, &mut after);
    let entropy = golden.scalar("expected.train.mean_cross_entropy");
    let error = (found.mean_cross_entropy.unwrap() - entropy).abs() / entropy;
    assert!(error < 1e-5, "f32: cross entropy off by {error:e}");
    problem.assert_gradient("f32", &found.gradient, "expected.train.grad.", 2e-5, 1e-4);
    let wanted = resnet.statistics("expected.running_after.", "mean.", "var.");
    let error = relative_error(&to_f64(&after), &wanted);
    assert!(error < 2e-6, "f32: running statistics off by {error:e}");

    let (reference, batch) = problem.in_f64(None);
    let error = relative_error(&reference.outputs, &golden.f64s("expected.train.logits"));
    assert!(error < 1e-10, "f64: logits off by {error:e}");
    problem.assert_gradient("f64", &reference.gradient, "expected.train.grad.", 1e-7, 1e-6);
    let error = relative_error(&batch, &resnet.statistics("expected.train.", "batch_mean.", "batch_var."));
    assert!(error < 1e-11, "f64: statistics of the batch off by {error:e}");
}

#[test]
fn resnet_with_running_statistics() {
    let Some(resnet) = resnet() else { return };
    let problem = &resnet.problem;
    let running = resnet.statistics("running.", "mean.", "var.");
    let mut statistics: Vec<f32> = running.iter().map(|&value| value as f32).collect();
    let frozen = statistics.clone();
    let found = problem.in_f32(Mode::Inference(&frozen), &mut statistics);
    assert_eq!(statistics, frozen, "inference leaves the running statistics alone");
    let (reference, _) = problem.in_f64(Some(&running));
    let wanted = problem.golden.f64s("expected.eval.logits");
    for (way, found, tolerance) in [("f32", &found.outputs, 1e-5), ("f64", &reference.outputs, 1e-10)] {
        let error = relative_error(found, &wanted);
        assert!(error < tolerance, "{way}: logits off by {error:e}");
    }
    // No file has gradients with running statistics, nor keeps ReLUs away from 0 there: the two precisions agree but for a
    // unit or two that rounding may switch.
    let error = relative_error(&found.gradient, &reference.gradient);
    assert!(error < 1e-2, "gradients with running statistics disagree by {error:e}");
}
