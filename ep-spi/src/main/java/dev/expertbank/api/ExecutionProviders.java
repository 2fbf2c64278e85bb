package dev.expertbank.api;

import dev.expertbank.spi.Availability;
import dev.expertbank.spi.EpException;
import dev.expertbank.spi.ExecutionProviderFactory;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.ServiceConfigurationError;
import java.util.ServiceLoader;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;

/** Finds the execution providers on the class path or module path. */
public final class ExecutionProviders {
  private static final System.Logger LOG = System.getLogger(ExecutionProviders.class.getName());

  /** One per provider class: the library that ONNX Runtime loads serves the whole process. */
  private static final Map<Class<?>, Provider> LOADED = new ConcurrentHashMap<>();

  private ExecutionProviders() {}

  /**
   * What was found.
   *
   * @param failures providers that could not be loaded, each with its reason
   */
  public record Discovery(List<Candidate> candidates, List<String> failures) {
    public Discovery {
      candidates = List.copyOf(candidates);
      failures = List.copyOf(failures);
    }
  }

  /** A provider that could be loaded, and whether it can run here. */
  public record Candidate(ExecutionProviderFactory factory, Availability availability) {}

  /**
   * Every provider that {@link ServiceLoader} finds, best first, and what its probe says. A probe
   * asks drivers of devices, if there are any, and starts nothing on them.
   */
  public static Discovery discover() {
    List<Candidate> candidates = new ArrayList<>();
    List<String> failures = new ArrayList<>();
    Iterator<ExecutionProviderFactory> found =
        ServiceLoader.load(
                ExecutionProviderFactory.class, ExecutionProviderFactory.class.getClassLoader())
            .iterator();
    while (true) {
      try {
        if (!found.hasNext()) {
          break;
        }
        ExecutionProviderFactory factory = found.next();
        candidates.add(new Candidate(factory, factory.probe()));
      } catch (ServiceConfigurationError | LinkageError e) {
        failures.add(e.toString());
        LOG.log(System.Logger.Level.WARNING, "a provider could not be loaded", e);
      }
    }
    candidates.sort(
        Comparator.<Candidate, String>comparing(c -> c.factory().name())
            .thenComparing(c -> !(c.availability() instanceof Availability.Available))
            .thenComparingInt(c -> -c.factory().priority())
            .thenComparing(c -> c.factory().getClass().getName()));
    return new Discovery(candidates, failures);
  }

  /**
   * The provider of that name: among several, an available one with the highest priority.
   *
   * @throws EpException {@code provider.unknown} listing the names there are, or {@code
   *     provider.unavailable} with every reason
   */
  public static Provider require(String name) {
    Discovery discovery = discover();
    List<Candidate> named =
        discovery.candidates().stream().filter(c -> c.factory().name().equals(name)).toList();
    if (named.isEmpty()) {
      throw new EpException("provider.unknown", unknownMessage(name, discovery));
    }
    Candidate best = named.getFirst();
    if (best.availability() instanceof Availability.Unavailable) {
      throw new EpException(
          "provider.unavailable",
          "provider '" + name + "' is not available: " + String.join("; ", reasons(named)));
    }
    LOG.log(
        named.size() > 1 ? System.Logger.Level.INFO : System.Logger.Level.DEBUG,
        () ->
            "provider "
                + name
                + ": chose "
                + best.factory().getClass().getName()
                + " of "
                + named.stream()
                    .map(c -> c.factory().getClass().getName())
                    .collect(Collectors.joining(", ")));
    return LOADED.computeIfAbsent(best.factory().getClass(), type -> Provider.load(best.factory()));
  }

  private static String unknownMessage(String name, Discovery discovery) {
    String names =
        discovery.candidates().stream()
            .map(c -> c.factory().name())
            .distinct()
            .collect(Collectors.joining(", "));
    return "no execution provider '"
        + name
        + "'; found: "
        + (names.isEmpty() ? "none (is the provider's jar on the class path?)" : names)
        + (discovery.failures().isEmpty()
            ? ""
            : "; could not be loaded: " + String.join("; ", discovery.failures()));
  }

  private static List<String> reasons(List<Candidate> candidates) {
    return candidates.stream()
        .flatMap(
            c ->
                c.availability() instanceof Availability.Unavailable(List<String> reasons)
                    ? reasons.stream()
                    : java.util.stream.Stream.empty())
        .toList();
  }
}
