package dev.expertbank.model.cli;

import dev.expertbank.model.AtomicFile;
import dev.expertbank.model.ModelGeometry;
import dev.expertbank.model.OnnxModelReader;
import dev.expertbank.model.QMoeNode;
import dev.expertbank.model.ResidencyLayouts;
import dev.expertbank.model.RouteTraceFile;
import dev.expertbank.residency.HeatProfileText;
import dev.expertbank.residency.ResidencyLayout;
import dev.expertbank.residency.ResidencyPolicies;
import dev.expertbank.residency.simulation.RouteArchetype;
import dev.expertbank.residency.simulation.RouteTrace;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.Printable;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.concurrent.Callable;
import org.jspecify.annotations.Nullable;
import picocli.CommandLine;
import picocli.CommandLine.ArgGroup;
import picocli.CommandLine.Command;
import picocli.CommandLine.Option;
import picocli.CommandLine.ParameterException;
import picocli.CommandLine.Parameters;

/** {@code qmoe simulate}: what policies and budgets would make of recorded routes. */
@Command(
    name = "simulate",
    description = {
      "Compares residency policies and budgets on recorded or drawn routes, with the accounting of"
          + " a live session whose copies take no time.",
      "Two references follow the policies: layer-split keeps whole layers, as far as the budget"
          + " goes; belady is the least that any policy could read if it knew all routes in advance.",
      "Bytes per token are what decoding reads in place and all that is copied, for each decoded"
          + " token. The byte hit rate is the part of the bytes used while decoding that was"
          + " resident. Promotions are the copies that were started.",
      ""
    },
    mixinStandardHelpOptions = true,
    sortOptions = false,
    exitCodeListHeading = "%nExit codes:%n",
    exitCodeList = {
      "0:the simulation was printed",
      "2:wrong usage",
      "3:a file cannot be read or written, or does not belong to the trace",
      "4:the model has no QMoE node that is supported",
      "70:an error of qmoe itself"
    },
    footer = {
      "",
      "Examples:",
      "  qmoe simulate routes.json --geometry gpt-oss-20b",
      "  qmoe simulate routes.json --model model.onnx --budget 8GiB,50%% --policy adaptive,lru",
      "  qmoe simulate routes.json --expert-bytes 768KiB --profile heat.txt --plot rates.svg",
      "  qmoe simulate --archetype gpt-oss-20b-like --geometry gpt-oss-20b"
    })
final class SimulateCommand implements Callable<Integer> {
  /** Prompts of generated routes, each from a seed of its own. */
  private static final int GENERATED_PROMPTS = 5;

  private static final int GENERATED_PROMPT_ROWS = 64;
  private static final int GENERATED_TOKENS = 192;

  @ArgGroup(multiplicity = "1")
  @SuppressWarnings("NullAway.Init") // picocli
  private Routes routes;

  /** Where the routes come from. */
  static final class Routes {
    @Parameters(
        paramLabel = "TRACE",
        description = "Recorded routes: a JSON file with prompts, as routes.record writes it.")
    private @Nullable Path file;

    @Option(
        names = "--archetype",
        paramLabel = "NAME",
        completionCandidates = Archetypes.class,
        description = {
          "Routes that are drawn to be as local and as skewed as those of a kind of model, in"
              + " place of recorded ones: ${COMPLETION-CANDIDATES}."
        })
    private @Nullable String archetype;
  }

  @ArgGroup(multiplicity = "1")
  @SuppressWarnings("NullAway.Init") // picocli
  private ExpertSize expertSize;

  /** What says how large the experts are. */
  static final class ExpertSize {
    @Option(
        names = "--expert-bytes",
        paramLabel = "SIZE",
        converter = Budget.BytesConverter.class,
        description = "Every expert has this size, such as 768KiB.")
    private @Nullable Long bytes;

    @Option(
        names = "--geometry",
        paramLabel = "NAME",
        description = "Experts are as 'qmoe synth --geometry NAME' writes them.")
    private @Nullable String geometry;

