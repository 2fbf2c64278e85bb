package dev.expertbank.residency;

/**
 * The service that {@link java.util.ServiceLoader} finds: a kind of policy. Implementations have a
 * public constructor without parameters.
 */
public interface ResidencyPolicyFactory {
  /** The name that option {@code residency.policy} knows it by. */
  String name();

  /**
   * A policy for one bank.
   *
   * @throws dev.expertbank.spi.EpException if a setting that it needs is missing or wrong
   */
  ResidencyPolicy create(PolicySettings settings);
}
