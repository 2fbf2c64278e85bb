package dev.expertbank.residency;

import dev.expertbank.spi.EpException;
import java.util.List;
import java.util.ServiceLoader;

/** Finds policies by name. */
public final class ResidencyPolicies {
  private ResidencyPolicies() {}

  /** The names of all policies on the class path or module path, sorted. */
  public static List<String> names() {
    return factories().stream().map(ResidencyPolicyFactory::name).sorted().toList();
  }

  /**
   * The policy of that name.
   *
   * @throws EpException {@code residency.policy} listing the names there are, or naming two
   *     policies with the same name; or what the policy itself has against the settings
   */
  public static ResidencyPolicy create(String name, PolicySettings settings) {
    List<ResidencyPolicyFactory> named =
        factories().stream().filter(factory -> factory.name().equals(name)).toList();
    if (named.isEmpty()) {
      throw new EpException(
          "residency.policy",
          "no residency policy '" + name + "'; there are: " + String.join(", ", names()));
    }
    if (named.size() > 1) {
      throw new EpException(
          "residency.policy",
          "two residency policies are named '%s': %s and %s; remove one from the class path"
              .formatted(
                  name, named.get(0).getClass().getName(), named.get(1).getClass().getName()));
    }
    return named.getFirst().create(settings);
  }

  private static List<ResidencyPolicyFactory> factories() {
    return ServiceLoader.load(
            ResidencyPolicyFactory.class, ResidencyPolicyFactory.class.getClassLoader())
        .stream()
        .map(ServiceLoader.Provider::get)
        .toList();
  }
}