    @Option(
        names = "--model",
        paramLabel = "MODEL",
        description = "Experts are those of this .onnx file; its external data is not read.")
    private @Nullable Path model;
  }

  @Option(
      names = "--routing",
      paramLabel = "SEMANTICS",
      defaultValue = "ort-cpu",
      description = {
        "Whose reading of the operator decides what --model has: ${COMPLETION-CANDIDATES}.",
        "Default: ${DEFAULT-VALUE}."
      })
  private Routing routing = Routing.ORT_CPU;

  @Option(
      names = "--budget",
      paramLabel = "BUDGET",
      split = ",",
      defaultValue = "10%,25%,50%,75%,100%",
      converter = Budget.Converter.class,
      description = {
        "Fast memory for experts, one or more: bytes such as 8GiB, or a part of what all experts"
            + " take, such as 25%%. Default: 10%%,25%%,50%%,75%%,100%%."
      })
  @SuppressWarnings("NullAway.Init") // picocli
  private List<Budget> budgets;

  @Option(
      names = "--policy",
      paramLabel = "NAME",
      split = ",",
      completionCandidates = Policies.class,
      description = {
        "One or more of ${COMPLETION-CANDIDATES}. Default: all; without --profile not those that"
            + " need one. Without pins, hot-set is whole-bank."
      })
  private List<String> policies = new ArrayList<>();

  @Option(
      names = "--profile",
      paramLabel = "FILE",
      description = "Start warm, from a profile that residency.profile.save has written.")
  private @Nullable Path profile;

  @Option(
      names = "--prompt",
      paramLabel = "NAME",
      split = ",",
      description = "Simulate these prompts of the trace only. Default: all.")
  private List<String> prompts = new ArrayList<>();

  @Option(
      names = "--per-prompt",
      description = "Print a table for each prompt, instead of one for their mean.")
  private boolean perPrompt;

  @Option(
      names = "--byte-cap",
      paramLabel = "SIZE",
      defaultValue = "256MiB",
      converter = Budget.BytesConverter.class,
      description = "What may be copied after one run. Default: ${DEFAULT-VALUE}.")
  private long byteCap;

  @Option(
      names = "--plot",
      paramLabel = "OUT.svg",
      description = "Draw the mean byte hit rate against the budget.")
  private @Nullable Path plot;

  @Option(names = "--force", description = "Replace the plot if it exists already.")
  private boolean force;

  @Option(names = "--json", description = "Print one JSON document instead of tables.")
  private boolean json;

  @CommandLine.Spec
  @SuppressWarnings("NullAway.Init") // picocli
  private CommandLine.Model.CommandSpec spec;

  /** Names of policies, for the help text. */
  static final class Policies extends ArrayList<String> {
    private static final long serialVersionUID = 1;

    Policies() {
      super(ResidencyPolicies.names());
    }
  }

  /** Names of archetypes, for the help text. */
  static final class Archetypes implements Iterable<String> {
    @Override
    public Iterator<String> iterator() {
      return RouteArchetype.all().stream().map(RouteArchetype::name).iterator();
    }
  }

  @Override
  public Integer call() {
    RouteTraceFile trace = routes.file == null ? generated() : RouteTraceFile.read(routes.file);
    Map<String, RouteTrace> chosen = prompts(trace);
    ResidencyLayout layout = layout(chosen.values().iterator().next());
    PolicyComparison comparison =
        new PolicyComparison(
            layout,
            byteCap,
            Optional.ofNullable(profile).map(path -> HeatProfileText.load(path, layout)),
            chosen);
    List<Long> bytes =
        budgets.stream()
            .map(budget -> budget.bytes(layout.pageableSlotBytes()))
            .sorted()
            .distinct()
            .toList();
    SimulateOutput output =
        new SimulateOutput(trace.model(), comparison, comparison.run(bytes, policies(comparison)));
    if (plot != null) {
      write(plot, output.plot());
    }
    PrintWriter out = spec.commandLine().getOut();
    if (json) {
      JsonDocument.print(out, output.json(source(), Optional.ofNullable(profile)));
    } else {
      output.tables(out, perPrompt);
    }
    return ExitCode.OK;
  }

