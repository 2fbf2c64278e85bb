package dev.expertbank.model.cli;

import dev.expertbank.model.ModelGeometry;
import dev.expertbank.model.SyntheticModel;
import dev.expertbank.model.SyntheticModelWriter;
import dev.expertbank.spi.ElementType;
import dev.expertbank.spi.Printable;
import dev.expertbank.spi.qmoe.WeightLayout;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.Iterator;
import java.util.Locale;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;

/** {@code qmoe synth}: writes a synthetic model. */
@Command(
    name = "synth",
    description = {
      "Writes a model of chained QMoE layers with seeded weights: OUT.onnx and OUT.onnx.data.",
      "Every layer routes its hidden state with a small MatMul; between layers there are a"
          + " residual Add and a LayerNormalization. Memory does not depend on the model's size.",
      ""
    },
    mixinStandardHelpOptions = true,
    sortOptions = false,
    exitCodeListHeading = "%nExit codes:%n",
    exitCodeList = {
      "0:the model was written",
      "2:wrong usage",
      "3:a file cannot be written",
      "70:an error of qmoe itself"
    },
    footer = {
      "",
      "Examples:",
      "  qmoe synth --geometry gpt-oss-20b --layers 1 model.onnx",
      "  qmoe synth --hidden 256 --inter 512 --experts 8 --top-k 2 --bits 8 small.onnx"
    })
final class SynthCommand implements Callable<Integer> {
  private static final int PROGRESS_STEPS = 10;

  /** Smaller files are written before anyone could read a line about it. */
  private static final long PROGRESS_FROM_BYTES = 100_000_000;

  /** Element types that activations and scales can have. */
  private enum FloatType {
    FLOAT(ElementType.FLOAT),
    FLOAT16(ElementType.FLOAT16),
    BFLOAT16(ElementType.BFLOAT16);

    final ElementType type;

    FloatType(ElementType type) {
      this.type = type;
    }

    @Override
    public String toString() {
      return name().toLowerCase(Locale.ROOT);
    }
  }

  /** Names of the table, for the help text. */
  static final class Geometries implements Iterable<String> {
    @Override
    public Iterator<String> iterator() {
      return ModelGeometry.all().stream().map(ModelGeometry::name).iterator();
    }
  }

  @Parameters(paramLabel = "OUT.onnx", description = "The file to write; its directory must exist.")
  @SuppressWarnings("NullAway.Init") // picocli
  private Path file;

  @Option(
      names = "--geometry",
      paramLabel = "NAME",
      completionCandidates = Geometries.class,
      description = {
        "Shapes and activation of a public model: ${COMPLETION-CANDIDATES}.",
        "Every other option overrides it."
      })
  private @Nullable String geometry;

  @Option(names = "--layers", description = "QMoE layers. Default: those of the geometry, or 1.")
  private @Nullable Integer layers;

  @Option(names = "--hidden", description = "Width of the hidden state.")
  private @Nullable Integer hidden;

  @Option(names = "--inter", description = "Width inside an expert.")
  private @Nullable Integer inter;

  @Option(names = "--experts", description = "Experts of a layer.")
  private @Nullable Integer experts;

  @Option(names = "--top-k", description = "Experts per token.")
  private @Nullable Integer topK;

  @Option(
      names = "--bits",
      defaultValue = "4",
      description = "Bits of a weight: 2, 4 or 8. Default: ${DEFAULT-VALUE}.")
  private int bits;

  @Option(
      names = "--block-size",
      defaultValue = "32",
      description = {
        "Weights that share a scale: a power of two of at least 16, or 0 for one scale per row.",
        "Default: ${DEFAULT-VALUE}."
      })
  private int blockSize;

  @Option(
      names = "--layout",
      defaultValue = "plain",
      description = {
        "Byte layout of the weights: plain, or sm80 as in models exported for ONNX Runtime's CUDA"
            + " provider. Default: ${DEFAULT-VALUE}."
      })
  private WeightLayout layout = WeightLayout.PLAIN;

  @Option(
      names = "--activation",
      paramLabel = "NAME",
      description = "relu, gelu, silu, swiglu or identity. Default: the geometry's, or swiglu.")
  private @Nullable String activation;

  @Option(
      names = "--swiglu-fusion",
      description = {
        "0: none, 1: gate and linear rows interleaved, 2: concatenated.",
        "Default: 1 for swiglu without fc3, else 0."
      })
  private @Nullable Integer swigluFusion;

  @Option(names = "--fc3", negatable = true, description = "A separate linear projection.")
  private @Nullable Boolean fc3;

  @Option(names = "--alpha", description = "Gain in the sigmoid of swiglu.")
  private @Nullable Float alpha;

  @Option(names = "--beta", description = "Added to the linear half of swiglu.")
  private @Nullable Float beta;

  @Option(names = "--limit", description = "Clamp of swiglu; Infinity for none.")
  private @Nullable Float limit;

  @Option(names = "--zero-points", description = "Give every scale a zero point.")
  private boolean zeroPoints;

  @Option(names = "--biases", negatable = true, description = "Biases of every projection.")
  private @Nullable Boolean biases;

  @Option(
      names = "--normalize",
      negatable = true,
      description = "Routing weights sum to 1. Default: the geometry's, or yes.")
  private @Nullable Boolean normalize;

  @Option(
      names = "--io-type",
      defaultValue = "float",
      description = "Hidden states, logits, biases: ${COMPLETION-CANDIDATES}. Default: float.")
  private FloatType ioType = FloatType.FLOAT;

  @Option(
      names = "--scale-type",
      description = "Scales: ${COMPLETION-CANDIDATES}. Default: as --io-type.")
  private @Nullable FloatType scaleType;

  @Option(
      names = "--router-inputs",
      description = "Router logits are inputs of the model, instead of computed in every layer.")
  private boolean routerInputs;

  @Option(
      names = "--seed",
      defaultValue = "0",
      description = "The same seed gives the same bytes. Default: ${DEFAULT-VALUE}.")
  private long seed;

  @Option(names = "--force", description = "Replace files that exist already.")
  private boolean force;

  @Option(names = "--quiet", description = "No progress on standard error.")
  private boolean quiet;

  @CommandLine.Spec
  @SuppressWarnings("NullAway.Init") // picocli
  private CommandLine.Model.CommandSpec spec;

  @Override
  public Integer call() {
    SyntheticModel model = model();
    SyntheticModelWriter.Written written =
        SyntheticModelWriter.write(model, file, force, progress());
    PrintWriter out = spec.commandLine().getOut();
    out.println(Printable.escape(written.model().toString(), Integer.MAX_VALUE));
    out.println(Printable.escape(written.data().toString(), Integer.MAX_VALUE));
    return ExitCode.OK;
  }

  private SyntheticModel model() {
    try {
      SyntheticModel base = base();
      boolean hasFc3 = or(fc3, base.fc3());
      String function = or(activation, base.activation());
      int fusion = or(swigluFusion, function.equals("swiglu") && !hasFc3 ? 1 : 0);
      return SyntheticModel.builder()
          .geometry(
              or(hidden, base.hidden()),
              or(inter, base.inter()),
              or(experts, base.experts()),
              or(topK, base.topK()))
          .quantization(bits, blockSize)
          .layout(layout)
          .activation(function, fusion, hasFc3)
          .swiglu(or(alpha, base.alpha()), or(beta, base.beta()), or(limit, base.limit()))
          .zeroPoints(zeroPoints)
          .biases(or(biases, base.biases()))
          .normalizeRoutingWeights(or(normalize, base.normalizeRoutingWeights()))
          .types(ioType.type, or(scaleType, ioType).type)
          .layers(or(layers, base.layers()))
          .routerInputs(routerInputs)
          .seed(seed)
          .build();
    } catch (IllegalArgumentException e) {
      throw usage(String.valueOf(e.getMessage()));
    }
  }

  /** What the options change: the geometry's model, or one layer of the given sizes. */
  private SyntheticModel base() {
    if (geometry != null) {
      String name = geometry;
      ModelGeometry known =
          ModelGeometry.named(name)
              .orElseThrow(
                  () ->
                      usage(
                          "unknown geometry "
                              + Printable.quote(name)
                              + "; known are "
                              + String.join(", ", new Geometries())));
      if (!known.routedBySoftmax() && !quiet) {
        spec.commandLine()
            .getErr()
            .println(
                "qmoe: the router of "
                    + known.name()
                    + " ("
                    + known.routing()
                    + ") is not synthesised; a softmax over the selected logits takes its place");
      }
      return known.synthetic().build();
    }
    if (hidden == null || inter == null || experts == null || topK == null) {
      throw usage("give --geometry, or all of --hidden, --inter, --experts and --top-k");
    }
    return SyntheticModel.builder()
        .geometry(64, 64, Integer.MAX_VALUE, 1)
        .biases(false)
        .swiglu(1, 0, Float.POSITIVE_INFINITY)
        .build();
  }

  private ParameterException usage(String message) {
    return new ParameterException(spec.commandLine(), message);
  }

  private static <T> T or(@Nullable T given, T otherwise) {
    return given == null ? otherwise : given;
  }

  /** One line for every tenth that has been written. */
  private SyntheticModelWriter.Progress progress() {
    if (quiet) {
      return SyntheticModelWriter.Progress.NONE;
    }
    PrintWriter err = spec.commandLine().getErr();
    return new SyntheticModelWriter.Progress() {
      private long reported;

      @Override
      public void written(long bytes, long totalBytes) {
        long step = (long) ((double) bytes / totalBytes * PROGRESS_STEPS);
        if (step > reported && totalBytes >= PROGRESS_FROM_BYTES) {
          reported = step;
          err.println("qmoe: written " + Text.bytes(bytes) + " of " + Text.bytes(totalBytes));
          err.flush();
        }
      }
    };
  }
}