  private RouteTraceFile generated() {
    String name = Objects.requireNonNull(routes.archetype);
    RouteArchetype archetype =
        RouteArchetype.named(name)
            .orElseThrow(
                () ->
                    usage(
                        "unknown archetype "
                            + Printable.quote(name)
                            + "; known are "
                            + String.join(", ", new Archetypes())));
    Map<String, RouteTrace> drawn = new LinkedHashMap<>();
    for (int seed = 1; seed <= GENERATED_PROMPTS; seed++) {
      drawn.put("seed-" + seed, archetype.trace(GENERATED_PROMPT_ROWS, GENERATED_TOKENS, seed));
    }
    return new RouteTraceFile(name, drawn);
  }

  private String source() {
    return routes.file == null ? Objects.requireNonNull(routes.archetype) : routes.file.toString();
  }

  private Map<String, RouteTrace> prompts(RouteTraceFile trace) {
    if (trace.prompts().isEmpty()) {
      throw new EpException(
          "trace.format", "the trace " + Printable.quote(source()) + " has no prompts to simulate");
    }
    if (prompts.isEmpty()) {
      return trace.prompts();
    }
    Map<String, RouteTrace> chosen = new LinkedHashMap<>();
    for (String name : prompts) {
      RouteTrace prompt = trace.prompts().get(name);
      if (prompt == null) {
        throw usage(
            "the trace has no prompt "
                + Printable.quote(name)
                + "; it has "
                + String.join(", ", trace.prompts().keySet()));
      }
      chosen.put(name, prompt);
    }
    return chosen;
  }

  private ResidencyLayout layout(RouteTrace trace) {
    try {
      if (expertSize.bytes != null) {
        return ResidencyLayouts.of(trace, expertSize.bytes);
      }
      String name;
      ResidencyLayout layout;
      if (expertSize.geometry != null) {
        name = expertSize.geometry;
        layout = ResidencyLayouts.of(geometry(name).synthetic().build());
      } else {
        Path model = Objects.requireNonNull(expertSize.model);
        name = Text.name(model.toString());
        layout = ResidencyLayouts.of(QMoeNode.of(OnnxModelReader.read(model), routing.semantics));
      }
      ResidencyLayouts.check(trace, layout, name);
      return layout;
    } catch (IllegalArgumentException | ArithmeticException e) {
      throw usage("experts of that size cannot be simulated: " + e.getMessage());
    }
  }

  private ModelGeometry geometry(String name) {
    return ModelGeometry.named(name)
        .orElseThrow(
            () ->
                usage(
                    "unknown geometry "
                        + Printable.quote(name)
                        + "; known are "
                        + String.join(", ", new SynthCommand.Geometries())));
  }

  /** The policies that were asked for, or else all that can be made. */
  private List<String> policies(PolicyComparison comparison) {
    List<String> made = new ArrayList<>();
    boolean all = policies.isEmpty();
    for (String name : all ? ResidencyPolicies.names() : policies.stream().distinct().toList()) {
      try {
        made.add(comparison.policy(name).name());
      } catch (EpException e) {
        boolean lacksProfile = profile == null && ResidencyPolicies.names().contains(name);
        if (!all || !lacksProfile) {
          throw usage(e.getMessage() + (lacksProfile ? "; give that as --profile" : ""));
        }
        spec.commandLine()
            .getErr()
            .println("qmoe: policy " + Text.name(name) + " is left out; it needs --profile");
      }
    }
    return made;
  }

  private void write(Path target, String svg) {
    try (AtomicFile written = AtomicFile.create(target, force)) {
      written.write(ByteBuffer.wrap(svg.getBytes(StandardCharsets.UTF_8)));
      written.commit();
    }
  }

  private ParameterException usage(String message) {
    return new ParameterException(spec.commandLine(), message);
  }
}
